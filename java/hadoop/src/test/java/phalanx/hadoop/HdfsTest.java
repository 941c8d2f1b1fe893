package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import phalanx.Header;
import phalanx.Layout;

/** What is special in HDFS: where blocks lie, data nodes that die, and files that replace others. */
class HdfsTest {
    private static final int CHUNK = 4096;

    private final Random random = new Random(3);
    private Configuration conf;
    private FileSystem fs;
    private FileSystem inner;
    private Path folder;

    @BeforeEach
    void prepare() throws IOException {
        conf = Hdfs.conf();
        folder = Hdfs.path("special");
        fs = FileSystem.newInstance(folder.toUri(), conf);
        inner = Hdfs.get().getFileSystem();
        fs.mkdirs(folder);
    }

    @AfterEach
    void close() throws IOException {
        fs.delete(folder, true);
        fs.close();
    }

    private byte[] write(String name, int length, short replication) throws IOException {
        byte[] content = new byte[length];
        random.nextBytes(content);
        try (FSDataOutputStream out = fs.create(new Path(folder, name), true, 4096, replication, Hdfs.BLOCK)) {
            out.write(content);
        }
        return content;
    }

    private byte[] read(String name) throws IOException {
        try (FSDataInputStream in = fs.open(new Path(folder, name))) {
            return in.readAllBytes();
        }
    }

    private List<String> stored() throws IOException {
        return Arrays.stream(inner.listStatus(new Path("/special"))).map(each -> each.getPath().getName()).sorted().toList();
    }

    /** Each byte's block has the hosts of the block in which HDFS has the protected byte. */
    @Test
    void workGoesToTheData() throws IOException {
        // So many blocks, each at random on one of three machines, are not all on the same one.
        int length = 29 * Hdfs.BLOCK + 12_345;
        write("table", length, (short) 1);
        FileStatus status = fs.getFileStatus(new Path(folder, "table"));
        Path stored = new Path("/special/table.phx");
        Layout layout;
        try (FSDataInputStream in = inner.open(stored)) {
            layout = Header.read(in).layout(inner.getFileStatus(stored).getLen());
        }
        Set<String> hosts = new TreeSet<>();
        LocatedFileStatus located = fs.listLocatedStatus(new Path(folder, "table")).next();
        for (BlockLocation[] blocks : new BlockLocation[][] {fs.getFileBlockLocations(status, 0, length), located.getBlockLocations()}) {
            long at = 0;
            for (BlockLocation block : blocks) {
                assertEquals(at, block.getOffset());
                at += block.getLength();
                for (long position : new long[] {block.getOffset(), at - 1}) {
                    long chunk = position / CHUNK;
                    long protectedByte = layout.fileOffset(chunk) + layout.suite().overhead() + position % CHUNK;
                    BlockLocation there = inner.getFileBlockLocations(stored, protectedByte, 1)[0];
                    assertArrayEquals(there.getHosts(), block.getHosts());
                    assertArrayEquals(there.getTopologyPaths(), block.getTopologyPaths());
                }
                hosts.addAll(List.of(block.getHosts()));
            }
            assertEquals(length, at);
            assertTrue(blocks.length >= 30, () -> blocks.length + " blocks");
        }
        // One copy of each block, on several machines.
        assertTrue(hosts.size() > 1 && List.of("host1", "host2", "host3").containsAll(hosts), hosts::toString);
        BlockLocation[] one = fs.getFileBlockLocations(status, 3L * Hdfs.BLOCK, 1);
        assertEquals(1, one.length);
        assertTrue(one[0].getOffset() <= 3L * Hdfs.BLOCK && one[0].getOffset() + one[0].getLength() > 3L * Hdfs.BLOCK);
    }

    @Test
    void allWaysOfReading() throws Exception {
        byte[] content = write("table", 3 * Hdfs.BLOCK + 777, (short) 2);
        for (String policy : new String[] {"default", "sequential", "random", "whole-file"}) {
            try (FSDataInputStream in = fs.openFile(new Path(folder, "table")).opt("fs.option.openfile.read.policy", policy).build().get()) {
                assertArrayEquals(content, in.readAllBytes());
                byte[] part = new byte[100_000];
                in.readFully(Hdfs.BLOCK - 50_000, part);
                assertArrayEquals(Arrays.copyOfRange(content, Hdfs.BLOCK - 50_000, Hdfs.BLOCK + 50_000), part);
                List<FileRange> ranges = List.of(FileRange.createFileRange(10, 5000), FileRange.createFileRange(2 * Hdfs.BLOCK - 9, 200_000));
                in.readVectored(ranges, ByteBuffer::allocate);
                for (FileRange range : ranges) {
                    int from = (int) range.getOffset();
                    assertEquals(ByteBuffer.wrap(content, from, range.getLength()), range.getData().get());
                }
            }
        }
    }

    /** The other copies of its blocks are read. */
    @Test
    void twoDataNodesDie() throws Exception {
        byte[] content = write("table", 4 * Hdfs.BLOCK, (short) 3);
        try (FSDataInputStream in = fs.open(new Path(folder, "table"))) {
            byte[] half = new byte[Hdfs.BLOCK];
            in.readFully(half);
            var stopped = List.of(Hdfs.get().stopDataNode(0), Hdfs.get().stopDataNode(0));
            try {
                byte[] rest = in.readAllBytes();
                assertArrayEquals(Arrays.copyOfRange(content, half.length, content.length), rest);
            } finally {
                for (var node : stopped) {
                    Hdfs.get().restartDataNode(node, true);
                }
                Hdfs.get().waitActive();
            }
        }
    }

    @Test
    void aFileAppearsWholeAndReplacesAnotherAtOnce() throws Exception {
        byte[] first = write("a", 10_000, (short) 1);
        byte[] second = new byte[20_000];
        random.nextBytes(second);
        try (FSDataOutputStream out = fs.create(new Path(folder, "a"), true)) {
            out.write(second);
            assertArrayEquals(first, read("a"));
        }
        assertArrayEquals(second, read("a"));
        assertEquals(List.of("a.phx"), stored());
        // Two writers that replace nothing: one gets the name.
        FSDataOutputStream one = fs.create(new Path(folder, "b"), false);
        FSDataOutputStream other = fs.create(new Path(folder, "b"), false);
        one.write(1);
        other.write(2);
        one.close();
        assertThrows(IOException.class, other::close);
        assertArrayEquals(new byte[] {1}, read("b"));
        assertEquals(List.of("a.phx", "b.phx"), stored());
        // One that is aborted.
        FSDataOutputStream aborted = fs.create(new Path(folder, "c"));
        aborted.write(3);
        aborted.abort();
        assertEquals(List.of("a.phx", "b.phx"), stored());
    }

    @Test
    void renamingWithAndWithoutReplacing() throws Exception {
        byte[] first = write("a", 100, (short) 1);
        write("b", 200, (short) 1);
        conf.set("fs.AbstractFileSystem.phalanx+hdfs.impl", PhalanxFs.class.getName());
        FileContext context = FileContext.getFileContext(folder.toUri(), conf);
        Path from = new Path(folder, "a");
        Path to = new Path(folder, "b");
        assertThrows(IOException.class, () -> context.rename(from, to));
        context.rename(from, to, Options.Rename.OVERWRITE);
        assertArrayEquals(first, read("b"));
        assertEquals(List.of("b.phx"), stored());
        assertFalse(fs.exists(from));
    }
}
