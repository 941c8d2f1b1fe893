package phalanx;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import org.junit.jupiter.api.Test;

class SuiteTest {
    @Test
    void everyNumberLeadsBackToItsSuite() {
        for (Suite suite : Suite.values()) {
            assertEquals(Optional.of(suite), Suite.of(suite.number()));
        }
        assertTrue(Suite.of(0).isEmpty());
        assertTrue(Suite.of(6).isEmpty());
    }
}
