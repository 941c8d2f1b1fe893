package phalanx.flink;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import phalanx.KeyProvider;
import phalanx.Protector;
import phalanx.Recipients;
import phalanx.Unprotector;

/**
 * What a checkpoint keeps of an unfinished file, beside what the inner file system keeps: its header, how many chunks are written, and the plaintext of
 * the chunk that is not full yet. It is stored as a protected file for the same recipients, since checkpoints lie where anybody may read them, and it is
 * bound to the point in the inner file system's file.
 *
 * @param header the header
 * @param chunks how many chunks are written
 * @param tail the plaintext after these
 */
record Unfinished(byte[] header, long chunks, byte[] tail) {
    private static final String FORMAT = "phalanx-flink 1";
    private static final int DIGEST = 32;

    byte[] seal(Recipients recipients, SealedWriter.Point point) throws IOException {
        Plain plain = new Plain();
        try (DataOutputStream out = new DataOutputStream(plain)) {
            out.writeUTF(FORMAT);
            out.write(digest(point));
            out.writeInt(header.length);
            out.write(header);
            out.writeLong(chunks);
            out.writeInt(tail.length);
            out.write(tail);
            ByteArrayOutputStream sealed = new ByteArrayOutputStream();
            new Protector(recipients).on(Runnable::run, 1).protect(plain.stream(), sealed);
            return sealed.toByteArray();
        } finally {
            plain.wipe();
        }
    }

    static Unfinished open(byte[] sealed, SealedWriter.Point point, KeyProvider keys) throws IOException {
        Plain plain = new Plain();
        try {
            new Unprotector(keys).on(Runnable::run, 1).unprotect(new ByteArrayInputStream(sealed), plain);
            DataInputStream in = new DataInputStream(plain.stream());
            if (!in.readUTF().equals(FORMAT)) {
                throw new IOException("it is that of another version");
            }
            if (!MessageDigest.isEqual(in.readNBytes(DIGEST), digest(point))) {
                throw new IOException("it is that of another file, or of another point in it");
            }
            byte[] header = bytes(in);
            long chunks = in.readLong();
            return new Unfinished(header, chunks, bytes(in));
        } catch (IOException e) {
            throw new IOException("the checkpoint's state of an unfinished file cannot be opened: " + e.getMessage(), e);
        } finally {
            plain.wipe();
        }
    }

    private static byte[] digest(SealedWriter.Point point) {
        try {
            return MessageDigest.getInstance("SHA3-256").digest(point.bytes());
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA3-256", e);
        }
    }

    /** Bytes behind their length. */
    static byte[] bytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length < 0 || length > in.available()) {
            throw new IOException("the checkpoint's state of an unfinished file is damaged");
        }
        return in.readNBytes(length);
    }

    void wipe() {
        Arrays.fill(tail, (byte) 0);
    }

    /** Bytes that are overwritten, but for what was copied while they grew. */
    private static final class Plain extends ByteArrayOutputStream {
        Plain() {
            super(1 << 12);
        }

        ByteArrayInputStream stream() {
            return new ByteArrayInputStream(buf, 0, count);
        }

        void wipe() {
            Arrays.fill(buf, (byte) 0);
        }
    }
}
