package phalanx;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Optional;

/** The data types of SSH: RFC 4251, section 5. */
final class SshWire {
    private final ByteBuffer rest;

    private SshWire(byte[] bytes) {
        this.rest = ByteBuffer.wrap(bytes);
    }

    /** It ends too early, or a field has another form. */
    static final class Malformed extends Exception {
        private static final long serialVersionUID = 1L;
    }

    static SshWire of(byte[] bytes) {
        return new SshWire(bytes);
    }

    int number() throws Malformed {
        return ByteBuffer.wrap(bytes(4)).getInt();
    }

    byte[] bytes(int length) throws Malformed {
        if (length < 0 || length > rest.remaining()) {
            throw new Malformed();
        }
        byte[] bytes = new byte[length];
        rest.get(bytes);
        return bytes;
    }

    /** A field that begins with its length. */
    byte[] field() throws Malformed {
        return bytes(number());
    }

    String text() throws Malformed {
        return new String(field(), StandardCharsets.UTF_8);
    }

    /** A positive number in its only form: a zero byte comes first where its first bit would otherwise be a sign. */
    BigInteger positive() throws Malformed {
        byte[] bytes = field();
        boolean isZeroFirst = bytes.length > 0 && bytes[0] == 0;
        boolean isShortest = bytes.length > 1 && bytes[1] < 0;
        if (bytes.length == 0 || bytes[0] < 0 || isZeroFirst && !isShortest) {
            throw new Malformed();
        }
        BigInteger number = new BigInteger(bytes);
        Arrays.fill(bytes, (byte) 0);
        return number;
    }

    /** All that is left. */
    byte[] rest() {
        byte[] bytes = new byte[rest.remaining()];
        rest.get(bytes);
        return bytes;
    }

    boolean isAtEnd() {
        return !rest.hasRemaining();
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    /** Fields with their lengths. */
    static byte[] fields(byte[]... fields) {
        int length = Arrays.stream(fields).mapToInt(field -> 4 + field.length).sum();
        ByteBuffer out = ByteBuffer.allocate(length);
        for (byte[] field : fields) {
            out.putInt(field.length).put(field);
        }
        return out.array();
    }

    /** Decodes Base64 in its only form. */
    static Optional<byte[]> base64(String text) {
        try {
            byte[] bytes = Base64.getDecoder().decode(text);
            return Base64.getEncoder().encodeToString(bytes).equals(text) ? Optional.of(bytes) : Optional.empty();
        } catch (IllegalArgumentException e) {
            return Optional.empty();
        }
    }
}
