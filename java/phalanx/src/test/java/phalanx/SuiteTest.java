package phalanx;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SuiteTest {
    @Test
    void everyNumberLeadsBackToItsSuite() {
        for (Suite suite : Suite.values()) {
            assertEquals(Optional.of(suite), Suite.of(suite.number()));
        }
        assertTrue(Suite.of(0).isEmpty());
        assertTrue(Suite.of(6).isEmpty());
    }

    @Test
    void suite4SealsAtMost2To32Chunks() throws IOException {
        for (int log2 : new int[] {12, 20}) {
            long most = 1L << 32 << log2;
            Layout.refuseTooLarge(Suite.AES_256_GCM, log2, 0);
            Layout.refuseTooLarge(Suite.AES_256_GCM, log2, most);
            assertThrows(IOException.class, () -> Layout.refuseTooLarge(Suite.AES_256_GCM, log2, most + 1));
            for (Suite suite : Suite.values()) {
                if (suite.isCtr()) {
                    Layout.refuseTooLarge(suite, log2, most + 1);
                }
            }
        }
    }

    /** A file of holes, which only tmpfs can have in this size, is refused before anything is written. */
    @Test
    void aFileThatIsTooLargeIsRefusedAtOnce(@TempDir Path folder) throws IOException {
        Path memory = Path.of("/dev/shm");
        Needs.require("tmpfs", Files.isWritable(memory));
        Path input = Files.createTempFile(memory, "phalanx-test", "");
        try (RandomAccessFile file = new RandomAccessFile(input.toFile(), "rw")) {
            file.setLength((1L << 44) + 1);
            Path output = folder.resolve("out");
            Recipients recipients = Recipients.of(PhalanxKey.random());
            Protector protector = new Protector(recipients).withSuite(Suite.AES_256_GCM).withChunkLog2(12);
            String why = "too large: AES-256-GCM seals no more than 4294967296 chunks";
            assertTimeoutPreemptively(Duration.ofMinutes(2), () -> {
                ByteArrayOutputStream stream = new ByteArrayOutputStream();
                assertEquals(why, assertThrows(IOException.class, () -> protector.protect(input, output)).getMessage());
                assertEquals(why, assertThrows(IOException.class, () -> protector.protect(input, stream)).getMessage());
                assertEquals(0, stream.size());
                assertEquals(why, assertThrows(IOException.class,
                        () -> SharedFile.protect(input, output, recipients, Suite.AES_256_GCM, 12, false)).getMessage());
            });
            try (var left = Files.list(folder)) {
                assertEquals(0, left.count());
            }
        } finally {
            Files.delete(input);
        }
    }
}
