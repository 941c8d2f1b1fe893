package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
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
        conf.set("fs.counting.impl", CountingStore.class.getName());
        conf.set("fs.phalanx+counting.impl", PhalanxFileSystem.class.getName());
        return "phalanx+counting://" + Files.createDirectory(top.resolve("files"));
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
}
