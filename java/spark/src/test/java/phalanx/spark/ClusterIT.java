package phalanx.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import phalanx.KeyProvider;
import phalanx.Keyring;
import phalanx.PhalanxKey;
import phalanx.PhalanxTree;
import phalanx.Unprotector;

/**
 * The jar, as {@code spark-submit} runs it: drivers and executors in processes of their own, of which some are killed in the middle. A gate
 * holds their reads until the test lets them pass, so nothing depends on time.
 */
class ClusterIT {
    private static final Path JAR = Path.of("target", "phalanx-spark.jar").toAbsolutePath();
    private static final Path HOME = Path.of("target", "spark-home").toAbsolutePath();
    private static final int LARGE = (33 << 20) + 77;

    @TempDir
    Path top;

    private final byte[] plaintext = new byte[LARGE];
    private PhalanxKey key;
    private Path gate;
    private String input;

    @BeforeEach
    void prepare() throws IOException {
        key = PhalanxKey.random();
        Keyring.in(top.resolve("ring")).store("work", key);
        gate = Files.createDirectory(top.resolve("gate"));
        new Random(7).nextBytes(plaintext);
        Files.write(top.resolve("large"), plaintext);
        input = "test://" + top + "/large";
    }

    /** What a distribution of Spark has, as far as it is needed: its jars. */
    private static Path home() throws IOException {
        Path jars = Files.createDirectories(HOME.resolve("jars"));
        String classes = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        for (String each : classes.split(File.pathSeparator)) {
            Path jar = Path.of(each);
            boolean isOurs = each.contains("phalanx") || each.contains("junit") || each.contains("bouncycastle");
            if (each.endsWith(".jar") && !isOurs && !Files.exists(jars.resolve(jar.getFileName()))) {
                Files.createSymbolicLink(jars.resolve(jar.getFileName()), jar);
            }
        }
        return HOME;
    }

    private Process submit(String master, List<String> settings, String... args) throws IOException {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(Arrays.stream(System.getProperty("spark.opens").trim().split("\\s+")).toList());
        String tests = Path.of("target", "test-classes").toAbsolutePath().toString();
        command.addAll(List.of("-Xmx1g", "-cp", home().resolve("jars") + "/*:" + tests, "org.apache.spark.deploy.SparkSubmit", "--master", master));
        List<String> all = new ArrayList<>(List.of(
                "spark.ui.enabled=false", "spark.executor.extraClassPath=" + tests,
                "spark.hadoop.fs.phalanx.keyring=" + top.resolve("ring"), "spark.hadoop.fs.test.impl=" + TestFs.class.getName(),
                "spark.hadoop.fs.test.gate=" + gate));
        all.addAll(settings);
        all.forEach(setting -> command.addAll(List.of("--conf", setting)));
        command.add(JAR.toString());
        command.addAll(List.of(args));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(top.resolve("said").toFile());
        builder.environment().put("SPARK_HOME", HOME.toString());
        builder.environment().put("SPARK_SCALA_VERSION", "2.13");
        builder.environment().put("SPARK_LOCAL_IP", "127.0.0.1");
        builder.directory(top.toFile());
        return builder.start();
    }

    private String said() throws IOException {
        return Files.readString(top.resolve("said"));
    }

    private void assertDone(Process process, Path output) throws IOException, InterruptedException {
        assertEquals(0, process.waitFor(), said());
        Path again = top.resolve("again");
        new Unprotector(KeyProvider.of(key)).replacing().unprotect(output, again);
        assertArrayEquals(plaintext, Files.readAllBytes(again));
        try (var left = Files.list(output.getParent())) {
            assertEquals(List.of(), left.map(each -> each.getFileName().toString()).filter(name -> name.startsWith(".phalanx")).toList());
        }
    }

    @Test
    void anExecutorIsKilledInTheMiddle() throws IOException, InterruptedException {
        Path output = top.resolve("large.phx");
        Process driver = submit("local-cluster[2,1,1024]", List.of("spark.hadoop.fs.test.gate.from=1"),
                "protect", "-k", "work", "-o", output.toString(), input);
        try {
            Path first = firstOf(driver);
            ProcessHandle executor = ProcessHandle.of(Long.parseLong(Files.readString(first))).orElseThrow();
            executor.destroyForcibly();
            executor.onExit().join();
            assertFalse(Files.exists(output));
            Files.createFile(gate.resolve("open"));
            assertDone(driver, output);
        } finally {
            driver.destroyForcibly();
        }
    }

    /** The trace of whoever arrived first at the gate. */
    private Path firstOf(Process driver) throws IOException, InterruptedException {
        while (true) {
            try (var all = Files.list(gate)) {
                var found = all.filter(each -> each.getFileName().toString().startsWith("at-")).findFirst();
                if (found.isPresent()) {
                    return found.get();
                }
            }
            assertTrue(driver.isAlive(), said());
            driver.waitFor(10, TimeUnit.MILLISECONDS);
        }
    }

