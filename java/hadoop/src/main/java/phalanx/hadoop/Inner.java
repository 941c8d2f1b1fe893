package phalanx.hadoop;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;

/** The inner file system, with what a {@link FileSystem} shows only to its own kind. */
public final class Inner extends FilterFileSystem {
    private Inner(FileSystem fs) {
        super(fs);
    }

    /**
     * One of its own, which is closed with it.
     *
     * @param uri which file system
     * @param conf its settings
     * @return the file system
     * @throws IOException if it cannot be had
     */
    public static Inner of(URI uri, Configuration conf) throws IOException {
        FileSystem fs = FileSystem.newInstance(uri, conf);
        if (fs instanceof LocalFileSystem) {
            // Chunks are authenticated, so their checksums would be a second file for nothing. Those of others are still
            // renamed and deleted with their files.
            fs.setVerifyChecksum(false);
            fs.setWriteChecksum(false);
        }
        return new Inner(fs);
    }

    @Override
    public String getScheme() {
        return fs.getUri().getScheme();
    }

    URI canonical(URI uri) {
        return canonicalizeUri(uri);
    }

    /**
     * Gives a new file its name.
     *
     * @param temporary the name that it has
     * @param file the name that it gets
     * @param overwrite whether a file of that name is replaced. Otherwise this fails if there is one
     * @throws IOException if it cannot get the name
     */
    public void publish(Path temporary, Path file, boolean overwrite) throws IOException {
        if (overwrite && fs instanceof LocalFileSystem) {
            // This replaces a file at once. The other form would delete it first.
            if (!fs.rename(temporary, file)) {
                throw new IOException("cannot rename " + temporary + " to " + file);
            }
            return;
        }
        rename(temporary, file, overwrite ? Options.Rename.OVERWRITE : Options.Rename.NONE);
    }

    @Override
    @SuppressWarnings("deprecation")
    public void rename(Path from, Path to, Options.Rename... options) throws IOException {
        super.rename(from, to, options);
    }
}
