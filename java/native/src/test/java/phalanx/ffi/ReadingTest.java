package phalanx.ffi;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import phalanx.AuthenticationException;
import phalanx.PhalanxKey;

/** Protected files are read by range, from one thread and from many. */
class ReadingTest {
    /** More than two pieces of a read. */
    private static final int LENGTH = (33 << 20) + 5;
    private static final int THREADS = 16;

    @TempDir
    Path folder;

    private final byte[] content = new byte[LENGTH];
    private NativeWays ways;
    private Path path;

    @BeforeEach
    void prepare() throws IOException {
        ways = NativeWays.of(Needs.library(), PhalanxKey.random());
        new Random(1).nextBytes(content);
        path = folder.resolve("file.phx");
        new NativeProtector(ways).withChunkLog2(16).withoutSync().protect(Files.write(folder.resolve("file"), content), path);
    }

    @AfterEach
    void close() {
        if (ways != null) {
            ways.close();
        }
    }

    private byte[] part(long from, int length) {
        return Arrays.copyOfRange(content, (int) from, (int) Math.min(LENGTH, from + length));
    }

    private static byte[] read(NativeFile file, long position, ByteBuffer buffer) throws IOException {
        int begin = buffer.position();
        int read = file.read(position, buffer);
        assertEquals(begin + Math.max(0, read), buffer.position());
        byte[] got = new byte[Math.max(0, read)];
        buffer.get(begin, got);
        return got;
    }

    @Test
    void rangesIntoBuffersOfAllKinds() throws IOException {
        try (NativeFile file = NativeFile.open(path, ways)) {
            assertEquals(LENGTH, file.size());
            for (long from : new long[] {0, 1, 65535, 65536, (16 << 20) - 3, LENGTH - 100, LENGTH - 1}) {
                for (int length : new int[] {0, 1, 100, 70_000}) {
                    assertArrayEquals(part(from, length), read(file, from, ByteBuffer.allocate(length)), from + ", " + length);
                    assertArrayEquals(part(from, length), read(file, from, ByteBuffer.allocateDirect(length)));
                    ByteBuffer middle = ByteBuffer.allocate(length + 20).slice(3, length + 10).position(10);
                    assertArrayEquals(part(from, length), read(file, from, middle));
                    ByteBuffer direct = ByteBuffer.allocateDirect(length + 20).position(20);
                    assertArrayEquals(part(from, length), read(file, from, direct));
                }
            }
            // Longer than a piece, and longer than the file.
            assertArrayEquals(part(7, LENGTH), read(file, 7, ByteBuffer.allocate(LENGTH + 3)));
            assertArrayEquals(content, read(file, 0, ByteBuffer.allocateDirect(LENGTH + 3)));
        }
    }

    /** Each read is followed by a look at what lies after the buffer. Whoever reads the position twice writes there. */
    @Test
    void aBufferThatAnotherThreadMovesIsNotLeft() throws Exception {
        ByteBuffer whole = ByteBuffer.allocateDirect(2 << 16);
        ByteBuffer buffer = whole.slice(0, 1 << 16);
        ByteBuffer after = whole.slice(1 << 16, 1 << 16);
        ByteBuffer zeros = ByteBuffer.allocate(1 << 16);
        AtomicBoolean ended = new AtomicBoolean();
        CountDownLatch moving = new CountDownLatch(1);
        Thread mover = Thread.ofPlatform().start(() -> {
            while (!ended.get()) {
                buffer.position(0);
                Thread.onSpinWait();
                buffer.position(60_000);
                moving.countDown();
            }
        });
        try (NativeFile file = NativeFile.open(path, ways)) {
            moving.await();
            for (int i = 0; i < 20_000; i++) {
                file.read(0, buffer);
                assertEquals(-1, after.mismatch(zeros), "bytes after the buffer, in read " + i);
            }
        } finally {
            ended.set(true);
            mover.join();
        }
    }

    @Test
    void rangesThatAreNone() throws IOException {
        try (NativeFile file = NativeFile.open(path, ways)) {
            for (long position : new long[] {LENGTH, LENGTH + 1L, 1L << 40, Long.MAX_VALUE}) {
                assertEquals(-1, file.read(position, ByteBuffer.allocate(10)));
                assertEquals(-1, file.read(position, ByteBuffer.allocateDirect(10)));
            }
            for (long position : new long[] {-1, Long.MIN_VALUE}) {
                assertThrows(IllegalArgumentException.class, () -> file.read(position, ByteBuffer.allocate(10)));
            }
            assertThrows(IllegalArgumentException.class, () -> file.read(0, ByteBuffer.allocate(10).asReadOnlyBuffer()));
            assertThrows(IllegalArgumentException.class, () -> file.read(0, ByteBuffer.allocateDirect(10).asReadOnlyBuffer()));
            assertThrows(NullPointerException.class, () -> file.read(0, null));
        }
    }

