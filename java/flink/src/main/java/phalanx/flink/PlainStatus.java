package phalanx.flink;

import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.Path;
import phalanx.Layout;

/**
 * A file as it is shown, or a folder.
 *
 * @param stored that of the inner file system
 * @param path where it is shown
 * @param layout that of the protected file; null for folders, and for files whose header cannot be read
 */
record PlainStatus(FileStatus stored, Path path, Layout layout) implements FileStatus {
    @Override
    public long getLen() {
        return layout == null ? stored.getLen() : layout.plaintextLength();
    }

    @Override
    public long getBlockSize() {
        return stored.getBlockSize();
    }

    @Override
    public short getReplication() {
        return stored.getReplication();
    }

    @Override
    public long getModificationTime() {
        return stored.getModificationTime();
    }

    @Override
    public long getAccessTime() {
        return stored.getAccessTime();
    }

    @Override
    public boolean isDir() {
        return stored.isDir();
    }

    @Override
    public Path getPath() {
        return path;
    }
}
