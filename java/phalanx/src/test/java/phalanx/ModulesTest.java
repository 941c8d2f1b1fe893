package phalanx;

import org.junit.jupiter.api.Test;

/** What is left out of the build says so. */
class ModulesTest {
    @Test
    void hadoop() {
        Needs.require("hadoop", System.getProperty("skipHadoop") == null);
    }

    /** The module native. */
    @Test
    void foreign() {
        Needs.require("jdk22", Runtime.version().feature() >= 22);
    }
}
