package phalanx.flink;

import java.io.IOException;
import org.apache.flink.core.fs.FSDataOutputStream;

/**
 * A new file that appears when it is closed, and only whole. After a failure nothing appears. One thread writes it, and another one may close it, but
 * never in the middle of a write.
 */
final class WholeOutput extends FSDataOutputStream {
    private final SealedOutput out;
    private final Publication publication;
    private boolean closed;

    WholeOutput(SealedOutput out, Publication publication) {
        this.out = out;
        this.publication = publication;
    }

    @Override
    public synchronized void write(int value) throws IOException {
        out.write(value);
    }

    @Override
    public synchronized void write(byte[] from, int offset, int length) throws IOException {
        out.write(from, offset, length);
    }

    @Override
    public synchronized long getPos() throws IOException {
        return out.getPos();
    }

    @Override
    public synchronized void flush() throws IOException {
        out.flush();
    }

    /** Makes no file that can be read: Flink's store of blobs calls this right before it closes the file, so it does not fail. */
    @Override
    public synchronized void sync() throws IOException {
        out.sync();
    }

    @Override
    public synchronized void close() throws IOException {
        if (closed) {
            return;
        }
        closed = true;
        try (out) {
            publication.publish(out.closeForCommit(), out.storedLength(), out.header());
        } catch (IOException | RuntimeException e) {
            publication.discard();
            throw e;
        }
    }
}
