package phalanx.papers;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import phalanx.PhalanxKey;
import phalanx.Protector;
import phalanx.Recipients;

/**
 * A file protected in Phalanx's format by the library, suite 1, again and again in one process. Nothing is synced.
 *
 * <p>{@code Format THREADS ROUNDS IN OUT}, with arguments and results as in {@link Divided}.
 */
public final class Format {
    private Format() {}

    /**
     * Measures.
     *
     * @param args see above
     * @throws Exception if something fails
     */
    public static void main(String[] args) throws Exception {
        int[] threads = Arrays.stream(args[0].split(",")).mapToInt(Integer::parseInt).toArray();
        int rounds = Integer.parseInt(args[1]);
        Path in = Path.of(args[2]);
        Path out = Path.of(args[3]);
        try (PhalanxKey key = PhalanxKey.random()) {
            Protector protector = new Protector(Recipients.of(key)).replacing().withoutSync();
            for (int round = 0; round < rounds; round++) {
                for (int n : threads) {
                    ExecutorService executor = Executors.newFixedThreadPool(n);
                    System.gc();
                    long begun = System.nanoTime();
                    protector.on(executor, n).protect(in, out);
                    Divided.tell(n, round, System.nanoTime() - begun);
                    executor.shutdown();
                }
            }
        }
    }
}
