package phalanx;

import java.io.Closeable;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NotDirectoryException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.SecureDirectoryStream;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFileAttributeView;
import java.util.Set;

/**
 * A folder of a source that is open. No link is followed that somebody has put in the place of one of its folders or files since
 * they were listed. Where Java cannot open folders, paths are checked before they are opened.
 */
final class SourceFolder implements Closeable {
    private final Path path;
    private final DirectoryStream<Path> folder;
    /** The same, or null where Java cannot look into an open folder. */
    private final SecureDirectoryStream<Path> opened;

    private SourceFolder(Path path, DirectoryStream<Path> folder) {
        this.path = path;
        this.folder = folder;
        this.opened = folder instanceof SecureDirectoryStream<Path> secure ? secure : null;
    }

    /** The folder at a path, which may lead through links. */
    static SourceFolder of(Path path) throws IOException {
        return new SourceFolder(path, Files.newDirectoryStream(path));
    }

    /** A folder in it. */
    SourceFolder folder(RawName name) throws IOException {
        Path inside = path(name);
        if (opened != null) {
            return new SourceFolder(inside, opened.newDirectoryStream(name.path(), LinkOption.NOFOLLOW_LINKS));
        }
        if (!Files.isDirectory(inside, LinkOption.NOFOLLOW_LINKS)) {
            throw new NotDirectoryException(inside.toString());
        }
        return of(inside);
    }

    /** A file in it. */
    Input file(RawName name) throws IOException {
        return Input.open(path(name), new Input.Way() {
            @Override
            public BasicFileAttributes attributes() throws IOException {
                return opened == null
                        ? Input.attributes(path(name), LinkOption.NOFOLLOW_LINKS)
                        : opened.getFileAttributeView(name.path(), PosixFileAttributeView.class, LinkOption.NOFOLLOW_LINKS)
                                .readAttributes();
            }

            @Override
            public FileChannel channel() throws IOException {
                Set<OpenOption> options = Set.of(StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS);
                return opened == null
                        ? FileChannel.open(path(name), options)
                        : (FileChannel) opened.newByteChannel(name.path(), options);
            }
        });
    }

    /** Its own attributes. */
    BasicFileAttributes attributes() throws IOException {
        return opened == null
                ? Input.attributes(path, LinkOption.NOFOLLOW_LINKS)
                : opened.getFileAttributeView(PosixFileAttributeView.class).readAttributes();
    }

    /** Where an entry of it is. */
    Path path(RawName name) {
        return name.inFolder(path);
    }

    @Override
    public void close() throws IOException {
        folder.close();
    }
}
