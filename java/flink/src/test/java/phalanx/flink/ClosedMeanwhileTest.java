package phalanx.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.fs.local.LocalFileSystem;
import org.junit.jupiter.api.Test;
import phalanx.ChunkCipher;
import phalanx.KeyProvider;
import phalanx.Protector;
import phalanx.Recipients;

/** Flink closes the streams of a task that it cancels by another thread. */
class ClosedMeanwhileTest extends Fixture {
    /** What the next read does after it has its bytes. */
    private final AtomicReference<Runnable> inRead = new AtomicReference<>();

    private final class Watched extends FSDataInputStream {
        private final FSDataInputStream in;

        Watched(FSDataInputStream in) {
            this.in = in;
        }

        @Override
        public int read() throws IOException {
            return in.read();
        }

        @Override
        public int read(byte[] into, int offset, int length) throws IOException {
            int read = in.read(into, offset, length);
            Runnable also = inRead.getAndSet(null);
            if (also != null) {
                also.run();
            }
            return read;
        }

        @Override
        public void seek(long to) throws IOException {
            in.seek(to);
        }

        @Override
        public long getPos() throws IOException {
            return in.getPos();
        }

        @Override
        public void close() throws IOException {
            in.close();
        }
    }

    /** The read that goes on has right bytes, nobody waits for it, and it overwrites the keys at its end. */
    @Test
    void aReadThatGoesOn() throws Exception {
        byte[] plaintext = bytes(10 * CHUNK);
        new Protector(Recipients.of(key)).withChunkLog2(12).protect(new ByteArrayInputStream(plaintext), folder.resolve("a.phx"));
        LocalFileSystem inner = new LocalFileSystem() {
            @Override
            public FSDataInputStream open(Path path) throws IOException {
                return new Watched(super.open(path));
            }
        };
        Path stored = new Path("file://" + folder + "/a.phx");
        PlainInput in = PlainInput.open(inner, stored, path("a"), KeyProvider.of(key));
        ChunkCipher cipher = cipher(in);
        inRead.set(() -> {
            Thread closing = new Thread(() -> {
                try {
                    in.close();
                } catch (IOException e) {
                    throw new java.io.UncheckedIOException(e);
                }
            });
            closing.start();
            try {
                closing.join();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        byte[] part = new byte[CHUNK];
        assertEquals(CHUNK, in.read(part, 0, CHUNK));
        assertArrayEquals(Arrays.copyOf(plaintext, CHUNK), part);
        String message = assertThrows(IOException.class, in::read).getMessage();
        assertEquals(path("a") + " is closed", message);
        assertThrows(IllegalStateException.class, () -> cipher.open(new byte[CHUNK + 48], 0, CHUNK, 0, false));
    }

    private static ChunkCipher cipher(PlainInput in) throws ReflectiveOperationException {
        Field field = PlainInput.class.getDeclaredField("cipher");
        field.setAccessible(true);
        return (ChunkCipher) field.get(in);
    }
}
