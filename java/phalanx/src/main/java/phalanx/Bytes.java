package phalanx;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;

/** Reading and writing whole ranges of files. */
final class Bytes {
    /** The JDK copies through an off-heap buffer as large as one call, and keeps it for each thread. */
    private static final int PIECE = 1 << 20;

    private Bytes() {}

    /** Reads at a position of a file. Returns fewer bytes than requested only at the end of the file. */
    static int readAt(FileChannel file, byte[] into, int offset, int length, long position) throws IOException {
        int done = 0;
        while (done < length) {
            ByteBuffer piece = ByteBuffer.wrap(into, offset + done, Math.min(PIECE, length - done));
            int read = file.read(piece, position + done);
            if (read < 0) {
                break;
            }
            done += read;
        }
        return done;
    }

    /** Writes at a position of a file. */
    static void writeAt(FileChannel file, byte[] from, int offset, int length, long position) throws OutputException {
        try {
            int done = 0;
            while (done < length) {
                ByteBuffer piece = ByteBuffer.wrap(from, offset + done, Math.min(PIECE, length - done));
                done += file.write(piece, position + done);
            }
        } catch (IOException e) {
            throw new OutputException(e);
        }
    }
}
