package phalanx;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.Channels;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.Path;

/**
 * A protected file that is read like a plain one. Opening it reads the header and the last chunk, which authenticates
 * the length. Reading at some position then opens only the chunk there.
 *
 * <pre>{@code
 * try (PhalanxFile file = PhalanxFile.open(Path.of("run42.h5.phx"), KeyProvider.of(key));
 *         SeekableByteChannel channel = file.channel()) {
 *     ByteBuffer part = ByteBuffer.allocate(4096);
 *     channel.position(1_000_000).read(part);
 * }
 * }</pre>
 */
public final class PhalanxFile implements Closeable {
    private final Input input;
    private final ProtectedInput file;

    private PhalanxFile(Input input, ProtectedInput file) {
        this.input = input;
        this.file = file;
    }

    /**
     * Opens a file.
     *
     * @param path the protected file, a regular file
     * @param keys the keys and the password at hand
     * @return the file: close it
     * @throws TruncatedException if whole chunks are missing at the end, or the length is not one of a file
     * @throws AuthenticationException if the last chunk is not authentic
     * @throws PhalanxException if it is not a protected file for the keys at hand; the type says why
     * @throws IOException if it cannot be read
     */
    public static PhalanxFile open(Path path, KeyProvider keys) throws IOException {
        Input input = Input.open(path);
        try {
            ProtectedInput file = ProtectedInput.open(input.channel(), keys);
            try {
                try (ProtectedInput.Chunks last = file.chunks()) {
                    last.openLast();
                }
                return new PhalanxFile(input, file);
            } catch (IOException | RuntimeException | Error e) {
                file.close();
                throw e;
            }
        } catch (IOException | RuntimeException | Error e) {
            input.close();
            throw e;
        }
    }

    /**
     * The length of the plaintext.
     *
     * @return the length in bytes
     */
    public long size() {
        return file.layout().plaintextLength();
    }

    /**
     * Its header.
     *
     * @return the header
     */
    public Header header() {
        return file.header();
    }

    /**
     * A new channel for reading, with its own position, at the beginning. It keeps the last chunk that was read, and
     * can be used by one thread at a time. Closing it leaves the file open.
     *
     * @return the channel. Writing to it throws {@link java.nio.channels.NonWritableChannelException}; reading a chunk
     *     that is not authentic throws {@link AuthenticationException}
     */
    public SeekableByteChannel channel() {
        return new PlainChannel(file);
    }

    /**
     * A new stream of the whole plaintext. Closing it leaves the file open.
     *
     * @return the stream
     */
    public InputStream inputStream() {
        return Channels.newInputStream(channel());
    }

    /** Closes the file and overwrites its keys, as far as Java allows. Its channels cannot be read any more. */
    @Override
    public void close() throws IOException {
        file.close();
        input.close();
    }
}
