package phalanx.hadoop;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import org.apache.hadoop.fs.Path;
import phalanx.ChunkCipher;
import phalanx.Header;
import phalanx.KeyProvider;
import phalanx.Layout;
import phalanx.PhalanxException;
import phalanx.WrongKeyException;

/**
 * A protected file that is open for reading. Its header and its last chunk are authentic, and so its length. Every other chunk is
 * authenticated before a byte of it is given away. Several threads may use it.
 */
final class Opened implements Closeable {
    /** How many chunks are kept open: that at the position, and the last one, where columnar formats have their indexes. */
    private static final int KEPT = 2;

    private final Path path;
    private final FSDataInputStream in;
    private final Layout layout;
    private final Header.Opened header;
    private final Queue<ChunkCipher> ciphers = new ConcurrentLinkedQueue<>();
    /** The open chunks, the one that was used last at the end. Also the lock of their bytes. */
    private final Deque<Chunk> kept = new ArrayDeque<>();
    private volatile boolean closed;

    /** A chunk. After it is opened, the plaintext lies behind nonce and tag. */
    private record Chunk(long index, byte[] bytes) {}

    private Opened(Path path, FSDataInputStream in, Header.Opened header, Layout layout) {
        this.path = path;
        this.in = in;
        this.header = header;
        this.layout = layout;
    }

    /** Opens a file. {@code policy} is how the caller will read, or null. */
    static Opened open(FileSystem fs, FileStatus file, Path path, KeyProvider keys, String policy) throws IOException {
        boolean isApart = isStore(fs, file.getPath());
        FSDataInputStream in = Stored.open(fs, file, isApart ? OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_RANDOM : policy);
        try {
            Header header = Stored.header(in, file.getLen());
            Header.Opened opened;
            try {
                opened = header.open(keys);
            } catch (WrongKeyException e) {
                // It may have been read while another program changed it in place.
                Header again = Stored.header(in, file.getLen());
                if (Arrays.equals(again.toBytes(), header.toBytes())) {
                    throw e;
                }
                header = again;
                opened = header.open(keys);
            }
            try {
                Layout layout = header.layout(file.getLen());
                Chunk last = authenticLast(in, opened, layout);
                if (isApart) {
                    // A stream of an object store that has jumped about would read all that follows in small pieces.
                    in.close();
                    in = Stored.open(fs, file, policy);
                }
                Opened result = new Opened(path, in, opened, layout);
                result.kept.add(last);
                return result;
            } catch (IOException | RuntimeException e) {
                opened.keys().close();
                throw e;
            }
        } catch (IOException | RuntimeException e) {
            in.close();
            throw named(path, e);
        }
    }

    private static boolean isStore(FileSystem fs, Path path) throws IOException {
        return fs.hasPathCapability(path, CommonPathCapabilities.ABORTABLE_STREAM);
    }

    private static Chunk authenticLast(FSDataInputStream in, Header.Opened opened, Layout layout) throws IOException {
        long index = layout.chunks() - 1;
        byte[] bytes = new byte[layout.plaintextLength(index) + layout.suite().overhead()];
        Stored.readFully(in, layout.fileOffset(index), bytes, bytes.length);
        new ChunkCipher(opened.keys(), layout.chunkLog2()).open(bytes, 0, layout.plaintextLength(index), index, true);
        return new Chunk(index, bytes);
    }

    /** A failure with the name of the file. Those of this kind do not have it. */
    private static IOException named(Path path, Exception e) {
        if (e instanceof RuntimeException other) {
            throw other;
        }
        return e instanceof PhalanxException ? new IOException(path + ": " + e.getMessage(), e) : (IOException) e;
    }

    IOException named(Exception e) {
        return named(path, e);
    }

    Layout layout() {
        return layout;
    }

    FSDataInputStream stream() {
        return in;
    }

    long length() {
        return layout.plaintextLength();
    }

    /**
     * Copies bytes of one chunk, as many as there are and fit. Returns their number, or −1 at the end.
     *
     * @param inOrder whether the file is read from here on, so that the inner stream should go on and not jump
     */
    int read(long position, ByteBuffer into, boolean inOrder) throws IOException {
        checkOpen();
        if (position >= length()) {
            return -1;
        }
        int copied = readKept(position, into);
        if (copied > 0 || !into.hasRemaining()) {
            return copied;
        }
        long index = position >>> layout.chunkLog2();
        byte[] bytes = new byte[layout.plaintextLength(index) + layout.suite().overhead()];
        try {
            fetch(index, bytes, inOrder);
            open(index, bytes, 0);
        } catch (IOException e) {
            Arrays.fill(bytes, (byte) 0);
            throw named(e);
        }
        Chunk chunk = new Chunk(index, bytes);
        // Before others know of it, and may overwrite it.
        int length = copy(chunk, position, into);
        keep(chunk);
        return length;
    }

    /** Copies from a chunk that is open already. Returns 0 if none is. */
    int readKept(long position, ByteBuffer into) {
        long index = position >>> layout.chunkLog2();
        synchronized (kept) {
            for (Chunk chunk : kept) {
                if (chunk.index == index) {
                    kept.remove(chunk);
                    kept.addLast(chunk);
                    return copy(chunk, position, into);
                }
            }
            return 0;
        }
    }

    private int copy(Chunk chunk, long position, ByteBuffer into) {
        int at = (int) (position - layout.plaintextOffset(chunk.index));
        int count = Math.min(into.remaining(), layout.plaintextLength(chunk.index) - at);
        into.put(chunk.bytes, layout.suite().overhead() + at, count);
        return count;
    }

    private void keep(Chunk chunk) {
        synchronized (kept) {
            if (closed) {
                Arrays.fill(chunk.bytes, (byte) 0);
                return;
            }
            while (kept.size() >= KEPT) {
                Arrays.fill(kept.removeFirst().bytes, (byte) 0);
            }
            kept.addLast(chunk);
        }
    }

    private void fetch(long index, byte[] bytes, boolean inOrder) throws IOException {
        long at = layout.fileOffset(index);
        if (!inOrder) {
            Stored.readFully(in, at, bytes, bytes.length);
            return;
        }
        synchronized (in) {
            if (in.getPos() != at) {
                in.seek(at);
            }
            in.readFully(bytes);
        }
    }

    /** Opens a chunk that lies in an array from an offset on. */
    void open(long index, byte[] bytes, int offset) throws IOException {
        ChunkCipher cipher = ciphers.poll();
        if (cipher == null) {
            cipher = new ChunkCipher(header.keys(), layout.chunkLog2());
        }
        cipher.open(bytes, offset, layout.plaintextLength(index), index, layout.isLast(index));
        ciphers.add(cipher);
    }

    void checkOpen() throws IOException {
        if (closed) {
            throw new IOException(path + ": " + FSExceptionMessages.STREAM_IS_CLOSED);
        }
    }

    /** Gives back what is held for faster reads. */
    void unbuffer() {
        forget();
        in.unbuffer();
    }

    private void forget() {
        synchronized (kept) {
            kept.forEach(chunk -> Arrays.fill(chunk.bytes, (byte) 0));
            kept.clear();
        }
    }

    @Override
    public void close() throws IOException {
        closed = true;
        forget();
        ciphers.clear();
        header.keys().close();
        in.close();
    }
}
