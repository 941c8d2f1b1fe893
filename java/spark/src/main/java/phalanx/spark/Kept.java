package phalanx.spark;

import java.io.ByteArrayInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.attribute.FileTime;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Arrays;
import java.util.OptionalLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import phalanx.ChunkCipher;
import phalanx.FileKeys;
import phalanx.Header;
import phalanx.KeyProvider;
import phalanx.Layout;
import phalanx.Output;
import phalanx.PhalanxException;
import phalanx.Recipients;
import phalanx.Slot;
import phalanx.Suite;

/**
 * A file that a run leaves for later runs: a protected file for the same keys. Its plaintext ends with a tag that only who knows the
 * file's keys can make. So a file that somebody has sent to be protected, and that was stored under this name, is none.
 *
 * @param plain what it says, without the tag
 * @param maker who has made it
 */
record Kept(byte[] plain, Maker maker) {
    /** Who can have made such a file. */
    enum Maker {
        /** It has no tag, so whoever has let something be protected. */
        ANYBODY,
        /** No key has opened it, so whoever may let a key service wrap. */
        ANY_OF_SERVICE,
        /** Somebody who has a key at hand, for other recipients. */
        OTHERS,
        /** A run for the recipients of this one. */
        OURS
    }

    private static final Suite SUITE = Suite.AES_256_CTR_SHA3;
    private static final int CHUNK_LOG2 = 20;

    /** Replaces such a file. */
    static void write(byte[] plain, Path path, Recipients recipients, Configuration conf) throws IOException {
        byte[] stored;
        try (Recipients.NewFile made = recipients.newFile(SUITE, CHUNK_LOG2, OptionalLong.of(plain.length))) {
            byte[] tag = made.keys().keptTag(plain);
            byte[] whole = Arrays.copyOf(plain, plain.length + tag.length);
            System.arraycopy(tag, 0, whole, plain.length, tag.length);
            stored = seal(made.header(), made.keys(), whole);
        }
        FileSystem fs = Hadoop.of(path, conf);
        if (Hadoop.isLocal(fs)) {
            // Under a temporary name, so that no link is followed.
            try (Output out = Output.create(Hadoop.local(path), true)) {
                for (ByteBuffer left = ByteBuffer.wrap(stored); left.hasRemaining();) {
                    out.channel().write(left);
                }
                // Others who have the keys may go on with it.
                out.resembleNew(FileTime.from(Instant.now()));
                out.commit(false);
            }
            return;
        }
        try (OutputStream out = fs.create(path, true)) {
            out.write(stored);
        }
    }

    private static byte[] seal(Header header, FileKeys keys, byte[] plain) {
        Layout layout = new Layout(header.suite(), header.chunkLog2(), header.length(), plain.length);
        byte[] stored = Arrays.copyOf(header.toBytes(), Math.toIntExact(layout.fileLength()));
        try (ChunkCipher cipher = new ChunkCipher(keys, header.chunkLog2())) {
            for (long index = 0; index < layout.chunks(); index++) {
                int at = (int) layout.fileOffset(index);
                int length = layout.plaintextLength(index);
                System.arraycopy(plain, (int) layout.plaintextOffset(index), stored, at + header.suite().overhead(), length);
                cipher.seal(stored, at, length, index, layout.isLast(index));
            }
        }
        return stored;
    }

    /**
     * Reads such a file.
     *
     * @param most how long it may be
     * @param recipients those of this run
     * @param keys what opens the file
     * @return what it says; null if there is none that the keys at hand open
     * @throws TooLong if it is longer
     * @throws IOException if it cannot be read
     */
    static Kept read(Path path, long most, Recipients recipients, KeyProvider keys, Configuration conf) throws IOException {
        FileSystem fs = Hadoop.of(path, conf);
        byte[] stored;
        try (InputStream in = fs.open(path)) {
            stored = in.readNBytes((int) Math.min(most + 1, Integer.MAX_VALUE - 8));
        } catch (FileNotFoundException e) {
            if (!Hadoop.isAbsent(fs, path)) {
                throw new IOException(e.getMessage(), e);
            }
            return null;
        }
        if (stored.length > most) {
            throw new TooLong();
        }
        try {
            return open(stored, recipients, keys);
        } catch (PhalanxException e) {
            return null;
        }
    }

    /** It is longer than any that a run would leave. */
    static final class TooLong extends IOException {
        private static final long serialVersionUID = 1L;
    }

    private static Kept open(byte[] stored, Recipients recipients, KeyProvider keys) throws IOException {
        Header header = Header.read(new ByteArrayInputStream(stored));
        Header.Opened opened = header.open(keys);
        try (FileKeys file = opened.keys()) {
            byte[] whole = open(stored, header, file);
            int length = whole.length - FileKeys.KEPT_TAG;
            byte[] plain = Arrays.copyOf(whole, Math.max(0, length));
            boolean hasTag = length >= 0
                    && MessageDigest.isEqual(file.keptTag(plain), Arrays.copyOfRange(whole, length, whole.length));
            return hasTag ? new Kept(plain, maker(header, opened.slot(), recipients, keys)) : new Kept(whole, Maker.ANYBODY);
        }
    }

    private static Maker maker(Header header, int slot, Recipients recipients, KeyProvider keys) throws IOException {
        if (!(header.slots().get(slot) instanceof Slot.OfKey)) {
            return Maker.ANY_OF_SERVICE;
        }
        return header.isFor(recipients, keys) ? Maker.OURS : Maker.OTHERS;
    }

    private static byte[] open(byte[] stored, Header header, FileKeys file) throws IOException {
        Layout layout = header.layout(stored.length);
        byte[] plain = new byte[Math.toIntExact(layout.plaintextLength())];
        try (ChunkCipher cipher = new ChunkCipher(file, header.chunkLog2())) {
            for (long index = 0; index < layout.chunks(); index++) {
                int at = (int) layout.fileOffset(index);
                int length = layout.plaintextLength(index);
                cipher.open(stored, at, length, index, layout.isLast(index));
                System.arraycopy(stored, at + header.suite().overhead(), plain, (int) layout.plaintextOffset(index), length);
            }
        }
        return plain;
    }
}
