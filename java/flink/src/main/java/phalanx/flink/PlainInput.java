package phalanx.flink;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import phalanx.ChunkCipher;
import phalanx.Header;
import phalanx.KeyProvider;
import phalanx.Layout;
import phalanx.PhalanxException;
import phalanx.WrongKeyException;

/**
 * The plaintext of a protected file. Its header and its last chunk are authentic once it is open, and so its length. Every other chunk is authenticated
 * before a byte of it is given away. One thread reads it, and another one may close it: Flink does that when it cancels a task.
 */
final class PlainInput extends FSDataInputStream {
    private static final int USUAL_HEADER = 8192;

    private final Path path;
    private final FSDataInputStream in;
    private final Header.Opened opened;
    private final Layout layout;
    private final ChunkCipher cipher;
    /** The last chunk, where columnar formats have their indexes, and the one that was read last. */
    private final Chunk last;
    private final Chunk current;
    private volatile long position;
    private volatile boolean closed;
    /** Who has this uses the cipher and the chunks. */
    private final ReentrantLock lock = new ReentrantLock();

    /** The opened bytes of a chunk, behind room for nonce and tag. */
    private static final class Chunk {
        final byte[] bytes;
        long index = -1;

        Chunk(int length) {
            bytes = new byte[length];
        }
    }

    private PlainInput(Path path, FSDataInputStream in, Header.Opened opened, Layout layout) {
        this.path = path;
        this.in = in;
        this.opened = opened;
        this.layout = layout;
        cipher = new ChunkCipher(opened.keys(), layout.chunkLog2());
        int overhead = layout.suite().overhead();
        last = new Chunk(layout.plaintextLength(layout.chunks() - 1) + overhead);
        current = new Chunk(layout.plaintextLength(0) + overhead);
    }

    /** Opens a file. {@code path} is for messages. */
    static PlainInput open(FileSystem fs, Path stored, Path path, KeyProvider keys) throws IOException {
        long length = fs.getFileStatus(stored).getLen();
        FSDataInputStream in = fs.open(stored);
        try {
            Header header = header(in);
            Header.Opened opened;
            try {
                opened = header.open(keys);
            } catch (WrongKeyException e) {
                // It may have been read while another program changed it in place.
                Header again = header(in);
                if (Arrays.equals(again.toBytes(), header.toBytes())) {
                    throw e;
                }
                header = again;
                opened = header.open(keys);
            }
            try {
                return open(path, in, opened, header.layout(length));
            } catch (IOException | RuntimeException e) {
                opened.keys().close();
                throw e;
            }
        } catch (IOException | RuntimeException e) {
            in.close();
            throw named(path, e);
        }
    }

    private static PlainInput open(Path path, FSDataInputStream in, Header.Opened opened, Layout layout) throws IOException {
        PlainInput input = new PlainInput(path, in, opened, layout);
        try {
            input.open(layout.chunks() - 1, input.last);
            return input;
        } catch (IOException | RuntimeException e) {
            input.wipe();
            throw e;
        }
    }

    /** Reads the header of a file. */
    static Header header(FSDataInputStream in) throws IOException {
        in.seek(0);
        return Header.read(new BufferedInputStream(new NotClosed(in), USUAL_HEADER));
    }

    /** A stream whose reader does not own it. */
    private static final class NotClosed extends InputStream {
        private final InputStream in;

        NotClosed(InputStream in) {
            this.in = in;
        }

        @Override
        public int read() throws IOException {
            return in.read();
        }

        @Override
        public int read(byte[] into, int offset, int length) throws IOException {
            return in.read(into, offset, length);
        }
    }

    /** A failure with the name of the file. Those of this kind do not have it. */
    private static IOException named(Path path, Exception e) {
        if (e instanceof RuntimeException other) {
            throw other;
        }
        return e instanceof PhalanxException ? new IOException(path + ": " + e.getMessage(), e) : (IOException) e;
    }

    private void open(long index, Chunk chunk) throws IOException {
        // A failure leaves no chunk open.
        chunk.index = -1;
        int length = layout.plaintextLength(index);
        int whole = length + layout.suite().overhead();
        if (in.getPos() != layout.fileOffset(index)) {
            in.seek(layout.fileOffset(index));
        }
        if (in.readNBytes(chunk.bytes, 0, whole) < whole) {
            throw new IOException("it became shorter while it was read");
        }
        cipher.open(chunk.bytes, 0, length, index, layout.isLast(index));
        chunk.index = index;
    }

    /** The chunk at the position. */
    private Chunk chunk() throws IOException {
        long index = position >>> layout.chunkLog2();
        if (last.index == index) {
            return last;
        }
        if (current.index != index) {
            try {
                open(index, current);
            } catch (IOException e) {
                throw named(path, e);
            }
        }
        return current;
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : Byte.toUnsignedInt(one[0]);
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
        Objects.checkFromIndexSize(offset, length, into.length);
        checkOpen();
        if (length == 0) {
            return 0;
        }
        lock.lock();
        try {
            checkOpen();
            if (position >= layout.plaintextLength()) {
                return -1;
            }
            Chunk chunk = chunk();
            int at = (int) (position - layout.plaintextOffset(chunk.index));
            int count = Math.min(length, layout.plaintextLength(chunk.index) - at);
            System.arraycopy(chunk.bytes, layout.suite().overhead() + at, into, offset, count);
            position += count;
            return count;
        } catch (IOException | RuntimeException e) {
            // A stream that is closed meanwhile fails in its own way.
            checkOpen();
            throw e;
        } finally {
            lock.unlock();
            if (closed) {
                wipe();
            }
        }
    }

    @Override
    public long skip(long count) throws IOException {
        checkOpen();
        long skipped = Math.max(0, Math.min(count, layout.plaintextLength() - position));
        position += skipped;
        return skipped;
    }

    @Override
    public int available() throws IOException {
        checkOpen();
        return (int) Math.min(Integer.MAX_VALUE, layout.plaintextLength() - position);
    }

    @Override
    public void seek(long to) throws IOException {
        checkOpen();
        if (to < 0 || to > layout.plaintextLength()) {
            throw new IOException(path + ": cannot seek to " + to + " of " + layout.plaintextLength() + " bytes");
        }
        position = to;
    }

    @Override
    public long getPos() {
        return position;
    }

    private void checkOpen() throws IOException {
        if (closed) {
            throw new IOException(path + " is closed");
        }
    }

    /** Overwrites the keys and the chunks in memory. */
    @Override
    public void close() throws IOException {
        closed = true;
        try {
            // A read that waits for the store fails then.
            in.close();
        } finally {
            wipe();
        }
    }

    /** If a read goes on, it does this at its end, so that nobody waits for it. */
    private void wipe() {
        if (!lock.tryLock()) {
            return;
        }
        try {
            cipher.close();
            opened.keys().close();
            for (Chunk chunk : new Chunk[] {last, current}) {
                chunk.index = -1;
                Arrays.fill(chunk.bytes, (byte) 0);
            }
        } finally {
            lock.unlock();
        }
    }
}
