package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** By an inner file system that counts. {@link S3aRequestsTest} does the same by S3A. */
class RequestsTest extends RequestChecks {
    /** For a scan: one at its beginning, one after the connection is lost, and one for the rest of the last read. */
    private static final int MOST_REQUESTS = 3;

    @TempDir
    Path top;

    @Override
    String folder(Configuration conf) throws Exception {
        asked();
        CountingStore.CUT.set(0);
        CountingStore.LOST_AT.set(-1);
        declare(conf);
        return "phalanx+counting://" + Files.createDirectory(top.resolve("files"));
    }

    private static void declare(Configuration conf) {
        conf.set("fs.counting.impl", CountingStore.class.getName());
        conf.set("fs.phalanx+counting.impl", PhalanxFileSystem.class.getName());
    }

    @Override
    Path stored(String name) {
        return top.resolve("files").resolve(name);
    }

    @Override
    List<String> asked() {
        List<String> asked = List.copyOf(CountingStore.ASKED);
        CountingStore.ASKED.clear();
        return asked;
    }

    @Override
    void assertCut(int requests) {
        assertEquals(requests, CountingStore.CUT.getAndSet(0));
    }

    @Override
    void assertCutAtMost(int requests) {
        assertTrue(CountingStore.CUT.getAndSet(0) <= requests);
    }

    /** S3A asks anew where the connection was lost. That request is as long as what was left, and not one for each chunk. */
    @Test
    void aLostConnectionCostsOneRequestMore() throws Exception {
        for (String policy : new String[] {"default", "sequential"}) {
            try (FSDataInputStream in = open(path, policy)) {
                asked();
                CountingStore.LOST_AT.set(10 * CHUNK + 20_000);
                readInOrder(in, 0, TABLE.length);
            }
            assertEquals(-1, CountingStore.LOST_AT.get());
            List<String> ranges = asked();
            assertTrue(ranges.size() <= MOST_REQUESTS, ranges::toString);
        }
    }

    /** Ranges that are on their way come, wherever reads in order go meanwhile. */
    @Test
    void aSeekDoesNotEndRangesThatAreOnTheirWay() throws Exception {
        Configuration conf = new Configuration();
        LocalContract.configure(conf);
        declare(conf);
        conf.set(AheadThreads.LENGTH, "0");
        try (FileSystem alone = FileSystem.newInstance(path.toUri(), conf);
                FSDataInputStream in = alone.openFile(path).opt("fs.option.openfile.read.policy", "sequential").build().get()) {
            FileRange held = FileRange.createFileRange(90 * CHUNK + 5, 1000);
            CountingStore.holdsRanges = true;
            in.readVectored(List.of(held), ByteBuffer::allocate);
            CountingStore.holdsRanges = false;
            readInOrder(in, 0, 2 * CHUNK);
            readInOrder(in, 20 * CHUNK, 21 * CHUNK);
            in.readVectored(List.of(FileRange.createFileRange(60 * CHUNK, 10)), ByteBuffer::allocate);
            assertEquals(ByteBuffer.wrap(TABLE, 90 * CHUNK + 5, 1000), held.getData().get());
        }
    }
}
