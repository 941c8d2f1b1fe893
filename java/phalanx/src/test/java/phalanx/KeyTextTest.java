package phalanx;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Locale;
import org.junit.jupiter.api.Test;

/** Keys as text: the key 00 01 … 1f is the example of docs/design-format.md. */
class KeyTextTest {
    private static final String TEXT =
            "phalanx-key-1-AAAQE-AYEAU-DAOCA-JBIFQ-YDIOB-4IBCE-QTCQK-RMFYY-DENBW-HA5DY-PWQAM-QBYAQ";

    private static PhalanxKey key() {
        byte[] bytes = new byte[32];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) i;
        }
        return PhalanxKey.of(bytes);
    }

    private static PhalanxKey read(String text) throws KeyException {
        return PhalanxKey.ofText(text.toCharArray());
    }

    @Test
    void textsAreRead() throws KeyException {
        assertEquals(key(), read(TEXT));
        assertEquals(key(), read(" " + TEXT.toLowerCase(Locale.ROOT) + "\r\n"));
        assertEquals(key(), read(TEXT.replace("-", "\t")));
        // What resembles O, I and B.
        assertEquals(key(), read(TEXT.substring(0, 14) + TEXT.substring(14).replace('O', '0').replace('I', '1').replace('B', '8')));
    }

    @Test
    void othersAreRefusedAndNotShown() {
        refuses("does not begin with phalanx-key-1", "AAAQE", "");
        refuses("59 characters", TEXT.substring(0, TEXT.length() - 1));
        refuses("61 characters", TEXT + "A");
        refuses("(character 60 after", TEXT.substring(0, TEXT.length() - 1) + "9");
        refuses("(character 60 after", TEXT.substring(0, TEXT.length() - 1) + "\u0141");
        // Each of the characters, and the last one's bits that belong to no byte.
        for (int i = 14; i < TEXT.length(); i++) {
            if (TEXT.charAt(i) != '-') {
                refuses("checksum", TEXT.substring(0, i) + (TEXT.charAt(i) == 'C' ? 'D' : 'C') + TEXT.substring(i + 1));
            }
        }
        refuses("checksum", TEXT.substring(0, TEXT.length() - 1) + "R");
    }

    private static void refuses(String why, String... texts) {
        for (String text : texts) {
            String message = assertThrows(KeyException.class, () -> read(text), text).getMessage();
            assertTrue(message.contains(why), message);
            assertFalse(message.contains("AAAQE"), message);
        }
    }
}
