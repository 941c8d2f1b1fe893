package phalanx;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFileAttributes;
import java.util.Objects;

/**
 * A regular file that has been opened for reading. Java cannot read the attributes of an open file, so those of the
 * path are read before and after the file is opened, and the path must lead to the same file both times.
 */
final class Input implements Closeable {
    private final Path path;
    private final FileChannel channel;
    private final BasicFileAttributes attributes;

    private Input(Path path, FileChannel channel, BasicFileAttributes attributes) {
        this.path = path;
        this.channel = channel;
        this.attributes = attributes;
    }

    /** How a file is reached. */
    interface Way {
        /** What it is now. */
        BasicFileAttributes attributes() throws IOException;

        /** Opens it for reading. */
        FileChannel channel() throws IOException;
    }

    /** Opens a regular file. Links are followed. */
    static Input open(Path path) throws IOException {
        return open(path, new Way() {
            @Override
            public BasicFileAttributes attributes() throws IOException {
                return Input.attributes(path);
            }

            @Override
            public FileChannel channel() throws IOException {
                return FileChannel.open(path, StandardOpenOption.READ);
            }
        });
    }

    /** Opens a regular file. Pipes and devices are refused before they are opened, since opening one may wait for ever. */
    static Input open(Path path, Way way) throws IOException {
        BasicFileAttributes before = way.attributes();
        if (before.isDirectory()) {
            throw new FileSystemException(path.toString(), null, "it is a folder");
        }
        if (!before.isRegularFile()) {
            throw new FileSystemException(path.toString(), null, "not a regular file");
        }
        FileChannel channel = way.channel();
        try {
            BasicFileAttributes after = way.attributes();
            if (!Objects.equals(before.fileKey(), after.fileKey())) {
                throw new FileSystemException(path.toString(), null, "it was replaced while it was opened");
            }
            return new Input(path, channel, after);
        } catch (IOException e) {
            channel.close();
            throw e;
        }
    }

    /** The attributes of a path, with owner and permissions if the system has them. */
    static BasicFileAttributes attributes(Path path, LinkOption... links) throws IOException {
        boolean isPosix = path.getFileSystem().supportedFileAttributeViews().contains("posix");
        Class<? extends BasicFileAttributes> kind = isPosix ? PosixFileAttributes.class : BasicFileAttributes.class;
        return Files.readAttributes(path, kind, links);
    }

    Path path() {
        return path;
    }

    FileChannel channel() {
        return channel;
    }

    /** The attributes at the time when it was opened. */
    BasicFileAttributes attributes() {
        return attributes;
    }

    /** The length in bytes when it was opened. */
    long length() {
        return attributes.size();
    }

    /** Its bytes. The stream ends only if the file is unchanged, so the output of a changed file is never complete. */
    InputStream stream() {
        InputStream bytes = Channels.newInputStream(channel);
        return new InputStream() {
            @Override
            public int read() throws IOException {
                return checked(bytes.read());
            }

            @Override
            public int read(byte[] into, int offset, int length) throws IOException {
                return checked(bytes.read(into, offset, length));
            }

            private int checked(int read) throws IOException {
                if (read < 0) {
                    checkUnchanged();
                }
                return read;
            }
        };
    }

    /** Whether a path leads to this file too. */
    boolean isAt(Path other) {
        try {
            return Files.isSameFile(path, other);
        } catch (IOException e) {
            return false;
        }
    }

    /** Checks that the file has its path, and the length and time of modification that it had when it was opened. */
    void checkUnchanged() throws IOException {
        BasicFileAttributes now = attributes(path);
        boolean isSame = Objects.equals(now.fileKey(), attributes.fileKey())
                && now.lastModifiedTime().equals(attributes.lastModifiedTime())
                && now.size() == attributes.size()
                && channel.size() == attributes.size();
        if (!isSame) {
            throw new ChangedException();
        }
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
