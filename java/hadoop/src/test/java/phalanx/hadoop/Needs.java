package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertFalse;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Assumptions;

/** What tests need in addition to the JVM. If it is missing they say so, and fail if {@code PHALANX_REQUIRE} names it. */
final class Needs {
    private Needs() {}

    /** The program {@code phalanx}: the one that {@code PHALANX_PROGRAM} names, or the one that cargo has built. */
    static Path phalanx() {
        String named = System.getenv("PHALANX_PROGRAM");
        Path built = Path.of("..", "..", "target", "release", "phalanx").toAbsolutePath().normalize();
        return require("phalanx", named != null ? Path.of(named) : built);
    }

    /** A program of {@code PATH}. */
    static Path program(String name) {
        for (String folder : System.getenv("PATH").split(":")) {
            if (Files.isExecutable(Path.of(folder, name))) {
                return Path.of(folder, name);
            }
        }
        return require(name, Path.of(name));
    }

    private static Path require(String what, Path program) {
        if (!Files.isExecutable(program)) {
            List<String> required = List.of(System.getenv().getOrDefault("PHALANX_REQUIRE", "").split(","));
            assertFalse(required.contains(what), what + " is required, and missing");
            System.out.println("skipped: no " + what);
            Assumptions.abort("skipped: no " + what);
        }
        return program;
    }
}
