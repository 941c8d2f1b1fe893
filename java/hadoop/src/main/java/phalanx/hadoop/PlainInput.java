package phalanx.hadoop;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Locale;
import java.util.function.IntFunction;
import org.apache.hadoop.fs.ByteBufferPositionedReadable;
import org.apache.hadoop.fs.ByteBufferReadable;
import org.apache.hadoop.fs.CanUnbuffer;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.statistics.IOStatistics;
import org.apache.hadoop.fs.statistics.IOStatisticsSource;

/** The plaintext of a protected file. Reads at positions and of ranges may go on side by side. */
final class PlainInput extends FSInputStream
        implements ByteBufferReadable, ByteBufferPositionedReadable, CanUnbuffer, StreamCapabilities, IOStatisticsSource {
    private final Opened file;
    private long position;

    PlainInput(Opened file) {
        this.file = file;
    }

    /** For tests. */
    Opened file() {
        return file;
    }

    @Override
    public synchronized int read() throws IOException {
        ByteBuffer one = ByteBuffer.allocate(1);
        return read(one) < 0 ? -1 : Byte.toUnsignedInt(one.get(0));
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
        return read(ByteBuffer.wrap(into, offset, length));
    }

    /** One that fails has read nothing, also if it has come to a second chunk. So whoever reads again misses no bytes. */
    @Override
    public synchronized int read(ByteBuffer into) throws IOException {
        int start = into.position();
        boolean isDone = false;
        try {
            int count = read(position, into, true);
            position += Math.max(0, count);
            isDone = true;
            return count;
        } finally {
            if (!isDone) {
                into.position(start);
            }
        }
    }

    @Override
    public synchronized int available() throws IOException {
        file.checkOpen();
        return (int) Math.min(Integer.MAX_VALUE, file.length() - position);
    }

    @Override
    public synchronized void seek(long to) throws IOException {
        file.checkOpen();
        if (to < 0) {
            throw new EOFException(FSExceptionMessages.NEGATIVE_SEEK);
        }
        if (to > file.length()) {
            throw new EOFException(FSExceptionMessages.CANNOT_SEEK_PAST_EOF);
        }
        position = to;
    }

    @Override
    public synchronized long skip(long count) throws IOException {
        file.checkOpen();
        long skipped = Math.max(0, Math.min(count, file.length() - position));
        position += skipped;
        return skipped;
    }

    @Override
    public synchronized long getPos() throws IOException {
        return position;
    }

    @Override
    public boolean seekToNewSource(long target) {
        return false;
    }

    @Override
    public int read(long from, byte[] into, int offset, int length) throws IOException {
        validatePositionedReadArgs(from, into, offset, length);
        return read(from, ByteBuffer.wrap(into, offset, length));
    }

    @Override
    public void readFully(long from, byte[] into, int offset, int length) throws IOException {
        validatePositionedReadArgs(from, into, offset, length);
        readFully(from, ByteBuffer.wrap(into, offset, length));
    }

    @Override
    public int read(long from, ByteBuffer into) throws IOException {
        file.checkOpen();
        if (from < 0) {
            throw new EOFException(FSExceptionMessages.NEGATIVE_SEEK);
        }
        return read(from, into, false);
    }

    private int read(long from, ByteBuffer into, boolean inOrder) throws IOException {
        file.checkOpen();
        int done = 0;
        while (into.hasRemaining()) {
            int count = file.read(from + done, into, inOrder);
            if (count < 0) {
                return done == 0 ? -1 : done;
            }
            done += count;
        }
        return done;
    }

    @Override
    public void readFully(long from, ByteBuffer into) throws IOException {
        int length = into.remaining();
        if (length > 0 && read(from, into) < length) {
            throw new EOFException(FSExceptionMessages.EOF_IN_READ_FULLY);
        }
    }

    @Override
    public int minSeekForVectorReads() {
        return Math.max(file.layout().chunkLength(), file.source().stream().minSeekForVectorReads());
    }

    @Override
    public int maxReadSizeForVectorReads() {
        return Ranges.MOST_AT_ONCE;
    }

    @Override
    public void readVectored(List<? extends FileRange> ranges, IntFunction<ByteBuffer> allocate) throws IOException {
        file.checkOpen();
        new Ranges(file).read(ranges, allocate);
    }

    @Override
    public synchronized void unbuffer() {
        file.unbuffer();
    }

    @Override
    public boolean hasCapability(String capability) {
        return switch (capability.toLowerCase(Locale.ROOT)) {
            case StreamCapabilities.UNBUFFER, StreamCapabilities.READBYTEBUFFER, StreamCapabilities.PREADBYTEBUFFER,
                    StreamCapabilities.VECTOREDIO -> true;
            case StreamCapabilities.IOSTATISTICS -> file.source().stream().hasCapability(capability);
            default -> false;
        };
    }

    /** Those of the inner stream: what was asked of the store. */
    @Override
    public IOStatistics getIOStatistics() {
        return file.source().stream().getIOStatistics();
    }

    /** Overwrites the keys and the chunks in memory. */
    @Override
    public synchronized void close() throws IOException {
        file.close();
    }
}
