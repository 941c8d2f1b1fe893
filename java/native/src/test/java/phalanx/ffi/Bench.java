package phalanx.ffi;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import phalanx.KeyProvider;
import phalanx.Keyring;
import phalanx.Message;
import phalanx.Messages;
import phalanx.PhalanxKey;
import phalanx.Protector;
import phalanx.Recipients;
import phalanx.Suite;
import phalanx.Unprotector;

/**
 * Times of the native path beside those of Rust and of the pure Java library, in one run. Each round measures every row once, one after
 * another. The guide says how to run it.
 */
public final class Bench {
    private static final int FILE = 256 << 20;
    private static final int MESSAGES = 10_000;
    private static final int MESSAGE = 256;

    private final Map<String, Row> rows = new LinkedHashMap<>();
    private final Map<String, List<Double>> times = new LinkedHashMap<>();
    private final Path folder;
    private final Path program;
    private final PhalanxKey key = PhalanxKey.random();

    private interface Row {
        void run() throws IOException, InterruptedException;
    }

    private Bench(Path folder, Path program) {
        this.folder = folder;
        this.program = program;
    }

    /** Arguments: the program phalanx; rounds to warm up, and rounds to measure, 5 and 15 by default; files or messages, or else both. */
    public static void main(String[] args) throws IOException, InterruptedException {
        int warm = args.length > 1 ? Integer.parseInt(args[1]) : 5;
        int rounds = args.length > 2 ? Integer.parseInt(args[2]) : 15;
        System.out.printf("%s %s, %d processors, load %.1f, %d rounds%n", System.getProperty("java.vm.name"),
                System.getProperty("java.vm.version"), Runtime.getRuntime().availableProcessors(),
                ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage(), rounds);
        Path memory = Path.of("/dev/shm");
        Path folder = Files.createTempDirectory(Files.isDirectory(memory) ? memory : Path.of("."), "phalanx-bench");
        try {
            Bench bench = new Bench(folder, Path.of(args[0]).toAbsolutePath());
            String part = args.length > 3 ? args[3] : "";
            if (!part.equals("messages")) {
                bench.files();
            }
            if (!part.equals("files")) {
                bench.messages();
            }
            bench.all(warm, rounds);
        } finally {
            try (Stream<Path> files = Files.walk(folder)) {
                files.sorted(java.util.Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
            }
        }
        System.exit(0);
    }

    private void all(int warm, int rounds) throws IOException, InterruptedException {
        for (int i = 0; i < warm + rounds; i++) {
            for (Map.Entry<String, Row> row : rows.entrySet()) {
                long begun = System.nanoTime();
                row.getValue().run();
                double ms = (System.nanoTime() - begun) / 1e6;
                if (i >= warm) {
                    times.computeIfAbsent(row.getKey(), name -> new ArrayList<>()).add(ms);
                }
            }
        }
        times.forEach((name, all) -> System.out.printf(Locale.ROOT, "%-40s %9.2f ms (%.2f to %.2f)%n", name, median(all),
                all.stream().min(Double::compare).orElseThrow(), all.stream().max(Double::compare).orElseThrow()));
        for (String what : List.of("protect", "unprotect", "seal", "open")) {
            if (times.containsKey(what + ", Rust")) {
                ratio(what, "Rust", "native");
                ratio(what, "pure Java", "native");
            }
        }
        System.out.printf("load %.1f%n", ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage());
    }

    private void files() throws IOException {
        Keyring.in(folder.resolve("ring")).store("work", key);
        byte[] bytes = new byte[FILE];
        new Random(1).nextBytes(bytes);
        Path in = Files.write(folder.resolve("in"), bytes);
        Path sealed = folder.resolve("in.phx");
        Path out = folder.resolve("out");
        NativeWays ways = NativeWays.of(key);
        NativeProtector protector = new NativeProtector(ways).replacing().withoutSync();
        NativeUnprotector unprotector = new NativeUnprotector(ways).replacing().withoutSync();
        Protector pure = new Protector(Recipients.of(key)).replacing().withoutSync();
        Unprotector pureBack = new Unprotector(KeyProvider.of(key)).replacing().withoutSync();
        rows.put("protect, Rust", () -> command("protect", "--key", "work", "--output", "in.phx", "in"));
        rows.put("protect, native", () -> protector.protect(in, sealed));
        rows.put("protect, pure Java", () -> pure.protect(in, sealed));
        rows.put("unprotect, Rust", () -> command("unprotect", "--key", "work", "--output", "out", "in.phx"));
        rows.put("unprotect, native", () -> unprotector.unprotect(sealed, out));
        rows.put("unprotect, pure Java", () -> pureBack.unprotect(sealed, out));
        ByteBuffer direct = ByteBuffer.allocateDirect(1 << 20);
        ByteBuffer heap = ByteBuffer.allocate(1 << 20);
        rows.put("read in order, native, direct buffer", () -> read(sealed, ways, direct));
        rows.put("read in order, native, array", () -> read(sealed, ways, heap));
    }

    private static void read(Path sealed, NativeWays ways, ByteBuffer buffer) throws IOException {
        try (NativeFile file = NativeFile.open(sealed, ways)) {
            for (long at = 0; file.read(at, buffer.clear()) > 0; at += buffer.position()) {}
        }
    }

    private void command(String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(program.toString(), arguments[0], "--quiet", "--no-sync", "--force"));
        command.addAll(Arrays.asList(arguments).subList(1, arguments.length));
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile()).inheritIO();
        builder.environment().put("PHALANX_KEYRING", folder.resolve("ring").toString());
        if (builder.start().waitFor() != 0) {
            throw new IOException(command + " failed");
        }
    }

    /** Rust is the call of the library alone, on messages that lie in native memory already. */
    private void messages() throws IOException {
        Random random = new Random(2);
        List<Message> plain = new ArrayList<>();
        for (int i = 0; i < MESSAGES; i++) {
            byte[] text = new byte[MESSAGE];
            random.nextBytes(text);
            plain.add(new Message(PhalanxKey.random(), text));
        }
        Suite suite = Suite.AES_256_CTR_SHA3;
        NativeMessages messages = new NativeMessages(suite);
        Messages pure = new Messages(suite);
        List<byte[]> contents = messages.seal(plain);
        List<Message> sealed = new ArrayList<>();
        for (int i = 0; i < MESSAGES; i++) {
            sealed.add(new Message(plain.get(i).key(), contents.get(i)));
        }
        rows.put("seal, Rust", alone(plain, suite, true));
        rows.put("seal, native", () -> messages.seal(plain));
        rows.put("seal, pure Java", () -> pure.seal(plain));
        rows.put("open, Rust", alone(sealed, suite, false));
        rows.put("open, native", () -> messages.open(sealed));
        rows.put("open, pure Java", () -> pure.open(sealed));
    }

    private static Row alone(List<Message> list, Suite suite, boolean seals) {
        Batch batch = new Batch(list.toArray(Message[]::new), suite.overhead(), seals);
        Arena arena = Arena.ofAuto();
        MemorySegment memory = arena.allocate(batch.bytes(), 64);
        batch.write(memory);
        Calls calls = NativeLibrary.usual().calls();
        MemorySegment keys = batch.keys(memory);
        MemorySegment ads = batch.associatedData(memory, arena);
        MemorySegment contents = batch.contents(memory, arena);
        MemorySegment results = batch.results(memory);
        MemorySegment verdicts = batch.verdicts(memory);
        long count = batch.count();
        long length = batch.resultBytes();
        return () -> {
            if (seals) {
                calls.run(() -> (MemorySegment) calls.sealEach.invokeExact(
                        MemorySegment.NULL, keys, count, ads, contents, results, length));
            } else {
                calls.run(() -> (MemorySegment) calls.openEach.invokeExact(
                        MemorySegment.NULL, keys, count, ads, contents, results, length, verdicts));
            }
        };
    }

    private static double median(List<Double> all) {
        double[] sorted = all.stream().mapToDouble(Double::doubleValue).sorted().toArray();
        return sorted[sorted.length / 2];
    }

    /** The median of the rounds' ratios: more than 1 means that the second one is faster. */
    private void ratio(String what, String first, String second) {
        List<Double> a = times.get(what + ", " + first);
        List<Double> b = times.get(what + ", " + second);
        List<Double> ratios = new ArrayList<>();
        for (int i = 0; i < a.size(); i++) {
            ratios.add(a.get(i) / b.get(i));
        }
        System.out.printf(Locale.ROOT, "%s: %s is %.2f of the speed of %s%n", what, second, median(ratios), first);
    }
}
