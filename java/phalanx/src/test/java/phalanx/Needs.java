package phalanx;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;

/** What tests need in addition to the JVM. If it is missing they say so, and fail if {@code PHALANX_REQUIRE} names it. */
public final class Needs {
    private Needs() {}

    /** The program {@code phalanx}: the one that {@code PHALANX_PROGRAM} names, or the one that cargo has built. */
    public static Path phalanx() {
        String named = System.getenv("PHALANX_PROGRAM");
        Path program =
                named != null ? Path.of(named) : Vectors.root().resolve("target").resolve("release").resolve("phalanx");
        require("phalanx", Files.isExecutable(program));
        return program;
    }

    /** Skips the test, with a message, if something is missing. */
    public static void require(String what, boolean isThere) {
        if (isThere) {
            return;
        }
        String required = System.getenv().getOrDefault("PHALANX_REQUIRE", "");
        if (List.of(required.split(",")).contains(what)) {
            fail(what + " is required, and missing");
        }
        System.out.println("skipped: no " + what);
        Assumptions.abort("skipped: no " + what);
    }

    /** Skips the long sweeps unless {@code PHALANX_EXHAUSTIVE} is set. */
    public static void exhaustive() {
        if (!"1".equals(System.getenv("PHALANX_EXHAUSTIVE"))) {
            System.out.println("skipped: exhaustive sweep (PHALANX_EXHAUSTIVE=1)");
            Assumptions.abort("skipped: exhaustive sweep (PHALANX_EXHAUSTIVE=1)");
        }
    }

    /** The result of a program: its exit code and its output. */
    public record Ran(int code, String out, String err) {
        /** Returns this, and fails the test if the program failed. */
        public Ran ok() {
            assertTrue(code == 0, () -> "exit code " + code + ": " + err);
            return this;
        }
    }

    /** Runs a program in a folder, with a keyring there. */
    public static Ran run(Path folder, List<String> command) throws IOException, InterruptedException {
        Path out = Files.createTempFile("phalanx-test", ".out");
        Path err = Files.createTempFile("phalanx-test", ".err");
        try {
            ProcessBuilder builder = new ProcessBuilder(new ArrayList<>(command));
            builder.directory(folder.toFile());
            builder.environment().remove("PHALANX_PASSWORD");
            builder.environment().put("PHALANX_KEYRING", folder.resolve("ring").toString());
            builder.redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()));
            builder.redirectOutput(out.toFile()).redirectError(err.toFile());
            Process process = builder.start();
            assertTrue(process.waitFor(10, TimeUnit.MINUTES), () -> "it hangs: " + command);
            return new Ran(process.exitValue(), Files.readString(out), Files.readString(err));
        } finally {
            Files.delete(out);
            Files.delete(err);
        }
    }
}
