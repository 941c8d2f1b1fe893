package phalanx.hadoop;

import java.util.Optional;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import phalanx.Layout;

/** A file as it is shown: its own name and the length of its plaintext. The length is authenticated only when the file is opened. */
final class PlainStatus extends FileStatus implements EtagSource {
    private static final long serialVersionUID = 1L;

    private final transient FileStatus stored;
    private final transient Layout layout;

    private PlainStatus(FileStatus stored, Layout layout, long length, Path path) {
        super(length, stored.isDirectory(), stored.getReplication(), stored.getBlockSize(), stored.getModificationTime(),
                stored.getAccessTime(), null, null, null, path);
        this.stored = stored;
        this.layout = layout;
    }

    static PlainStatus ofFolder(FileStatus inner, Path path) {
        return new PlainStatus(inner, null, 0, path);
    }

    static PlainStatus ofFile(FileStatus stored, Layout layout, Path path) {
        return new PlainStatus(stored, layout, layout.plaintextLength(), path);
    }

    /** A file that is certainly not readable. It has some length, so that nobody takes it for an empty one and passes it over. */
    static PlainStatus ofUnreadable(FileStatus stored, Path path) {
        return new PlainStatus(stored, null, stored.getLen(), path);
    }

    /** The ETag that a file system knows, or null. */
    static String etagOf(FileStatus status) {
        return status instanceof EtagSource source ? source.getEtag() : null;
    }

    /** The protected file. */
    FileStatus stored() {
        return stored;
    }

    /** Where its chunks lie, as its header says. */
    Optional<Layout> layout() {
        return Optional.ofNullable(layout);
    }

    // These cost a process for each file in local folders without Hadoop's native library, so they are asked for when needed.

    @Override
    public FsPermission getPermission() {
        return stored.getPermission();
    }

    @Override
    public String getOwner() {
        return stored.getOwner();
    }

    @Override
    public String getGroup() {
        return stored.getGroup();
    }

    @Override
    public String getEtag() {
        return etagOf(stored);
    }

    /** Another JVM gets what every file system has. */
    private Object writeReplace() {
        return new FileStatus(getLen(), isDirectory(), getReplication(), getBlockSize(), getModificationTime(), getAccessTime(),
                getPermission(), getOwner(), getGroup(), getPath());
    }

    @Override
    public boolean equals(Object other) {
        return super.equals(other);
    }

    @Override
    public int hashCode() {
        return super.hashCode();
    }
}
