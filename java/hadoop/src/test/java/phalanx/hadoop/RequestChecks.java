package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.attribute.FileTime;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.functional.FutureIO;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import phalanx.Header;
import phalanx.Layout;

/** Which ranges of a protected file are asked for when columns of it are read: no byte more than the chunks, and none twice. */
abstract class RequestChecks {
    static final int CHUNK = 1 << 16;
    /** Twenty columns, and a footer that lies in the last chunk. */
    private static final int COLUMN = 9 * CHUNK + 1000;
    static final byte[] TABLE = new byte[20 * COLUMN + 5000];

    Path path;
    Layout layout;
    private FileSystem fs;

    /** Where the table goes. Configures what is needed for that. */
    abstract String folder(Configuration conf) throws Exception;

    /** Where a file of the folder lies. */
    abstract java.nio.file.Path stored(String name);

    /** What was asked of the inner file system since the last call: {@code HEAD}, or a range such as {@code 0-8191}. */
    abstract List<String> asked();

    /** How many were cut since then, where that is known: what is cut has been sent in vain, and its connection is lost. */
    void assertCut(int requests) {}

    void assertCutAtMost(int requests) {}

    @BeforeEach
    final void prepare() throws Exception {
        Configuration conf = new Configuration();
        LocalContract.configure(conf);
        conf.set(PhalanxFileSystem.CHUNK_SIZE, "64K");
        path = new Path(folder(conf), "table");
        new Random(20).nextBytes(TABLE);
        try (FileSystem writer = FileSystem.newInstance(path.toUri(), conf); FSDataOutputStream out = writer.create(path)) {
            out.write(TABLE);
        }
        try (FileChannel channel = FileChannel.open(stored("table.phx"))) {
            layout = Header.read(channel).layout(channel.size());
        }
        // One that knows nothing of the file.
        fs = FileSystem.newInstance(path.toUri(), conf);
        asked();
    }

    @AfterEach
    final void close() throws IOException {
        if (fs != null) {
            fs.close();
        }
    }

    /** The range of these chunks. */
    String chunks(long first, long last) {
        return layout.fileOffset(first) + "-" + (Math.min(layout.fileLength(), layout.fileOffset(last + 1)) - 1);
    }

    String last() {
        return chunks(layout.chunks() - 1, layout.chunks() - 1);
    }

    FSDataInputStream open(Path file, String policy) throws Exception {
        return fs.openFile(file).opt("fs.option.openfile.read.policy", policy).build().get();
    }

    /** As Parquet does. */
    private void readFooter(FSDataInputStream in) throws IOException {
        for (int length : new int[] {8, 4000}) {
            byte[] part = new byte[length];
            in.seek(TABLE.length - length);
            in.readFully(part);
            assertArrayEquals(Arrays.copyOfRange(TABLE, TABLE.length - length, TABLE.length), part);
        }
    }

    private void checkColumn(int column, ByteBuffer read) {
        assertEquals(ByteBuffer.wrap(TABLE, column * COLUMN, COLUMN), read);
    }

    @Test
    void aColumnIsOneRequestAndTheEndsAreReadOnce() throws Exception {
        FileStatus status = fs.listStatus(path.getParent())[0];
        assertEquals(List.of("0-8191"), asked());
        try (FSDataInputStream in = fs.open(status.getPath())) {
            readFooter(in);
        }
        assertEquals(List.of("HEAD", last()), asked());
        // Column 7 begins and ends in the middle of a chunk.
        long first = 7L * COLUMN / CHUNK;
        String column = chunks(first, (8L * COLUMN - 1) / CHUNK);
        try (FSDataInputStream in = fs.open(status.getPath())) {
            readFooter(in);
            ByteBuffer into = ByteBuffer.allocate(COLUMN);
            in.seek(7L * COLUMN);
            assertEquals(COLUMN, in.read(into));
            checkColumn(7, into.flip());
            readFooter(in);
        }
        assertEquals(List.of("HEAD", column), asked());
        try (FSDataInputStream in = fs.openFile(status.getPath()).withFileStatus(status).opt("fs.option.openfile.read.policy", "parquet, vector, random")
                .build().get()) {
            byte[] into = new byte[COLUMN];
            in.readFully(7L * COLUMN, into);
            checkColumn(7, ByteBuffer.wrap(into));
            FileRange range = FileRange.createFileRange(7L * COLUMN, COLUMN);
            in.readVectored(List.of(range), ByteBuffer::allocate);
            checkColumn(7, range.getData().get());
            readFooter(in);
        }
        assertEquals(List.of(column, column), asked());
        assertCut(0);
    }

    /** Reads a kilobyte after the other, as text is read. */
    void readInOrder(FSDataInputStream in, int from, int to) throws IOException {
        byte[] part = new byte[1000];
        in.seek(from);
        for (int at = from; at < to; at += part.length) {
            int length = Math.min(part.length, to - at);
            in.readFully(part, 0, length);
            assertArrayEquals(Arrays.copyOfRange(TABLE, at, at + length), Arrays.copyOf(part, length));
        }
    }

    @Test
    void aFileIsReadFromItsBeginningByOneRequest() throws Exception {
        try (FSDataInputStream in = fs.open(path)) {
            readInOrder(in, 0, TABLE.length);
        }
        assertEquals(List.of("HEAD", "0-8191", last(), chunks(0, layout.chunks() - 2)), asked());
        assertCut(0);
    }

