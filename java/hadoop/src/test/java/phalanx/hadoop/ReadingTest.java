package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.Test;
import phalanx.AuthenticationException;
import phalanx.NotPhalanxException;
import phalanx.PhalanxKey;
import phalanx.Protector;
import phalanx.Recipients;
import phalanx.Suite;
import phalanx.WrongKeyException;

/** What is read, and what is refused. */
class ReadingTest extends Fixture {
    @Test
    void filesOfOtherPrograms() throws IOException {
        for (Suite suite : Suite.values()) {
            for (int length : new int[] {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK, 5 * CHUNK + 7}) {
                byte[] plaintext = bytes(length);
                Path plain = Files.write(folder.resolve("in"), plaintext);
                // Its header is shorter, since its length is known.
                new Protector(Recipients.of(key)).withSuite(suite).withChunkLog2(12).replacing()
                        .protect(plain, folder.resolve("a.phx"));
                assertEquals(length, fs.getFileStatus(path("a")).getLen());
                assertArrayEquals(plaintext, read("a"));
            }
        }
    }

    @Test
    void anyPlaceInAnyOrder() throws IOException {
        byte[] plaintext = bytes(40 * CHUNK + 99);
        protect("a", plaintext, 12);
        try (FSDataInputStream in = fs.open(path("a"))) {
            for (int i = 0; i < 500; i++) {
                int from = random.nextInt(plaintext.length);
                byte[] part = new byte[random.nextInt(Math.min(3 * CHUNK, plaintext.length - from)) + 1];
                switch (i % 4) {
                    case 0 -> in.readFully(from, part);
                    case 1 -> {
                        in.seek(from);
                        in.readFully(part);
                        assertEquals(from + part.length, in.getPos());
                    }
                    case 2 -> in.readFully(from, ByteBuffer.wrap(part));
                    default -> {
                        in.seek(from);
                        assertEquals(part.length, in.read(ByteBuffer.wrap(part)));
                    }
                }
                assertArrayEquals(Arrays.copyOfRange(plaintext, from, from + part.length), part);
            }
            assertThrows(EOFException.class, () -> in.readFully(plaintext.length - 1, new byte[2]));
            assertEquals(-1, in.read(plaintext.length, new byte[2], 0, 2));
            in.unbuffer();
            byte[] one = new byte[1];
            assertEquals(1, in.read(7, one, 0, 1));
            assertEquals(plaintext[7], one[0]);
        }
    }

    /** Whoever reads again after a failure would otherwise miss the chunks that were sound. */
    @Test
    void aReadThatFailsInALaterChunkHasReadNothing() throws IOException {
        byte[] plaintext = bytes(3 << 20);
        protect("a", plaintext, 20);
        conf.set(AheadThreads.LENGTH, "0");
        int failures = 0;
        for (int at = 1; at <= 4; at++) {
            AtomicInteger left = new AtomicInteger();
            FakeStore.IN_READ.set(() -> {
                if (left.get() > 0 && left.decrementAndGet() == 0) {
                    throw new IOException("a cable was pulled");
                }
            });
            try (FileSystem other = open("phalanx+fake", conf); FSDataInputStream in = other.open(path("a"))) {
                left.set(at);
                ByteBuffer part = ByteBuffer.allocate(plaintext.length);
                try {
                    in.read(part);
                } catch (IOException e) {
                    failures++;
                    assertEquals(0, part.position());
                    assertEquals(0, in.getPos());
                    assertEquals(plaintext.length, in.read(part));
                }
                assertArrayEquals(plaintext, part.array());
                assertEquals(plaintext.length, in.getPos());
            } finally {
                FakeStore.IN_READ.set(null);
            }
        }
        // The last chunk was read when the file was opened.
        assertEquals(2, failures);
    }

    @Test
    void manyThreadsOfOneStream() throws IOException {
        byte[] plaintext = bytes(64 * CHUNK);
        protect("a", plaintext, 12);
        try (FSDataInputStream in = fs.open(path("a"))) {
            assertTrue(IntStream.range(0, 2000).parallel().allMatch(i -> {
                int from = (int) (i * 2654435761L % (plaintext.length - 5000));
                byte[] part = new byte[5000];
                try {
                    if (i % 50 == 0) {
                        in.unbuffer();
                    }
                    in.readFully(from, part);
                } catch (IOException e) {
                    throw new java.io.UncheckedIOException(e);
                }
                return Arrays.equals(plaintext, from, from + part.length, part, 0, part.length);
            }));
        }
    }

    @Test
    void rangesAtOnce() throws Exception {
        byte[] plaintext = bytes(20 << 20);
        for (String scheme : List.of("phalanx+file", "phalanx+fake")) {
            for (int log2 : new int[] {12, 16, 20, 24}) {
                protect("a", plaintext, log2);
                try (FileSystem other = open(scheme, conf); FSDataInputStream in = other.open(path("a"))) {
                    List<FileRange> ranges = new ArrayList<>();
                    int at = random.nextInt(1000);
                    // Next to each other, near and far, and one that is longer than what is read at once.
                    for (int i = 0; at < (11 << 20); i++) {
                        int length = i == 20 ? Ranges.MOST_AT_ONCE + 5 : random.nextInt(1 << random.nextInt(20));
                        ranges.add(FileRange.createFileRange(at, length));
                        at += length + (i % 3 == 0 ? 0 : random.nextInt(1 << random.nextInt(18)));
                    }
                    Collections.shuffle(ranges, random);
                    in.readVectored(ranges, ByteBuffer::allocate);
                    for (FileRange range : ranges) {
                        byte[] part = range.getData().get().array();
                        int from = (int) range.getOffset();
                        assertArrayEquals(Arrays.copyOfRange(plaintext, from, from + range.getLength()), part);
                    }
                }
            }
        }
    }

