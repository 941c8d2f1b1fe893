package phalanx;

import java.io.Closeable;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.util.Arrays;

/** A protected file whose header has been opened. The caller owns the file itself. */
final class ProtectedInput implements Closeable {
    private final FileChannel file;
    private final Header header;
    private final Header.Opened opened;
    private final Layout layout;

    private ProtectedInput(FileChannel file, Header header, Header.Opened opened, Layout layout) {
        this.file = file;
        this.header = header;
        this.opened = opened;
        this.layout = layout;
    }

    /** Opens the header, and checks the file's length against the rules of the format. */
    static ProtectedInput open(FileChannel file, KeyProvider keys) throws IOException {
        Header header = Header.read(file);
        Header.Opened opened;
        try {
            opened = header.open(keys);
        } catch (WrongKeyException e) {
            // It may have been read while another program changed it in place.
            Header again = Header.read(file);
            if (Arrays.equals(again.toBytes(), header.toBytes())) {
                throw e;
            }
            header = again;
            opened = header.open(keys);
        }
        try {
            return new ProtectedInput(file, header, opened, header.layout(file.size()));
        } catch (IOException e) {
            opened.keys().close();
            throw e;
        }
    }

    Header header() {
        return header;
    }

    Layout layout() {
        return layout;
    }

    /** For the chunks that one thread opens. */
    Chunks chunks() {
        return new Chunks();
    }

    @Override
    public void close() {
        opened.keys().close();
    }

    /** Reads and opens chunks. It belongs to one thread. */
    final class Chunks implements AutoCloseable {
        private final ChunkCipher cipher = new ChunkCipher(opened.keys(), layout.chunkLog2());
        private final int overhead = layout.suite().overhead();
        private final byte[] bytes = new byte[layout.plaintextLength(0) + overhead];

        /** Opens a chunk. Its plaintext then lies in {@link #bytes} from {@link #offset} on. Returns its length. */
        int open(long index) throws IOException {
            int length = read(index);
            cipher.open(bytes, 0, length, index, layout.isLast(index));
            return length;
        }

        /** Opens the last chunk, which authenticates the file's length. */
        int openLast() throws IOException {
            long index = layout.chunks() - 1;
            int length = read(index);
            try {
                cipher.open(bytes, 0, length, index, true);
            } catch (AuthenticationException e) {
                if (isAuthenticInside(index, length)) {
                    throw new TruncatedException("chunks are missing at its end");
                }
                throw e;
            }
            return length;
        }

        private boolean isAuthenticInside(long index, int length) {
            try {
                cipher.open(bytes, 0, length, index, false);
                return true;
            } catch (AuthenticationException e) {
                return false;
            }
        }

        private int read(long index) throws IOException {
            int length = layout.plaintextLength(index);
            if (Bytes.readAt(file, bytes, 0, length + overhead, layout.fileOffset(index)) < length + overhead) {
                throw new ChangedException();
            }
            return length;
        }

        byte[] bytes() {
            return bytes;
        }

        int offset() {
            return overhead;
        }

        /** Overwrites the keys and the plaintext. */
        @Override
        public void close() {
            cipher.close();
            Arrays.fill(bytes, (byte) 0);
        }
    }
}
