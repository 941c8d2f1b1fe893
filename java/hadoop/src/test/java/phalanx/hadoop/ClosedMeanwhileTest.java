package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import phalanx.AuthenticationException;

/** The keys of a stream that fails or is closed while others read it. */
class ClosedMeanwhileTest extends Fixture {
    @AfterEach
    void forget() {
        FakeStore.IN_READ.set(null);
    }

    /** The keys are overwritten when the bytes arrive. They are not damaged then. */
    @Test
    void aReadAtAPositionBesideClose() throws Exception {
        protect("a", bytes(20 * CHUNK), 12);
        CountDownLatch hasRead = new CountDownLatch(1);
        CountDownLatch isClosed = new CountDownLatch(1);
        Thread[] reader = new Thread[1];
        FakeStore.IN_READ.set(() -> {
            if (Thread.currentThread() == reader[0]) {
                hasRead.countDown();
                try {
                    isClosed.await();
                } catch (InterruptedException e) {
                    throw new IOException(e);
                }
            }
        });
        try (FileSystem other = open("phalanx+fake", conf)) {
            FSDataInputStream in = other.open(path("a"));
            CompletableFuture<Void> read = new CompletableFuture<>();
            byte[] into = new byte[100];
            reader[0] = new Thread(() -> {
                try {
                    in.readFully(3 * CHUNK, into);
                    read.complete(null);
                } catch (Throwable e) {
                    read.completeExceptionally(e);
                }
            });
            reader[0].start();
            hasRead.await();
            in.close();
            isClosed.countDown();
            Throwable failure = assertThrows(CompletionException.class, read::join).getCause();
            assertTrue(failure instanceof IOException && failure.getMessage().endsWith(FSExceptionMessages.STREAM_IS_CLOSED), failure::toString);
            assertArrayEquals(new byte[100], into);
        }
    }

    /** A cipher has the keys of the file, and so none gets lost. */
    @Test
    void aCipherIsKeptAfterADamagedChunk() throws Exception {
        byte[] plaintext = bytes(20 * CHUNK);
        protect("a", plaintext, 12);
        try (RandomAccessFile file = new RandomAccessFile(folder.resolve("a.phx").toFile(), "rw")) {
            long at = 4096 + 3 * (CHUNK + 48) + 1000;
            file.seek(at);
            int old = file.read();
            file.seek(at);
            file.write(old ^ 1);
        }
        FSDataInputStream in = fs.open(path("a"));
        Opened file = ((PlainInput) in.getWrappedStream()).file();
        assertEquals(1, file.idleCiphers());
        byte[] part = new byte[CHUNK];
        IOException e = assertThrows(IOException.class, () -> in.readFully(3 * CHUNK, part));
        assertEquals(AuthenticationException.class, e.getCause().getClass());
        assertEquals(1, file.idleCiphers());
        in.readFully(4 * CHUNK, part);
        assertArrayEquals(Arrays.copyOfRange(plaintext, 4 * CHUNK, 5 * CHUNK), part);
        in.close();
        assertEquals(0, file.idleCiphers());
    }
}
