package phalanx.spark;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import phalanx.KeyProvider;
import phalanx.Recipients;

/**
 * The record beside an unfinished protected file, by which a later run with {@code --resume} goes on. It is a protected file itself, for
 * the same recipients, and says by its tag that a run has made it: see {@link Kept}.
 *
 * @param input the path of the input
 * @param seen what was seen of the input
 * @param header the header of the output
 * @param parts how many parts there are
 * @param state that of the {@link Place}
 * @param done the handles of the parts that are done
 * @param contents the nonces and tags of the chunks that are done, joined; empty if nobody asked for them
 */
record Record(
        String input, Seen seen, byte[] header, int parts, String state, SortedMap<Integer, String> done, byte[] contents) {
    private static final String FORMAT = "phalanx-spark 3";
    /** A record is as long as the names of its parts, and far shorter. */
    private static final long MOST = 64 << 20;

    static Path path(Path output) {
        return new Path(output.getParent(), Place.record(output));
    }

    /** Replaces the record of an output. */
    void write(Path output, Recipients recipients, Configuration conf) throws IOException {
        ByteArrayOutputStream plain = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(plain)) {
            out.writeUTF(FORMAT);
            out.writeUTF(output.toString());
            out.writeUTF(input);
            out.writeLong(seen.length());
            out.writeLong(seen.modifiedNanos());
            out.writeUTF(seen.tag());
            out.writeInt(header.length);
            out.write(header);
            out.writeInt(parts);
            out.writeUTF(state);
            out.writeInt(done.size());
            for (Map.Entry<Integer, String> each : done.entrySet()) {
                out.writeInt(each.getKey());
                out.writeUTF(each.getValue());
            }
            out.writeInt(contents.length);
            out.write(contents);
        }
        Kept.write(plain.toByteArray(), path(output), recipients, conf);
    }

    /**
     * The record of an output, or null if there is none that a run has made for it.
     *
     * @param maker hears who has made it
     */
    static Record read(Path output, Recipients recipients, KeyProvider keys, Configuration conf, Consumer<Kept.Maker> maker)
            throws IOException {
        Kept kept;
        try {
            kept = Kept.read(path(output), MOST, recipients, keys, conf);
        } catch (Kept.TooLong e) {
            return null;
        }
        if (kept == null || kept.maker() == Kept.Maker.ANYBODY) {
            return null;
        }
        try {
            return parse(kept, output, maker);
        } catch (IOException | RuntimeException e) {
            // What others have made may be anything. It is not gone on with.
            if (kept.maker() == Kept.Maker.OURS) {
                throw e;
            }
            return null;
        }
    }

    private static Record parse(Kept kept, Path output, Consumer<Kept.Maker> maker) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(kept.plain()));
        if (!in.readUTF().equals(FORMAT) || !in.readUTF().equals(output.toString())) {
            return null;
        }
        maker.accept(kept.maker());
        String input = in.readUTF();
        Seen seen = new Seen(in.readLong(), in.readLong(), in.readUTF());
        byte[] header = in.readNBytes(in.readInt());
        int parts = in.readInt();
        String state = in.readUTF();
        SortedMap<Integer, String> done = new TreeMap<>();
        for (int left = in.readInt(); left > 0; left--) {
            done.put(in.readInt(), in.readUTF());
        }
        byte[] contents = in.readNBytes(in.readInt());
        return new Record(input, seen, header, parts, state, done, contents);
    }

    static void delete(Path output, Configuration conf) throws IOException {
        Hadoop.of(output, conf).delete(path(output), false);
    }
}
