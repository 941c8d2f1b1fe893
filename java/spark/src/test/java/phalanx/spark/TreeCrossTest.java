package phalanx.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The program {@code phalanx} renews, checks and restores mirrors of the job, and the other way round. */
class TreeCrossTest extends Fixture {
    private Path program;
    private Path source;
    private Path mirror;

    /** The program that {@code PHALANX_PROGRAM} names, or the one that cargo has built. */
    @BeforeEach
    void makeSource() throws IOException {
        String named = System.getenv("PHALANX_PROGRAM");
        program = named != null ? Path.of(named) : Path.of("..", "..", "target", "release", "phalanx").toAbsolutePath();
        if (!Files.isExecutable(program)) {
            if (List.of(System.getenv().getOrDefault("PHALANX_REQUIRE", "").split(",")).contains("phalanx")) {
                Assertions.fail("phalanx is required, and missing");
            }
            System.out.println("skipped: no phalanx");
            Assumptions.abort("skipped: no phalanx");
        }
        source = Files.createDirectories(folder.resolve("source/a/deep")).getParent().getParent();
        mirror = folder.resolve("mirror");
        put("a/large", bytes((17 << 20) + 5));
        put("a/deep/small", bytes(1000));
        put("empty", new byte[0]);
        put("x.tmp", bytes(10));
        Files.createSymbolicLink(source.resolve("link"), Path.of("a/large"));
    }

    private void put(String name, byte[] bytes) throws IOException {
        Files.setLastModifiedTime(Files.write(source.resolve(name), bytes), FileTime.fromMillis(1_600_000_000_123L));
    }

    /** Runs the program, and returns what it says. */
    private String phalanx(String... args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(program.toString()));
        command.addAll(Arrays.asList(args));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(top.resolve("said").toFile());
        builder.environment().put("PHALANX_KEYRING", top.resolve("ring").toString());
        builder.environment().put("PHALANX_STATE", top.resolve("state").toString());
        Process process = builder.start();
        assertTrue(process.waitFor(10, TimeUnit.MINUTES), () -> "it hangs: " + command);
        String said = Files.readString(top.resolve("said"));
        assertEquals(0, process.exitValue(), said);
        return said;
    }

    @Test
    void phalanxTakesAMirrorOfTheJobForItsOwn() throws IOException, InterruptedException {
        succeed("mirror", "-k", "work", source.toString(), mirror.toString(), "--exclude", "*.tmp");
        phalanx("verify", "-R", mirror.toString(), "-k", "work");
        String same = phalanx("mirror", source.toString(), mirror.toString(), "-k", "work", "--exclude", "*.tmp");
        assertTrue(same.contains("0 files new, 4 unchanged"), same);
        Files.move(source.resolve("a/large"), source.resolve("moved"));
        put("empty", bytes(5));
        String renewed = phalanx("mirror", source.toString(), mirror.toString(), "-k", "work", "--exclude", "*.tmp", "--delete");
        assertTrue(renewed.contains("0 files new, 1 changed, 1 moved, 2 unchanged"), renewed);
        succeed("mirror", "-k", "work", source.toString(), mirror.toString(), "--exclude", "*.tmp");
        assertTrue(said.contains("0 files new, 4 unchanged"), said);
        succeed("verify", "-R", "-k", "work", mirror.toString());
        phalanx("unprotect", "-R", mirror.toString(), "-k", "work", "-o", top.resolve("restored").toString());
        assertEquals(-1, Files.mismatch(source.resolve("moved"), top.resolve("restored/moved")));
    }

    @Test
    void theJobRenewsAMirrorOfPhalanx() throws IOException, InterruptedException {
        phalanx("mirror", source.toString(), mirror.toString(), "-k", "work");
        succeed("verify", "-R", "--quick", "-k", "work", mirror.toString());
        succeed("mirror", "-k", "work", source.toString(), mirror.toString());
        assertTrue(said.contains("0 files new, 5 unchanged; 0.0 MB"), said);
        put("a/new", bytes(20));
        put("empty", bytes(21));
        Files.move(source.resolve("a/large"), source.resolve("a/deep/large"));
        Files.delete(source.resolve("x.tmp"));
        succeed("mirror", "-k", "work", source.toString(), mirror.toString(), "--delete");
        assertTrue(said.contains("1 file new, 1 changed, 1 moved, 1 deleted, 2 unchanged"), said);
        phalanx("verify", "-R", mirror.toString(), "-k", "work");
        String same = phalanx("mirror", source.toString(), mirror.toString(), "-k", "work");
        assertTrue(same.contains("0 files new, 5 unchanged"), same);
        succeed("protect", "-R", "-k", "work", source.toString());
        phalanx("verify", "-R", source + ".phx", "-k", "work");
    }
}
