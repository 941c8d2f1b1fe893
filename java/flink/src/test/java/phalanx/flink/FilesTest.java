package phalanx.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.IllegalConfigurationException;
import org.apache.flink.core.fs.BlockLocation;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.FSDataOutputStream;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem.WriteMode;
import org.junit.jupiter.api.Test;
import phalanx.AuthenticationException;
import phalanx.Keyring;
import phalanx.PhalanxKey;
import phalanx.Protector;
import phalanx.Recipients;
import phalanx.WrongKeyException;

/** Files as Flink sees them. */
class FilesTest extends Fixture {
    private void write(String name, byte[] plaintext, WriteMode mode) throws IOException {
        try (FSDataOutputStream out = fs.create(path(name), mode)) {
            for (int at = 0; at < plaintext.length; at += 1000) {
                out.write(plaintext, at, Math.min(1000, plaintext.length - at));
            }
            assertEquals(plaintext.length, out.getPos());
        }
    }

    @Test
    void allLengthsAroundChunksAreWrittenReadAndShown() throws IOException {
        for (int length : new int[] {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 17}) {
            byte[] plaintext = bytes(length);
            write("a", plaintext, WriteMode.OVERWRITE);
            assertEquals(List.of("a.phx"), stored());
            assertArrayEquals(plaintext, unprotected(folder.resolve("a.phx")));
            assertArrayEquals(plaintext, read("a"));
            assertEquals(length, fs.getFileStatus(path("a")).getLen());
            assertEquals(length, fs.listStatus(path(""))[0].getLen());
        }
    }

    @Test
    void readsHereAndThere() throws IOException {
        byte[] plaintext = bytes(10 * CHUNK + 5);
        new Protector(Recipients.of(key)).withChunkLog2(12).protect(new ByteArrayInputStream(plaintext), folder.resolve("a.phx"));
        try (FSDataInputStream in = fs.open(path("a"))) {
            for (int i = 0; i < 200; i++) {
                int at = random.nextInt(plaintext.length + 1);
                int length = random.nextInt(Math.min(plaintext.length - at, 3 * CHUNK) + 1);
                in.seek(at);
                assertArrayEquals(Arrays.copyOfRange(plaintext, at, at + length), in.readNBytes(length));
                assertEquals(at + length, in.getPos());
            }
            in.seek(plaintext.length);
            assertEquals(-1, in.read());
            assertThrows(IOException.class, () -> in.seek(plaintext.length + 1));
        }
    }

    @Test
    void anAlteredChunkGivesNothing() throws IOException {
        write("a", bytes(5 * CHUNK), WriteMode.NO_OVERWRITE);
        byte[] stored = Files.readAllBytes(folder.resolve("a.phx"));
        stored[stored.length - 4 * CHUNK] ^= 1;
        Files.write(folder.resolve("a.phx"), stored);
        try (FSDataInputStream in = fs.open(path("a"))) {
            IOException failure = assertThrows(IOException.class, in::readAllBytes);
            assertTrue(failure.getCause() instanceof AuthenticationException, failure.toString());
        }
        Files.write(folder.resolve("a.phx"), Arrays.copyOf(stored, stored.length - CHUNK - 48));
        assertThrows(IOException.class, () -> fs.open(path("a")));
    }

    @Test
    void anotherKeyOpensNothing() throws IOException {
        write("a", bytes(10), WriteMode.NO_OVERWRITE);
        Keyring.in(top.resolve("ring")).store("other", PhalanxKey.random());
        fs = open("other");
        IOException failure = assertThrows(IOException.class, () -> fs.open(path("a")));
        assertTrue(failure.getCause() instanceof WrongKeyException, failure.toString());
        fs = open("");
        // Without names the keyring opens files, and nothing is written.
        assertEquals(10, read("a").length);
        assertTrue(assertThrows(IOException.class, () -> fs.create(path("b"), WriteMode.OVERWRITE)).getMessage().contains("phalanx.keys"));
        assertEquals(List.of("a.phx"), stored());
    }

