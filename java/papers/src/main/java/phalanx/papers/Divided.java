package phalanx.papers;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CyclicBarrier;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import phalanx.cluster.World;

/**
 * P3's program: a file is divided among processes, and the part of each process among its threads. Each thread encrypts
 * its part by the JCE.
 *
 * <p>The paper times the encryption alone, with the data in memory. With an output, each thread reads its part, encrypts it,
 * waits for all others, and writes it.
 *
 * <p>{@code Divided MODE THREADS ROUNDS IN [OUT]}. THREADS are several numbers, separated by commas. Each round
 * measures all of them in turn, and each measurement is a line {@code time THREADS ROUND SECONDS}.
 */
public final class Divided {
    private static final int BLOCK = 16;
    /** The bytes that one call reads or writes. */
    private static final int PIECE = 1 << 20;
    /** The bytes that one call encrypts. The JIT compiler counts calls, so short pieces are compiled early. */
    private static final int CALL = 16 << 10;
    private static final byte[] KEY = new byte[32];

    static {
        Arrays.fill(KEY, (byte) 7);
    }

    /** How a thread encrypts its part. */
    enum Mode {
        /** AES-256-CBC, one call for the whole part, as in the paper's C programs; the mode of its Java program is not printed. */
        CBC,
        /** AES-256-CTR in place, in pieces. With it, any division gives the same bytes. */
        CTR
    }

    private final Mode mode;
    private final int[] threads;
    private final int rounds;
    private final Path in;
    private final Path out;

    /**
     * The program with these arguments.
     *
     * @param args the arguments
     */
    public Divided(String[] args) {
        mode = Mode.valueOf(args[0].toUpperCase(Locale.ROOT));
        threads = Arrays.stream(args[1].split(",")).mapToInt(Integer::parseInt).toArray();
        rounds = Integer.parseInt(args[2]);
        in = Path.of(args[3]);
        out = args.length > 4 ? Path.of(args[4]) : null;
    }

    /**
     * Measures, in one process.
     *
     * @param args see above
     * @throws Exception if something fails
     */
    public static void main(String[] args) throws Exception {
        new Divided(args).run(World.alone());
    }

    /**
     * Measures, as one rank of several.
     *
     * @param world the ranks
     * @throws Exception if something fails
     */
    public void run(World world) throws Exception {
        Part all = new Part(0, Files.size(in)).of(world.size(), world.rank());
        byte[] data = out == null ? read(all) : null;
        for (int round = 0; round < rounds; round++) {
            for (int n : threads) {
                if (out != null && world.rank() == 0) {
                    Files.deleteIfExists(out);
                }
                // Otherwise garbage would be collected while the next one is timed.
                System.gc();
                world.barrier();
                long begun = System.nanoTime();
                if (out == null) {
                    inParallel(all, n, part -> encrypt(data, Math.toIntExact(part.at - all.at), part));
                } else {
                    withFiles(world, all, n);
                }
                long nanos = world.largest(System.nanoTime() - begun);
                if (world.rank() == 0) {
                    tell(n, round, nanos);
                }
            }
        }
    }

    static void tell(int threads, int round, long nanos) {
        System.err.printf(Locale.ROOT, "time %d %d %.9f%n", threads, round, nanos / 1e9);
    }

    /** A part of the file. */
    record Part(long at, long length) {
        /** Part i of several. Blocks are divided evenly; only the last one may be incomplete. */
        Part of(int parts, int i) {
            long blocks = (length + BLOCK - 1) / BLOCK;
            long from = Math.min(length, BLOCK * (blocks / parts * i + Math.min(i, blocks % parts)));
            long to = Math.min(length, BLOCK * (blocks / parts * (i + 1) + Math.min(i + 1, blocks % parts)));
            return new Part(at + from, to - from);
        }

        int bytes() {
            return Math.toIntExact(length);
        }
    }

    private byte[] read(Part part) throws IOException {
        byte[] data = new byte[part.bytes()];
        try (FileChannel file = FileChannel.open(in)) {
            transfer(data, part.at, file, true);
        }
        return data;
    }

    private interface Work {
        void on(Part part) throws Exception;
    }

    /** A thread that fails ends the program, because the others may wait for it. */
    private static void inParallel(Part all, int n, Work work) throws InterruptedException {
        Thread[] threads = new Thread[n];
        for (int i = 0; i < n; i++) {
            Part part = all.of(n, i);
            threads[i] = new Thread(() -> {
                try {
                    work.on(part);
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void withFiles(World world, Part all, int n) throws IOException, InterruptedException {
        CyclicBarrier allEncrypted = new CyclicBarrier(n, world::barrier);
        try (FileChannel from = FileChannel.open(in);
                FileChannel to = FileChannel.open(out, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            inParallel(all, n, part -> {
                byte[] data = new byte[part.bytes()];
                transfer(data, part.at, from, true);
                encrypt(data, 0, part);
                allEncrypted.await();
                transfer(data, part.at, to, false);
            });
        }
    }

    /** Each thread has its own cipher: one for all, as printed in the paper, is not thread-safe. CBC's result is discarded. */
    private void encrypt(byte[] data, int at, Part part) throws GeneralSecurityException {
        SecretKeySpec key = new SecretKeySpec(KEY, "AES");
        if (mode == Mode.CBC) {
            Cipher cipher = Cipher.getInstance("AES/CBC/PKCS5Padding");
            cipher.init(Cipher.ENCRYPT_MODE, key, new IvParameterSpec(new byte[BLOCK]));
            byte[] sealed = cipher.doFinal(data, at, part.bytes());
            if (sealed.length <= part.length) {
                throw new GeneralSecurityException("no padding");
            }
            return;
        }
        Cipher cipher = Cipher.getInstance("AES/CTR/NoPadding");
        byte[] counter = ByteBuffer.allocate(BLOCK).putLong(8, part.at / BLOCK).array();
        cipher.init(Cipher.ENCRYPT_MODE, key, new IvParameterSpec(counter));
        for (int done = 0; done < part.bytes(); done += CALL) {
            cipher.update(data, at + done, Math.min(CALL, part.bytes() - done), data, at + done);
        }
    }

    private static void transfer(byte[] data, long at, FileChannel file, boolean reads) throws IOException {
        for (int done = 0; done < data.length;) {
            ByteBuffer piece = ByteBuffer.wrap(data, done, Math.min(PIECE, data.length - done));
            int n = reads ? file.read(piece, at + done) : file.write(piece, at + done);
            if (n < 0) {
                throw new IOException("the file ends at byte " + (at + done));
            }
            done += n;
        }
    }
}
