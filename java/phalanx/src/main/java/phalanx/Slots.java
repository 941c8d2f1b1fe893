package phalanx;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The bodies of slots: docs/format.md, section 4. */
final class Slots {
    static final int PASSWORD_BYTES = 65;
    static final int KEY_BYTES = 56;
    private static final int SHORTEST_AGE = 17;
    private static final int LONGEST_AGE = 16400;

    /** The length of a file key that is wrapped. */
    static final int WRAPPED_BYTES = 40;
    static final int SERVICE = 4;
    private static final int LONGEST_URI = 1024;
    /** A longer URI is cut here in messages. */
    private static final int SHOWN_URI = 64;

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
                byte[] file = Arrays.copyOfRange(body, AgeRecipient.TAG, body.length);
                return new Slot.OfAge(file.length, new Slot.Wrapped(Arrays.copyOf(body, AgeRecipient.TAG), file));
            case SERVICE:
                return service(body);
            default:
                return new Slot.Unknown(type, body.length);
        }
    }

    /** One of another form is no way in, and counts like one of a type that is not known. */
    private static Slot service(byte[] body) {
        ByteBuffer fields = ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN);
        byte[] uri = field(fields);
        byte[] runKey = field(fields);
        String text = uri == null ? "" : new String(uri, StandardCharsets.ISO_8859_1);
        boolean isRunKey = runKey != null && runKey.length >= 1 && runKey.length <= NamedService.LONGEST_WRAPPED;
        if (!isServiceUri(text) || !isRunKey || fields.remaining() != WRAPPED_BYTES) {
            return new Slot.Unknown(SERVICE, body.length);
        }
        byte[] wrapped = new byte[WRAPPED_BYTES];
        fields.get(wrapped);
        return new Slot.OfService(text, runKey.length, new Slot.Wrapped(runKey, wrapped));
    }

    /** A field that begins with its length, or null. */
    private static byte[] field(ByteBuffer fields) {
        if (fields.remaining() < 2) {
            return null;
        }
        int length = Short.toUnsignedInt(fields.getShort());
        if (fields.remaining() < length) {
            return null;
        }
        byte[] field = new byte[length];
        fields.get(field);
        return field;
    }

    /** Whether a text has the form of a key service's URI. */
    static boolean isServiceUri(String text) {
        return text != null && !text.isEmpty() && text.length() <= LONGEST_URI
                && text.chars().allMatch(each -> each > ' ' && each <= '~');
    }

    /** A URI, shortened if it is long. */
    static String brief(String uri) {
        return uri.length() <= 2 * SHOWN_URI ? uri : uri.substring(0, SHOWN_URI) + "…";
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
