package phalanx.hadoop;

import java.io.IOException;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;

/** What is done with the inner stream of a new file at the end. */
interface Ending {
    /** Closes the stream, and gives the file its name. */
    void publish() throws IOException;

    /** Nothing of the file may stay. */
    void discard() throws IOException;

    /** For stores whose objects appear whole when they are closed. */
    static Ending direct(FSDataOutputStream out) {
        return new Ending() {
            @Override
            public void publish() throws IOException {
                out.close();
            }

            @Override
            public void discard() throws IOException {
                IOException failure = out.abort().anyCleanupException();
                if (failure != null) {
                    throw failure;
                }
            }
        };
    }

    /**
     * How a file gets its name by renaming.
     *
     * @param overwrites whether a file of that name is replaced
     * @param syncs whether the file is on the disk before that, if the file system can tell
     */
    record Rules(boolean overwrites, boolean syncs) {}

    /** For file systems where one sees a file while it is written. */
    static Ending renamed(Inner inner, FSDataOutputStream out, Path written, Path stored, Rules rules) {
        return new Ending() {
            @Override
            public void publish() throws IOException {
                // Otherwise the new name could outlive a power cut, and the data not.
                if (rules.syncs && out.hasCapability(StreamCapabilities.HSYNC)) {
                    out.hsync();
                }
                out.close();
                inner.publish(written, stored, rules.overwrites);
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
