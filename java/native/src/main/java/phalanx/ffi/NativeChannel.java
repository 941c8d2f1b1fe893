package phalanx.ffi;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.SeekableByteChannel;

/** The plaintext of a protected file, for reading. */
final class NativeChannel implements SeekableByteChannel {
    private final NativeFile file;
    private long position;
    private boolean closed;

    NativeChannel(NativeFile file) {
        this.file = file;
    }

    @Override
    public synchronized int read(ByteBuffer into) throws IOException {
        checkOpen();
        int read = file.read(position, into);
        position += Math.max(0, read);
        return read;
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
        return file.size();
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
        return !closed && file.isOpen();
    }

    @Override
    public synchronized void close() {
        closed = true;
    }

    private void checkOpen() throws IOException {
        if (closed || !file.isOpen()) {
            throw new ClosedChannelException();
        }
    }
}