    @Test
    void aDamagedChunkIsNotGivenAway() throws IOException {
        byte[] plaintext = bytes(10 * CHUNK);
        protect("a", plaintext, 12);
        damage("a", 4096 + 3 * (CHUNK + 48) + 1000);
        try (FSDataInputStream in = fs.open(path("a"))) {
            in.readFully(0, new byte[3 * CHUNK]);
            in.readFully(4 * CHUNK, new byte[6 * CHUNK]);
            byte[] part = new byte[10];
            for (int i = 0; i < 2; i++) {
                notAuthentic("damaged in chunk 3", assertThrows(IOException.class, () -> in.readFully(3 * CHUNK + 5, part)));
                in.seek(3 * CHUNK);
                notAuthentic("damaged in chunk 3", assertThrows(IOException.class, () -> in.read(part)));
            }
            List<FileRange> ranges = List.of(FileRange.createFileRange(10, 10), FileRange.createFileRange(3 * CHUNK, 10));
            in.readVectored(ranges, ByteBuffer::allocate);
            ExecutionException e = assertThrows(ExecutionException.class, () -> ranges.get(1).getData().get());
            notAuthentic("damaged in chunk 3", assertInstanceOf(IOException.class, e.getCause()));
            assertArrayEquals(new byte[10], part);
        }
    }

    private void damage(String name, int at) throws IOException {
        Path file = folder.resolve(name + ".phx");
        byte[] bytes = Files.readAllBytes(file);
        bytes[at] ^= 1;
        Files.write(file, bytes);
    }

    private void notAuthentic(String why, IOException e) {
        assertInstanceOf(AuthenticationException.class, e.getCause());
        assertTrue(e.getMessage().contains(why) && e.getMessage().contains("/a: "), e.getMessage());
    }

    @Test
    void theLengthIsAuthenticWhenItIsOpened() throws IOException {
        protect("a", bytes(3 * CHUNK), 12);
        byte[] whole = Files.readAllBytes(folder.resolve("a.phx"));
        Files.write(folder.resolve("a.phx"), Arrays.copyOf(whole, whole.length - CHUNK - 48));
        // Nobody can see it without the key.
        assertEquals(2 * CHUNK, fs.getFileStatus(path("a")).getLen());
        notAuthentic("truncated", assertThrows(IOException.class, () -> fs.open(path("a"))));
        byte[] longer = Arrays.copyOf(whole, whole.length + CHUNK + 48);
        Files.write(folder.resolve("a.phx"), longer);
        assertThrows(IOException.class, () -> fs.open(path("a")));
    }

    @Test
    void whatOpensByNoKeyIsRefused() throws IOException {
        try (PhalanxKey other = PhalanxKey.random()) {
            new Protector(Recipients.of(other)).protect(Files.write(folder.resolve("in"), new byte[9]), folder.resolve("a.phx"));
            IOException e = assertThrows(IOException.class, () -> fs.open(path("a")));
            assertInstanceOf(WrongKeyException.class, e.getCause());
            assertTrue(e.getMessage().contains(other.id().toString()), e.getMessage());
        }
        Files.writeString(folder.resolve("b.phx"), "not a protected file");
        assertInstanceOf(NotPhalanxException.class, assertThrows(IOException.class, () -> fs.open(path("b"))).getCause());
        assertInstanceOf(NotPhalanxException.class, assertThrows(IOException.class, () -> fs.getFileStatus(path("b"))).getCause());
        // It does not spoil the listing, and nobody takes it for an empty file.
        assertEquals(List.of("a", "b"), shown());
        assertEquals(20, fs.listStatus(path("."))[1].getLen() + fs.listStatus(path("."))[0].getLen() - 9);
    }

    @Test
    void whatIsNotProtectedIsNotThere() throws IOException {
        Files.writeString(folder.resolve("plain"), "x");
        Files.writeString(folder.resolve(".phx"), "x");
        protect("a", bytes(5), 12);
        assertEquals(List.of("a"), shown());
        for (String name : List.of("plain", "plain.phx", "b", "a.phx", "a/b", "plain/b")) {
            assertThrows(FileNotFoundException.class, () -> fs.getFileStatus(path(name)), name);
            assertThrows(FileNotFoundException.class, () -> fs.listStatus(path(name)), name);
            assertThrows(FileNotFoundException.class, () -> fs.listLocatedStatus(path(name)), name);
            assertThrows(FileNotFoundException.class, () -> fs.open(path(name)), name);
            assertThrows(ExecutionException.class, () -> fs.openFile(path(name)).build().get(), name);
        }
    }
}
