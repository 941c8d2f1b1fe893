package phalanx;

import java.io.Closeable;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;

/** A regular file that has been opened for reading. */
final class Input implements Closeable {
    private final Path path;
    private final FileChannel channel;

    private Input(Path path, FileChannel channel) {
        this.path = path;
        this.channel = channel;
    }

    /** Opens a regular file. Pipes and devices are refused before they are opened, since opening one may wait for ever. */
    static Input open(Path path) throws IOException {
        BasicFileAttributes attributes = Files.readAttributes(path, BasicFileAttributes.class);
        if (attributes.isDirectory()) {
            throw new FileSystemException(path.toString(), null, "it is a folder");
        }
        if (!attributes.isRegularFile()) {
            throw new FileSystemException(path.toString(), null, "not a regular file");
        }
        return new Input(path, FileChannel.open(path, StandardOpenOption.READ));
    }

    FileChannel channel() {
        return channel;
    }

    /** Whether a path leads to this file too. */
    boolean isAt(Path other) {
        try {
            return Files.isSameFile(path, other);
        } catch (IOException e) {
            return false;
        }
    }

    /** Checks that the file still has the length that was read. */
    void checkLength(long length) throws IOException {
        if (channel.size() != length) {
            throw new ChangedException();
        }
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
