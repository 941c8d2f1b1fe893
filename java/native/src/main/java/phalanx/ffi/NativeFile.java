package phalanx.ffi;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.Path;

/**
 * A protected file that is read like a plain one, as a {@link phalanx.PhalanxFile} is, by libphalanx. Opening it reads the header and the last
 * chunk, which authenticates the length. The library keeps some opened chunks, and opens others ahead of who reads in order.
 *
 * <pre>{@code
 * try (NativeWays ways = NativeWays.of(key);
 *         NativeFile file = NativeFile.open(Path.of("run42.h5.phx"), ways)) {
 *     ByteBuffer part = ByteBuffer.allocateDirect(4096);
 *     file.read(1_000_000, part);
 * }
 * }</pre>
 *
 * <p>Any number of threads may read at once, and another one may close the file meanwhile: closing waits for reads that have begun, and later
 * ones fail. Direct buffers get the bytes without another copy.
 */
public final class NativeFile implements Closeable {
    /** The longest chunk, so that no chunk lies in two pieces of a read. */
    private static final int PIECE = 1 << 24;

    private final Path path;
    private final Calls calls;
    private final Handle handle;
    private final long size;
    private final Scratch scratch = new Scratch();

    private NativeFile(Path path, Calls calls, MemorySegment reader) {
        this.path = path;
        this.calls = calls;
        size = Calls.invoke(() -> (long) calls.size.invokeExact(reader));
        handle = new Handle(reader, calls.close);
    }

    /**
     * Opens a file.
     *
     * @param path the protected file, a regular file
     * @param ways the ways that may open it, which the file does not need afterwards
     * @return the file: close it
     * @throws phalanx.AuthenticationException if the last chunk is not authentic or missing
     * @throws phalanx.PhalanxException if it is not a protected file for the keys at hand; the type says why
     * @throws IllegalStateException if the ways are closed
     * @throws IOException if it cannot be read
     */
    public static NativeFile open(Path path, NativeWays ways) throws IOException {
        Calls calls = ways.library().calls();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment text = Strings.path(arena, path);
            MemorySegment reader = ways.use(way ->
                    calls.made(path, arena, place -> (MemorySegment) calls.open.invokeExact(text, way, place)));
            return new NativeFile(path, calls, reader);
        }
    }

    /**
     * The length of the plaintext.
     *
     * @return the length in bytes
     */
    public long size() {
        return size;
    }

    /**
     * Reads at a position, until the buffer is full or the plaintext ends. If this fails, the buffer's position is as before, and what is
     * after it means nothing.
     *
     * @param position the position in the plaintext
     * @param into the buffer
     * @return how many bytes were read, or −1 if the plaintext ends at the position or before it
     * @throws IllegalArgumentException if the position is negative, the buffer is read-only, or another thread moves its limit before what
     *     was read
     * @throws phalanx.AuthenticationException if a chunk is not authentic
     * @throws ClosedChannelException if the file is closed
     * @throws IOException if it cannot be read
     */
    public int read(long position, ByteBuffer into) throws IOException {
        if (position < 0) {
            throw new IllegalArgumentException("a position is not negative");
        }
        if (into.isReadOnly()) {
            throw new IllegalArgumentException("the buffer is read-only");
        }
        return handle.<Integer, IOException, ClosedChannelException>use(ClosedChannelException::new, reader -> {
            if (position >= size) {
                return -1;
            }
            // Its bounds are read once: another thread may move the buffer's meanwhile.
            ByteBuffer own = into.duplicate();
            int begin = own.position();
            int length = (int) Math.min(own.remaining(), size - position);
            if (own.isDirect()) {
                piece(reader, position, MemorySegment.ofBuffer(own).asSlice(0, length));
            } else {
                copied(reader, position, own, length);
            }
            into.position(begin + length);
            return length;
        });
    }

    /** Reads into an array, through native memory: the array could be moved while the library waits for the disk. */
    private void copied(MemorySegment reader, long position, ByteBuffer into, int length) throws IOException {
        for (int done = 0; done < length; ) {
            long at = position + done;
            int part = (int) Math.min(length - done, PIECE - at % PIECE);
            scratch.<Void, IOException>with(part, memory -> {
                piece(reader, at, memory);
                into.put(memory.asByteBuffer());
                return null;
            });
            done += part;
        }
    }

    /** Fills a piece of memory. */
    private void piece(MemorySegment reader, long position, MemorySegment into) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment read = arena.allocate(ValueLayout.JAVA_LONG);
            calls.run(path, null, () -> (MemorySegment) calls.readAt.invokeExact(reader, position, into, into.byteSize(), read));
            if (read.get(ValueLayout.JAVA_LONG, 0) != into.byteSize()) {
                throw new IOException("the library has read too little");
            }
        }
    }

    /**
     * A new channel for reading, with its own position, at the beginning. Several threads may use it. Closing it leaves the file open.
     *
     * @return the channel. Writing to it throws {@link java.nio.channels.NonWritableChannelException}; reading a chunk that is not
     *     authentic throws {@link phalanx.AuthenticationException}
     */
    public SeekableByteChannel channel() {
        return new NativeChannel(this);
    }

    /**
     * A new stream of the whole plaintext. Closing it leaves the file open.
     *
     * @return the stream
     */
    public InputStream inputStream() {
        return Channels.newInputStream(channel());
    }

    boolean isOpen() {
        return !handle.isClosed();
    }

    /** Closes the file and wipes what it holds, after the reads that have begun. Does nothing if it is closed already. */
    @Override
    public void close() {
        handle.close();
    }
}
