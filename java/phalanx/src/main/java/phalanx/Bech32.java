package phalanx;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;

/** Bech32 (BIP 173) without its limit of length, which is how age writes keys. */
final class Bech32 {
    private static final String ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    private static final int[] GENERATORS = {0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3};
    private static final int CHECKSUM = 6;

    private Bech32() {}

    /** What a text says: the part before the last 1, in small letters, and the bytes. */
    record Decoded(String prefix, byte[] bytes) {}

    /** The text, in small letters. */
    static String encode(String prefix, byte[] bytes) {
        int count = (bytes.length * 8 + 4) / 5;
        byte[] values = new byte[count + CHECKSUM];
        int buffer = 0;
        int bits = 0;
        int at = 0;
        for (byte each : bytes) {
            buffer = (buffer << 8 | each & 0xff) & 0xfff;
            for (bits += 8; bits >= 5; bits -= 5) {
                values[at++] = (byte) (buffer >> bits - 5 & 31);
            }
        }
        if (bits > 0) {
            values[at] = (byte) (buffer << 5 - bits & 31);
        }
        int sum = checksum(prefix, values) ^ 1;
        for (int i = 0; i < CHECKSUM; i++) {
            values[count + i] = (byte) (sum >> 5 * (CHECKSUM - 1 - i) & 31);
        }
        StringBuilder text = new StringBuilder(prefix.length() + 1 + values.length).append(prefix).append('1');
        for (byte value : values) {
            text.append(ALPHABET.charAt(value));
        }
        return text.toString();
    }

    /** Reads a text. Nothing if it is not the only text of its bytes, but for the case of letters. */
    static Optional<Decoded> decode(byte[] text) {
        int split = text.length - 1;
        while (split > 0 && text[split] != '1') {
            split--;
        }
        int count = text.length - split - 1;
        if (split < 1 || count < CHECKSUM || !hasOneCase(text)) {
            return Optional.empty();
        }
        String prefix = new String(text, 0, split, StandardCharsets.US_ASCII).toLowerCase(Locale.ROOT);
        byte[] values = new byte[count];
        try {
            for (int i = 0; i < count; i++) {
                int value = ALPHABET.indexOf(Character.toLowerCase(text[split + 1 + i]));
                if (value < 0) {
                    return Optional.empty();
                }
                values[i] = (byte) value;
            }
            if (checksum(prefix, values) != 1) {
                return Optional.empty();
            }
            return bytes(values, count - CHECKSUM).map(bytes -> new Decoded(prefix, bytes));
        } finally {
            Arrays.fill(values, (byte) 0);
        }
    }

    private static boolean hasOneCase(byte[] text) {
        boolean hasSmall = false;
        boolean hasCapital = false;
        for (byte each : text) {
            if (each <= ' ' || each > '~') {
                return false;
            }
            hasSmall |= each >= 'a' && each <= 'z';
            hasCapital |= each >= 'A' && each <= 'Z';
        }
        return !(hasSmall && hasCapital);
    }

    /** Eight bits for each byte from five of each value. Those that are left are fewer than five, and zero. */
    private static Optional<byte[]> bytes(byte[] values, int count) {
        byte[] bytes = new byte[count * 5 / 8];
        int buffer = 0;
        int bits = 0;
        int at = 0;
        for (int i = 0; i < count; i++) {
            buffer = (buffer << 5 | values[i]) & 0xfff;
            bits += 5;
            if (bits >= 8) {
                bits -= 8;
                bytes[at++] = (byte) (buffer >> bits);
            }
        }
        if (bits >= 5 || (buffer & (1 << bits) - 1) != 0) {
            Arrays.fill(bytes, (byte) 0);
            return Optional.empty();
        }
        return Optional.of(bytes);
    }

    private static int checksum(String prefix, byte[] values) {
        int sum = 1;
        for (int i = 0; i < prefix.length(); i++) {
            sum = step(sum, prefix.charAt(i) >> 5);
        }
        sum = step(sum, 0);
        for (int i = 0; i < prefix.length(); i++) {
            sum = step(sum, prefix.charAt(i) & 31);
        }
        for (byte value : values) {
            sum = step(sum, value);
        }
        return sum;
    }

    private static int step(int sum, int value) {
        int next = (sum & 0x1ffffff) << 5 ^ value;
        for (int i = 0; i < GENERATORS.length; i++) {
            next ^= (sum >> 25 + i & 1) == 0 ? 0 : GENERATORS[i];
        }
        return next;
    }
}
