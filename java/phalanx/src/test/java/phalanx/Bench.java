package phalanx;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.bouncycastle.crypto.digests.SHA3Digest;
import phalanx.primitives.Sponge;

/**
 * Speeds compared with the JCE's, in one run. Each round measures every row once, so that a disturbance affects all of
 * them. The figures are medians of the rounds. The guide says how to run it.
 */
public final class Bench {
    private static final int CHUNK_LOG2 = 20;
    private static final int CHUNK = 1 << CHUNK_LOG2;
    private static final int SLICE = 4096;
    /** Bytes that a row works on in one round. */
    private static final int BYTES = 16 * CHUNK;

    private final Map<String, Row> rows = new LinkedHashMap<>();
    private final Map<String, List<Double>> speeds = new LinkedHashMap<>();

    private interface Row {
        void run() throws IOException, GeneralSecurityException;
    }

    /** With {@code -Dcpu=true}, the processor time of this thread, for a machine that does other work at the same time. */
    private static long now() {
        boolean ofThread = Boolean.getBoolean("cpu");
        return ofThread ? ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() : System.nanoTime();
    }

    private Bench() {}

    /** Arguments: rounds to warm up, and rounds to measure, 15 and 21 by default. */
    public static void main(String[] args) throws IOException, GeneralSecurityException {
        int warm = args.length > 0 ? Integer.parseInt(args[0]) : 15;
        int rounds = args.length > 1 ? Integer.parseInt(args[1]) : 21;
        System.out.printf("%s %s, %d processors, %s, medians of %d rounds%n", System.getProperty("java.vm.name"),
                System.getProperty("java.vm.version"), Runtime.getRuntime().availableProcessors(), Sponge.engine(), rounds);
        new Bench().all(warm, rounds);
    }

    private void all(int warm, int rounds) throws IOException, GeneralSecurityException {
        byte[] plain = new byte[BYTES];
        new Random(1).nextBytes(plain);
        primitives(plain);
        threads(plain);
        for (int i = 0; i < warm + rounds; i++) {
            for (Map.Entry<String, Row> row : rows.entrySet()) {
                long begun = now();
                row.getValue().run();
                double seconds = (now() - begun) / 1e9;
                if (i >= warm) {
                    speeds.computeIfAbsent(row.getKey(), name -> new ArrayList<>()).add(BYTES / 1e6 / seconds);
                }
            }
        }
        rows.keySet().forEach(name -> System.out.printf(Locale.ROOT, "%-44s %7.0f MB/s%n", name, median(name)));
        ratio("AES-CTR", "AES-CTR of a chunk", "JCE AES/CTR");
        ratio("suite 1, one thread", "suite 1, seal", "JCE AES/CTR, then JCE SHA3-256");
        ratio("suite 1, one thread", "suite 1, open", "JCE AES/CTR, then JCE SHA3-256");
        ratio("streams in memory", "suite 1, 2 threads, stream", "suite 1, 1 thread, stream");
        ratio("files in memory", "suite 1, 2 threads, file", "suite 1, 1 thread, file");
        ratio("SHA-3", "SHA3-256 of slices", "JCE SHA3-256");
        System.exit(0);
    }

    private void primitives(byte[] plain) throws GeneralSecurityException {
        byte[] work = plain.clone();
        byte[] out = new byte[BYTES];
        SecretKeySpec key = new SecretKeySpec(new byte[32], "AES");
        Cipher jce = Cipher.getInstance("AES/CTR/NoPadding");
        MessageDigest sha3 = MessageDigest.getInstance("SHA3-256");
        SHA3Digest bouncy = new SHA3Digest(256);
        Sponge sponge = Sponge.sha3();
        Sponge turbo = Sponge.turboShake(0x50);
        byte[] digests = new byte[CHUNK / SLICE * Sponge.DIGEST];
        rows.put("JCE AES/CTR", () -> jce(jce, key, plain, out));
        UnitCipher unit = new UnitCipher(Suite.AES_256_CTR_SHA3);
        rows.put("AES-CTR of a chunk", () -> {
            for (int at = 0; at < BYTES; at += CHUNK) {
                unit.ctr(key, work, 0, at, CHUNK);
            }
        });
        rows.put("JCE SHA3-256", () -> {
            sha3.update(plain);
            sha3.digest();
        });
        rows.put("Bouncy Castle SHA3-256", () -> {
            bouncy.update(plain, 0, BYTES);
            bouncy.doFinal(digests, 0);
        });
        rows.put("SHA3-256, one message", () -> sponge.hash(plain, 0, BYTES, digests, 0, 32));
        rows.put("SHA3-256 of slices", () -> each(at -> sponge.digests(plain, at, CHUNK, SLICE, digests)));
        rows.put("TurboSHAKE256 of slices", () -> each(at -> turbo.digests(plain, at, CHUNK, SLICE, digests)));
        rows.put("JCE AES/CTR, then JCE SHA3-256", () -> {
            jce(jce, key, plain, out);
            sha3.update(out);
            sha3.digest();
        });
        for (Suite suite : Suite.values()) {
            chunks(suite);
        }
    }