    /** How many parts the record has. */
    private int done(Path output) throws IOException {
        Record record = Record.read(
                new org.apache.hadoop.fs.Path("file://" + output), phalanx.Recipients.of(key), KeyProvider.of(key),
                new org.apache.hadoop.conf.Configuration(), maker -> {});
        return record == null ? 0 : record.done().size();
    }

    @Test
    void aKilledDriverLeavesNoOutputAndTheNextOneGoesOn() throws IOException, InterruptedException {
        Path output = top.resolve("large.phx");
        String[] args = {"protect", "--resume", "-k", "work", "-o", output.toString(), input};
        Process driver = submit("local[2]", List.of("spark.hadoop.fs.test.gate.from=" + (20 << 20)), args);
        try {
            // The last part waits at the gate.
            while (done(output) < 2) {
                assertTrue(driver.isAlive(), said());
                driver.waitFor(10, TimeUnit.MILLISECONDS);
            }
            assertFalse(Files.exists(output));
            driver.destroyForcibly().waitFor();
            Files.createFile(gate.resolve("open"));
            driver = submit("local[2]", List.of("spark.hadoop.fs.test.gate.from=0"), args);
            assertDone(driver, output);
            try (var passed = Files.list(gate)) {
                assertFalse(passed.anyMatch(each -> each.getFileName().toString().equals("at-0")), "the first part was done again");
            }
        } finally {
            driver.destroyForcibly();
        }
    }

    /** A folder with a large file, whose reads wait at the gate, and small ones. */
    private Path makeSource() throws IOException {
        Path source = Files.createDirectories(top.resolve("source/a"));
        Files.move(top.resolve("large"), source.resolve("large"));
        for (int i = 0; i < 20; i++) {
            Files.write(source.resolve("small" + i), new byte[i * 1000]);
        }
        return source.getParent();
    }

    private void assertMirrored(Path source, Path mirror) throws IOException {
        assertEquals(List.of(), new PhalanxTree(KeyProvider.of(key)).verify(mirror).findings(), said());
        Path again = top.resolve("again");
        new Unprotector(KeyProvider.of(key)).replacing().unprotect(mirror.resolve("a/large.phx"), again);
        assertArrayEquals(plaintext, Files.readAllBytes(again));
        try (var left = Files.walk(mirror)) {
            assertEquals(List.of(), left.filter(each -> each.getFileName().toString().startsWith(".phalanx")).toList());
        }
    }

    @Test
    void anExecutorOfAMirrorIsKilledInTheMiddle() throws IOException, InterruptedException {
        Path source = makeSource();
        Path mirror = top.resolve("mirror");
        Process driver = submit("local-cluster[2,1,1024]", List.of("spark.hadoop.fs.test.gate.from=1"),
                "mirror", "-k", "work", "test://" + source, mirror.toString());
        try {
            ProcessHandle executor = ProcessHandle.of(Long.parseLong(Files.readString(firstOf(driver)))).orElseThrow();
            executor.destroyForcibly();
            executor.onExit().join();
            assertFalse(Files.exists(mirror.resolve("phalanx.tree")));
            Files.createFile(gate.resolve("open"));
            assertEquals(0, driver.waitFor(), said());
            assertMirrored(source, mirror);
        } finally {
            driver.destroyForcibly();
        }
    }

    @Test
    void aKilledDriverOfAMirrorLeavesNoManifestAndTheNextOneCompletes() throws IOException, InterruptedException {
        Path source = makeSource();
        Path mirror = top.resolve("mirror");
        String[] args = {"mirror", "-k", "work", "test://" + source, mirror.toString()};
        Process driver = submit("local[2]", List.of("spark.hadoop.fs.test.gate.from=" + (20 << 20)), args);
        try {
            // The last part of the large file waits at the gate, and the others are done.
            while (done(mirror.resolve("a/large.phx")) < 2) {
                assertTrue(driver.isAlive(), said());
                driver.waitFor(10, TimeUnit.MILLISECONDS);
            }
            driver.destroyForcibly().waitFor();
            assertFalse(Files.exists(mirror.resolve("a/large.phx")));
            assertFalse(Files.exists(mirror.resolve("phalanx.tree")));
            Files.createFile(gate.resolve("open"));
            driver = submit("local[2]", List.of("spark.hadoop.fs.test.gate.from=0"), args);
            assertEquals(0, driver.waitFor(), said());
            assertMirrored(source, mirror);
            try (var passed = Files.list(gate)) {
                // Small files begin at 0, too. Of the large one only the last part has passed, in the first run.
                assertEquals(1, passed.filter(each -> !each.getFileName().toString().matches("open|at-0|arriving.*")).count());
            }
        } finally {
            driver.destroyForcibly();
        }
    }
}
