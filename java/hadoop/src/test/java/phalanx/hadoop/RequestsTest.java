package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.io.TempDir;

/** By an inner file system that counts. {@link S3aRequestsTest} does the same by S3A. */
class RequestsTest extends RequestChecks {
    @TempDir
    Path top;

    @Override
    String folder(Configuration conf) throws Exception {
        asked();
        CountingStore.CUT.set(0);
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
}
