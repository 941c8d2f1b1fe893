package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Threads, and executors that are busy or fail. */
class CrewTest {
    private static final int CHUNKS = 100;

    private final PhalanxKey key = PhalanxKey.random();
    private final Protector protector = new Protector(Recipients.of(key)).withChunkLog2(12);
    private final Unprotector unprotector = new Unprotector(KeyProvider.of(key));

    /** Protects a stream and unprotects it. */
    private void thereAndBack(Executor executor, int threads) throws IOException {
        byte[] plaintext = new byte[CHUNKS * 4096 - 7];
        new Random(1).nextBytes(plaintext);
        ByteArrayOutputStream sealed = new ByteArrayOutputStream();
        protector.on(executor, threads).protect(new ByteArrayInputStream(plaintext), sealed);
        ByteArrayOutputStream back = new ByteArrayOutputStream();
        unprotector.on(executor, threads).unprotect(new ByteArrayInputStream(sealed.toByteArray()), back);
        assertArrayEquals(plaintext, back.toByteArray());
    }

    /** A cached thread pool throws this if the system has no more threads. */
    @Test
    void threadsThatCannotBeStartedAreNotNeeded() throws IOException {
        AtomicInteger asked = new AtomicInteger();
        Executor few = work -> {
            if (asked.incrementAndGet() > 1) {
                throw new OutOfMemoryError("unable to create native thread");
            }
            new Thread(work).start();
        };
        thereAndBack(few, 4);
        AtomicInteger done = new AtomicInteger();
        asked.set(0);
        Crew.of(few, 4).run(4, done::incrementAndGet);
        assertTrue(done.get() >= 1);
    }

    /** After a failure the caller may close the keys. */
    @Test
    void noThreadWorksAfterAFailure() {
        CountDownLatch begun = new CountDownLatch(1);
        AtomicInteger working = new AtomicInteger();
        AtomicInteger asked = new AtomicInteger();
        Executor fails = work -> {
            if (asked.incrementAndGet() > 1) {
                throw new IllegalStateException("broken");
            }
            new Thread(work).start();
            try {
                begun.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        };
        Crew.Work work = () -> {
            working.incrementAndGet();
            begun.countDown();
            try {
                Thread.sleep(200);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            working.decrementAndGet();
        };
        IllegalStateException e = assertThrows(IllegalStateException.class, () -> Crew.of(fails, 3).run(3, work));
        assertEquals("broken", e.getMessage());
        assertEquals(0, working.get());
    }

    /** Runs something that holds an array, and then drops the array. */
    private static WeakReference<byte[]> held(Executor executor) throws IOException {
        byte[] held = new byte[1];
        Crew.of(executor, 3).run(3, () -> held[0]++);
        return new WeakReference<>(held);
    }

    @Test
    void aBusyExecutorKeepsNoWork() throws Exception {
        List<Runnable> queue = new ArrayList<>();
        WeakReference<byte[]> held = held(queue::add);
        for (int i = 0; i < 100 && held.get() != null; i++) {
            System.gc();
            Thread.sleep(10);
        }
        assertEquals(null, held.get());
        assertEquals(2, queue.size());
        // Nothing is left for them to do.
        queue.forEach(Runnable::run);
    }

    @Test
    void aBusyExecutorGetsFewChunksOfAStream() throws IOException {
        List<Runnable> queue = new ArrayList<>();
        thereAndBack(queue::add, 3);
        // At most six for each of the two streams.
        assertTrue(queue.size() >= 2 && queue.size() <= 12, "there are " + queue.size());
        queue.forEach(Runnable::run);
        // An executor that is busy from time to time gets more chunks when it has finished its own.
        AtomicInteger done = new AtomicInteger();
        List<Runnable> late = new ArrayList<>();
        thereAndBack(work -> {
            late.add(work);
            if (late.size() == 6) {
                late.forEach(Runnable::run);
                done.addAndGet(6);
                late.clear();
            }
        }, 3);
        assertTrue(done.get() > 12, "there were " + done);
    }

    @Test
    void anyNumberOfThreadsCanBeNamed() throws IOException {
        thereAndBack(work -> {}, Integer.MAX_VALUE);
    }

    @Test
    void aStreamEndsWhereItsSuiteHasNoMoreChunks() throws IOException {
        for (int chunks = 1; chunks <= 5; chunks++) {
            for (int less : new int[] {0, 1}) {
                ByteArrayInputStream in = new ByteArrayInputStream(new byte[chunks * 4096 - less]);
                ByteArrayOutputStream out = new ByteArrayOutputStream();
                try (Recipients.NewFile file =
                        Recipients.of(key).newFile(Suite.AES_256_GCM, 12, java.util.OptionalLong.empty())) {
                    if (chunks <= 3) {
                        assertEquals(chunks * 4096 - less, StreamWork.seal(Crew.alone(), file.keys(), 12, 3, in, out));
                        continue;
                    }
                    IOException e = assertThrows(
                            IOException.class, () -> StreamWork.seal(Crew.alone(), file.keys(), 12, 3, in, out));
                    assertEquals("too large: AES-256-GCM seals no more than 4294967296 chunks", e.getMessage());
                    assertTrue(out.size() <= 3 * (4096 + Suite.AES_256_GCM.overhead()));
                }
            }
        }
    }
}
