package phalanx;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** Names that Windows does not give to files. */
class SystemsTest {
    @Test
    void devicesAndShortenedNamesAreReserved() {
        for (String name : List.of(
                "NUL", "nul", "con", "Aux.txt", "nul.tar.phx", "COM1", "lpt9.phx", "prn .phx", "COM\u00b2", "CONOUT$", "f.", "f.phx.",
                "f ", "f..", "...")) {
            assertTrue(Systems.isReserved(name), name);
        }
        for (String name : List.of(".", "..", "f", "f.phx", ".phx", "null", "com", "com10", "console", "a.nul", "f .phx", "..f", "xCON")) {
            assertFalse(Systems.isReserved(name), name);
        }
    }
}
