package phalanx.hadoop;

import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.RandomAccessFile;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntFunction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CanSetReadahead;
import org.apache.hadoop.fs.CanUnbuffer;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.impl.OpenFileParameters;

/**
 * An inner file system for tests, {@code counting:///}, over local folders, whose streams ask for ranges by the rules of S3A's for reads here and there. It
 * keeps what was asked, and counts the requests that were cut because more of them was left than S3A reads to the end.
 */
public final class CountingStore extends RawLocalFileSystem {
    /** {@code HEAD}, or a range such as {@code 0-8191}. */
    static final List<String> ASKED = new ArrayList<>();
    static final AtomicInteger CUT = new AtomicInteger();
    /** The connection is lost once when a stream has come to this place or beyond it, if it is not negative. */
    static final AtomicLong LOST_AT = new AtomicLong(-1);
    /** Whether ranges are given only when others are asked for, after this was set back. */
    static volatile boolean holdsRanges;

    /** A file with an ETag. */
    private static final class Tagged extends FileStatus implements EtagSource {
        private static final long serialVersionUID = 1L;

        Tagged(FileStatus status) {
            super(status.getLen(), status.isDirectory(), 1, 1 << 20, status.getModificationTime(), status.getPath());
        }

        @Override
        public String getEtag() {
            return getLen() + "-" + getModificationTime();
        }

        @Override
        public boolean equals(Object other) {
            return super.equals(other);
        }

        @Override
        public int hashCode() {
            return super.hashCode();
        }
    }

    @Override
    public URI getUri() {
        return URI.create("counting:///");
    }

    @Override
    public String getScheme() {
        return "counting";
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        FileStatus status = new Tagged(super.getFileStatus(path));
        ASKED.add("HEAD");
        return status;
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        int before = ASKED.size();
        FileStatus[] all = super.listStatus(path);
        // The local file system looks at each file.
        ASKED.subList(before, ASKED.size()).clear();
        return Arrays.stream(all).map(Tagged::new).toArray(FileStatus[]::new);
    }

    @Override
    public boolean hasPathCapability(Path path, String capability) throws IOException {
        return capability.equals(CommonPathCapabilities.ABORTABLE_STREAM) || super.hasPathCapability(path, capability);
    }

    @Override
    protected CompletableFuture<FSDataInputStream> openFileWithOptions(Path path, OpenFileParameters parameters) throws IOException {
        Configuration options = parameters.getOptions();
        if (!"random".equals(options.get("fs.option.openfile.read.policy"))) {
            throw new IOException("only reads here and there are counted");
        }
        Tagged status = parameters.getStatus() instanceof Tagged known ? known : (Tagged) getFileStatus(path);
        Stream stream = new Stream(status, options.getLong("fs.s3a.readahead.range", 1 << 16));
        return CompletableFuture.completedFuture(new FSDataInputStream(stream));
    }

    private final class Stream extends FSInputStream implements CanSetReadahead, CanUnbuffer, StreamCapabilities {
        private final Tagged status;
        private final long length;
        /** Null until something is asked for. */
        private RandomAccessFile file;
        private long readahead;
        private long wanted;
        /** Where the request that is read goes on, and where it ends; equal if there is none. */
        private long at;
        private long end;
        /** Ranges that nobody has got yet. */
        private final Map<CompletableFuture<ByteBuffer>, ByteBuffer> vectored = new IdentityHashMap<>();

        Stream(Tagged status, long readahead) {
            this.status = status;
            this.readahead = readahead;
            length = status.getLen();
        }

        /** Asks for a range, on the condition that the file still is what it was. */
        private void ask(long from, long to) throws IOException {
            ASKED.add(from + "-" + (to - 1));
            Tagged now = new Tagged(CountingStore.super.getFileStatus(status.getPath()));
            if (!now.getEtag().equals(status.getEtag())) {
                throw new FileNotFoundException(status.getPath() + " is another file now");
            }
            if (file == null) {
                file = new RandomAccessFile(pathToFile(status.getPath()), "r");
            }
        }

        private void stop() {
            if (end - at > readahead) {
                CUT.incrementAndGet();
            }
            at = end;
        }

        @Override
        public synchronized int read(byte[] into, int offset, int count) throws IOException {
            if (count == 0 || wanted >= length) {
                return count == 0 ? 0 : -1;
            }
            long forward = wanted - at;
            if (at == end || forward < 0 || forward >= Math.min(end - at, Math.max(readahead, 1))) {
                stop();
                end = Math.min(length, wanted + Math.max(readahead, count));
                ask(wanted, end);
            } else if (LOST_AT.get() >= 0 && wanted >= LOST_AT.get()) {
                LOST_AT.set(-1);
                // S3A does not know here how much is read.
                end = Math.min(length, wanted + Math.max(readahead, 1));
                ask(wanted, end);
            }
            file.seek(wanted);
            // Responses come in pieces.
            int read = file.read(into, offset, (int) Math.min(Math.min(count, end - wanted), 10_000));
            wanted += read;
            at = wanted;
            return read;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : Byte.toUnsignedInt(one[0]);
        }

        @Override
        public synchronized void seek(long to) {
            wanted = to;
        }

        @Override
        public synchronized long getPos() {
            return wanted;
        }

        @Override
        public synchronized void readFully(long position, byte[] into, int offset, int count) throws IOException {
            long before = wanted;
            wanted = position;
            for (int done = 0; done < count;) {
                int read = read(into, offset + done, count - done);
                if (read < 0) {
                    throw new EOFException();
                }
                done += read;
            }
            wanted = before;
        }

        @Override
        public synchronized void readVectored(List<? extends FileRange> ranges, IntFunction<ByteBuffer> allocate) throws IOException {
            stop();
            for (FileRange range : ranges) {
                ask(range.getOffset(), range.getOffset() + range.getLength());
                ByteBuffer into = allocate.apply(range.getLength());
                file.seek(range.getOffset());
                file.readFully(into.array());
                CompletableFuture<ByteBuffer> data = new CompletableFuture<>();
                range.setData(data);
                vectored.put(data, into);
            }
            if (!holdsRanges) {
                giveRanges();
            }
        }

        private void giveRanges() {
            vectored.forEach(CompletableFuture::complete);
            vectored.clear();
        }

        @Override
        public synchronized void setReadahead(Long length) {
            readahead = length;
        }

        @Override
        public synchronized void unbuffer() {
            stop();
            // As in S3A.
            vectored.keySet().forEach(data -> data.completeExceptionally(new InterruptedIOException("unbuffer is called")));
            vectored.clear();
        }

        @Override
        public boolean hasCapability(String capability) {
            return capability.equals(StreamCapabilities.READAHEAD) || capability.equals(StreamCapabilities.UNBUFFER);
        }

        @Override
        public boolean seekToNewSource(long target) {
            return false;
        }

        @Override
        public synchronized void close() throws IOException {
            stop();
            if (file != null) {
                file.close();
            }
        }
    }
}
