package phalanx;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;

/** Keys and passwords in files. Files that anybody but the user and root could read or change are refused. */
public final class KeyFiles {
    private static final int LONGEST_PASSWORD = 1 << 16;

    private KeyFiles() {}

    /**
     * A key file: 32 raw bytes.
     *
     * @param path the file, or a pipe
     * @return the key: close it
     * @throws KeyException if it does not have 32 bytes, or others could read or change it
     * @throws IOException if it cannot be read
     */
    public static PhalanxKey key(Path path) throws IOException {
        try (SecretFile secret = SecretFile.read(path, "it", PhalanxKey.BYTES + 1)) {
            secret.checkPrivate();
            if (secret.bytes().length != PhalanxKey.BYTES) {
                throw new KeyException("a key file has exactly 32 raw bytes");
            }
            refuseText(secret.bytes());
            return PhalanxKey.of(secret.bytes());
        }
    }

    /** Refuses the beginning of a key's text whose rest is missing. */
    private static void refuseText(byte[] bytes) throws KeyException {
        byte[] prefix = {'P', 'H', 'A', 'L', 'A', 'N', 'X', 'K', 'E', 'Y', '1'};
        int chars = 0;
        for (byte each : bytes) {
            boolean isSpace = each == ' ' || each >= '\t' && each <= '\r' && each != 0x0b;
            if (isSpace || each == '-') {
                continue;
            }
            byte capital = each >= 'a' && each <= 'z' ? (byte) (each - 32) : each;
            if (chars < prefix.length && capital != prefix[chars]) {
                return;
            }
            chars++;
        }
        if (chars >= prefix.length) {
            throw new KeyException("the key's text has " + (chars - prefix.length)
                    + " characters after phalanx-key-1 instead of 60");
        }
    }

    /**
     * A password file: the whole file, without one newline at its end.
     *
     * @param path the file, or a pipe
     * @return the password: close it
     * @throws KeyException if others could read or change it
     * @throws IllegalArgumentException if it has more than 65536 bytes
     * @throws IOException if it cannot be read
     */
    public static Password password(Path path) throws IOException {
        try (SecretFile secret = SecretFile.read(path, "it", LONGEST_PASSWORD + 1)) {
            secret.checkPrivate();
            byte[] bytes = secret.bytes();
            if (bytes.length > LONGEST_PASSWORD) {
                throw new IllegalArgumentException("a password has at most " + LONGEST_PASSWORD + " bytes");
            }
            boolean endsLine = bytes.length > 0 && bytes[bytes.length - 1] == '\n';
            byte[] password = Arrays.copyOf(bytes, bytes.length - (endsLine ? 1 : 0));
            try {
                return Password.of(password);
            } finally {
                Arrays.fill(password, (byte) 0);
            }
        }
    }
}
