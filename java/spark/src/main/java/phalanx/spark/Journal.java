package phalanx.spark;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Collection;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import phalanx.Contents;
import phalanx.KeyProvider;
import phalanx.RawName;
import phalanx.Recipients;
import phalanx.TreeEntry;

/**
 * What a run writes to a mirror before its manifest lists it. A run that is ended leaves it beside the old manifest, and the next one goes
 * on: it takes what is written, and trusts no stored file that was about to be replaced. It is a protected file for the same keys, which a
 * run has made ({@link Kept}), under a name that all programs know as that of unfinished work.
 */
final class Journal {
    private static final String FORMAT = "phalanx-spark tree 3";
    /** That of versions whose journals have no tag. */
    private static final String WITHOUT_TAG = "phalanx-spark tree 2";
    /** It may take this part of the memory. The trees that it belongs to need more. */
    private static final int MEMORY_PARTS = 8;
    /** A journal that takes long to write is written seldom. */
    private static final int PAUSES = 20;

    private final Path path;
    private final Configuration conf;
    /** The files that were or are to be written. */
    private final Set<String> intended = new HashSet<>();
    private final Map<String, TreeEntry.File> written = new TreeMap<>();
    private boolean isChanged;
    private long notBefore;

    private Journal(Path path, Configuration conf) {
        this.path = path;
        this.conf = conf;
    }

    /** That of a mirror, with what an earlier run has left. */
    static Journal of(TreeRoot mirror, Recipients recipients, KeyProvider keys, Configuration conf) throws IOException {
        Journal journal = new Journal(mirror.at(Place.record(mirror.at(StoredManifest.NAME))), conf);
        Kept kept;
        try {
            kept = Kept.read(journal.path, Runtime.getRuntime().maxMemory() / MEMORY_PARTS, recipients, keys, conf);
        } catch (Kept.TooLong e) {
            throw new IOException("its journal " + journal.path.getName() + " is too long for this memory: --driver-memory gives more");
        }
        if (kept != null) {
            journal.read(kept);
        }
        return journal;
    }

    /** A doubt only costs that a file is written once more, so it counts whoever noted it. What was written counts if a run noted it. */
    private void read(Kept kept) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(kept.plain()));
        boolean isOurs = kept.maker() == Kept.Maker.OURS;
        try {
            read(in, isOurs);
        } catch (IOException | RuntimeException e) {
            if (isOurs) {
                throw e;
            }
        }
    }

    private void read(DataInputStream in, boolean isOurs) throws IOException {
        String format = in.readUTF();
        if (!format.equals(FORMAT) && !format.equals(WITHOUT_TAG)) {
            return;
        }
        // That of another mirror says nothing of what was written in this one.
        boolean isOwn = in.readUTF().equals(path.toString());
        for (int left = in.readInt(); left > 0; left--) {
            intended.add(text(in));
        }
        if (!isOwn || !isOurs) {
            return;
        }
        for (int left = in.readInt(); left > 0; left--) {
            String entry = text(in);
            TreeEntry.Attributes attributes = new TreeEntry.Attributes(in.readInt(), in.readLong(), in.readInt());
            long[] numbers = {in.readLong(), in.readLong(), in.readLong(), in.readLong()};
            Contents contents = Contents.of(in.readNBytes(48), in.readNBytes(32));
            RawName name = RawName.of(entry.substring(entry.lastIndexOf('/') + 1));
            written.put(entry, new TreeEntry.File(name, attributes, numbers[0], numbers[1], numbers[2], numbers[3], contents));
        }
    }

    private static String text(DataInputStream in) throws IOException {
        return RawName.ofBytes(in.readNBytes(in.readInt())).toString();
    }

    private static void text(DataOutputStream out, String text) throws IOException {
        byte[] bytes = RawName.of(text).toBytes();
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    /** Whether an earlier run has left something. */
    boolean hasRecords() {
        return !intended.isEmpty();
    }

    /** Whether an earlier run may have replaced a file, so that it is not what the manifest lists. */
    boolean isInDoubt(String entry) {
        return intended.contains(entry);
    }

    /** What an earlier run has written, or null. */
    TreeEntry.File written(String entry) {
        return written.get(entry);
    }

    /** Says what is going to be written, before any of it is. */
    synchronized void begin(Collection<String> entries, Recipients recipients) throws IOException {
        intended.addAll(entries);
        if (!intended.isEmpty()) {
            store(recipients);
        }
    }

    /** Notes what was written. */
    synchronized void note(String entry, TreeEntry.File file) {
        intended.add(entry);
        written.put(entry, file);
        isChanged = true;
    }

    /** Brings it to the disk, if there is something new and that does not take too much of the time. */
    synchronized void remember(Recipients recipients) {
        if (!isChanged || System.nanoTime() - notBefore < 0) {
            return;
        }
        long begun = System.nanoTime();
        try {
            store(recipients);
        } catch (IOException e) {
            // The next run writes these files once more.
        }
        long now = System.nanoTime();
        notBefore = now + PAUSES * (now - begun);
    }

    private void store(Recipients recipients) throws IOException {
        ByteArrayOutputStream plain = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(plain)) {
            out.writeUTF(FORMAT);
            out.writeUTF(path.toString());
            out.writeInt(intended.size());
            for (String entry : intended) {
                text(out, entry);
            }
            out.writeInt(written.size());
            for (Map.Entry<String, TreeEntry.File> each : written.entrySet()) {
                TreeEntry.File file = each.getValue();
                text(out, each.getKey());
                out.writeInt(file.attributes().mode());
                out.writeLong(file.attributes().seconds());
                out.writeInt(file.attributes().nanoseconds());
                out.writeLong(file.length());
                out.writeLong(file.storedLength());
                out.writeLong(file.device());
                out.writeLong(file.inode());
                out.write(file.contents().last());
                out.write(file.contents().root());
            }
        }
        Kept.write(plain.toByteArray(), path, recipients, conf);
        isChanged = false;
    }

    /** The manifest lists all of it now. */
    synchronized void end() throws IOException {
        Hadoop.of(path, conf).delete(path, false);
    }
}
