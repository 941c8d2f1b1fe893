package phalanx.hadoop;

import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.fs.Abortable;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * An inner file system for tests, {@code fake:///}, over local folders: like an object store, its files appear when they are closed,
 * and their writes can be aborted. It has blocks of 1000 bytes on hosts of their own, and counts how often files are opened.
 */
public final class FakeStore extends RawLocalFileSystem {
    static final AtomicInteger OPENED = new AtomicInteger();
    /** Whether the disk is full. */
    static final AtomicBoolean FULL = new AtomicBoolean();
    /** What a file that is opened meanwhile does in each read, after it has the bytes, or null. */
    static final AtomicReference<InRead> IN_READ = new AtomicReference<>();
    static final int BLOCK = 1000;

    @FunctionalInterface
    interface InRead {
        void run() throws IOException;
    }

    private static final class Watched extends FSInputStream {
        private final FSDataInputStream in;
        private final InRead also;

        Watched(FSDataInputStream in, InRead also) {
            this.in = in;
            this.also = also;
        }

        @Override
        public int read() throws IOException {
            int read = in.read();
            also.run();
            return read;
        }

        @Override
        public int read(byte[] into, int offset, int length) throws IOException {
            int read = in.read(into, offset, length);
            also.run();
            return read;
        }

        @Override
        public int read(long position, byte[] into, int offset, int length) throws IOException {
            int read = in.read(position, into, offset, length);
            also.run();
            return read;
        }

        @Override
        public void seek(long position) throws IOException {
            in.seek(position);
        }

        @Override
        public long getPos() throws IOException {
            return in.getPos();
        }

        @Override
        public boolean seekToNewSource(long position) {
            return false;
        }

        @Override
        public void close() throws IOException {
            in.close();
        }
    }

    @Override
    public URI getUri() {
        return URI.create("fake:///");
    }

    @Override
    public String getScheme() {
        return "fake";
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        OPENED.incrementAndGet();
        FSDataInputStream in = super.open(path, bufferSize);
        InRead also = IN_READ.get();
        return also == null ? in : new FSDataInputStream(new Watched(in, also));
    }

    @Override
    protected CompletableFuture<FSDataInputStream> openFileWithOptions(Path path, OpenFileParameters parameters)
            throws IOException {
        return CompletableFuture.completedFuture(open(path, parameters.getBufferSize()));
    }

    /** Without permissions, which the local file system asks another program for. */
    private static FileStatus bare(FileStatus status) {
        return new FileStatus(status.getLen(), status.isDirectory(), 1, BLOCK, status.getModificationTime(), status.getPath());
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        return bare(super.getFileStatus(path));
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        return Arrays.stream(super.listStatus(path)).map(FakeStore::bare).toArray(FileStatus[]::new);
    }

    @Override
    public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication,
            long blockSize, Progressable progress) throws IOException {
        Path unseen = path.suffix(".unseen");
        OutputStream out = super.create(unseen, permission, true, bufferSize, replication, blockSize, progress);
        return new FSDataOutputStream(new Unseen(out, unseen, path), statistics);
    }

    private final class Unseen extends FilterOutputStream implements Abortable {
        private final Path unseen;
        private final Path path;
        private boolean closed;

        Unseen(OutputStream out, Path unseen, Path path) {
            super(out);
            this.unseen = unseen;
            this.path = path;
        }

        @Override
        public void write(byte[] from, int offset, int length) throws IOException {
            if (FULL.get()) {
                throw new IOException("no space left");
            }
            out.write(from, offset, length);
        }

        @Override
        public void close() throws IOException {
            if (!closed) {
                closed = true;
                super.close();
                rename(unseen, path);
            }
        }

        @Override
        public AbortableResult abort() {
            boolean was = closed;
            closed = true;
            try {
                out.close();
                delete(unseen, false);
            } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
            return new AbortableResult() {
                @Override
                public boolean alreadyClosed() {
                    return was;
                }

                @Override
                public IOException anyCleanupException() {
                    return null;
                }
            };
        }
    }

    @Override
    public boolean hasPathCapability(Path path, String capability) throws IOException {
        return capability.equals(CommonPathCapabilities.ABORTABLE_STREAM) || super.hasPathCapability(path, capability);
    }

    @Override
    public BlockLocation[] getFileBlockLocations(FileStatus file, long start, long length) {
        long first = start / BLOCK;
        long last = (Math.min(file.getLen(), start + length) - 1) / BLOCK;
        BlockLocation[] blocks = new BlockLocation[(int) (last - first + 1)];
        for (int i = 0; i < blocks.length; i++) {
            long offset = (first + i) * BLOCK;
            String[] hosts = {"host" + (first + i)};
            blocks[i] = new BlockLocation(hosts, hosts, offset, Math.min(BLOCK, file.getLen() - offset));
        }
        return blocks;
    }
}
