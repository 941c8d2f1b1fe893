package phalanx;

import java.io.IOException;
import java.util.function.Supplier;

/**
 * All chunks of a file, divided among threads. Each takes the next chunk that no thread has taken, so the reported
 * failure is always that of the first chunk that fails.
 */
final class ChunkLoop {
    /** Does one chunk. It belongs to one thread. */
    interface Step extends AutoCloseable {
        void chunk(long index) throws IOException;

        @Override
        void close();
    }

    private final long end;
    private long next;
    private long failedAt = Long.MAX_VALUE;
    private Throwable failure;

    private ChunkLoop(long end) {
        this.end = end;
    }

    /** Does the chunks 0 … end − 1. */
    static void run(Crew crew, long end, Supplier<Step> steps) throws IOException {
        ChunkLoop loop = new ChunkLoop(end);
        crew.run(end, () -> loop.work(steps));
        Failures.rethrow(loop.failure);
    }

    private void work(Supplier<Step> steps) {
        long index = take();
        if (index < 0) {
            return;
        }
        try (Step step = steps.get()) {
            for (; index >= 0; index = take()) {
                step.chunk(index);
            }
        } catch (Throwable e) {
            fail(index, e);
        }
    }

    private synchronized long take() {
        return failure == null && next < end ? next++ : -1;
    }

    private synchronized void fail(long index, Throwable e) {
        if (failure == null || index < failedAt) {
            failure = e;
            failedAt = index;
        }
    }
}
