package phalanx.flink;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.FileAlreadyExistsException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.core.fs.BlockLocation;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.FSDataOutputStream;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.fs.RecoverableWriter;
import phalanx.Layout;
import phalanx.NamedKeys;
import phalanx.PhalanxException;

/**
 * Protected files as plain ones: the file {@code phalanx+s3://bucket/a} is the protected file {@code s3://bucket/a.phx} of Flink's own file system for
 * {@code s3}. Folders are folders, and files without that ending are not shown.
 */
final class ProtectedFileSystem extends FileSystem {
    private final FileSystem inner;
    private final String scheme;
    private final URI uri;
    private final Settings settings;
    private final NamedKeys keys;
    private final Lengths lengths;

    ProtectedFileSystem(URI uri, Settings settings) throws IOException {
        URI inside = Names.inner(uri);
        // Flink closes what a task has left open by the streams of this file system, so not twice.
        inner = FileSystem.getUnguardedFileSystem(inside);
        scheme = inside.getScheme();
        this.uri = URI.create(Names.PREFIX + inner.getUri());
        this.settings = settings;
        keys = new NamedKeys(settings, Map.of());
        lengths = new Lengths(inner);
    }

    // Paths.

    private Path inner(Path path) {
        return Names.withScheme(scheme, path);
    }

    private Path outer(Path path) {
        return Names.withScheme(Names.PREFIX + scheme, path);
    }

    @Override
    public URI getUri() {
        return uri;
    }

    @Override
    public Path getWorkingDirectory() {
        return outer(inner.getWorkingDirectory());
    }

    @Override
    public Path getHomeDirectory() {
        return outer(inner.getHomeDirectory());
    }

    @Override
    public boolean isDistributedFS() {
        return inner.isDistributedFS();
    }

    // What is there.

    /** The protected file, or the folder; or null. */
    private FileStatus find(Path path) throws IOException {
        Path name = inner(path);
        FileStatus file = status(Names.stored(name));
        if (file != null && !file.isDir()) {
            return file;
        }
        FileStatus folder = status(name);
        return folder != null && folder.isDir() ? folder : null;
    }

    private FileStatus status(Path name) throws IOException {
        try {
            return inner.getFileStatus(name);
        } catch (FileNotFoundException e) {
            return null;
        }
    }

    private FileStatus require(Path path) throws IOException {
        FileStatus found = find(path);
        if (found == null) {
            throw new FileNotFoundException("No such file or folder: " + path);
        }
        return found;
    }

    @Override
    public boolean exists(Path path) throws IOException {
        return find(path) != null;
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        FileStatus found = require(path);
        if (found.isDir()) {
            return new PlainStatus(found, outer(found.getPath()), null);
        }
        try {
            return new PlainStatus(found, outer(inner(path)), lengths.layout(found));
        } catch (PhalanxException e) {
            throw new IOException(path + ": " + e.getMessage(), e);
        }
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        FileStatus found = find(path);
        if (found != null && !found.isDir()) {
            return new FileStatus[] {getFileStatus(path)};
        }
        FileStatus[] all = inner.listStatus(inner(path));
        if (all == null || found == null) {
            // Flink's file systems differ in what they do here. An inner file that is not shown is not there.
            return all == null ? null : new FileStatus[0];
        }
        List<FileStatus> shown = new ArrayList<>();
        for (FileStatus each : all) {
            PlainStatus status = each.isDir() ? new PlainStatus(each, outer(each.getPath()), null)
                    : Names.isStored(each.getPath()) ? lengths.shown(each, outer(Names.plain(each.getPath())))
                    : null;
            if (status != null) {
                shown.add(status);
            }
        }
        return shown.toArray(FileStatus[]::new);
    }

    @Override
    public BlockLocation[] getFileBlockLocations(FileStatus file, long start, long length) throws IOException {
        PlainStatus status = file instanceof PlainStatus known ? known : (PlainStatus) getFileStatus(file.getPath());
        if (status.isDir() || status.layout() == null) {
            return new BlockLocation[0];
        }
        Layout layout = status.layout();
        List<BlockLocation> blocks = new ArrayList<>();
        for (BlockLocation each : inner.getFileBlockLocations(status.stored(), 0, status.stored().getLen())) {
            PlainBlock block = PlainBlock.of(each, layout);
            if (block.to() > start && block.from() < start + length) {
                blocks.add(block);
            }
        }
        return blocks.toArray(BlockLocation[]::new);
    }

    // Reading.

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        return open(path);
    }

    @Override
    public FSDataInputStream open(Path path) throws IOException {
        FileStatus found = require(path);
        if (found.isDir()) {
            throw new FileNotFoundException(path + " is a folder");
        }
        return PlainInput.open(inner, found.getPath(), path, keys.provider());
    }

    // Writing.

    @Override
    public RecoverableWriter createRecoverableWriter() throws IOException {
        return writer();
    }

    private SealedWriter writer() throws IOException {
        return new SealedWriter(inner.createRecoverableWriter(), scheme, keys, settings);
    }

    @Override
    public RecoverableWriter createRecoverableWriter(Map<String, String> options) throws IOException {
        return new SealedWriter(inner.createRecoverableWriter(options), scheme, keys, settings);
    }

    @Override
    public FSDataOutputStream create(Path path, WriteMode mode) throws IOException {
        FileStatus there = find(path);
        if (there != null && (there.isDir() || mode == WriteMode.NO_OVERWRITE)) {
            throw new FileAlreadyExistsException(path + (there.isDir() ? " is a folder" : " exists"));
        }
        Publication publication = new Publication(inner, scheme, Names.stored(inner(path)), mode == WriteMode.OVERWRITE);
        return new WholeOutput(writer().openStored(publication.written()), publication);
    }

    @Override
    public boolean mkdirs(Path path) throws IOException {
        FileStatus there = find(path);
        if (there != null && !there.isDir()) {
            throw new FileAlreadyExistsException(path + " is a file");
        }
        refuseEnding(path);
        return inner.mkdirs(inner(path));
    }

    /** Refuses to make a folder that has the name of a protected file. */
    private static void refuseEnding(Path folder) throws IOException {
        if (folder.getName().endsWith(Names.ENDING)) {
            throw new IOException(folder + ": no folder is made with the ending of protected files, " + Names.ENDING);
        }
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        FileStatus source = require(from);
        FileStatus target = find(to);
        // A file and a folder of one name would hide each other.
        if (target != null && target.isDir() != source.isDir()) {
            throw new FileAlreadyExistsException(to + (target.isDir() ? " is a folder" : " is a file"));
        }
        if (source.isDir()) {
            refuseEnding(to);
            return inner.rename(source.getPath(), inner(to));
        }
        return inner.rename(source.getPath(), Names.stored(inner(to)));
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        FileStatus found = find(path);
        return found != null && inner.delete(found.getPath(), recursive);
    }
}