    @Test
    void channelsAndStreams() throws IOException {
        try (NativeFile file = NativeFile.open(path, ways)) {
            SeekableByteChannel channel = file.channel();
            try (InputStream stream = file.inputStream()) {
                assertArrayEquals(content, stream.readAllBytes());
            }
            assertEquals(LENGTH, channel.size());
            ByteBuffer part = ByteBuffer.allocate(4096);
            assertEquals(4096, channel.position(1_000_000).read(part));
            assertArrayEquals(part(1_000_000, 4096), part.array());
            assertEquals(1_004_096, channel.position());
            assertEquals(-1, channel.position(Long.MAX_VALUE).read(part.clear()));
            assertThrows(IllegalArgumentException.class, () -> channel.position(-1));
            assertThrows(NonWritableChannelException.class, () -> channel.write(part));
            assertThrows(NonWritableChannelException.class, () -> channel.truncate(0));
            channel.close();
            assertFalse(channel.isOpen());
            assertThrows(ClosedChannelException.class, () -> channel.read(part));
        }
    }

    @Test
    void anEmptyFile() throws IOException {
        Path empty = folder.resolve("empty.phx");
        new NativeProtector(ways).protect(Files.write(folder.resolve("empty"), new byte[0]), empty);
        try (NativeFile file = NativeFile.open(empty, ways); InputStream stream = file.inputStream()) {
            assertEquals(0, file.size());
            assertEquals(-1, file.read(0, ByteBuffer.allocate(1)));
            assertEquals(-1, stream.read());
        }
    }

    @Test
    void onlyWholeChunksAreFoundAltered() throws IOException {
        byte[] bytes = Files.readAllBytes(path);
        bytes[20 << 20] ^= 1;
        Path altered = Files.write(folder.resolve("altered.phx"), bytes);
        try (NativeFile file = NativeFile.open(altered, ways)) {
            assertArrayEquals(part(0, 1000), read(file, 0, ByteBuffer.allocate(1000)));
            for (ByteBuffer buffer : List.of(ByteBuffer.allocate(LENGTH), ByteBuffer.allocateDirect(LENGTH))) {
                assertThrows(AuthenticationException.class, () -> file.read(0, buffer));
                assertEquals(0, buffer.position());
            }
            // It goes on afterwards.
            assertArrayEquals(part(LENGTH - 9, 9), read(file, LENGTH - 9, ByteBuffer.allocate(9)));
        }
    }

    @Test
    void aFileNeedsItsWaysOnlyToBeOpened() throws IOException {
        try (NativeFile file = NativeFile.open(path, ways)) {
            ways.close();
            assertArrayEquals(part(5, 10), read(file, 5, ByteBuffer.allocate(10)));
        }
    }

    @Test
    void aClosedFileFails() throws IOException {
        NativeFile file = NativeFile.open(path, ways);
        SeekableByteChannel channel = file.channel();
        assertTrue(channel.isOpen());
        file.close();
        file.close();
        assertEquals(LENGTH, file.size());
        assertFalse(channel.isOpen());
        assertThrows(ClosedChannelException.class, () -> file.read(0, ByteBuffer.allocate(1)));
        assertThrows(ClosedChannelException.class, () -> file.read(0, ByteBuffer.allocateDirect(1)));
        assertThrows(ClosedChannelException.class, () -> channel.read(ByteBuffer.allocate(1)));
        assertThrows(ClosedChannelException.class, () -> file.inputStream().read());
    }

    @Test
    void manyThreadsReadOneFile() throws Exception {
        try (NativeFile file = NativeFile.open(path, ways); ExecutorService threads = Executors.newFixedThreadPool(THREADS)) {
            List<Future<Integer>> all = new ArrayList<>();
            for (int thread = 0; thread < THREADS; thread++) {
                Random random = new Random(thread);
                boolean direct = thread % 2 == 0;
                all.add(threads.submit(() -> {
                    for (int i = 0; i < 200; i++) {
                        int length = random.nextInt(200_000);
                        long from = random.nextInt(LENGTH);
                        ByteBuffer buffer = direct ? ByteBuffer.allocateDirect(length) : ByteBuffer.allocate(length);
                        assertArrayEquals(part(from, length), read(file, from, buffer));
                    }
                    return 200;
                }));
            }
            for (Future<Integer> each : all) {
                assertEquals(200, each.get());
            }
        }
    }

    /** Each thread reads until the file is closed under it, and all of them end by that exception. */
    @Test
    void aFileIsClosedWhileItIsRead() throws Exception {
        for (int round = 0; round < 10; round++) {
            NativeFile file = NativeFile.open(path, ways);
            CountDownLatch reading = new CountDownLatch(THREADS);
            try (ExecutorService threads = Executors.newFixedThreadPool(THREADS)) {
                List<Future<Void>> all = new ArrayList<>();
                for (int thread = 0; thread < THREADS; thread++) {
                    Random random = new Random(thread);
                    boolean direct = thread % 2 == 0;
                    all.add(threads.submit(() -> {
                        for (int i = 0; ; i++) {
                            long from = random.nextInt(LENGTH - 5000);
                            ByteBuffer buffer = direct ? ByteBuffer.allocateDirect(5000) : ByteBuffer.allocate(5000);
                            try {
                                assertArrayEquals(part(from, 5000), read(file, from, buffer));
                            } catch (ClosedChannelException e) {
                                return null;
                            } finally {
                                if (i == 0) {
                                    reading.countDown();
                                }
                            }
                        }
                    }));
                }
                reading.await();
                file.close();
                for (Future<Void> each : all) {
                    each.get();
                }
            }
        }
    }
}
