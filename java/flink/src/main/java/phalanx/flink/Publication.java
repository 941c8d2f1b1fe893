package phalanx.flink;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.UUID;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream.Committer;

/** How a new file gets its name, so that no other writer's file is replaced or taken for it. */
final class Publication {
    private final FileSystem fs;
    private final boolean isHdfs;
    private final boolean isReplacing;
    private final boolean isLinked;
    private final Path stored;
    private final Path written;

    /** {@code stored} is the name that the file gets. */
    Publication(FileSystem fs, String scheme, Path stored, boolean isReplacing) {
        this.fs = fs;
        isHdfs = scheme.equals("hdfs");
        this.stored = stored;
        this.isReplacing = isReplacing;
        isLinked = scheme.equals("file") && !isReplacing;
        written = isLinked ? new Path(stored.getParent(), ".phalanx-" + UUID.randomUUID()) : stored;
    }

    /** The name by which Flink's file system commits it. In local folders a new file gets its own name by a link afterwards. */
    Path written() {
        return written;
    }

    /** Gives the file its name. Its length and header tell it from others. */
    void publish(Committer committer, long length, byte[] header) throws IOException {
        if (!isReplacing) {
            requireAbsent();
        } else if (isHdfs && status() != null) {
            // HDFS does not rename to the name of another file.
            fs.delete(stored, false);
        }
        committer.commit();
        if (!written.equals(stored)) {
            link();
        }
        requireOurs(length, header);
    }

    /**
     * Removes what there is of a file that gets no name. Flink has no call for that, and its streams leave their temporary files when they are
     * closed. Only for new files in local folders is their name that of no other writer.
     */
    void discard() {
        if (!isLinked) {
            return;
        }
        java.nio.file.Path folder = new File(written.getPath()).toPath().toAbsolutePath().getParent();
        String name = "." + written.getName() + ".inprogress.";
        try (DirectoryStream<java.nio.file.Path> left =
                Files.newDirectoryStream(folder, file -> file.getFileName().toString().startsWith(name))) {
            for (java.nio.file.Path file : left) {
                Files.deleteIfExists(file);
            }
        } catch (IOException | DirectoryIteratorException e) {
            // It keeps its temporary name.
        }
    }

    private FileStatus status() throws IOException {
        try {
            return fs.getFileStatus(stored);
        } catch (FileNotFoundException e) {
            return null;
        }
    }

    private void requireAbsent() throws IOException {
        if (status() != null) {
            throw new FileAlreadyExistsException(stored + " exists: another writer has made it");
        }
    }

    /** A link is only made where nothing is. Flink's local file system renames, and so replaces. */
    private void link() throws IOException {
        java.nio.file.Path from = new File(written.getPath()).toPath();
        java.nio.file.Path to = new File(stored.getPath()).toPath();
        try {
            Files.createLink(to, from);
        } catch (FileAlreadyExistsException e) {
            throw new FileAlreadyExistsException(stored + " exists: another writer has made it");
        } catch (FileSystemException | UnsupportedOperationException e) {
            // There are no links in this folder. This looks whether the name is free, and renames then.
            Files.move(from, to);
        } finally {
            Files.deleteIfExists(from);
        }
    }

    /** Flink's commit on HDFS does not say whether its renaming did anything. */
    private void requireOurs(long length, byte[] header) throws IOException {
        FileStatus there = status();
        if (there == null || there.getLen() != length || isHdfs && !Arrays.equals(beginning(header.length), header)) {
            throw new IOException(stored + " is not the file that was written: another writer has made or removed it");
        }
    }

    private byte[] beginning(int length) throws IOException {
        try (FSDataInputStream in = fs.open(stored)) {
            return in.readNBytes(length);
        }
    }
}
