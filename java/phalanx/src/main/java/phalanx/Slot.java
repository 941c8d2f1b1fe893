package phalanx;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** One way into a file, as its header shows it without a key (docs/format.md, section 4). */
public sealed interface Slot {
    /** The lengths of bodies. */
    int PASSWORD_BYTES = 65;
    /** The length of a key slot's body. */
    int KEY_BYTES = 56;

    /**
     * Room for more slots.
     *
     * @param bytes the length of its body
     */
    record Padding(int bytes) implements Slot {}

    /**
     * A way in for a password.
     *
     * @param memory Argon2's memory in KiB
     * @param passes Argon2's passes
     * @param lanes Argon2's parallelism
     * @param secret salt and wrapped file key
     */
    record OfPassword(long memory, long passes, int lanes, Wrapped secret) implements Slot {}

    /**
     * A way in for a key.
     *
     * @param id the key's id
     * @param secret the wrapped file key
     */
    record OfKey(KeyId id, Wrapped secret) implements Slot {}

    /**
     * A way in for an identity of age, which this library passes over.
     *
     * @param bytes the length of the age file in it
     */
    record OfAge(int bytes) implements Slot {}

    /**
     * A slot of a type that this library does not know, and passes over.
     *
     * @param type its type
     * @param bytes the length of its body
     */
    record Unknown(int type, int bytes) implements Slot {}

    /** A file key under a key-encrypting key. */
    final class Wrapped {
        private final byte[] salt;
        private final byte[] key;

        Wrapped(byte[] salt, byte[] key) {
            this.salt = salt;
            this.key = key;
        }

        byte[] salt() {
            return salt;
        }

        byte[] key() {
            return key;
        }

        @Override
        public String toString() {
            return "…";
        }
    }

    /** Reads a slot of this type and body. */
    static Slot parse(int type, byte[] body) throws MalformedHeaderException {
        switch (type) {
            case 0:
                return new Padding(body.length);
            case 1:
                return password(body);
            case 2:
                if (body.length != KEY_BYTES) {
                    throw new MalformedHeaderException("a key slot of the wrong length");
                }
                KeyId id = new KeyId(Arrays.copyOf(body, KeyId.BYTES));
                return new OfKey(id, new Wrapped(null, Arrays.copyOfRange(body, KeyId.BYTES, KEY_BYTES)));
            case 3:
                if (body.length < 17 || body.length > 16400) {
                    throw new MalformedHeaderException("an age slot of the wrong length");
                }
                return new OfAge(body.length - KeyId.BYTES);
            default:
                return new Unknown(type, body.length);
        }
    }

    private static Slot password(byte[] body) throws MalformedHeaderException {
        if (body.length != PASSWORD_BYTES) {
            throw new MalformedHeaderException("a password slot of the wrong length");
        }
        ByteBuffer fields = ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN);
        long memory = Integer.toUnsignedLong(fields.getInt(16));
        long passes = Integer.toUnsignedLong(fields.getInt(20));
        int lanes = Byte.toUnsignedInt(fields.get(24));
        if (passes == 0 || lanes == 0 || memory < 8L * lanes) {
            throw new MalformedHeaderException("a password slot with impossible parameters");
        }
        Wrapped secret = new Wrapped(Arrays.copyOf(body, 16), Arrays.copyOfRange(body, 25, PASSWORD_BYTES));
        return new OfPassword(memory, passes, lanes, secret);
    }
}