    @Test
    void settingsAreChecked() {
        Configuration conf = settings("work");
        conf.setString("phalanx.chunk.size", "5kb");
        assertThrows(IllegalConfigurationException.class, () -> new Settings(conf));
        Configuration other = settings("work");
        other.setString("phalanx.cipher", "rot13");
        assertThrows(IllegalConfigurationException.class, () -> new Settings(other));
        Configuration merging = settings("work");
        merging.setString("execution.checkpointing.file-merging.enabled", "true");
        merging.setString("execution.checkpointing.dir", "file:///checkpoints");
        new Settings(merging);
        merging.setString("execution.checkpointing.dir", "phalanx+file:///checkpoints");
        assertThrows(IllegalConfigurationException.class, () -> new Settings(merging));
    }

    @Test
    void filesOfOthersAreNotShown() throws IOException {
        Files.write(folder.resolve("plain"), bytes(10));
        Files.createDirectory(folder.resolve("sub"));
        write("sub/a", bytes(10), WriteMode.NO_OVERWRITE);
        FileStatus[] all = fs.listStatus(path(""));
        assertEquals(1, all.length);
        assertTrue(all[0].isDir());
        assertFalse(fs.exists(path("plain")));
        assertThrows(FileNotFoundException.class, () -> fs.open(path("plain")));
        assertEquals(path("sub/a"), fs.listStatus(path("sub"))[0].getPath());
        // A file that is none has no length that could be shown, and does not spoil the listing.
        Files.write(folder.resolve("sub/broken.phx"), bytes(10));
        assertEquals(2, fs.listStatus(path("sub")).length);
        assertThrows(IOException.class, () -> fs.getFileStatus(path("sub/broken")));
    }

    @Test
    void filesMoveAndVanish() throws IOException {
        byte[] plaintext = bytes(100);
        write("a", plaintext, WriteMode.NO_OVERWRITE);
        assertThrows(IOException.class, () -> fs.create(path("a"), WriteMode.NO_OVERWRITE));
        assertTrue(fs.mkdirs(path("sub")));
        assertThrows(IOException.class, () -> fs.mkdirs(path("a")));
        assertThrows(IOException.class, () -> fs.mkdirs(path("sub.phx")));
        assertThrows(IOException.class, () -> fs.rename(path("a"), path("sub")));
        assertThrows(IOException.class, () -> fs.rename(path("sub"), path("a")));
        assertTrue(fs.rename(path("a"), path("sub/b")));
        assertArrayEquals(plaintext, read("sub/b"));
        assertTrue(fs.rename(path("sub"), path("other")));
        assertArrayEquals(plaintext, read("other/b"));
        assertTrue(fs.delete(path("other/b"), false));
        assertFalse(fs.delete(path("other/b"), false));
        assertTrue(fs.delete(path("other"), true));
        assertEquals(List.of(), stored());
    }

    @Test
    void blocksCoverThePlaintext() throws IOException {
        write("a", bytes(5 * CHUNK + 5), WriteMode.NO_OVERWRITE);
        FileStatus status = fs.getFileStatus(path("a"));
        BlockLocation[] blocks = fs.getFileBlockLocations(status, 0, status.getLen());
        assertEquals(0, blocks[0].getOffset());
        BlockLocation last = blocks[blocks.length - 1];
        assertEquals(status.getLen(), last.getOffset() + last.getLength());
    }

    @Test
    void aFileAppearsWhenItIsClosed() throws IOException {
        FSDataOutputStream out = fs.create(path("a"), WriteMode.NO_OVERWRITE);
        out.write(bytes(3 * CHUNK));
        assertFalse(fs.exists(path("a")));
        // Flink's checkpoints ask for this before they close a file.
        out.sync();
        assertFalse(fs.exists(path("a")));
        out.close();
        assertTrue(fs.exists(path("a")));
    }
}
