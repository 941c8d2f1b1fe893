package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.file.Files;
import java.nio.file.attribute.FileTime;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.StorageType;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import phalanx.Layout;
import phalanx.Suite;

/** Lengths and places in listings, and what they cost. */
class ListingTest extends Fixture {
    private static final int MANY = 600;
    private final Map<String, Integer> lengths = new HashMap<>();

    @BeforeEach
    void files() throws IOException {
        fs.close();
        fs = open("phalanx+fake", conf);
        Files.createDirectory(folder.resolve("sub"));
        for (int i = 0; i < MANY; i++) {
            String name = (i % 3 == 0 ? "sub/" : "") + "f" + i;
            protect(name, new byte[i], i % 2 == 0 ? 12 : 20);
            settle(name, 0);
            lengths.put(name, i);
        }
        Files.writeString(folder.resolve("plain"), "x");
    }

    /** Makes a file old. */
    private void settle(String name, int seconds) throws IOException {
        Files.setLastModifiedTime(folder.resolve(name + ".phx"), FileTime.fromMillis(1_700_000_000_000L + 1000L * seconds));
    }

    private String name(FileStatus status) {
        return folder.relativize(java.nio.file.Path.of(status.getPath().toUri().getPath())).toString();
    }

    private Map<String, Integer> listed(RemoteIterator<? extends FileStatus> entries) throws IOException {
        Map<String, Integer> found = new HashMap<>();
        while (entries.hasNext()) {
            FileStatus each = entries.next();
            if (each.isFile()) {
                assertNull(found.put(name(each), (int) each.getLen()));
            }
        }
        return found;
    }

    @Test
    void lengthsAreThoseOfPlaintexts() throws IOException {
        assertEquals(lengths, listed(fs.listFiles(path("."), true)));
        for (String each : new String[] {"f1", "f2", "f599"}) {
            assertEquals(lengths.get(each).longValue(), fs.getFileStatus(path(each)).getLen());
            assertEquals(lengths.get(each).longValue(), fs.listStatus(path(each))[0].getLen());
            assertEquals(lengths.get(each).longValue(), fs.listLocatedStatus(path(each)).next().getLen());
        }
        lengths.keySet().removeIf(each -> each.startsWith("sub/"));
        assertEquals(lengths, listed(fs.listStatusIterator(path("."))));
        assertEquals(lengths, listed(fs.listLocatedStatus(path("."))));
        assertEquals(lengths.size() + 1, fs.listStatus(path(".")).length);
        assertEquals(lengths.values().stream().mapToInt(each -> each).sum(), fs.getContentSummary(path(".")).getLength()
                - fs.getContentSummary(path("sub")).getLength());
    }

    @Test
    void aFileIsOpenedForItsLengthOnce() throws IOException {
        int before = FakeStore.OPENED.get();
        fs.listFiles(path("."), true).hasNext();
        listed(fs.listFiles(path("."), true));
        listed(fs.listFiles(path("."), true));
        fs.listStatus(path("sub"));
        assertEquals(before + MANY, FakeStore.OPENED.get());
        // A new one, and one that is changed.
        protect("new", bytes(77), 12);
        settle("new", 0);
        protect("f1", bytes(99), 12);
        settle("f1", 5);
        lengths.put("new", 77);
        lengths.put("f1", 99);
        assertEquals(lengths, listed(fs.listFiles(path("."), true)));
        assertEquals(before + MANY + 2, FakeStore.OPENED.get());
        // One that was changed just now may change again within a tick of the clock.
        protect("new", bytes(78), 12);
        listed(fs.listFiles(path("."), true));
        listed(fs.listFiles(path("."), true));
        assertEquals(before + MANY + 4, FakeStore.OPENED.get());
        // The status of one file is always read from its header.
        fs.getFileStatus(path("f2"));
        fs.getFileStatus(path("f2"));
        assertEquals(before + MANY + 6, FakeStore.OPENED.get());
    }

