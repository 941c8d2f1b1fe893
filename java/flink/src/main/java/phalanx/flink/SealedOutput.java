package phalanx.flink;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.Objects;
import java.util.OptionalLong;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream;
import org.apache.flink.core.fs.RecoverableWriter.ResumeRecoverable;
import phalanx.ChunkCipher;
import phalanx.FileKeys;
import phalanx.Header;
import phalanx.KeyProvider;
import phalanx.Recipients;

/** A protected file that is written, and that a checkpoint can go on from. It belongs to one thread, which does all the work. */
final class SealedOutput extends RecoverableFsDataOutputStream {
    private final RecoverableFsDataOutputStream out;
    private final Recipients recipients;
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
    private boolean failed;
    private boolean closed;

    private SealedOutput(RecoverableFsDataOutputStream out, Recipients recipients, Header header, FileKeys keys) {
        this.out = out;
        this.recipients = recipients;
        this.header = header.toBytes();
        this.keys = keys;
        cipher = new ChunkCipher(keys, header.chunkLog2());
        overhead = header.suite().overhead();
        chunkLength = 1 << header.chunkLog2();
        mostChunks = header.suite().mostChunks();
        chunk = new byte[overhead + chunkLength];
    }

    /** Begins a file: writes its header. */
    static SealedOutput begin(RecoverableFsDataOutputStream out, Recipients recipients, Settings settings) throws IOException {
        Recipients.NewFile file = recipients.newFile(settings.suite, settings.chunkLog2, OptionalLong.empty());
        try {
            out.write(file.header().toBytes());
            return new SealedOutput(out, recipients, file.header(), file.keys());
        } catch (IOException | RuntimeException e) {
            file.close();
            throw e;
        }
    }

    /** Goes on with a file. The inner stream has what it had at the checkpoint. */
    static SealedOutput resume(RecoverableFsDataOutputStream out, Unfinished at, Recipients recipients, KeyProvider provider)
            throws IOException {
        Header header = Header.read(new ByteArrayInputStream(at.header()));
        FileKeys keys = header.open(provider).keys();
        try {
            SealedOutput resumed = new SealedOutput(out, recipients, header, keys);
            long written = at.header().length + at.chunks() * (resumed.overhead + resumed.chunkLength);
            if (out.getPos() != written || at.tail().length > resumed.chunkLength) {
                throw new IOException("the unfinished file is not that of the checkpoint: it has " + out.getPos() + " bytes instead of " + written);
            }
            resumed.index = at.chunks();
            resumed.length = at.tail().length;
            System.arraycopy(at.tail(), 0, resumed.chunk, resumed.overhead, resumed.length);
            return resumed;
        } catch (IOException | RuntimeException e) {
            keys.close();
            throw e;
        }
    }

    @Override
    public void write(int value) throws IOException {
        write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public void write(byte[] from, int offset, int count) throws IOException {
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
        cipher.seal(chunk, 0, length, index, last);
        out.write(chunk, 0, overhead + length);
        index++;
        length = 0;
        failed = false;
    }

    @Override
    public long getPos() {
        return index * chunkLength + length;
    }

    /** Does nothing: what is not yet a whole chunk cannot be written. */
    @Override
    public void flush() throws IOException {
        checkWritable();
    }

    /**
     * Makes whole chunks durable. Writers of Flink call this before they close a file or Flink commits it, and all of the file is durable when it gets
     * its name. Until then what is not a whole chunk is durable only in checkpoints.
     */
    @Override
    public void sync() throws IOException {
        checkWritable();
        out.sync();
    }

    @Override
    public ResumeRecoverable persist() throws IOException {
        checkWritable();
        Unfinished state = new Unfinished(header, index, Arrays.copyOfRange(chunk, overhead, overhead + length));
        try {
            return new SealedWriter.Resume(out.persist(), state.seal(recipients));
        } finally {
            state.wipe();
        }
    }

    @Override
    public Committer closeForCommit() throws IOException {
        checkWritable();
        seal(true);
        // Not every file system does this by itself.
        out.sync();
        closed = true;
        wipe();
        return out.closeForCommit();
    }

    /** Without a commit there is no file. */
    @Override
    public void close() throws IOException {
        if (!closed) {
            closed = true;
            wipe();
            out.close();
        }
    }

    private void wipe() {
        keys.close();
        Arrays.fill(chunk, (byte) 0);
    }

    private void checkWritable() throws IOException {
        if (closed || failed) {
            throw new IOException(closed ? "it is closed" : "an earlier write failed");
        }
    }
}