    private static void jce(Cipher jce, SecretKeySpec key, byte[] plain, byte[] out) throws GeneralSecurityException {
        jce.init(Cipher.ENCRYPT_MODE, key, new IvParameterSpec(new byte[16]));
        jce.doFinal(plain, 0, plain.length, out, 0);
    }

    private interface At {
        void chunk(int at);
    }

    private static void each(At step) {
        for (int at = 0; at < BYTES; at += CHUNK) {
            step.chunk(at);
        }
    }

    private void chunks(Suite suite) {
        FileKeys keys = FileKeys.ofFile(new byte[32], suite);
        ChunkCipher cipher = new ChunkCipher(keys, CHUNK_LOG2);
        byte[] chunk = new byte[CHUNK + suite.overhead()];
        byte[] sealed = chunk.clone();
        cipher.seal(sealed, 0, CHUNK, 0, true);
        rows.put("suite " + suite.number() + ", seal", () -> each(at -> cipher.seal(chunk, 0, CHUNK, 0, true)));
        rows.put("suite " + suite.number() + ", open", () -> {
            for (int at = 0; at < BYTES; at += CHUNK) {
                System.arraycopy(sealed, 0, chunk, 0, chunk.length);
                cipher.open(chunk, 0, CHUNK, 0, true);
            }
        });
    }

    /** A file in memory, if there is such a folder, protected by one thread and by two. */
    private void threads(byte[] plain) throws IOException {
        Path memory = Path.of("/dev/shm");
        Path folder = Files.createTempDirectory(Files.isDirectory(memory) ? memory : Path.of("."), "phalanx-bench");
        Path in = Files.write(folder.resolve("in"), plain);
        Path out = folder.resolve("out");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            for (Path path : List.of(in, out, folder)) {
                path.toFile().delete();
            }
        }));
        ExecutorService other = Executors.newFixedThreadPool(1);
        PhalanxKey key = PhalanxKey.random();
        Protector protector = new Protector(Recipients.of(key)).replacing().withoutSync();
        rows.put("suite 1, 1 thread, file", () -> protector.on(other, 1).protect(in, out));
        rows.put("suite 1, 2 threads, file", () -> protector.on(other, 2).protect(in, out));
        rows.put("suite 1, 1 thread, stream", () -> stream(protector.on(other, 1), plain));
        rows.put("suite 1, 2 threads, stream", () -> stream(protector.on(other, 2), plain));
        Files.deleteIfExists(out);
    }

    private static void stream(Protector protector, byte[] plain) throws IOException {
        try (InputStream in = new java.io.ByteArrayInputStream(plain)) {
            protector.protect(in, OutputStream.nullOutputStream());
        }
    }

    private double median(String name) {
        double[] sorted = speeds.get(name).stream().mapToDouble(Double::doubleValue).sorted().toArray();
        return sorted[sorted.length / 2];
    }

    private void ratio(String what, String ours, String theirs) {
        double[] ratios = new double[speeds.get(ours).size()];
        Arrays.setAll(ratios, i -> speeds.get(ours).get(i) / speeds.get(theirs).get(i));
        Arrays.sort(ratios);
        System.out.printf(Locale.ROOT, "%s: %s / %s = %.2f (%.2f … %.2f)%n", what, ours, theirs,
                ratios[ratios.length / 2], ratios[0], ratios[ratios.length - 1]);
    }
}
