package phalanx.cluster;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The installed command, with MPJ Express. */
class MpjIT {
    private static final Path JAR = Path.of("target", "phalanx-cluster.jar").toAbsolutePath();
    private static final Path LIBRARY = Path.of("..", "phalanx", "target", "phalanx.jar").toAbsolutePath().normalize();
    private static final String JAVA = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    private static final List<String> DEVICES = List.of("multicore", "niodev");

    @TempDir
    Path folder;

    @BeforeEach
    void key() throws IOException {
        if (Installed.find(System.getenv()).isEmpty()) {
            skip("mpj");
        }
        byte[] key = new byte[32];
        new Random(1).nextBytes(key);
        Files.write(at("key"), key);
        Files.setPosixFilePermissions(at("key"), PosixFilePermissions.fromString("rw-------"));
    }

    private static void skip(String what) {
        List<String> required = List.of(System.getenv().getOrDefault("PHALANX_REQUIRE", "").split(","));
        assertFalse(required.contains(what), "PHALANX_REQUIRE names " + what);
        System.out.println("skipped: no " + what);
        assumeTrue(false, "no " + what);
    }

    private Path at(String name) {
        return folder.resolve(name);
    }

    private void file(String name, int length) throws IOException {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        Files.write(at(name), bytes);
    }

