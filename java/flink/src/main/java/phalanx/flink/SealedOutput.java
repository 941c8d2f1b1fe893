package phalanx.flink;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream;
import org.apache.flink.core.fs.RecoverableWriter.ResumeRecoverable;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import phalanx.ChunkCipher;
import phalanx.FileKeys;
import phalanx.Header;
import phalanx.KeyProvider;
import phalanx.Recipients;
import phalanx.Suite;

/**
 * A protected file that is written, and that a checkpoint can go on from. One thread writes it, and another one may close it: Flink does that when it
 * cancels a task.
 */
final class SealedOutput extends RecoverableFsDataOutputStream {
    /**
     * Where {@code sync} of the inner stream makes durable what is written, and does nothing else. In Flink's S3 it ends the upload, so that the object
     * appears and nothing can go on with it, and in OSS it always fails. What is uploaded is durable.
     */
    private static final Set<String> SYNCED = Set.of("file", "hdfs", "abfs", "abfss");

    private final RecoverableFsDataOutputStream out;
    private final Place place;
    private final Recipients recipients;
    private final Suite suite;
    private final byte[] header;
    private final FileKeys keys;
    private final ChunkCipher cipher;
    private final int overhead;
    private final int chunkLength;
    private final long mostChunks;
    /** A chunk, with room for nonce and tag before it. It is sealed only when more follows, or at the end. */
    private final byte[] chunk;
    private int length;
    private long index;
    private long storedLength;
    private boolean failed;
    private boolean closed;

    /**
     * Where the inner file system is.
     *
     * @param scheme its scheme
     * @param serializer for its points to go on from
     */
    record Place(String scheme, SimpleVersionedSerializer<ResumeRecoverable> serializer) {}

    private SealedOutput(RecoverableFsDataOutputStream out, Place place, Recipients recipients, Header header, FileKeys keys) {
        this.out = out;
        this.place = place;
        suite = header.suite();
        this.recipients = recipients;
        this.header = header.toBytes();
        storedLength = header.length();
        this.keys = keys;
        cipher = new ChunkCipher(keys, header.chunkLog2());
        overhead = header.suite().overhead();
        chunkLength = 1 << header.chunkLog2();
        mostChunks = header.suite().mostChunks();
        chunk = new byte[overhead + chunkLength];
    }

    /** Begins a file: writes its header. */
    static SealedOutput begin(RecoverableFsDataOutputStream out, Place place, Recipients recipients, Settings settings) throws IOException {
        Recipients.NewFile file = recipients.newFile(settings.suite, settings.chunkLog2, OptionalLong.empty());
        try {
            out.write(file.header().toBytes());
            return new SealedOutput(out, place, recipients, file.header(), file.keys());
        } catch (IOException | RuntimeException e) {
            file.close();
            throw e;
        }
    }

    /** Goes on with a file. The inner stream has what it had at the checkpoint. */
    static SealedOutput resume(RecoverableFsDataOutputStream out, Place place, Unfinished at, Recipients recipients, KeyProvider provider)
            throws IOException {
        Header header = Header.read(new ByteArrayInputStream(at.header()));
        checkResumable(header.suite());
        FileKeys keys = header.open(provider).keys();
        SealedOutput resumed = null;
        try {
            resumed = new SealedOutput(out, place, recipients, header, keys);
            resumed.index = at.chunks();
            resumed.storedLength += at.chunks() * (resumed.overhead + resumed.chunkLength);
            long position = out.getPos();
            // A stream of Azure that appends counts from where it began. The state is bound to the length that the file had.
            if (position != 0 && position != resumed.storedLength || at.tail().length > resumed.chunkLength) {
                throw new IOException("the unfinished file is not that of the checkpoint: it has " + position + " bytes instead of "
                        + resumed.storedLength);
            }
            resumed.length = at.tail().length;
            System.arraycopy(at.tail(), 0, resumed.chunk, resumed.overhead, resumed.length);
            return resumed;
        } catch (IOException | RuntimeException e) {
            if (resumed != null) {
                resumed.wipe();
            }
            keys.close();
            throw e;
        }
    }

    private static void checkResumable(Suite suite) throws IOException {
        if (suite == Suite.AES_256_GCM) {
            throw new IOException("no file with the cipher aes-256-gcm can be gone on with after a checkpoint: use aes-256, or a format in bulk");
        }
    }

    /** The length of what is in the inner file. */
    synchronized long storedLength() {
        return storedLength;
    }

    /** The first bytes of the file, which no other file has. */
    byte[] header() {
        return header.clone();
    }

    @Override
    public synchronized void write(int value) throws IOException {
        write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public synchronized void write(byte[] from, int offset, int count) throws IOException {
        Objects.checkFromIndexSize(offset, count, from.length);
        checkWritable();
        for (int done = 0; done < count; ) {
            if (length == chunkLength) {
                seal(false);
            }
            int piece = Math.min(count - done, chunkLength - length);
            System.arraycopy(from, offset + done, chunk, overhead + length, piece);
            length += piece;
            done += piece;
        }
    }

    private void seal(boolean last) throws IOException {
        failed = true;
        if (index >= mostChunks) {
            throw new IOException("too large: its suite seals no more than " + mostChunks + " chunks");
        }
        int count = length;
        cipher.seal(chunk, 0, count, index, last);
        out.write(chunk, 0, overhead + count);
        storedLength += overhead + count;
        index++;
        length = 0;
        failed = false;
    }

    @Override
    public synchronized long getPos() {
        return index * chunkLength + length;
    }

    /** Does nothing: what is not yet a whole chunk cannot be written. */
    @Override
    public synchronized void flush() throws IOException {
        checkWritable();
    }

    /**
     * Makes whole chunks durable. Writers of Flink call this before they close a file or Flink commits it, and all of the file is durable when it gets
     * its name. Until then what is not a whole chunk is durable only in checkpoints.
     */
    @Override
    public synchronized void sync() throws IOException {
        checkWritable();
        syncInner();
    }

    private void syncInner() throws IOException {
        if (SYNCED.contains(place.scheme())) {
            out.sync();
        }
    }

    @Override
    public synchronized ResumeRecoverable persist() throws IOException {
        checkWritable();
        checkResumable(suite);
        SealedWriter.Point point = SealedWriter.Point.of(out.persist(), place.serializer());
        Unfinished state = new Unfinished(header, index, Arrays.copyOfRange(chunk, overhead, overhead + length));
        try {
            return new SealedWriter.Resume(point, state.seal(recipients, point));
        } finally {
            state.wipe();
        }
    }

    @Override
    public synchronized Committer closeForCommit() throws IOException {
        checkWritable();
        // Whatever fails now, nothing more is written.
        closed = true;
        Committer committer = null;
        try {
            seal(true);
            // Not every file system does this by itself.
            syncInner();
            committer = out.closeForCommit();
            return committer;
        } finally {
            wipe();
            if (committer == null) {
                out.close();
            }
        }
    }

    /** Without a commit there is no file. */
    @Override
    public synchronized void close() throws IOException {
        if (!closed) {
            closed = true;
            wipe();
            out.close();
        }
    }

    private void wipe() {
        cipher.close();
        keys.close();
        Arrays.fill(chunk, (byte) 0);
    }

    private void checkWritable() throws IOException {
        if (closed || failed) {
            throw new IOException(closed ? "it is closed" : "an earlier write failed");
        }
    }
}
