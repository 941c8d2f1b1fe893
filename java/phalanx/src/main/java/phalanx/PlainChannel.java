package phalanx;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.SeekableByteChannel;

/** The plaintext of a protected file, for reading. */
final class PlainChannel implements SeekableByteChannel {
    private final ProtectedInput.Chunks chunks;
    private final Layout layout;
    private long position;
    /** The chunk that is open, or −1, and its length. */
    private long current = -1;
    private int length;
    private boolean closed;

    PlainChannel(ProtectedInput file) {
        chunks = file.chunks();
        layout = file.layout();
    }

    @Override
    public synchronized int read(ByteBuffer into) throws IOException {
        checkOpen();
        if (position >= layout.plaintextLength()) {
            return -1;
        }
        int done = 0;
        while (into.hasRemaining() && position < layout.plaintextLength()) {
            long index = position >>> layout.chunkLog2();
            if (index != current) {
                // A failure leaves no chunk open.
                current = -1;
                length = chunks.open(index);
                current = index;
            }
            int at = (int) (position - layout.plaintextOffset(index));
            int count = Math.min(into.remaining(), length - at);
            into.put(chunks.bytes(), chunks.offset() + at, count);
            position += count;
            done += count;
        }
        return done;
    }

    @Override
    public synchronized long position() throws IOException {
        checkOpen();
        return position;
    }

    @Override
    public synchronized SeekableByteChannel position(long newPosition) throws IOException {
        checkOpen();
        if (newPosition < 0) {
            throw new IllegalArgumentException("a position is not negative");
        }
        position = newPosition;
        return this;
    }

    @Override
    public synchronized long size() throws IOException {
        checkOpen();
        return layout.plaintextLength();
    }

    @Override
    public int write(ByteBuffer from) {
        throw new NonWritableChannelException();
    }

    @Override
    public SeekableByteChannel truncate(long size) {
        throw new NonWritableChannelException();
    }

    @Override
    public synchronized boolean isOpen() {
        return !closed;
    }

    @Override
    public synchronized void close() {
        closed = true;
        current = -1;
        chunks.close();
    }

    private void checkOpen() throws IOException {
        if (closed) {
            throw new ClosedChannelException();
        }
    }
}
