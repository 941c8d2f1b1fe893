package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import phalanx.AuthenticationException;

/** Reads in order, which a second thread prepares. */
class AheadTest extends Fixture {
    private static final int CHUNKS = 3000;

    private FileSystem other;

    @AfterEach
    void closeOther() throws IOException {
        if (other != null) {
            other.close();
        }
    }

    private AheadThreads threads() {
        return ((PhalanxFileSystem) other).aheadThreads();
    }

    /** A file system with these settings, and a file of it that has chunks of 4 KiB. */
    private byte[] prepare(String length, int streams) throws IOException {
        conf.set(AheadThreads.LENGTH, length);
        conf.setInt(AheadThreads.STREAMS, streams);
        other = open("phalanx+file", conf);
        byte[] plaintext = bytes(CHUNKS * CHUNK + 99);
        protect("a", plaintext, 12);
        return plaintext;
    }

    private FSDataInputStream open(String policy) throws Exception {
        return other.openFile(path("a")).opt("fs.option.openfile.read.policy", policy).build().get();
    }

    private static Ahead ahead(FSDataInputStream in) {
        return ((PlainInput) in.getWrappedStream()).file().ahead();
    }

    /** Reads the rest of the stream up to a position, and compares it. */
    private static void read(FSDataInputStream in, byte[] plaintext, int to, int step) throws IOException {
        byte[] part = new byte[step];
        while (in.getPos() < to) {
            int from = (int) in.getPos();
            int count = Math.min(step, to - from);
            in.readFully(part, 0, count);
            assertTrue(Arrays.equals(plaintext, from, from + count, part, 0, count), () -> "different from " + from + " on");
        }
    }

    private static void assertWiped(List<byte[]> arrays) {
        for (byte[] array : arrays) {
            assertArrayEquals(new byte[array.length], array);
        }
    }

    @Test
    void allBytesInOrder() throws Exception {
        for (String length : new String[] {"0", "1", "4M"}) {
            byte[] plaintext = prepare(length, length.equals("1") ? 0 : 1);
            for (int step : new int[] {1000, CHUNK, 1 << 16, 5 << 20}) {
                try (FSDataInputStream in = open("default")) {
                    read(in, plaintext, plaintext.length, step);
                    assertEquals(-1, in.read());
                }
            }
            other.close();
        }
    }

    /** Each long chunk is a block of its own. */
    @Test
    void longChunks() throws Exception {
        prepare("4M", 1);
        byte[] plaintext = bytes(20 << 20);
        for (int log2 : new int[] {20, 21, 24}) {
            protect("a", plaintext, log2);
            try (FSDataInputStream in = open("default")) {
                read(in, plaintext, plaintext.length, 70_000);
            }
        }
    }

    /** What is longer than may be fetched ahead is not. */
    @Test
    void chunksThatAreTooLongAreNotFetchedAhead() throws Exception {
        prepare("1M", 1);
        byte[] plaintext = bytes(20 << 20);
        for (int log2 : new int[] {20, 21}) {
            protect("a", plaintext, log2);
            try (FSDataInputStream in = open("sequential")) {
                read(in, plaintext, 1000, 1000);
                ahead(in).awaitIdle();
                assertEquals(log2 == 20 ? 2 : 1, ahead(in).arrays().size());
            }
        }
    }

    /** As many streams as there are may have had a place once. */
    @Test
    void noArrayIsKeptWithoutAPlace() throws Exception {
        byte[] plaintext = prepare("4M", 1);
        try (FSDataInputStream in = open("default")) {
            read(in, plaintext, 3 << 20, 1000);
            assertEquals(0, threads().free());
            in.seek(10 << 20);
            in.read(new byte[10]);
            assertEquals(1, threads().free());
            assertEquals(1, ahead(in).arrays().size());
        }
    }

