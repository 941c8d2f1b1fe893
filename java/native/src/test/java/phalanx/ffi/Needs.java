package phalanx.ffi;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;

/** What tests need in addition to the JVM. If it is missing they say so, and fail if {@code PHALANX_REQUIRE} names it. */
final class Needs {
    private Needs() {}

    /** The library: the one that {@code PHALANX_LIBRARY} names, or the one that cargo has built. */
    static NativeLibrary library() {
        return NativeLibrary.at(libraryFile());
    }

    static Path libraryFile() {
        String named = System.getenv("PHALANX_LIBRARY");
        Path built = root().resolve("target").resolve("release").resolve(System.mapLibraryName("phalanx_capi"));
        Path file = named != null ? Path.of(named) : built;
        require("libphalanx", Files.isRegularFile(file));
        return file;
    }

    /** The folder of the project. */
    static Path root() {
        return Path.of("..", "..").toAbsolutePath().normalize();
    }

    /** Skips the test, with a message, if something is missing. */
    static void require(String what, boolean isThere) {
        if (!isThere) {
            List<String> required = List.of(System.getenv().getOrDefault("PHALANX_REQUIRE", "").split(","));
            assertFalse(required.contains(what), what + " is required, and missing");
            System.out.println("skipped: no " + what);
            Assumptions.abort("skipped: no " + what);
        }
    }

    /** A program that is in {@code PATH}. */
    static void program(String name) {
        List<String> folders = List.of(System.getenv("PATH").split(":"));
        require(name, folders.stream().anyMatch(folder -> Files.isExecutable(Path.of(folder, name))));
    }

    /** Runs a program in a folder, and returns what it prints. Fails the test unless it ends with this code. */
    static String run(int code, Path folder, Map<String, String> environment, String... command)
            throws IOException, InterruptedException {
        Path out = Files.createTempFile("phalanx-test", ".out");
        try {
            ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
            builder.environment().remove("LD_LIBRARY_PATH");
            builder.environment().putAll(environment);
            builder.redirectErrorStream(true).redirectOutput(out.toFile());
            Process process = builder.start();
            assertTrue(process.waitFor(10, TimeUnit.MINUTES), () -> "it hangs: " + List.of(command));
            String text = Files.readString(out);
            assertTrue(process.exitValue() == code, () -> "exit code " + process.exitValue() + ": " + text);
            return text;
        } finally {
            Files.delete(out);
        }
    }
}
