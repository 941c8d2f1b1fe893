package phalanx.hadoop;

import java.io.IOException;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;

/** What is done with the inner stream of a new file at the end. */
interface Ending {
    /** The stream was closed: the file gets its name. */
    void publish() throws IOException;

    /** Nothing of the file may stay. */
    void discard() throws IOException;

    /** For stores whose objects appear whole when they are closed. */
    static Ending direct(FSDataOutputStream out) {
        return new Ending() {
            @Override
            public void publish() {}

            @Override
            public void discard() throws IOException {
                IOException failure = out.abort().anyCleanupException();
                if (failure != null) {
                    throw failure;
                }
            }
        };
    }

    /** For file systems where one sees a file while it is written. */
    static Ending renamed(Inner inner, FSDataOutputStream out, Path written, Path stored, boolean overwrite) {
        return new Ending() {
            @Override
            public void publish() throws IOException {
                inner.publish(written, stored, overwrite);
            }

            @Override
            public void discard() throws IOException {
                try {
                    out.close();
                } finally {
                    inner.delete(written, false);
                }
            }
        };
    }
}
