package phalanx;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

/** The armor of age files, a strict form of PEM (RFC 7468): <a href="https://c2sp.org/age">c2sp.org/age</a>, section "ASCII armor". */
final class AgeArmor {
    static final String BEGIN = "-----BEGIN AGE ENCRYPTED FILE-----";
    private static final String END = "-----END AGE ENCRYPTED FILE-----";
    /** Characters of a whole line. */
    private static final int LINE = 64;

    private AgeArmor() {}

    /** The file in an armored text. White space may be around the armor, and nowhere else. */
    static byte[] decode(byte[] text) throws AgeFile.Malformed {
        // Only ciphertext is in it, so that strings may be made of it.
        String[] lines = new String(text, StandardCharsets.ISO_8859_1).strip().split("\r?\n", -1);
        if (lines.length < 2 || !lines[0].equals(BEGIN) || !lines[lines.length - 1].equals(END)) {
            throw new AgeFile.Malformed("no armor, or a cut one");
        }
        for (int i = 1; i < lines.length - 1; i++) {
            boolean isLast = i == lines.length - 2;
            if (lines[i].isEmpty() || lines[i].length() > LINE || lines[i].length() < LINE && !isLast) {
                throw new AgeFile.Malformed("an armor with a line of the wrong length");
            }
        }
        String base64 = String.join("", Arrays.asList(lines).subList(1, lines.length - 1));
        try {
            byte[] bytes = Base64.getDecoder().decode(base64);
            if (Base64.getEncoder().encodeToString(bytes).equals(base64)) {
                return bytes;
            }
        } catch (IllegalArgumentException e) {
            // The same failure as for another form.
        }
        throw new AgeFile.Malformed("Base64 that is not canonical");
    }
}
