package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.FilterOutputStream;
import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;
import org.junit.jupiter.api.Test;

/** A file is on the disk before it gets its name, so that no power cut leaves a name without the data. */
class SyncTest extends Fixture {
    /** What the inner file system did, in order. */
    private static final List<String> DONE = new ArrayList<>();
    private static boolean canSync;
    private static boolean isFull;

    /** An inner file system, {@code watched:///}, over local folders, that notes what is done. */
    public static final class Watched extends RawLocalFileSystem {
        @Override
        public URI getUri() {
            return URI.create("watched:///");
        }

        @Override
        public String getScheme() {
            return "watched";
        }

        /** Without permissions, which the local file system asks another program for. */
        @Override
        public FileStatus getFileStatus(Path path) throws IOException {
            FileStatus status = super.getFileStatus(path);
            return new FileStatus(
                    status.getLen(), status.isDirectory(), 1, 1 << 20, status.getModificationTime(), status.getPath());
        }

        @Override
        public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication,
                long blockSize, Progressable progress) throws IOException {
            return new FSDataOutputStream(
                    new Noting(super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress)), statistics);
        }

        @Override
        public boolean rename(Path from, Path to) throws IOException {
            DONE.add("rename");
            return super.rename(from, to);
        }
    }

    private static final class Noting extends FilterOutputStream implements Syncable, StreamCapabilities {
        private final FSDataOutputStream inner;

        Noting(FSDataOutputStream inner) {
            super(inner);
            this.inner = inner;
        }

        @Override
        public void write(byte[] from, int offset, int length) throws IOException {
            inner.write(from, offset, length);
        }

        @Override
        public boolean hasCapability(String capability) {
            return canSync && capability.equals(StreamCapabilities.HSYNC);
        }

        @Override
        public void hflush() {
            DONE.add("hflush");
        }

        @Override
        public void hsync() throws IOException {
            DONE.add("hsync of " + inner.getPos());
            if (isFull) {
                throw new IOException("no space left");
            }
            inner.hsync();
        }

        @Override
        public void close() throws IOException {
            DONE.add("close");
            inner.close();
        }
    }

    private FileSystem watched() throws IOException {
        DONE.clear();
        canSync = true;
        isFull = false;
        conf.set("fs.watched.impl", Watched.class.getName());
        conf.set("fs.phalanx+watched.impl", PhalanxFileSystem.class.getName());
        return open("phalanx+watched", conf);
    }

    private void write(FileSystem to) throws IOException {
        try (FSDataOutputStream out = to.create(path("a"), true)) {
            out.write(bytes(3 * CHUNK));
        }
    }

    @Test
    void allOfAFileIsSyncedBeforeItGetsItsName() throws IOException {
        try (FileSystem other = watched()) {
            for (int i = 0; i < 2; i++) {
                DONE.clear();
                write(other);
                long stored = java.nio.file.Files.size(folder.resolve("a.phx"));
                assertEquals(List.of("hsync of " + stored, "close", "rename"), DONE);
            }
        }
    }

    @Test
    void aFileThatCannotBeSyncedGetsNoName() throws IOException {
        write("a", new byte[] {7});
        try (FileSystem other = watched()) {
            isFull = true;
            assertEquals("no space left", assertThrows(IOException.class, () -> write(other)).getMessage());
        }
        assertArrayEquals(new byte[] {7}, read("a"));
        assertEquals(List.of("a.phx"), stored());
    }

    @Test
    void nothingIsSyncedThatNeedNotOrCannotBe() throws IOException {
        try (FileSystem other = watched()) {
            canSync = false;
            write(other);
            assertEquals(List.of("close", "rename"), DONE);
        }
        conf.setBoolean(PhalanxFileSystem.SYNC, false);
        try (FileSystem other = watched()) {
            write(other);
            assertEquals(List.of("close", "rename"), DONE);
        }
    }

    /** The local file system of Hadoop, as it is, can. */
    @Test
    void localFoldersCanSync() throws IOException {
        Path file = new Path("file://" + folder, "b");
        try (Inner inner = Inner.of(file.toUri(), conf); FSDataOutputStream out = inner.create(file)) {
            assertEquals(true, out.hasCapability(StreamCapabilities.HSYNC));
        }
    }
}
