package phalanx.cluster;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import phalanx.Header;
import phalanx.Slot;

/** The command with threads as ranks, which also works without MPJ Express. */
class CommandTest {
    @TempDir
    Path folder;

    @BeforeEach
    void key() throws IOException {
        byte[] key = new byte[32];
        new Random(1).nextBytes(key);
        secret("key", key);
    }

    private void secret(String name, byte[] bytes) throws IOException {
        Files.write(at(name), bytes);
        Files.setPosixFilePermissions(at(name), PosixFilePermissions.fromString("rw-------"));
    }

    private Path at(String name) {
        return folder.resolve(name);
    }

    private void file(String name, int length) throws IOException {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        Files.write(at(name), bytes);
    }

    private Set<String> names() throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.map(path -> path.getFileName().toString()).collect(Collectors.toSet());
        }
    }

    /** The ranks of one process. */
    private static final class Threads {
        private final CyclicBarrier barrier;
        private final long[] numbers;
        private byte[] message;

        Threads(int size) {
            barrier = new CyclicBarrier(size);
            numbers = new long[size];
        }

        World rank(int rank) {
            return new World() {
                @Override
                public int rank() {
                    return rank;
                }

                @Override
                public int size() {
                    return numbers.length;
                }

                @Override
                public byte[] broadcast(byte[] mine) {
                    if (rank == 0) {
                        message = mine;
                    }
                    await();
                    byte[] copy = rank == 0 ? mine : message.clone();
                    await();
                    return copy;
                }

                @Override
                public long largest(long mine) {
                    numbers[rank] = mine;
                    await();
                    long largest = Arrays.stream(numbers).max().orElseThrow();
                    await();
                    return largest;
                }

                private void await() {
                    try {
                        barrier.await();
                    } catch (Exception e) {
                        throw new IllegalStateException(e);
                    }
                }
            };
        }
    }

    private record Ended(int code, String out, String err) {}

    private String[] words(String line) {
        return Arrays.stream(line.split(" "))
                .map(word -> word.startsWith("/") ? at(word.substring(1)).toString() : word).toArray(String[]::new);
    }

    /** Runs a command in a separate process. The password in its environment is what printf makes of {@code password}. */
    private Ended withPassword(String password, String line) throws Exception {
        List<String> command = new ArrayList<>(List.of(
                "sh", "-c", "PHALANX_PASSWORD=$(printf \"$0\"); export PHALANX_PASSWORD; exec \"$@\"", password,
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp", System.getProperty("java.class.path"), OneRank.class.getName()));
        command.addAll(List.of(words(line)));
        Path out = at("said");
        Path err = at("complained");
        Process process = new ProcessBuilder(command).redirectOutput(out.toFile()).redirectError(err.toFile()).start();
        assertTrue(process.waitFor(5, TimeUnit.MINUTES), "it hangs");
        return new Ended(process.exitValue(), Files.readString(out), Files.readString(err));
    }

    private long passwordsOf(String name) throws IOException {
        try (InputStream in = Files.newInputStream(at(name))) {
            return Header.read(in).slots().stream().filter(slot -> slot instanceof Slot.OfPassword).count();
        }
    }

    /** Runs a command. Words that name files of the folder begin with a slash. */
    private Ended run(int ranks, String line) throws Exception {
        String[] args = words(line);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        Threads threads = new Threads(ranks);
        ExecutorService executor = Executors.newFixedThreadPool(ranks);
        try {
            List<Future<Integer>> codes = new ArrayList<>();
            for (int i = 0; i < ranks; i++) {
                World world = threads.rank(i);
                PrintStream to = new PrintStream(out, true, StandardCharsets.UTF_8);
                PrintStream errors = new PrintStream(err, true, StandardCharsets.UTF_8);
                codes.add(executor.submit(() -> new Command(world, to, errors).run(args)));
            }
            int code = codes.get(0).get();
            for (Future<Integer> other : codes) {
                assertEquals(code, other.get(), "all ranks end with the same code");
            }
            return new Ended(code, out.toString(StandardCharsets.UTF_8), err.toString(StandardCharsets.UTF_8));
        } finally {
            executor.shutdownNow();
        }
    }

    @Test
    void filesRoundTrip() throws Exception {
        int chunk = 1 << 20;
        List<Integer> lengths = List.of(0, 1, chunk - 1, chunk, chunk + 1, 4 * chunk + 5);
        StringBuilder plain = new StringBuilder();
        StringBuilder sealed = new StringBuilder();
        for (int length : lengths) {
            file("f" + length, length);
            plain.append(" /f").append(length);
            sealed.append(" /f").append(length).append(".phx");
        }
        Files.createDirectory(at("back"));
        for (int ranks : List.of(1, 3, 4)) {
            Ended ended = run(ranks, "protect -f --threads 2 --key-file /key" + plain);
            assertEquals(0, ended.code, ended.err);
            assertTrue(ended.err.contains("protected 6 files"), ended.err);
            ended = run(5 - ranks, "verify --key-file /key" + sealed);
            assertEquals(0, ended.code, ended.err);
            assertEquals(6, ended.out.split("whole and authentic", -1).length - 1, ended.out);
            ended = run(ranks, "unprotect -f --key-file /key --output-dir /back" + sealed);
            assertEquals(0, ended.code, ended.err);
            for (int length : lengths) {
                assertArrayEquals(Files.readAllBytes(at("f" + length)), Files.readAllBytes(at("back/f" + length)));
            }
            // Chunks of 4096 bytes.
            ended = run(ranks, "protect -f --cipher aes-256-turbo --chunk-size 12 --key-file /key /f" + (chunk + 1));
            assertEquals(0, ended.code, ended.err);
            assertEquals(0, run(2, "verify --key-file /key /f" + (chunk + 1) + ".phx").code);
        }
    }

    @Test
    void aFailureOnAnyRankLeavesNothing() throws Exception {
        file("good", 5 << 20);
        file("other", 100);
        assertEquals(0, run(2, "protect --key-file /key /good /other").code);
        byte[] bytes = Files.readAllBytes(at("good.phx"));
        Set<String> before = names();
        for (int place : List.of(5000, bytes.length / 2, bytes.length - 1)) {
            byte[] bad = bytes.clone();
            bad[place] ^= 4;
            Files.write(at("good.phx"), bad);
            Files.createDirectory(at("back"));
            Ended ended = run(3, "unprotect --key-file /key --output-dir /back /good.phx /other.phx");
            assertEquals(3, ended.code, ended.err);
            assertTrue(ended.err.contains("good.phx: damaged in chunk") && ended.err.contains("1 failed"), ended.err);
            // The other file is done.
            assertEquals(List.of("other"), Arrays.asList(at("back").toFile().list()));
            Files.delete(at("back/other"));
            Files.delete(at("back"));
            assertEquals(3, run(3, "verify --key-file /key /good.phx").code);
            assertEquals(before, names());
        }
        Files.write(at("good.phx"), Arrays.copyOf(bytes, bytes.length - 100));
        assertEquals(3, run(3, "unprotect -f --key-file /key /good.phx").code);
        assertEquals(before, names());
    }

    @Test
    void onlyANamedKeyIsTried() throws Exception {
        // Not UTF-8: the bytes count.
        String password = "p\\344";
        file("plain", 100);
        Ended ended = withPassword(password, "protect -q --key-file /key /plain");
        assertEquals(0, ended.code, ended.err);
        assertEquals("phalanx-cluster: warning: PHALANX_PASSWORD is set but not used, since a key was given"
                + " (--password-file adds one)\n", ended.err);
        assertEquals(0, passwordsOf("plain.phx"));
        // A user who opens a file with a key need not be warned.
        ended = withPassword(password, "verify --key-file /key /plain.phx");
        assertTrue(ended.code == 0 && ended.err.isEmpty(), ended.err);

        ended = withPassword(password, "protect -q --output /other.phx /plain");
        assertTrue(ended.code == 0 && ended.err.isEmpty(), ended.err);
        assertEquals(1, passwordsOf("other.phx"));
        secret("password", new byte[] {'p', (byte) 0xe4});
        assertEquals(0, run(2, "verify --password-file /password /other.phx").code);
        assertEquals(0, withPassword(password, "verify /other.phx").code);
        // The password would open it, but another key was named.
        assertEquals(3, withPassword(password, "verify --key-file /key /other.phx").code);
    }

    @Test
    void namesAreShownWithoutControlCharacters() throws Exception {
        String name = "plain\u001b[2J";
        file(name, 10);
        assertEquals(0, run(2, "protect --key-file /key /" + name).code);
        Ended ended = run(2, "verify --key-file /key /" + name + ".phx");
        assertTrue(ended.code == 0 && ended.out.contains("plain\\u{1b}[2J.phx: 10 bytes"), ended.out);
        assertFalse(ended.out.contains("\u001b"));
        for (String line : List.of("verify --key-file /key /" + name, "verify --key-file /" + name + " /key",
                "protect --key-file /key /" + name, "verify --bo\u001bgus /key", "verify --key-file /key /no\u001b")) {
            Ended wrong = run(2, line);
            assertTrue(wrong.code != 0 && !wrong.err.contains("\u001b") && !wrong.err.isEmpty(), wrong.err);
        }
    }

    /** A key, another output, and an input that is still to be read. */
    @Test
    void noOutputReplacesWhatIsNeeded() throws Exception {
        for (String name : List.of("a", "b", "out")) {
            Files.createDirectory(at(name));
        }
        file("data", 100);
        file("a/x", 101);
        file("b/x", 102);
        secret("password", new byte[] {'p'});
        assertEquals(0, run(1, "protect --key-file /key /data").code);
        assertEquals(0, run(1, "protect --key-file /key /data.phx").code);
        Map<String, byte[]> before = contents();
        for (List<String> refused : List.of(
                List.of("protect --key-file /key -o /key -f /data", "key: it holds a key or password, which no output replaces"),
                List.of("protect --password-file /password -o /password -f /data", "password: it holds a key or password"),
                List.of("protect -f --key-file /key --output-dir /out /a/x /b/x", "x.phx: it would be the output of both"),
                List.of("unprotect -f --key-file /key /data.phx.phx /data.phx", "data.phx: it is an input, and would be the output of"))) {
            Ended ended = run(2, refused.get(0));
            assertEquals(2, ended.code, ended.err);
            assertTrue(ended.err.contains(refused.get(1)), ended.err);
            Map<String, byte[]> after = contents();
            assertEquals(before.keySet(), after.keySet());
            before.forEach((name, bytes) -> assertArrayEquals(bytes, after.get(name), name));
        }
    }

    private Map<String, byte[]> contents() throws IOException {
        Map<String, byte[]> all = new TreeMap<>();
        try (Stream<Path> paths = Files.walk(folder)) {
            for (Path path : paths.filter(Files::isRegularFile).toList()) {
                all.put(path.toString(), Files.readAllBytes(path));
            }
        }
        return all;
    }

    @Test
    void errorsAreOneLineOfOneRank() throws Exception {
        file("plain", 100);
        Set<String> before = names();
        record Case(int code, String line, String words) {}
        for (Case wrong : List.of(
                new Case(2, "protect /plain", "no key given"),
                new Case(2, "protect --bogus /plain", "no option --bogus"),
                new Case(2, "seal /plain", "no command seal"),
                new Case(2, "protect --threads 0 --key-file /key /plain", "a number from 1 to 1024"),
                new Case(2, "protect --key-file /key -", "standard input"),
                new Case(4, "protect --key-file /missing /plain", "no such file"),
                new Case(4, "protect --key-file /key /missing", "missing: no such file"),
                new Case(4, "protect --key-file /key /plain --output /nowhere/x", "no such file"),
                new Case(4, "unprotect --key-file /key /plain", "name an --output"),
                new Case(3, "verify --key-file /key /plain", "plain: "))) {
            Ended ended = run(3, wrong.line);
            assertEquals(wrong.code, ended.code, wrong.line + ": " + ended.err);
            assertTrue(ended.err.contains(wrong.words), wrong.line + ": " + ended.err);
            assertEquals(1, ended.err.strip().split("\n").length, ended.err);
            assertEquals(before, names());
        }
        assertEquals(0, run(2, "protect --key-file /key /plain").code);
        Ended again = run(2, "protect --key-file /key /plain");
        assertTrue(again.code == 4 && again.err.contains("use --force"), again.err);
    }
}