    /** A file of zeros that takes no space. It is long enough that a job does not end before it is disturbed. */
    private void sparse(String name, long length) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(at(name).toFile(), "rw")) {
            file.setLength(length);
        }
    }

    private static void awaitEnd(List<ProcessHandle> processes) throws Exception {
        for (ProcessHandle process : processes) {
            process.onExit().get(60, TimeUnit.SECONDS);
        }
    }

    private Set<String> names() throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.map(path -> path.getFileName().toString()).collect(Collectors.toSet());
        }
    }

    private record Ended(int code, String text) {}

    private Process start(List<String> command) throws IOException {
        File text = at("text").toFile();
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
        builder.environment().remove("PHALANX_PASSWORD");
        return builder.redirectErrorStream(true).redirectOutput(text).start();
    }

    private Ended end(Process process) throws Exception {
        assertTrue(process.waitFor(120, TimeUnit.SECONDS), "it does not end");
        String text = Files.readString(at("text"), StandardCharsets.UTF_8);
        Files.delete(at("text"));
        return new Ended(process.exitValue(), text);
    }

    private Ended run(String... command) throws Exception {
        return end(start(List.of(command)));
    }

    private static List<String> launch(int ranks, String device, String line) {
        List<String> command = new ArrayList<>(List.of(JAVA, "-jar", JAR.toString(), "-np", Integer.toString(ranks)));
        command.addAll(List.of("-dev", device));
        command.addAll(List.of(line.split(" ")));
        return command;
    }

    private Ended ranks(int ranks, String device, String line) throws Exception {
        return end(start(launch(ranks, device, line)));
    }

    /** The command in Rust: the named one, or the last one built. */
    private static Optional<Path> phalanx() {
        String named = System.getenv("PHALANX_PROGRAM");
        if (named != null) {
            return Optional.of(Path.of(named));
        }
        return Stream.of("release", "debug").map(kind -> Path.of("..", "..", "target", kind, "phalanx").toAbsolutePath())
                .filter(Files::isExecutable).findFirst();
    }

    @Test
    void filesRoundTripWithAnyNumberOfRanksAndOpenInRust() throws Exception {
        int chunk = 1 << 20;
        List<Integer> lengths = List.of(0, 1, chunk - 1, chunk, chunk + 1, 7 * chunk + 5);
        for (int length : lengths) {
            file("f" + length, length);
        }
        String plain = lengths.stream().map(length -> " f" + length).collect(Collectors.joining());
        String sealed = lengths.stream().map(length -> " f" + length + ".phx").collect(Collectors.joining());
        Files.createDirectory(at("back"));
        for (String device : DEVICES) {
            for (int n : List.of(1, 2, 5)) {
                Ended ended = ranks(n, device, "protect -f -v --threads 2 --key-file key" + plain);
                assertEquals(0, ended.code, ended.text);
                assertTrue(ended.text.contains("protected 6 files"), ended.text);
                assertEquals(n, ended.text.split(" s at work, ", -1).length - 1, ended.text);
                if (phalanx().isPresent()) {
                    List<String> command = new ArrayList<>(List.of(phalanx().get().toString(), "unprotect", "-f"));
                    command.addAll(List.of("--key-file", "key", "--output-dir", "back"));
                    command.addAll(List.of(sealed.strip().split(" ")));
                    ended = end(start(command));
                    assertEquals(0, ended.code, ended.text);
                    checkBack(lengths);
                }
            }
            if (phalanx().isPresent()) {
                List<String> command = new ArrayList<>(List.of(phalanx().get().toString(), "protect", "-f"));
                command.addAll(List.of("--key-file", "key"));
                command.addAll(List.of(plain.strip().split(" ")));
                Ended ended = end(start(command));
                assertEquals(0, ended.code, ended.text);
            }
            Ended ended = ranks(3, device, "verify --key-file key" + sealed);
            assertEquals(0, ended.code, ended.text);
            assertEquals(6, ended.text.split("whole and authentic", -1).length - 1, ended.text);
            ended = ranks(4, device, "unprotect -f --key-file key --output-dir back" + sealed);
            assertEquals(0, ended.code, ended.text);
            checkBack(lengths);
        }
        if (phalanx().isEmpty()) {
            skip("phalanx");
        }
    }

    private void checkBack(List<Integer> lengths) throws IOException {
        for (int length : lengths) {
            assertArrayEquals(Files.readAllBytes(at("f" + length)), Files.readAllBytes(at("back/f" + length)));
            Files.delete(at("back/f" + length));
        }
    }

    @Test
    void failuresOfOneRankLeaveNothingAndSetTheCode() throws Exception {
        file("plain", 6 << 20);
        Set<String> before = names();
        for (String device : DEVICES) {
            // Only the last ranks reach bytes that the system does not let them write.
            List<String> command = new ArrayList<>(List.of("bash", "-c", "ulimit -f 4096; exec \"$@\"", "bash"));
            command.addAll(launch(3, device, "protect --key-file key plain"));
            Ended full = end(start(command));
            assertEquals(4, full.code, full.text);
            assertTrue(full.text.contains("plain: cannot write: ") && full.text.contains("(rank 2)"), full.text);
            assertFalse(full.text.contains("(rank 0)"), full.text);
            assertEquals(before, names());

            assertEquals(0, ranks(2, device, "protect --key-file key plain").code);
            byte[] bytes = Files.readAllBytes(at("plain.phx"));
            bytes[bytes.length - 1] ^= 1;
            Files.write(at("bad.phx"), bytes);
            Ended damaged = ranks(3, device, "unprotect --key-file key bad.phx");
            assertEquals(3, damaged.code, damaged.text);
            assertTrue(damaged.text.contains("bad.phx: damaged in chunk 5") && damaged.text.contains("(rank 2)"), damaged.text);
            assertEquals(4, ranks(2, device, "protect --key-file key plain").code);
            assertEquals(2, ranks(2, device, "protect --bogus plain").code);
            Files.delete(at("bad.phx"));
            Files.delete(at("plain.phx"));
            assertEquals(before, names());
        }
    }

    @Test
    void aKilledRankEndsTheJobAndNothingHasTheName() throws Exception {
        sparse("plain", 1L << 30);
        Set<String> before = names();
        Process job = start(launch(3, "niodev", "protect --no-sync --key-file key plain"));
        while (job.isAlive() && names().stream().noneMatch(name -> name.endsWith(".tmp"))) {
            Thread.sleep(5);
        }
        List<ProcessHandle> ranks = job.children().toList();
        assertEquals(3, ranks.size(), "the job was over before a rank could be killed");
        // Rank 0 removes unfinished files, so another rank is killed.
        ProcessHandle victim = ranks.stream().filter(rank -> argument(rank, "1")).findFirst().orElseThrow();
        victim.destroyForcibly();
        Ended ended = end(job);
        assertNotEquals(0, ended.code, ended.text);
        assertTrue(ended.text.contains("a rank ended with status 137"), ended.text);
        awaitEnd(ranks);
        assertEquals(before, names());
    }

    private static boolean argument(ProcessHandle process, String rank) {
        List<String> arguments = Arrays.asList(process.info().arguments().orElse(new String[0]));
        int main = arguments.indexOf("phalanx.cluster.mpj.Rank");
        return main >= 0 && arguments.get(main + 1).equals(rank);
    }

    @Test
    void noSecretIsInArgumentsAndRanksEndWithTheLauncher() throws Exception {
        sparse("plain", 1L << 30);
        Process job = start(launch(2, "niodev", "protect --no-sync --key-file key plain"));
        while (job.isAlive() && names().stream().noneMatch(name -> name.endsWith(".tmp"))) {
            Thread.sleep(5);
        }
        List<ProcessHandle> ranks = job.children().toList();
        assertEquals(2, ranks.size());
        job.destroyForcibly();
        awaitEnd(ranks);
        assertFalse(names().contains("plain.phx"));
        assertTrue(names().stream().noneMatch(name -> name.endsWith(".tmp")), names().toString());
    }

    @Test
    void mpjrunStartsItToo() throws Exception {
        Installed mpj = Installed.find(System.getenv()).orElseThrow();
        file("plain", 3 << 20);
        List<Path> jars = Stream.of("starter", "runtimecommon").map(name -> mpj.home().resolve("lib/" + name + ".jar"))
                .collect(Collectors.toList());
        jars.add(mpj.log4j());
        jars.add(Path.of("/usr/share/java/commons-cli.jar"));
        jars.add(Path.of("/usr/share/java/commons-codec.jar"));
        jars.add(Path.of("/usr/share/java/commons-io.jar"));
        List<String> command = new ArrayList<>(List.of(JAVA, "-cp", Installed.joined(jars), "runtime.starter.MPJRun"));
        command.addAll(List.of("-np", "3", "-Xbootclasspath/a:" + mpj.log4j()));
        command.addAll(List.of("-cp", Installed.joined(List.of(JAR, LIBRARY)), "phalanx.cluster.mpj.Rank"));
        command.addAll(List.of("protect", "--key-file", "key", "plain"));
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
        builder.environment().put("MPJ_HOME", mpj.home().toString());
        Ended ended = end(builder.redirectErrorStream(true).redirectOutput(at("text").toFile()).start());
        assertTrue(ended.text.contains("protected 1 file") && ended.text.contains("3 ranks"), ended.text);
        assertEquals(0, ranks(2, "multicore", "verify --key-file key plain.phx").code);
    }

    @Test
    void withoutMpjItSaysSo() throws Exception {
        ProcessBuilder builder = new ProcessBuilder(launch(2, "niodev", "verify x")).directory(folder.toFile());
        builder.environment().put("MPJ_HOME", "/nowhere");
        Ended ended = end(builder.redirectErrorStream(true).redirectOutput(at("text").toFile()).start());
        assertTrue(ended.code == 1 && ended.text.contains("there is no MPJ Express"), ended.text);
        Ended usage = run(JAVA, "-jar", JAR.toString(), "--help");
        assertTrue(usage.code == 0 && usage.text.contains("-np N") && usage.text.contains("--cipher"), usage.text);
        for (String wrong : List.of("-np 0 verify x", "-np", "-dev gm verify x", "-bogus 1 verify x")) {
            List<String> command = new ArrayList<>(List.of(JAVA, "-jar", JAR.toString()));
            command.addAll(List.of(wrong.split(" ")));
            assertEquals(2, end(start(command)).code, wrong);
        }
    }
}
