package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOError;
import java.io.IOException;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What fails while a second thread reads ahead. A test that waits for ever has failed, and so each has a limit. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class AheadFailuresTest extends Fixture {
    private byte[] plaintext;
    private FileSystem other;
    private final AtomicReference<Throwable> uncaught = new AtomicReference<>();

    @BeforeEach
    void protectAFile() throws IOException {
        conf.set(AheadThreads.LENGTH, "4M");
        conf.setInt(AheadThreads.STREAMS, 1);
        other = open("phalanx+fake", conf);
        plaintext = bytes(3000 * CHUNK + 99);
        protect("a", plaintext, 12);
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> uncaught.set(e));
    }

    @AfterEach
    void nothingIsLeft() throws IOException {
        Thread.setDefaultUncaughtExceptionHandler(null);
        FakeStore.IN_READ.set(null);
        AheadThreads threads = ((PhalanxFileSystem) other).aheadThreads();
        other.close();
        assertEquals(1, threads.free());
        assertNull(uncaught.get());
    }

    private FSDataInputStream open() throws Exception {
        return other.openFile(path("a")).opt("fs.option.openfile.read.policy", "sequential").build().get();
    }

    private static boolean isAhead() {
        return Thread.currentThread().getName().equals("phalanx-ahead");
    }

    /** As if the system had no more threads: a thread-local value that cannot be passed on to a new one fails where that is made. */
    @Test
    void aThreadThatCannotBeStarted() throws Exception {
        AtomicInteger refused = new AtomicInteger();
        InheritableThreadLocal<Boolean> poison = new InheritableThreadLocal<>() {
            @Override
            protected Boolean childValue(Boolean parent) {
                refused.incrementAndGet();
                throw new OutOfMemoryError("unable to create native thread");
            }
        };
        try (FSDataInputStream in = open()) {
            poison.set(true);
            byte[] part = new byte[3 << 20];
            in.readFully(part);
            assertArrayEquals(Arrays.copyOf(plaintext, part.length), part);
            poison.remove();
            assertEquals(true, refused.get() > 0);
            assertArrayEquals(Arrays.copyOfRange(plaintext, part.length, plaintext.length), in.readAllBytes());
        } finally {
            poison.remove();
        }
    }

    /** Local file systems say so when a disk fails. */
    @Test
    void anErrorOfTheInnerFileSystem() throws Exception {
        AtomicInteger failed = new AtomicInteger();
        CountDownLatch hasFailed = new CountDownLatch(1);
        FakeStore.IN_READ.set(() -> {
            if (isAhead()) {
                failed.incrementAndGet();
                hasFailed.countDown();
                throw new IOError(new IOException("the disk fails"));
            }
        });
        try (FSDataInputStream in = open()) {
            byte[] first = new byte[1 << 20];
            in.readFully(first);
            hasFailed.await();
            assertArrayEquals(Arrays.copyOf(plaintext, first.length), first);
            assertArrayEquals(Arrays.copyOfRange(plaintext, first.length, plaintext.length), in.readAllBytes());
            // This stream has no help from then on.
            assertEquals(1, failed.get());
        }
    }

    /** The reader gets the error where it comes to the bytes, and can go on if it was the only one. */
    @Test
    void anErrorThatTheReaderGets() throws Exception {
        AtomicReference<Boolean> fails = new AtomicReference<>(false);
        FakeStore.IN_READ.set(() -> {
            if (fails.get()) {
                throw new IOError(new IOException("the disk fails"));
            }
        });
        try (FSDataInputStream in = open()) {
            byte[] first = new byte[1 << 20];
            in.readFully(first);
            ((PlainInput) in.getWrappedStream()).file().ahead().awaitIdle();
            fails.set(true);
            assertThrows(IOError.class, in::readAllBytes);
            fails.set(false);
            int at = (int) in.getPos();
            assertArrayEquals(Arrays.copyOfRange(plaintext, at, plaintext.length), in.readAllBytes());
        }
    }
}
