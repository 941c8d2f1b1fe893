package phalanx.hadoop;

import java.io.IOException;
import java.io.OutputStream;
import java.util.Arrays;
import java.util.Locale;
import java.util.Objects;
import java.util.OptionalLong;
import org.apache.hadoop.fs.Abortable;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;
import phalanx.ChunkCipher;
import phalanx.Recipients;
import phalanx.Suite;

/**
 * A new protected file, which gets its name when it is closed. After a failure, or when it is aborted, nothing gets the name. The
 * calling thread does all the work, since engines give each task a core.
 */
final class SealedOutput extends OutputStream implements Abortable, Syncable, StreamCapabilities {
    private final FSDataOutputStream out;
    private final Ending ending;
    private final Recipients.NewFile file;
    private final ChunkCipher cipher;
    private final Suite suite;
    private final int chunkLength;
    /** A chunk, with room for nonce and tag before it. It is sealed only when more follows, or at the end. */
    private final byte[] chunk;
    private int length;
    private long index;
    private boolean failed;
    private boolean closed;

    /** Writes the header. If that fails the inner stream is left to the caller. */
    SealedOutput(FSDataOutputStream out, Ending ending, Recipients recipients, Suite suite, int chunkLog2) throws IOException {
        this.out = out;
        this.ending = ending;
        this.suite = suite;
        file = recipients.newFile(suite, chunkLog2, OptionalLong.empty());
        chunkLength = 1 << chunkLog2;
        ChunkCipher made = null;
        boolean done = false;
        try {
            made = new ChunkCipher(file.keys(), chunkLog2);
            chunk = new byte[suite.overhead() + chunkLength];
            out.write(file.header().toBytes());
            done = true;
        } finally {
            if (!done) {
                if (made != null) {
                    made.close();
                }
                file.close();
            }
        }
        cipher = made;
    }

    @Override
    public synchronized void write(int value) throws IOException {
        write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public synchronized void write(byte[] from, int offset, int count) throws IOException {
        Objects.checkFromIndexSize(offset, count, from.length);
        checkOpen();
        if (failed) {
            throw new IOException("an earlier write failed");
        }
        for (int done = 0; done < count; ) {
            if (length == chunkLength) {
                seal(false);
            }
            int piece = Math.min(count - done, chunkLength - length);
            System.arraycopy(from, offset + done, chunk, suite.overhead() + length, piece);
            length += piece;
            done += piece;
        }
    }

    private void seal(boolean last) throws IOException {
        boolean done = false;
        try {
            if (index >= suite.mostChunks()) {
                throw new IOException("too large: " + suite.title() + " seals no more than " + suite.mostChunks() + " chunks");
            }
            cipher.seal(chunk, 0, length, index, last);
            out.write(chunk, 0, suite.overhead() + length);
            index++;
            length = 0;
            done = true;
        } finally {
            failed |= !done;
        }
    }

    /** Does nothing: what is not yet a whole chunk cannot be written. */
    @Override
    public synchronized void flush() throws IOException {
        checkOpen();
    }

    /** Does nothing either. Parquet calls it at the end of each file. Who needs it asks {@link #hasCapability}. */
    @Override
    public void hflush() throws IOException {
        flush();
    }

    /** Who calls this relies on it. */
    @Override
    public void hsync() {
        throw new UnsupportedOperationException("a protected file is stored when it is closed, and not before");
    }

    @Override
    public boolean hasCapability(String capability) {
        return capability.toLowerCase(Locale.ROOT).equals(StreamCapabilities.ABORTABLE_STREAM);
    }

    @Override
    public synchronized void close() throws IOException {
        if (closed) {
            return;
        }
        boolean done = false;
        try {
            if (failed) {
                throw new IOException("an earlier write failed, so nothing was written");
            }
            seal(true);
            ending.publish();
            done = true;
        } finally {
            closed = true;
            wipe();
            if (!done) {
                discard();
            }
        }
    }

    @Override
    public synchronized AbortableResult abort() {
        boolean was = closed;
        closed = true;
        IOException failure = null;
        if (!was) {
            wipe();
            failure = discard();
        }
        IOException found = failure;
        return new AbortableResult() {
            @Override
            public boolean alreadyClosed() {
                return was;
            }

            @Override
            public IOException anyCleanupException() {
                return found;
            }
        };
    }

    /** Discards what was written. Returns what failed meanwhile, or null. */
    private IOException discard() {
        try {
            ending.discard();
            return null;
        } catch (IOException e) {
            return e;
        }
    }

    private void wipe() {
        cipher.close();
        file.close();
        Arrays.fill(chunk, (byte) 0);
    }

    private void checkOpen() throws IOException {
        if (closed) {
            throw new IOException(FSExceptionMessages.STREAM_IS_CLOSED);
        }
    }
}
