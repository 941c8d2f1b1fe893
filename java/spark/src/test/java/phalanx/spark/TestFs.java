package phalanx.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.URI;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.MultipartUploaderBuilder;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.impl.FileSystemMultipartUploaderBuilder;

/** File systems for tests over local folders. Other JVMs than that of the test are steered by files of a folder. */
public class TestFs extends RawLocalFileSystem {
    /** Parts that begin here or later cannot be read. */
    static final AtomicLong FAILS_FROM = new AtomicLong(Long.MAX_VALUE);
    /** How often a part that begins there is still to fail. */
    static final AtomicLong FAILURES = new AtomicLong();
    /** The ending of names that are opened or renamed without enough memory; empty for none. */
    static final AtomicReference<String> LACKS_MEMORY_AT = new AtomicReference<>("");
    /** The name of a file that goes when somebody asks where its blocks are; empty for none. */
    static final AtomicReference<String> GOES = new AtomicReference<>("");
    /** The name of a file that changes after the check that it has not, which follows its reading; empty for none. */
    static final AtomicReference<String> CHANGES = new AtomicReference<>("");
    private static final AtomicLong CHECKS = new AtomicLong();
    /** Where parts began that were read. */
    static final List<Long> BEGUN = new CopyOnWriteArrayList<>();

    /** As it is before a test. */
    static void begin() {
        FAILS_FROM.set(Long.MAX_VALUE);
        FAILURES.set(0);
        LACKS_MEMORY_AT.set("");
        GOES.set("");
        CHANGES.set("");
        CHECKS.set(0);
        BEGUN.clear();
    }

    @Override
    public URI getUri() {
        return URI.create("test:///");
    }

    @Override
    public String getScheme() {
        return "test";
    }

    @Override
    public FSDataInputStream open(org.apache.hadoop.fs.Path path, int bufferSize) throws IOException {
        needMemory(path);
        return new FSDataInputStream(new Gate(super.open(path, bufferSize), path.getName().endsWith(".phx")));
    }

    @Override
    public BlockLocation[] getFileBlockLocations(org.apache.hadoop.fs.Path path, long start, long length) throws IOException {
        if (path.getName().equals(GOES.get())) {
            Files.deleteIfExists(pathToFile(path).toPath());
            throw new FileNotFoundException(path + ": it has gone");
        }
        return super.getFileBlockLocations(path, start, length);
    }

    private static void needMemory(org.apache.hadoop.fs.Path path) {
        String ending = LACKS_MEMORY_AT.get();
        if (!ending.isEmpty() && path.getName().endsWith(ending)) {
            throw new OutOfMemoryError("as a test wants it");
        }
    }

    @Override
    public boolean rename(org.apache.hadoop.fs.Path from, org.apache.hadoop.fs.Path to) throws IOException {
        needMemory(to);
        return super.rename(from, to);
    }

    @Override
    public FileStatus getFileStatus(org.apache.hadoop.fs.Path path) throws IOException {
        if (path.getName().equals(CHANGES.get()) && !BEGUN.isEmpty() && CHECKS.incrementAndGet() == 2) {
            Path file = pathToFile(path).toPath();
            Files.write(file, new byte[(int) Files.size(file)]);
            Files.setLastModifiedTime(file, FileTime.from(Instant.now().plusSeconds(10)));
        }
        FileStatus status = super.getFileStatus(path);
        // Without permissions, which the local file system asks another program for.
        return new FileStatus(
                status.getLen(), status.isDirectory(), 1, 1 << 20, status.getModificationTime(), makeQualified(status.getPath()));
    }

    /** Reads that wait or fail where a part begins. */
    private final class Gate extends FSInputStream {
        private final FSDataInputStream in;

        /** Headers are read at positions, too. */
        private final boolean isFree;

        Gate(FSDataInputStream in, boolean isFree) {
            this.in = in;
            this.isFree = isFree;
        }

        @Override
        public void seek(long position) throws IOException {
            if (isFree) {
                in.seek(position);
                return;
            }
            BEGUN.add(position);
            if (position >= FAILS_FROM.get() || FAILURES.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
                throw new IOException("a cable was pulled");
            }
            pass(position);
            in.seek(position);
        }

        @Override
        public long getPos() throws IOException {
            return in.getPos();
        }

        @Override
        public boolean seekToNewSource(long target) {
            return false;
        }

        @Override
        public int read() throws IOException {
            return in.read();
        }

        @Override
        public int read(byte[] into, int offset, int length) throws IOException {
            return in.read(into, offset, length);
        }

        @Override
        public void close() throws IOException {
            in.close();
        }
    }

    /** Waits in front of the gate, if there is one. It leaves a file with the number of its process there. */
    private void pass(long position) throws IOException {
        String folder = getConf().get("fs.test.gate");
        if (folder == null || position < getConf().getLong("fs.test.gate.from", 0)) {
            return;
        }
        Path gate = Path.of(folder);
        String name = getConf().getBoolean("fs.test.gate.first", false) ? "first" : "at-" + position;
        try {
            Path arrived = Files.createTempFile(gate, "arriving", "");
            Files.writeString(arrived, Long.toString(ProcessHandle.current().pid()));
            Files.createLink(gate.resolve(name), arrived);
        } catch (FileAlreadyExistsException e) {
            // Another attempt is there already.
            return;
        }
        while (!Files.exists(gate.resolve("open"))) {
            try {
                Thread.sleep(5);
            } catch (InterruptedException e) {
                throw new InterruptedIOException();
            }
        }
    }

    /** The same, as an object store: objects appear when an upload is completed. */
    public static final class Store extends TestFs {
        @Override
        public URI getUri() {
            return URI.create("store:///");
        }

        @Override
        public String getScheme() {
            return "store";
        }

        @Override
        public boolean hasPathCapability(org.apache.hadoop.fs.Path path, String capability) throws IOException {
            return capability.equals(CommonPathCapabilities.ABORTABLE_STREAM)
                    || capability.equals(CommonPathCapabilities.FS_MULTIPART_UPLOADER)
                    || super.hasPathCapability(path, capability);
        }

        @Override
        public MultipartUploaderBuilder<?, ?> createMultipartUploader(org.apache.hadoop.fs.Path base) {
            return new FileSystemMultipartUploaderBuilder(this, base);
        }
    }

    /** A plain file system of folders without concatenation. */
    public static final class NoConcat extends TestFs {
        @Override
        public URI getUri() {
            return URI.create("copied:///");
        }

        @Override
        public String getScheme() {
            return "copied";
        }

        @Override
        public boolean hasPathCapability(org.apache.hadoop.fs.Path path, String capability) throws IOException {
            return !capability.equals(CommonPathCapabilities.FS_CONCAT) && super.hasPathCapability(path, capability);
        }
    }
}
