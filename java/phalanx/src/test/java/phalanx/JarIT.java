package phalanx;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The runnable jar. */
class JarIT {
    private static final long GIB = 1L << 30;

    @TempDir
    Path folder;

    @BeforeEach
    void prepare() throws IOException {
        Keyring.in(folder.resolve("ring")).store("work", PhalanxKey.random());
    }

    private static List<String> java(String heap, String... args) {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx" + heap,
                "-jar", Path.of("target", "phalanx.jar").toAbsolutePath().toString()));
        command.addAll(List.of(args));
        return command;
    }

    private Needs.Ran run(String... args) throws IOException, InterruptedException {
        return Needs.run(folder, java("256m", args));
    }

    @Test
    void protectsAndUnprotects() throws IOException, InterruptedException {
        assertEquals("phalanx " + System.getProperty("phalanx.version") + "\n", run("--version").ok().out());
        byte[] plaintext = new byte[3_000_000];
        new Random(1).nextBytes(plaintext);
        Files.write(folder.resolve("f"), plaintext);
        run("protect", "f", "--key", "work", "-t", "2").ok();
        assertEquals("f.phx: 3000000 bytes: whole and authentic\n", run("verify", "f.phx").ok().out());
        assertEquals(4, run("unprotect", "f.phx").code());
        run("unprotect", "f.phx", "--force").ok();
        assertEquals(-1, java.util.Arrays.mismatch(plaintext, Files.readAllBytes(folder.resolve("f"))));
        assertEquals(2, run().code());
        assertTrue(run("help", "protect").ok().out().contains("--chunk-size"));
    }

    /** A password slot that asks for more memory than the JVM has ends in a sentence. */
    @Test
    void tooLittleMemoryIsOneSentence() throws IOException, InterruptedException {
        Files.write(folder.resolve("f"), new byte[10]);
        Path secret = Files.write(folder.resolve("password"), new byte[] {'x'});
        Files.setPosixFilePermissions(secret, java.nio.file.attribute.PosixFilePermissions.fromString("rw-------"));
        Needs.Ran ran = Needs.run(folder, java("32m", "protect", "f", "--password-file", "password"));
        assertEquals(1, ran.code());
        assertEquals("phalanx: f: not enough memory: Argon2 needs 65536 KiB\n", ran.err());
        assertFalse(Files.exists(folder.resolve("f.phx")));
    }

    /** A run that is killed has no output under its name. SIGTERM lets it remove its temporary file too. */
    @Test
    void aKilledRunLeavesNothingUnderTheName() throws IOException, InterruptedException {
        try (RandomAccessFile file = new RandomAccessFile(folder.resolve("f").toFile(), "rw")) {
            file.setLength(8 * GIB);
        }
        for (boolean forcibly : new boolean[] {false, true}) {
            ProcessBuilder builder = new ProcessBuilder(java("256m", "protect", "f", "--key", "work", "-t", "1"));
            builder.environment().put("PHALANX_KEYRING", folder.resolve("ring").toString());
            Process process = builder.directory(folder.toFile()).inheritIO().start();
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
            while (temporaries() == 0 && System.nanoTime() < until) {
                Thread.sleep(20);
            }
            assertEquals(1, temporaries());
            if (forcibly) {
                process.destroyForcibly();
            } else {
                process.destroy();
            }
            assertTrue(process.waitFor(60, TimeUnit.SECONDS));
            assertFalse(process.exitValue() == 0);
            assertFalse(Files.exists(folder.resolve("f.phx")));
            assertEquals(forcibly ? 1 : 0, temporaries());
        }
    }

    private long temporaries() throws IOException {
        try (var files = Files.list(folder)) {
            return files.filter(path -> path.getFileName().toString().endsWith(".tmp")).count();
        }
    }

    /** 4 GiB pass through a JVM of 256 MB, in each direction, as a file and as a stream. */
    @Test
    void aLargeFileNeedsLittleMemory() throws IOException, InterruptedException {
        Needs.exhaustive();
        long length = 4 * GIB + 12345;
        try (RandomAccessFile file = new RandomAccessFile(folder.resolve("f").toFile(), "rw")) {
            file.setLength(length);
            file.seek(length - 3);
            file.write(new byte[] {1, 2, 3});
        }
        run("protect", "f", "--key", "work", "--no-sync").ok();
        Files.delete(folder.resolve("f"));
        assertEquals("f.phx: " + length + " bytes: whole and authentic\n", run("verify", "f.phx").ok().out());
        run("unprotect", "f.phx", "--no-sync").ok();
        try (RandomAccessFile file = new RandomAccessFile(folder.resolve("f").toFile(), "r")) {
            assertEquals(length, file.length());
            byte[] end = new byte[4];
            file.seek(length - 4);
            file.readFully(end);
            org.junit.jupiter.api.Assertions.assertArrayEquals(new byte[] {0, 1, 2, 3}, end);
        }
    }
}
