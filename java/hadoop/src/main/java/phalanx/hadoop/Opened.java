package phalanx.hadoop;

import java.io.ByteArrayInputStream;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import phalanx.AuthenticationException;
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
    /** How many chunks are kept open: that at the position, and the last one, where columnar formats have their footers. */
    private static final int KEPT = 2;

    private final Path path;
    private final Source source;
    private final Layout layout;
    private final Header.Opened header;
    private final Queue<ChunkCipher> ciphers = new ConcurrentLinkedQueue<>();
    /** The open chunks, the one that was used last at the end. Also the lock of their bytes. */
    private final Deque<Chunk> kept = new ArrayDeque<>();
    private final Ahead ahead;
    private volatile boolean closed;

    /** A chunk. After it is opened, the plaintext lies behind nonce and tag. */
    private record Chunk(long index, byte[] bytes) {}

    /**
     * A file.
     *
     * @param fs the inner file system
     * @param stored the protected file there
     * @param path as it is shown, for messages
     * @param isFresh whether the store was asked just now for what it has there
     */
    record Place(FileSystem fs, FileStatus stored, Path path, boolean isFresh) {}

    /**
     * What the files of a file system share.
     *
     * @param ends the headers and last chunks that are known
     * @param threads which read ahead
     * @param statistics of the file system, to which what they have read is added
     */
    record Shared(Ends ends, AheadThreads threads, FileSystem.Statistics statistics) {}

    private Opened(Path path, Source source, Header.Opened header, Layout layout, Shared shared) {
        this.path = path;
        this.source = source;
        this.header = header;
        this.layout = layout;
        ahead = new Ahead(this, shared.threads, shared.statistics);
    }

    /** Opens a file. {@code policy} is how the caller will read, or null. */
    static Opened open(Place place, Shared shared, KeyProvider keys, String policy) throws IOException {
        Ends ends = shared.ends;
        FileStatus file = place.stored();
        Source source = Source.open(place.fs(), file, policy);
        try {
            Optional<Ends.Known> known = ends.find(file);
            Header header = known.isPresent()
                    ? Header.read(new ByteArrayInputStream(known.get().header()))
                    : Stored.header(source.stream(), file.getLen());
            Header.Opened opened;
            try {
                opened = header.open(keys);
            } catch (WrongKeyException e) {
                // It may have been read while another program changed it in place.
                Header again = Stored.header(source.stream(), file.getLen());
                if (Arrays.equals(again.toBytes(), header.toBytes())) {
                    throw e;
                }
                header = again;
                opened = header.open(keys);
            }
            try {
                Layout layout = header.layout(file.getLen());
                // A file of one chunk would be read without any request, also when it is deleted or another one is in its place.
                byte[] last = layout.chunks() > 1 || place.isFresh() ? known.map(Ends.Known::last).orElse(null) : null;
                if (last == null) {
                    last = new byte[layout.plaintextLength(layout.chunks() - 1) + layout.suite().overhead()];
                    source.readAt(layout.fileOffset(layout.chunks() - 1), last);
                }
                Opened result = new Opened(place.path(), source, opened, layout, shared);
                try {
                    result.kept.add(result.authenticLast(last.clone()));
                    ends.keep(file, header.toBytes(), last);
                    source.begin(layout.fileOffset(0), layout.fileOffset(layout.chunks() - 1));
                    return result;
                } catch (IOException | RuntimeException e) {
                    result.closeCiphers();
                    throw e;
                }
            } catch (IOException | RuntimeException e) {
                opened.keys().close();
                throw e;
            }
        } catch (IOException | RuntimeException e) {
            source.close();
            throw named(place.path(), e);
        }
    }

    private Chunk authenticLast(byte[] bytes) throws IOException {
        long index = layout.chunks() - 1;
        open(index, bytes, 0);
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

    Source source() {
        return source;
    }

    /** For tests. */
    Ahead ahead() {
        return ahead;
    }

    long length() {
        return layout.plaintextLength();
    }

    /**
     * Copies bytes of one chunk or, if more is wanted, of a run of chunks that are read at once. Returns their number, or −1 at the end.
     *
     * @param inOrder whether the file is read from here on, so that the inner stream should go on and not jump
     */
    int read(long position, ByteBuffer into, boolean inOrder) throws IOException {
        checkOpen();
        if (position >= length()) {
            return -1;
        }
        int copied = copyKept(position, into);
        if (copied > 0 || !into.hasRemaining()) {
            return copied;
        }
        long first = position >>> layout.chunkLog2();
        long wanted = Math.min(position + into.remaining(), length()) - 1 >>> layout.chunkLog2();
        if (inOrder) {
            try {
                return ahead.read(position, into, wanted > first && isKept(wanted) ? wanted - 1 : wanted);
            } catch (IOException e) {
                throw named(e);
            }
        }
        copied = ahead.readOpen(position, into);
        if (copied > 0) {
            return copied;
        }
        long last = lastOfRun(first, wanted);
        long from = layout.fileOffset(first);
        byte[] bytes = new byte[(int) (end(last) - from)];
        try {
            source.readAt(from, bytes);
            for (long index = first; index <= last; index++) {
                open(index, bytes, (int) (layout.fileOffset(index) - from));
            }
        } catch (IOException | RuntimeException e) {
            Arrays.fill(bytes, (byte) 0);
            checkOpen();
            throw named(e);
        }
        int length = 0;
        for (long index = first; index <= last; index++) {
            length += copy(index, bytes, (int) (layout.fileOffset(index) - from), position + length, into);
        }
        // Others know of a chunk that is kept, and may overwrite it.
        if (first == last) {
            keep(new Chunk(last, bytes));
        } else {
            keep(new Chunk(last, Arrays.copyOfRange(bytes, (int) (layout.fileOffset(last) - from), bytes.length)));
            Arrays.fill(bytes, (byte) 0);
        }
        return length;
    }

    /** Where a chunk ends in the file. */
    long end(long chunk) {
        return Math.min(layout.fileLength(), layout.fileOffset(chunk + 1));
    }

    /** The last chunk that is read at once with the first one, if those up to this one are wanted. */
    private long lastOfRun(long first, long wanted) {
        long last = Math.min(wanted, first + Math.max(1, Ranges.MOST_AT_ONCE / layout.recordLength()) - 1);
        return last > first && isKept(last) ? last - 1 : last;
    }

    /** Copies from a chunk that is open already, for reads here and there. Returns 0 if none is. */
    int readKept(long position, ByteBuffer into) {
        int copied = copyKept(position, into);
        return copied > 0 ? copied : ahead.readOpen(position, into);
    }

    private int copyKept(long position, ByteBuffer into) {
        long index = position >>> layout.chunkLog2();
        synchronized (kept) {
            for (Chunk chunk : kept) {
                if (chunk.index == index) {
                    kept.remove(chunk);
                    kept.addLast(chunk);
                    return copy(index, chunk.bytes, 0, position, into);
                }
            }
        }
        return 0;
    }

    private boolean isKept(long index) {
        synchronized (kept) {
            return kept.stream().anyMatch(chunk -> chunk.index == index);
        }
    }

    /** Copies what is wanted of an open chunk that lies in an array from an offset on. */
    int copy(long index, byte[] bytes, int offset, long position, ByteBuffer into) {
        int at = (int) (position - layout.plaintextOffset(index));
        int count = Math.min(into.remaining(), layout.plaintextLength(index) - at);
        into.put(bytes, offset + layout.suite().overhead() + at, count);
        return count;
    }

    private void keep(Chunk chunk) {
        synchronized (kept) {
            if (closed) {
                Arrays.fill(chunk.bytes, (byte) 0);
                return;
            }
            while (kept.size() >= KEPT) {
                // Not the last one.
                Chunk oldest = kept.stream().filter(each -> !layout.isLast(each.index)).findFirst().orElseGet(kept::getFirst);
                kept.remove(oldest);
                Arrays.fill(oldest.bytes, (byte) 0);
            }
            kept.addLast(chunk);
        }
    }

    /** Opens a chunk that lies in an array from an offset on. If the file is closed meanwhile, that is what fails. */
    void open(long index, byte[] bytes, int offset) throws IOException {
        checkOpen();
        ChunkCipher cipher = ciphers.poll();
        boolean isWhole = false;
        try {
            if (cipher == null) {
                cipher = new ChunkCipher(header.keys(), layout.chunkLog2());
            }
            cipher.open(bytes, offset, layout.plaintextLength(index), index, layout.isLast(index));
            isWhole = true;
        } catch (AuthenticationException e) {
            isWhole = true;
            checkOpen();
            throw e;
        } catch (RuntimeException e) {
            checkOpen();
            throw e;
        } finally {
            if (isWhole) {
                ciphers.add(cipher);
            } else if (cipher != null) {
                cipher.close();
            }
            if (closed) {
                closeCiphers();
            }
        }
    }

    /** How many ciphers nobody uses, for tests. */
    int idleCiphers() {
        return ciphers.size();
    }

    private void closeCiphers() {
        for (ChunkCipher cipher; (cipher = ciphers.poll()) != null;) {
            cipher.close();
        }
    }

    void checkOpen() throws IOException {
        if (closed) {
            throw new IOException(path + ": " + FSExceptionMessages.STREAM_IS_CLOSED);
        }
    }

    /** Gives back what is held for faster reads. */
    void unbuffer() {
        ahead.drop();
        forget();
        source.unbuffer();
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
        ahead.drop();
        forget();
        closeCiphers();
        header.keys().close();
        source.close();
    }
}
