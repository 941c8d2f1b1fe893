package phalanx.hadoop;

import java.io.BufferedInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.functional.FutureIO;
import phalanx.Header;

/** Protected files of the inner file system, as bytes. */
public final class Stored {
    /** As long as nearly all headers, so that one request reads them. */
    static final int USUAL_HEADER = 8192;

    private Stored() {}

    /** Whether the file system is a store of objects, which sends what a request asks for. */
    static boolean isStore(FileSystem fs, Path path) throws IOException {
        return fs.hasPathCapability(path, CommonPathCapabilities.ABORTABLE_STREAM);
    }

    /**
     * Opens a file for reads here and there, or as the caller says that it will read.
     *
     * @param fs its file system
     * @param file the file
     * @param policy how it will be read, in Hadoop's words, or null
     * @return its bytes
     * @throws IOException if it cannot be opened
     */
    public static FSDataInputStream open(FileSystem fs, FileStatus file, String policy) throws IOException {
        FutureDataInputStreamBuilder builder = fs.openFile(file.getPath()).withFileStatus(file);
        if (policy != null) {
            builder.opt(OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY, policy);
        }
        if (OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_RANDOM.equals(policy)) {
            // S3A would fetch 64 KiB. Others do not know this.
            builder.opt("fs.s3a.readahead.range", Integer.toString(USUAL_HEADER));
        }
        CompletableFuture<FSDataInputStream> opened = builder.build();
        return FutureIO.awaitFuture(opened);
    }

    /**
     * Reads the header.
     *
     * @param in the file
     * @param length its length
     * @return the header
     * @throws IOException if there is none, or it cannot be read
     */
    public static Header header(FSDataInputStream in, long length) throws IOException {
        int buffer = (int) Math.max(1, Math.min(USUAL_HEADER, length));
        return Header.read(new BufferedInputStream(new FromStart(in, length), buffer));
    }

    /** Reads all of a range, or fails. */
    static void readFully(FSDataInputStream in, long position, byte[] into, int length) throws IOException {
        try {
            in.readFully(position, into, 0, length);
        } catch (EOFException e) {
            throw new IOException("it became shorter while it was read", e);
        }
    }

    /** The bytes from the beginning, by reads at positions. */
    private static final class FromStart extends InputStream {
        private final FSDataInputStream in;
        private final long length;
        private long position;

        FromStart(FSDataInputStream in, long length) {
            this.in = in;
            this.length = length;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : Byte.toUnsignedInt(one[0]);
        }

        @Override
        public int read(byte[] into, int offset, int count) throws IOException {
            if (count == 0) {
                return 0;
            }
            int most = (int) Math.min(count, length - position);
            if (most <= 0) {
                return -1;
            }
            byte[] bytes = offset == 0 ? into : new byte[most];
            readFully(in, position, bytes, most);
            if (offset > 0) {
                System.arraycopy(bytes, 0, into, offset, most);
            }
            position += most;
            return most;
        }
    }
}