    @Test
    void otherReadsMeanwhile() throws Exception {
        byte[] plaintext = prepare("4M", 1);
        try (FSDataInputStream in = open("sequential")) {
            Thread reader = new Thread(() -> {
                for (int i = 0; i < 2000; i++) {
                    int from = i * 5003 % (plaintext.length - 9000);
                    byte[] part = new byte[9000];
                    try {
                        in.readFully(from, part);
                    } catch (IOException e) {
                        throw new java.io.UncheckedIOException(e);
                    }
                    assertTrue(Arrays.equals(plaintext, from, from + part.length, part, 0, part.length));
                }
            });
            Throwable[] failure = new Throwable[1];
            reader.setUncaughtExceptionHandler((thread, e) -> failure[0] = e);
            reader.start();
            for (int i = 0; i < 20; i++) {
                in.seek(random.nextInt(CHUNKS) * CHUNK);
                read(in, plaintext, Math.min(plaintext.length, (int) in.getPos() + (3 << 20)), 5000);
                if (i % 5 == 0) {
                    in.unbuffer();
                }
            }
            reader.join();
            assertEquals(null, failure[0]);
        }
    }

    @Test
    void aClosedStreamLeavesNothing() throws Exception {
        byte[] plaintext = prepare("4M", 2);
        for (boolean closes : new boolean[] {false, true}) {
            FSDataInputStream in = open("default");
            read(in, plaintext, 1 << 20, 1000);
            assertEquals(1, threads().free());
            List<byte[]> arrays = ahead(in).arrays();
            assertFalse(arrays.isEmpty());
            assertFalse(Arrays.equals(new byte[arrays.get(0).length], arrays.get(0)));
            if (closes) {
                in.close();
                assertThrows(IOException.class, in::read);
            } else {
                in.unbuffer();
            }
            assertEquals(2, threads().free());
            assertWiped(arrays);
            assertTrue(ahead(in).arrays().isEmpty());
            if (!closes) {
                read(in, plaintext, 2 << 20, 1000);
                in.close();
                assertEquals(2, threads().free());
            }
        }
    }

    /** What is near is used, and what is far is fetched anew. */
    @Test
    void aSeekElsewhereDropsWhatWasFetched() throws Exception {
        byte[] plaintext = prepare("4M", 1);
        try (FSDataInputStream in = open("default")) {
            read(in, plaintext, 1 << 20, 1000);
            List<byte[]> arrays = ahead(in).arrays();
            in.seek(10 << 20);
            assertEquals(plaintext[10 << 20], (byte) in.read());
            assertEquals(1, threads().free());
            // The reader's own block, and nothing of the others.
            Set<byte[]> used = Set.copyOf(ahead(in).arrays());
            assertWiped(arrays.stream().filter(each -> !used.contains(each)).toList());
            read(in, plaintext, 11 << 20, 1000);
            assertEquals(0, threads().free());
            in.seek((11 << 20) + 10_000);
            read(in, plaintext, plaintext.length, 1000);
        }
    }

    @Test
    void readsHereAndThereAreNotAheadOfAnything() throws Exception {
        byte[] plaintext = prepare("4M", 1);
        for (String policy : new String[] {"random", "parquet, vector, random", "orc"}) {
            try (FSDataInputStream in = open(policy)) {
                for (int chunk = 5; chunk < 30; chunk++) {
                    in.seek(chunk * CHUNK);
                    read(in, plaintext, (chunk + 1) * CHUNK, CHUNK);
                    assertEquals(1, threads().free());
                    assertTrue(ahead(in).arrays().size() <= 1);
                }
            }
        }
        // A first read says nothing of the second one.
        try (FSDataInputStream in = open("default")) {
            read(in, plaintext, 10, 10);
            assertEquals(1, threads().free());
        }
    }

    @Test
    void aStreamWithoutAPlaceIsReadAsWell() throws Exception {
        byte[] plaintext = prepare("1M", 1);
        try (FSDataInputStream second = open("default")) {
            try (FSDataInputStream first = open("default")) {
                read(first, plaintext, 100_000, 1000);
                assertEquals(0, threads().free());
                read(second, plaintext, 3 << 20, 1000);
                assertTrue(ahead(second).arrays().size() <= 2, "it has fetched ahead");
            }
            assertEquals(1, threads().free());
            read(second, plaintext, plaintext.length, 1000);
            assertEquals(0, threads().free());
        }
        // One that is open longer than its file system.
        FSDataInputStream in = open("default");
        threads().close();
        read(in, plaintext, plaintext.length, 1000);
        in.close();
    }

