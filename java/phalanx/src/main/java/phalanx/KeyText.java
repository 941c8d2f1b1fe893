package phalanx;

import java.util.Arrays;
import phalanx.primitives.Kmac;

/** Keys as text that a person can type, {@code phalanx-key-1-…}: docs/design-format.md, “Key text”. */
final class KeyText {
    /** As it is compared: without hyphens, in capitals. */
    private static final String PREFIX = "PHALANXKEY1";
    private static final int CHECK = 5;
    private static final int CHARS = 60;

    private KeyText() {}

    /**
     * The key of a text. Capital and small letters are equal, hyphens and white space are ignored, and 0, 1 and 8 are read as O, I
     * and B, which they resemble.
     */
    static PhalanxKey read(char[] text) throws KeyException {
        byte[] bare = new byte[PREFIX.length() + CHARS];
        byte[] bytes = new byte[PhalanxKey.BYTES + CHECK];
        byte[] key = new byte[PhalanxKey.BYTES];
        byte[] check = new byte[0];
        try {
            int length = bare(text, bare);
            for (int i = 0; i < PREFIX.length(); i++) {
                if (bare[i] != PREFIX.charAt(i)) {
                    throw new KeyException("not a key's text: it does not begin with phalanx-key-1");
                }
            }
            if (length != bare.length) {
                throw new KeyException("the key's text has " + (length - PREFIX.length())
                        + " characters after phalanx-key-1 instead of " + CHARS);
            }
            boolean isWhole = decode(bare, bytes);
            System.arraycopy(bytes, 0, key, 0, key.length);
            check = Kmac.of(key, new byte[0], 32, "phalanx v1 key text");
            if (!isWhole | !isEqual(check, bytes)) {
                throw new KeyException("a character of the key's text is wrong: the checksum does not fit");
            }
            return PhalanxKey.of(key);
        } finally {
            for (byte[] secret : new byte[][] {bare, bytes, key, check}) {
                Arrays.fill(secret, (byte) 0);
            }
        }
    }

    /** Whether the bytes after the key begin the check, compared in constant time. */
    private static boolean isEqual(byte[] check, byte[] bytes) {
        int different = 0;
        for (int i = 0; i < CHECK; i++) {
            different |= check[i] ^ bytes[PhalanxKey.BYTES + i];
        }
        return different == 0;
    }

    /** The text without hyphens and white space, in capitals, as far as there is room. Returns its whole length. */
    private static int bare(char[] text, byte[] bare) {
        int length = 0;
        for (char each : text) {
            if (each == '-' || each == ' ' || each >= '\t' && each <= '\r' && each != 0x0b) {
                continue;
            }
            if (length < bare.length) {
                bare[length] = (byte) (each > '~' ? 0 : each >= 'a' && each <= 'z' ? each - 32 : each);
            }
            length++;
        }
        return length;
    }

    /** Decodes the characters after the prefix. Returns whether the bits that belong to no byte are zero. */
    private static boolean decode(byte[] bare, byte[] bytes) throws KeyException {
        int buffer = 0;
        int bits = 0;
        int at = 0;
        for (int i = 0; i < CHARS; i++) {
            byte c = bare[PREFIX.length() + i];
            int value = switch (c) {
                case '0' -> 'O' - 'A';
                case '1' -> 'I' - 'A';
                case '8' -> 'B' - 'A';
                default -> c >= 'A' && c <= 'Z' ? c - 'A' : c >= '2' && c <= '7' ? c - '2' + 26 : -1;
            };
            if (value < 0) {
                throw new KeyException("a character of the key's text is not one of A to Z and 2 to 7 (character " + (i + 1)
                        + " after phalanx-key-1)");
            }
            buffer = (buffer << 5 | value) & 0xfff;
            bits += 5;
            if (bits >= 8) {
                bits -= 8;
                bytes[at++] = (byte) (buffer >> bits);
            }
        }
        return (buffer & (1 << bits) - 1) == 0;
    }
}
