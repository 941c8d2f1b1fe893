package phalanx;

import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Arrays;
import phalanx.primitives.KeyWrap;
import phalanx.primitives.Kmac;

/**
 * A key of 32 bytes that writers and readers share.
 *
 * <p>{@link #close} overwrites the bytes that this object holds. Java moves and copies arrays when it collects garbage, and
 * Bouncy Castle and the JCE keep copies of what they derive, so other copies can stay in the JVM's memory until it ends, and
 * in its swap and core dumps. Nothing in Java can prevent that.
 */
public final class PhalanxKey implements AutoCloseable {
    /** The length of a key. */
    public static final int BYTES = 32;

    private static final SecureRandom RANDOM = new SecureRandom();

    private final byte[] bytes;
    private final KeyId id;
    private boolean closed;

    private PhalanxKey(byte[] bytes) {
        this.bytes = bytes;
        this.id = new KeyId(Arrays.copyOf(Kmac.of(bytes, new byte[0], 32, "phalanx v1 key id"), KeyId.BYTES));
    }

    /**
     * A key of these bytes.
     *
     * @param bytes 32 bytes, which are copied: wipe yours
     * @return the key
     * @throws IllegalArgumentException if there are not 32 bytes
     */
    public static PhalanxKey of(byte[] bytes) {
        if (bytes.length != BYTES) {
            throw new IllegalArgumentException("a key has 32 bytes, not " + bytes.length);
        }
        return new PhalanxKey(bytes.clone());
    }

    /**
     * The key of a text, as {@code phalanx key export --text} writes it: {@code phalanx-key-1-…}. Capital and small letters are
     * equal, and hyphens and white space are ignored.
     *
     * @param text the text: wipe it
     * @return the key
     * @throws KeyException if it is not a key's text, or is mistyped
     */
    public static PhalanxKey ofText(char[] text) throws KeyException {
        return KeyText.read(text);
    }

    /**
     * A new random key.
     *
     * @return the key
     */
    public static PhalanxKey random() {
        byte[] bytes = new byte[BYTES];
        RANDOM.nextBytes(bytes);
        return new PhalanxKey(bytes);
    }

    /**
     * Its public id.
     *
     * @return the id
     */
    public KeyId id() {
        return id;
    }

    /**
     * The key itself.
     *
     * @return a copy of its 32 bytes: wipe it after use
     */
    public byte[] expose() {
        synchronized (bytes) {
            return open().clone();
        }
    }

    /** Its bytes, not copied. Who uses them holds their lock, so that nobody overwrites them meanwhile. */
    byte[] open() {
        synchronized (bytes) {
            if (closed) {
                throw new IllegalStateException("the key is closed");
            }
            return bytes;
        }
    }

    byte[] wrap(byte[] fileKey) {
        byte[] kek = kek();
        try {
            return KeyWrap.wrap(kek, fileKey);
        } finally {
            Arrays.fill(kek, (byte) 0);
        }
    }

    byte[] kek() {
        // A key that is closed meanwhile must not become one of zeros, which everybody has.
        synchronized (bytes) {
            return Kmac.of(open(), new byte[0], 32, "phalanx v1 key wrap");
        }
    }

    /** The keys of its messages. */
    FileKeys messageKeys(Suite suite) {
        // As above.
        synchronized (bytes) {
            return FileKeys.ofMessages(open(), suite);
        }
    }

    /** Whether both are the same key, compared in constant time. */
    @Override
    public boolean equals(Object other) {
        return other instanceof PhalanxKey key && MessageDigest.isEqual(bytes, key.bytes);
    }

    @Override
    public int hashCode() {
        return id.hashCode();
    }

    /** Shows the id, and not the key. */
    @Override
    public String toString() {
        return "PhalanxKey[" + id + "]";
    }

    /** Overwrites the key. It cannot be used any more. */
    @Override
    public void close() {
        synchronized (bytes) {
            closed = true;
            Arrays.fill(bytes, (byte) 0);
        }
    }
}