    @Test
    void aStatusOpensItsFile() throws Exception {
        byte[] plaintext = bytes(3 * CHUNK);
        protect("a", plaintext, 12);
        for (FileStatus status : new FileStatus[] {fs.getFileStatus(path("a")), copy(fs.getFileStatus(path("a")))}) {
            try (FSDataInputStream in = fs.openFile(path("a")).withFileStatus(status)
                    .must("fs.option.openfile.read.policy", "random").build().get()) {
                assertArrayEquals(plaintext, in.readAllBytes());
            }
        }
    }

    /** As another JVM gets it. */
    private static FileStatus copy(FileStatus status) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(new FileStatus(status.getLen(), false, 1, 1, 1, status.getPath()));
        }
        return (FileStatus) new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray())).readObject();
    }

    @Test
    void blocksAreThoseOfThePlaintext() throws IOException {
        byte[] plaintext = bytes(5 * CHUNK + 5);
        protect("a", plaintext, 12);
        FileStatus status = fs.getFileStatus(path("a"));
        RemoteIterator<LocatedFileStatus> listed = fs.listLocatedStatus(path("."));
        LocatedFileStatus located = listed.next();
        while (!name(located).equals("a")) {
            located = listed.next();
        }
        assertEquals(plaintext.length, located.getLen());
        for (BlockLocation[] blocks : new BlockLocation[][] {
                located.getBlockLocations(), fs.getFileBlockLocations(status, 0, Long.MAX_VALUE)}) {
            check(blocks, 0, plaintext.length);
        }
        for (int i = 0; i < 300; i++) {
            int start = random.nextInt(plaintext.length);
            int length = random.nextInt(plaintext.length - start) + 1;
            check(fs.getFileBlockLocations(status, start, length), start, length);
        }
        assertEquals(0, fs.getFileBlockLocations(status, plaintext.length, 5).length);
        assertEquals(0, fs.getFileBlockLocations(fs.getFileStatus(path("sub")), 0, 5).length);
    }

    /** The blocks cover the range without holes, and each byte's block is that of its place in the protected file. */
    private void check(BlockLocation[] blocks, int start, int length) throws IOException {
        Layout layout = new Layout(Suite.AES_256_CTR_SHA3, 12, 4096, 5 * CHUNK + 5);
        long at = blocks[0].getOffset();
        assertTrue(at <= start);
        for (BlockLocation block : blocks) {
            assertEquals(at, block.getOffset());
            at += block.getLength();
            for (long each : new long[] {block.getOffset(), at - 1}) {
                long stored = layout.fileOffset(each >>> 12) + 48 + (each & CHUNK - 1);
                assertEquals("host" + stored / FakeStore.BLOCK, block.getHosts()[0]);
            }
        }
        assertTrue(at >= start + length, at + " is before " + (start + length));
    }

    @Test
    void allOffsetsOfABlock() throws IOException {
        for (Suite suite : Suite.values()) {
            for (int length : new int[] {0, 1, CHUNK, CHUNK + 1, 3 * CHUNK}) {
                Layout layout = new Layout(suite, 12, 1024, length);
                long last = 0;
                for (long offset = 0; offset <= layout.fileLength() + 3; offset++) {
                    long plain = Blocks.plain(layout, offset);
                    assertTrue(plain == last || plain == last + 1);
                    last = plain;
                }
                assertEquals(length, last);
            }
        }
        String[] names = {"h"};
        BlockLocation block = new BlockLocation(names, names, names, names, names, new StorageType[] {StorageType.SSD}, 0, 9000, true);
        BlockLocation plain = Blocks.plain(new Layout(Suite.AES_256_GCM, 12, 1024, 5000), new BlockLocation[] {block})[0];
        assertEquals(StorageType.SSD, plain.getStorageTypes()[0]);
        assertTrue(plain.isCorrupt());
        assertFalse(plain.isStriped());
        assertEquals(5000, plain.getLength());
    }
}
