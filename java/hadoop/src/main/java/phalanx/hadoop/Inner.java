package phalanx.hadoop;

import java.io.IOException;
import java.net.URI;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
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

    /** In local folders without a moment in which another writer's file of that name could be replaced. */
    @Override
    @SuppressWarnings("deprecation")
    public void rename(Path from, Path to, Options.Rename... options) throws IOException {
        boolean overwrites = Arrays.asList(options).contains(Options.Rename.OVERWRITE);
        if (overwrites || !isLinked(from, to)) {
            super.rename(from, to, options);
        }
    }

    /**
     * Renames a file of a local folder by a link, which is only made where nothing is. The local file system of Hadoop looks whether the name is
     * free, and renames then.
     *
     * @return whether it is done; if not, links cannot be had there, or this is no local file
     */
    private boolean isLinked(Path from, Path to) throws IOException {
        if (!(fs instanceof LocalFileSystem local) || local.exists(local.getChecksumFile(from))) {
            return false;
        }
        java.nio.file.Path source = local.pathToFile(from).toPath();
        java.nio.file.Path target = local.pathToFile(to).toPath();
        try {
            Files.createLink(target, source);
        } catch (java.nio.file.FileAlreadyExistsException e) {
            // A server may have made the link, and its answer was lost.
            if (!Files.isSameFile(source, target)) {
                throw new FileAlreadyExistsException("rename destination " + to + " already exists.");
            }
        } catch (AccessDeniedException | NoSuchFileException e) {
            throw e;
        } catch (FileSystemException | UnsupportedOperationException e) {
            return false;
        }
        // That of a file which had the name before.
        Files.deleteIfExists(local.pathToFile(local.getChecksumFile(to)).toPath());
        Files.delete(source);
        return true;
    }
}
