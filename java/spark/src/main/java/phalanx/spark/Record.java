package phalanx.spark;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import phalanx.KeyProvider;
import phalanx.PhalanxException;
import phalanx.Protector;
import phalanx.Recipients;
import phalanx.Unprotector;

/**
 * The record beside an unfinished protected file, by which a later run with {@code --resume} goes on. It is a protected file itself, for
 * the same recipients: only who has one of their keys can have written it.
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
    private static final String FORMAT = "phalanx-spark 2";

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
        store(plain.toByteArray(), path(output), recipients, conf);
    }

    /** Replaces a file that only later runs read. */
    static void store(byte[] plain, Path path, Recipients recipients, Configuration conf) throws IOException {
        FileSystem fs = Hadoop.of(path, conf);
        Protector protector = new Protector(recipients).on(Runnable::run, 1);
        InputStream in = new ByteArrayInputStream(plain);
        if (Hadoop.isLocal(fs)) {
            // Under a temporary name, so that no link is followed.
            protector.replacing().withoutSync().protect(in, Hadoop.local(path));
            return;
        }
        try (OutputStream out = fs.create(path, true)) {
            protector.protect(in, out);
        }
    }

    /** Such a file, or null if there is none that the keys at hand have made. */
    static byte[] stored(Path path, KeyProvider keys, Configuration conf) throws IOException {
        ByteArrayOutputStream plain = new ByteArrayOutputStream();
        try (InputStream stored = Hadoop.of(path, conf).open(path)) {
            new Unprotector(keys).on(Runnable::run, 1).unprotect(stored, plain);
            return plain.toByteArray();
        } catch (PhalanxException e) {
            return null;
        } catch (FileNotFoundException e) {
            if (!Hadoop.isAbsent(Hadoop.of(path, conf), path)) {
                throw new IOException(e.getMessage(), e);
            }
            return null;
        }
    }

    /** The record of an output, or null if there is none that the keys at hand have made for it. */
    static Record read(Path output, KeyProvider keys, Configuration conf) throws IOException {
        byte[] plain = stored(path(output), keys, conf);
        if (plain == null) {
            return null;
        }
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(plain));
        if (!in.readUTF().equals(FORMAT) || !in.readUTF().equals(output.toString())) {
            return null;
        }
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
