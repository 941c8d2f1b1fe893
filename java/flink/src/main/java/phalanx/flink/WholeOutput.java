package phalanx.flink;

import java.io.IOException;
import org.apache.flink.core.fs.FSDataOutputStream;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream;

/** A new file that appears when it is closed, and only whole. After a failure nothing appears. */
final class WholeOutput extends FSDataOutputStream {
    /** What is done before the file gets its name. */
    @FunctionalInterface
    interface Before {
        void publish() throws IOException;
    }

    private final RecoverableFsDataOutputStream out;
    private final Before before;
    private boolean closed;

    WholeOutput(RecoverableFsDataOutputStream out, Before before) {
        this.out = out;
        this.before = before;
    }

    @Override
    public void write(int value) throws IOException {
        out.write(value);
    }

    @Override
    public void write(byte[] from, int offset, int length) throws IOException {
        out.write(from, offset, length);
    }

    @Override
    public long getPos() throws IOException {
        return out.getPos();
    }

    @Override
    public void flush() throws IOException {
        out.flush();
    }

    @Override
    public void sync() throws IOException {
        out.sync();
    }

    @Override
    public void close() throws IOException {
        if (closed) {
            return;
        }
        closed = true;
        try (out) {
            RecoverableFsDataOutputStream.Committer committer = out.closeForCommit();
            before.publish();
            committer.commit();
        }
    }
}