    /** A read that is longer than what is fetched by one step. */
    @Test
    void aLongReadIsOneRequest() throws Exception {
        int from = 30 * CHUNK;
        int most = 8 * Ahead.BLOCK / CHUNK;
        byte[] part = new byte[(most + 20) * CHUNK - 7];
        try (FSDataInputStream in = fs.open(path)) {
            in.seek(from);
            in.readFully(part);
        }
        assertArrayEquals(Arrays.copyOfRange(TABLE, from, from + part.length), part);
        assertEquals(List.of("HEAD", "0-8191", last(), chunks(30, 30 + most + 19)), asked());
        assertCut(0);
    }

    @Test
    void aSplitIsReadByRequestsThatGrow() throws Exception {
        try (FSDataInputStream in = fs.open(path)) {
            readInOrder(in, 20 * CHUNK + 10, 40 * CHUNK);
            readInOrder(in, 5 * CHUNK, 6 * CHUNK);
        }
        List<String> requests = List.of(
                "HEAD", "0-8191", last(), chunks(20, 20), chunks(21, 22), chunks(23, 26), chunks(27, 34), chunks(35, 50), chunks(5, 5));
        assertEquals(requests, asked());
        // What was left of the fifth may have been fetched ahead, or not yet.
        assertCutAtMost(1);
        try (FSDataInputStream in = open(path, "sequential")) {
            readInOrder(in, 20 * CHUNK + 10, 40 * CHUNK);
        }
        assertEquals(List.of("HEAD", chunks(20, 20), chunks(21, layout.chunks() - 2)), asked());
        assertCut(1);
    }

    /** It begins where a file that is read in order begins, too. Only the policy tells them apart. */
    @Test
    void theFirstColumnIsOneRequestIfThePolicySaysSo() throws Exception {
        byte[] column = new byte[COLUMN];
        for (String policy : new String[] {"random", "parquet, vector, random"}) {
            try (FSDataInputStream in = open(path, policy)) {
                readFooter(in);
                asked();
                in.seek(0);
                in.readFully(column);
                checkColumn(0, ByteBuffer.wrap(column));
                assertEquals(List.of(chunks(0, COLUMN / CHUNK)), asked());
            }
            assertCut(0);
        }
        for (String policy : new String[] {"default", "adaptive, random"}) {
            try (FSDataInputStream in = open(path, policy)) {
                asked();
                in.readFully(column);
                checkColumn(0, ByteBuffer.wrap(column));
                assertEquals(List.of(chunks(0, layout.chunks() - 2)), asked());
            }
            assertCut(1);
        }
    }

    private void write(Path file, byte[] content, long modified) throws IOException {
        try (FSDataOutputStream out = fs.create(file, true)) {
            out.write(content);
        }
        // Where the store's ETags are made of this, they do not depend on the clock.
        Files.setLastModifiedTime(stored(file.getName() + ".phx"), FileTime.fromMillis(modified));
    }

    private static byte[] content(int seed, int length) {
        byte[] content = new byte[length];
        new Random(seed).nextBytes(content);
        return content;
    }

    private void assertContent(byte[] content, Path file) throws IOException {
        try (FSDataInputStream in = fs.open(file)) {
            assertArrayEquals(content, in.readAllBytes());
        }
    }

    private byte[] readAs(FileStatus status) throws Exception {
        try (FSDataInputStream in = FutureIO.awaitFuture(fs.openFile(status.getPath()).withFileStatus(status).build())) {
            return in.readAllBytes();
        }
    }

    @Test
    void theEndsOfAVersionAreNoOthers() throws Exception {
        for (int length : new int[] {1000, 3 * CHUNK + 1000}) {
            Path first = new Path(path.getParent(), "first" + length);
            Path second = new Path(path.getParent(), "second" + length);
            // Two paths of one length and one time, and then one path of one length and two times.
            write(first, content(1, length), 1_000_000_000);
            write(second, content(2, length), 1_000_000_000);
            for (int round = 0; round < 2; round++) {
                assertContent(content(1, length), first);
                assertContent(content(2, length), second);
            }
            write(second, content(3, length), 2_000_000_000);
            for (int round = 0; round < 2; round++) {
                assertContent(content(1, length), first);
                assertContent(content(3, length), second);
            }
        }
    }

    /** All of it lies in the last chunk, which is remembered. */
    @Test
    void aFileOfOneChunkIsNotReadWithoutTheStore() throws Exception {
        Path small = new Path(path.getParent(), "small");
        write(small, content(4, 1000), 1_000_000_000);
        FileStatus status = fs.getFileStatus(small);
        assertArrayEquals(content(4, 1000), readAs(status));
        asked();
        assertContent(content(4, 1000), small);
        assertEquals(List.of("HEAD"), asked());
        assertArrayEquals(content(4, 1000), readAs(status));
        assertEquals(1, asked().size());
        write(small, content(5, 1000), 2_000_000_000);
        assertThrows(IOException.class, () -> readAs(status));
        assertContent(content(5, 1000), small);
        FileStatus other = fs.getFileStatus(small);
        Files.delete(stored("small.phx"));
        assertThrows(IOException.class, () -> readAs(other));
    }
}
