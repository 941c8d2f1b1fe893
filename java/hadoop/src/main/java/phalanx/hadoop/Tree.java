package phalanx.hadoop;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;

/** The tree of files as it is shown, and where each lies in the inner file system. */
final class Tree {
    private final Inner inner;
    private final URI uri;
    private volatile Path workingDirectory;

    Tree(Inner inner, URI uri) {
        this.inner = inner;
        this.uri = uri;
        workingDirectory = outer(inner.getWorkingDirectory());
    }

    Path workingDirectory() {
        return workingDirectory;
    }

    void setWorkingDirectory(Path path) {
        workingDirectory = qualified(path);
    }

    Path qualified(Path path) {
        return outer(inner(path));
    }

    /** The path in the inner file system, without the ending of a file. Refuses those of another file system. */
    Path inner(Path path) {
        String scheme = path.toUri().getScheme();
        Path whole = path.isAbsolute() || scheme != null ? path : new Path(workingDirectory, path);
        String known = whole.toUri().getScheme();
        if (known == null) {
            return inner.makeQualified(whole);
        }
        if (!known.equalsIgnoreCase(uri.getScheme())) {
            throw new IllegalArgumentException("Wrong FS: " + path + ", expected: " + uri);
        }
        return inner.makeQualified(Names.withScheme(inner.getScheme(), whole));
    }

    Path outer(Path path) {
        return Names.withScheme(uri.getScheme(), path);
    }

    PlainStatus folder(FileStatus status) {
        return PlainStatus.ofFolder(status, outer(status.getPath()));
    }

    PlainStatus file(FileStatus stored, Lengths.Shown shown) {
        Path path = outer(Names.plain(stored.getPath()));
        return shown.kind() == Lengths.Kind.READABLE
                ? PlainStatus.ofFile(stored, shown.layout(), path)
                : PlainStatus.ofUnreadable(stored, path);
    }

    /** The protected file, or the folder; or null. */
    FileStatus find(Path path) throws IOException {
        Path name = inner(path);
        FileStatus file = findFile(name);
        if (file != null) {
            return file;
        }
        FileStatus folder = status(name);
        return folder != null && folder.isDirectory() ? folder : null;
    }

    /** The protected file of an inner path, or null. */
    FileStatus findFile(Path name) throws IOException {
        FileStatus file = name.isRoot() ? null : status(Names.stored(name));
        return file != null && file.isFile() ? file : null;
    }

    private FileStatus status(Path name) throws IOException {
        try {
            return inner.getFileStatus(name);
        } catch (FileNotFoundException | ParentNotDirectoryException e) {
            return null;
        }
    }

    FileStatus require(Path path) throws IOException {
        FileStatus found = find(path);
        if (found == null) {
            throw missing(path);
        }
        return found;
    }

    FileNotFoundException missing(Path path) {
        return new FileNotFoundException("No such file or folder: " + qualified(path));
    }

    /** Refuses a path below a file, which the inner file system does not see, since it has another name there. */
    void requireFolderAbove(Path name, boolean mayBeMissing) throws IOException {
        for (Path above = name.getParent(); above != null && !above.isRoot(); above = above.getParent()) {
            FileStatus folder = status(above);
            if (folder != null && folder.isDirectory()) {
                return;
            }
            if (folder != null || findFile(above) != null) {
                throw new ParentNotDirectoryException(outer(above) + " is not a folder");
            }
            if (!mayBeMissing) {
                throw missing(outer(above));
            }
            refuseEnding(above);
        }
    }

    /** Refuses to make a folder that has the name of a protected file. */
    void refuseEnding(Path folder) throws IOException {
        if (folder.getName().endsWith(Names.ENDING)) {
            throw new IOException(outer(folder) + ": no folder is made with the ending of protected files, " + Names.ENDING);
        }
    }

    /** Refuses the name of a new file if a folder has it, or another file that is to stay. */
    void requireFree(Path path, boolean overwrite) throws IOException {
        Path name = inner(path);
        FileStatus stored = name.isRoot() ? null : status(Names.stored(name));
        if (stored != null && stored.isDirectory()) {
            throw new FileAlreadyExistsException(outer(stored.getPath()) + " is a folder where its protected file would be");
        }
        if (stored != null && !overwrite) {
            throw new FileAlreadyExistsException(outer(name) + " exists");
        }
        if (stored == null && (name.isRoot() || isFolder(name))) {
            throw new FileAlreadyExistsException(outer(name) + " is a folder");
        }
    }

    /** Whether the inner file system has something by the names of a path that is not shown. */
    boolean isHidden(Path path) throws IOException {
        Path name = inner(path);
        return status(name) != null || status(Names.stored(name)) != null;
    }

    /** Whether the inner file system has such a folder. */
    boolean isFolder(Path name) throws IOException {
        FileStatus there = status(name);
        return there != null && there.isDirectory();
    }

    /** Whether the place of a file has a folder, or that of a folder a file, under another inner name. */
    boolean isOther(FileStatus source, Path name) throws IOException {
        return source.isDirectory() ? findFile(name) != null : isFolder(name) || isFolder(Names.stored(name));
    }
}
