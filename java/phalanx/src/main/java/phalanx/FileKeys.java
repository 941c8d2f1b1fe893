package phalanx;

import java.security.MessageDigest;
import java.util.Arrays;
import phalanx.primitives.Kmac;

/**
 * The keys of one file or message: docs/format.md, sections 3 and 7. {@link #close} overwrites them, as far as Java allows:
 * see {@link PhalanxKey}. Another thread may close them: what is made of them then has the whole keys, or an
 * {@link IllegalStateException} says that they are closed. Keys of zeros, which everybody has, are never used.
 */
public final class FileKeys implements AutoCloseable {
    /** The length of a {@link #keptTag}. */
    public static final int KEPT_TAG = 32;

    private static final int MAC_BYTES = 32;

    private final Suite suite;
    private final byte[] encrypt;
    private final byte[] mac;
    private boolean closed;

    private FileKeys(Suite suite, byte[] encrypt, byte[] mac) {
        this.suite = suite;
        this.encrypt = encrypt;
        this.mac = mac;
    }

    static FileKeys ofFile(byte[] fileKey, Suite suite) {
        return derive(fileKey, suite, "phalanx v1 file keys");
    }

    static FileKeys ofMessages(byte[] key, Suite suite) {
        return derive(key, suite, "phalanx v1 message keys");
    }

    private static FileKeys derive(byte[] from, Suite suite, String label) {
        int length = suite.aesKeyBytes();
        byte[] both = Kmac.of(from, new byte[] {(byte) suite.number()}, length + MAC_BYTES, label);
        FileKeys keys = new FileKeys(
                suite, Arrays.copyOf(both, length), Arrays.copyOfRange(both, length, length + MAC_BYTES));
        Arrays.fill(both, (byte) 0);
        return keys;
    }

    /**
     * The suite that they are for.
     *
     * @return the suite
     */
    public Suite suite() {
        return suite;
    }

    /** Its bytes, not copied. Who uses them holds this object's lock, so that nobody overwrites them meanwhile. */
    synchronized byte[] encrypt() {
        checkOpen();
        return encrypt;
    }

    /** As {@link #encrypt}. */
    synchronized byte[] mac() {
        checkOpen();
        return mac;
    }

    private void checkOpen() {
        if (closed) {
            throw new IllegalStateException("the keys are closed");
        }
    }

    /** Both keys as bytes, for {@link #exposed}: wipe them. */
    synchronized byte[] expose() {
        checkOpen();
        byte[] both = Arrays.copyOf(encrypt, encrypt.length + MAC_BYTES);
        System.arraycopy(mac, 0, both, encrypt.length, MAC_BYTES);
        return both;
    }

    /** The keys that {@link #expose} returned. They are copied. */
    static FileKeys exposed(Suite suite, byte[] both) {
        int length = suite.aesKeyBytes();
        if (both.length != length + MAC_BYTES) {
            throw new IllegalArgumentException("these are not the keys of a file");
        }
        return new FileKeys(
                suite, Arrays.copyOf(both, length), Arrays.copyOfRange(both, length, length + MAC_BYTES));
    }

    /** The tag of a header. The array has room for the tag at its end. */
    synchronized byte[] headerTag(byte[] header) {
        try (Kmac kmac = new Kmac(mac(), "phalanx v1 header")) {
            kmac.update(header, 0, header.length - Header.TAG);
            return kmac.finish(Header.TAG);
        }
    }

    /** Whether the tag at the end of a header is right. */
    boolean isTagOf(byte[] header) {
        byte[] tag = Arrays.copyOfRange(header, header.length - Header.TAG, header.length);
        return MessageDigest.isEqual(headerTag(header), tag);
    }

    /**
     * The tag by which a program knows a protected file as one of its own, such as the record of an unfinished output. It is the end of
     * the file's plaintext. What somebody lets a program protect has none, because it takes the keys of the file itself.
     *
     * @param plain the plaintext before the tag
     * @return {@link #KEPT_TAG} bytes
     */
    public synchronized byte[] keptTag(byte[] plain) {
        try (Kmac kmac = new Kmac(mac(), "phalanx v1 kept file")) {
            kmac.update(plain, 0, plain.length);
            return kmac.finish(KEPT_TAG);
        }
    }

    /** Overwrites the keys. */
    @Override
    public synchronized void close() {
        closed = true;
        Arrays.fill(encrypt, (byte) 0);
        Arrays.fill(mac, (byte) 0);
    }
}