    @Test
    void damageIsReportedByTheReadThatComesToIt() throws Exception {
        byte[] plaintext = prepare("4M", 1);
        int damaged = 700;
        try (RandomAccessFile file = new RandomAccessFile(folder.resolve("a.phx").toFile(), "rw")) {
            long at = 4096 + damaged * (CHUNK + 48) + 1000;
            file.seek(at);
            int old = file.read();
            file.seek(at);
            file.write(old ^ 1);
        }
        for (String policy : new String[] {"default", "sequential"}) {
            try (FSDataInputStream in = open(policy)) {
                read(in, plaintext, damaged * CHUNK, CHUNK);
                for (int i = 0; i < 2; i++) {
                    byte[] part = new byte[CHUNK];
                    IOException e = assertThrows(IOException.class, () -> in.readFully(part));
                    assertInstanceOf(AuthenticationException.class, e.getCause());
                    assertTrue(e.getMessage().contains("damaged in chunk " + damaged), e.getMessage());
                    assertArrayEquals(new byte[CHUNK], part);
                    assertEquals(damaged * CHUNK, in.getPos());
                    in.seek((damaged + 1) * CHUNK);
                    read(in, plaintext, (damaged + 600) * CHUNK, CHUNK);
                    in.seek(damaged * CHUNK);
                }
            }
        }
    }

    /** What the other thread cannot fetch is fetched again by the reader, which gets the error if there still is one. */
    @Test
    void aFileThatBecameShorter() throws Exception {
        byte[] plaintext = prepare("4M", 1);
        Path stored = folder.resolve("a.phx");
        byte[] whole = Files.readAllBytes(stored);
        try (FSDataInputStream in = open("sequential")) {
            try (RandomAccessFile file = new RandomAccessFile(stored.toFile(), "rw")) {
                file.setLength(4096 + 1000L * (CHUNK + 48) + 10);
            }
            read(in, plaintext, 1000 * CHUNK, CHUNK);
            assertThrows(IOException.class, in::read);
            assertThrows(IOException.class, in::read);
            Files.write(stored, whole);
            read(in, plaintext, plaintext.length, CHUNK);
        }
    }

    /** Spark shows what a task has read, by the statistics of its thread. */
    @Test
    void whatIsFetchedAheadCountsForTheReader() throws Exception {
        byte[] plaintext = prepare("4M", 1);
        long before = readByThisThread();
        try (FSDataInputStream in = open("default")) {
            for (int to = 1000; to < plaintext.length; to += 2 << 20) {
                read(in, plaintext, to, 1000);
                // All that is ahead is open then.
                ahead(in).awaitIdle();
            }
            read(in, plaintext, plaintext.length, 1000);
        }
        long stored = Files.size(folder.resolve("a.phx"));
        long counted = readByThisThread() - before;
        assertTrue(counted >= stored - 8192 && counted <= stored + 3 * 8192, () -> counted + " of " + stored);
    }

    @SuppressWarnings("deprecation")
    private static long readByThisThread() {
        return FileSystem.getAllStatistics().stream().mapToLong(each -> each.getThreadStatistics().getBytesRead()).sum();
    }

    @Test
    void manyStreamsAtOnce() throws Exception {
        byte[] plaintext = prepare("1M", 3);
        assertTrue(IntStream.range(0, 24).parallel().allMatch(i -> {
            try (FSDataInputStream in = open("default")) {
                read(in, plaintext, plaintext.length, 3000 + i);
                return true;
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }));
        assertEquals(3, threads().free());
    }

    @Test
    void settingsAreChecked() {
        conf.set(AheadThreads.LENGTH, "2G");
        IOException e = assertThrows(IOException.class, () -> open("phalanx+file", conf));
        assertEquals("fs.phalanx.read.ahead is a length from 0 to 1G", e.getMessage());
    }
}
