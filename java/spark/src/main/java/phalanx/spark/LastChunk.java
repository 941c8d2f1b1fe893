package phalanx.spark;

import java.io.EOFException;
import java.io.IOException;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import phalanx.ChangedException;
import phalanx.Contents;
import phalanx.Layout;
import phalanx.TreeEntry;
import phalanx.hadoop.Stored;

/**
 * By what a stored file is recognized without a key.
 *
 * @param last nonce and tag of its last chunk, in hexadecimal digits
 * @param length the length of its plaintext
 */
record LastChunk(String last, long length) {
    /** As long as {@link Contents#last}. */
    private static final int BYTES = 48;

    static LastChunk read(FileSystem fs, FileStatus status) throws IOException {
        try (FSDataInputStream in = Stored.open(fs, status, OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_RANDOM)) {
            Layout layout = Stored.header(in, status.getLen()).layout(status.getLen());
            byte[] head = new byte[layout.suite().overhead()];
            in.readFully(layout.fileOffset(layout.chunks() - 1), head, 0, head.length);
            return new LastChunk(HexFormat.of().formatHex(Arrays.copyOf(head, BYTES)), layout.plaintextLength());
        } catch (EOFException e) {
            throw new ChangedException();
        }
    }

    /** What a manifest lists. */
    static LastChunk of(TreeEntry.File listed) {
        return new LastChunk(HexFormat.of().formatHex(listed.contents().last()), listed.length());
    }
}
