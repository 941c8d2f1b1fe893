package phalanx;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** The bodies of slots: docs/format.md, section 4. */
final class Slots {
    static final int PASSWORD_BYTES = 65;
    static final int KEY_BYTES = 56;
    private static final int SHORTEST_AGE = 17;
    private static final int LONGEST_AGE = 16400;

    private Slots() {}

    /** Reads a slot of this type and body. */
    static Slot parse(int type, byte[] body) throws MalformedHeaderException {
        switch (type) {
            case 0:
                return new Slot.Padding(body.length);
            case 1:
                return password(body);
            case 2:
                if (body.length != KEY_BYTES) {
                    throw new MalformedHeaderException("a key slot of the wrong length");
                }
                KeyId id = new KeyId(Arrays.copyOf(body, KeyId.BYTES));
                return new Slot.OfKey(id, new Slot.Wrapped(null, Arrays.copyOfRange(body, KeyId.BYTES, KEY_BYTES)));
            case 3:
                if (body.length < SHORTEST_AGE || body.length > LONGEST_AGE) {
                    throw new MalformedHeaderException("an age slot of the wrong length");
                }
                return new Slot.OfAge(body.length - KeyId.BYTES);
            default:
                return new Slot.Unknown(type, body.length);
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
        Slot.Wrapped secret = new Slot.Wrapped(Arrays.copyOf(body, 16), Arrays.copyOfRange(body, 25, PASSWORD_BYTES));
        return new Slot.OfPassword(memory, passes, lanes, secret);
    }
}
