package phalanx.hadoop;

import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileChecksum;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.FsStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.impl.AbstractFSBuilderImpl;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import org.apache.hadoop.fs.permission.FsAction;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.LambdaUtils;
import org.apache.hadoop.util.Progressable;
import org.apache.hadoop.util.functional.RemoteIterators;
import phalanx.Layout;
import phalanx.PhalanxException;
import phalanx.Recipients;
import phalanx.Suite;

/**
 * Protected files as plain ones: {@code phalanx+s3a://…}, {@code phalanx+hdfs://…}, {@code phalanx+file:///…}, or {@code phalanx+}
 * and any other file system of Hadoop. The file {@code phalanx+s3a://bucket/a} is the protected file {@code s3a://bucket/a.phx}, which
 * all other programs of Phalanx read and write, and folders are folders. Files without that ending are not shown.
 *
 * <pre>{@code
 * spark-shell --jars phalanx-hadoop.jar --conf spark.hadoop.fs.phalanx.keys=work \
 *     --conf spark.hadoop.fs.phalanx+s3a.impl=phalanx.hadoop.PhalanxFileSystem
 * scala> spark.read.parquet("phalanx+s3a://bucket/table")
 * }</pre>
 *
 * <p><b>Keys.</b> {@code fs.phalanx.keys} names them, and never has one. Files are protected for all of these and open by any of
 * them, and by those that {@code fs.phalanx.open.keys} names. If none is named, files open by the keys of the keyring. A name is that of
 * a key in the keyring, or {@code file:PATH}, {@code credential:ALIAS} for a key's text in one of Hadoop's credential providers, or
 * {@code kms:URI} for a key service.
 *
 * <p><b>What is authentic.</b> All that is read from an open file, and its length. Names, listings, the lengths in them, and which
 * files there are come from the inner file system, as they are.
 *
 * <p><b>Writing.</b> A file appears when it is closed, and only whole. Until then nothing can be read, so {@code hsync} and
 * {@code append} are not supported, and {@code hflush} does nothing.
 */
public class PhalanxFileSystem extends FileSystem {
    static final String CIPHER = "fs.phalanx.cipher";
    static final String CHUNK_SIZE = "fs.phalanx.chunk.size";
    static final String SYNC = "fs.phalanx.sync";
    static final String LISTING_THREADS = "fs.phalanx.listing.threads";

    /** Columns are read by whole chunks, and of shorter ones less is read beside a column. */
    static final long USUAL_CHUNK = 256 << 10;
    private static final List<String> CIPHERS = List.of("aes-256", "aes-192", "aes-128", "aes-256-gcm", "aes-256-turbo");

    private Inner inner;
    private URI uri;
    private Tree tree;
    private Keys keys;
    private Lengths lengths;
    private Opened.Shared shared;
    private Suite suite;
    private int chunkLog2;
    private boolean syncs;

    /** One that is to be initialized. */
    public PhalanxFileSystem() {}

    @Override
    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        setConf(conf);
        suite = suite(conf);
        chunkLog2 = chunkLog2(conf);
        syncs = conf.getBoolean(SYNC, true);
        Ends ends = new Ends();
        shared = new Opened.Shared(ends, AheadThreads.of(conf), statistics);
        inner = Inner.of(Names.inner(name), conf);
        String authority = inner.getUri().getAuthority();
        uri = URI.create(Names.PREFIX + inner.getScheme() + "://" + (authority == null ? "/" : authority));
        tree = new Tree(inner, uri);
        keys = new Keys(conf);
        lengths = new Lengths(inner, ends, Math.max(1, conf.getInt(LISTING_THREADS, 16)));
    }

    private static Suite suite(Configuration conf) throws IOException {
        String name = conf.getTrimmed(CIPHER, CIPHERS.get(0)).toLowerCase(Locale.ROOT);
        return Suite.of(CIPHERS.indexOf(name) + 1)
                .orElseThrow(() -> new IOException(CIPHER + " is one of " + String.join(", ", CIPHERS)));
    }

    /** For tests. */
    AheadThreads aheadThreads() {
        return shared.threads();
    }

    private static int chunkLog2(Configuration conf) throws IOException {
        long size = conf.getLongBytes(CHUNK_SIZE, USUAL_CHUNK);
        if (Long.bitCount(size) != 1 || size < 1 << 12 || size > 1 << 24) {
            throw new IOException(CHUNK_SIZE + " is a power of two from 4K to 16M");
        }
        return Long.numberOfTrailingZeros(size);
    }

    @Override
    public String getScheme() {
        return uri.getScheme();
    }

    @Override
    public URI getUri() {
        return uri;
    }

    @Override
    protected URI canonicalizeUri(URI name) {
        String scheme = name.getScheme();
        boolean isOurs = scheme != null && scheme.startsWith(Names.PREFIX);
        return isOurs ? URI.create(Names.PREFIX + inner.canonical(Names.inner(name))) : name;
    }

    // Paths.

    @Override
    public Path makeQualified(Path path) {
        return tree.qualified(path);
    }

    @Override
    protected void checkPath(Path path) {
        tree.inner(path);
    }

    @Override
    public Path getWorkingDirectory() {
        return tree.workingDirectory();
    }

    @Override
    public void setWorkingDirectory(Path path) {
        tree.setWorkingDirectory(path);
    }

    @Override
    public Path getHomeDirectory() {
        return tree.outer(inner.getHomeDirectory());
    }

    // What is there.

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        FileStatus found = tree.require(path);
        if (found.isDirectory()) {
            return tree.folder(found);
        }
        Path plain = tree.outer(Names.plain(found.getPath()));
        try {
            return PlainStatus.ofFile(found, lengths.layout(found), plain);
        } catch (PhalanxException e) {
            throw new IOException(plain + ": " + e.getMessage(), e);
        }
    }

    /** Reads no header. */
    @Override
    public boolean exists(Path path) throws IOException {
        return tree.find(path) != null;
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        return RemoteIterators.toArray(listStatusIterator(path), new FileStatus[0]);
    }

    @Override
    public RemoteIterator<FileStatus> listStatusIterator(Path path) throws IOException {
        RemoteIterator<FileStatus> found = entries(path, inner::listStatusIterator);
        return found == null ? RemoteIterators.remoteIteratorFromSingleton(getFileStatus(path)) : Listing.of(tree, lengths, found);
    }

    @Override
    public RemoteIterator<LocatedFileStatus> listLocatedStatus(Path path) throws IOException {
        return located(path, inner::listLocatedStatus);
    }

    @Override
    protected RemoteIterator<LocatedFileStatus> listLocatedStatus(Path path, PathFilter filter) throws IOException {
        return RemoteIterators.filteringRemoteIterator(listLocatedStatus(path), each -> filter.accept(each.getPath()));
    }

    @Override
    public RemoteIterator<LocatedFileStatus> listFiles(Path path, boolean recursive) throws IOException {
        return located(path, name -> inner.listFiles(name, recursive));
    }

    private interface Lister<T> {
        RemoteIterator<T> list(Path name) throws IOException;
    }

    private RemoteIterator<LocatedFileStatus> located(Path path, Lister<LocatedFileStatus> lister) throws IOException {
        RemoteIterator<LocatedFileStatus> found = entries(path, lister);
        if (found != null) {
            return Listing.located(tree, lengths, found);
        }
        FileStatus file = getFileStatus(path);
        BlockLocation[] blocks = getFileBlockLocations(file, 0, file.getLen());
        return RemoteIterators.remoteIteratorFromSingleton(new LocatedFileStatus(file, blocks));
    }

    /** The entries of an inner folder, or null if there is no folder of that name. */
    private <T extends FileStatus> RemoteIterator<T> entries(Path path, Lister<T> lister) throws IOException {
        Path name = tree.inner(path);
        try {
            RemoteIterator<T> entries = lister.list(name);
            if (!entries.hasNext()) {
                return entries;
            }
            // An inner file of this name, which is not shown, would be listed as itself.
            T first = entries.next();
            return first.getPath().equals(name) ? null : new Preceded<>(first, entries);
        } catch (FileNotFoundException | ParentNotDirectoryException e) {
            return null;
        }
    }

    /** One entry, and then others. */
    private static final class Preceded<T> implements RemoteIterator<T>, Closeable {
        private T first;
        private final RemoteIterator<T> rest;

        Preceded(T first, RemoteIterator<T> rest) {
            this.first = first;
            this.rest = rest;
        }

        @Override
        public boolean hasNext() throws IOException {
            return first != null || rest.hasNext();
        }

        @Override
        public T next() throws IOException {
            if (first == null) {
                return rest.next();
            }
            T next = first;
            first = null;
            return next;
        }

        @Override
        public void close() throws IOException {
            if (rest instanceof Closeable closeable) {
                closeable.close();
            }
        }
    }

    @Override
    public BlockLocation[] getFileBlockLocations(FileStatus file, long start, long length) throws IOException {
        if (file == null) {
            return null;
        }
        if (start < 0 || length < 0) {
            throw new IllegalArgumentException("Invalid start or len parameter");
        }
        PlainStatus plain = file instanceof PlainStatus known && known.layout().isPresent()
                ? known
                : (PlainStatus) getFileStatus(file.getPath());
        if (plain.isDirectory() || length == 0 || start >= plain.getLen()) {
            return new BlockLocation[0];
        }
        Layout layout = plain.layout().orElseThrow();
        long from = Blocks.from(layout, start);
        long to = Blocks.to(layout, start, length);
        return Blocks.plain(layout, inner.getFileBlockLocations(plain.stored(), from, to - from));
    }

    /** None: two files of the same content have nothing in common but their content. */
    @Override
    public FileChecksum getFileChecksum(Path path, long length) {
        return null;
    }

    // Reading.

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        return open(path, null, null);
    }

    /** Opens a file. {@code known} is its protected file, or null if that is to be found. */
    private FSDataInputStream open(Path path, FileStatus known, String policy) throws IOException {
        FileStatus stored = known == null ? tree.require(path) : known;
        if (stored.isDirectory()) {
            throw new FileNotFoundException(makeQualified(path) + " is a folder");
        }
        Path plain = tree.outer(Names.plain(stored.getPath()));
        Opened.Place place = new Opened.Place(inner, stored, plain, known == null);
        return new FSDataInputStream(new PlainInput(Opened.open(place, shared, keys.provider(), policy)));
    }

    @Override
    protected CompletableFuture<FSDataInputStream> openFileWithOptions(Path path, OpenFileParameters parameters)
            throws IOException {
        AbstractFSBuilderImpl.rejectUnknownMandatoryKeys(
                parameters.getMandatoryKeys(), OpenFileOptions.FS_OPTION_OPENFILE_STANDARD_OPTIONS, "for " + path);
        String policy = parameters.getOptions().get(OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY);
        FileStatus status = parameters.getStatus();
        if (status != null && !status.getPath().getName().equals(path.getName())) {
            throw new IllegalArgumentException("the status of " + status.getPath() + " is not that of " + path);
        }
        // Only one of this JVM knows the protected file.
        FileStatus known = status instanceof PlainStatus plain ? plain.stored() : null;
        return LambdaUtils.eval(new CompletableFuture<>(), () -> open(path, known, policy));
    }

    // Writing.

    @Override
    public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication,
            long blockSize, Progressable progress) throws IOException {
        return create(path, true, overwrite, (name, replaces) ->
                inner.create(name, permission, replaces, bufferSize, replication, blockSize, progress));
    }

    @Override
    public FSDataOutputStream createNonRecursive(Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize,
            short replication, long blockSize, Progressable progress) throws IOException {
        if (flags.contains(CreateFlag.APPEND)) {
            throw appending();
        }
        return create(path, false, flags.contains(CreateFlag.OVERWRITE), (name, replaces) -> {
            EnumSet<CreateFlag> inside = EnumSet.copyOf(flags);
            inside.add(CreateFlag.CREATE);
            return inner.createNonRecursive(name, permission, inside, bufferSize, replication, blockSize, progress);
        });
    }

    private interface Creator {
        FSDataOutputStream create(Path name, boolean overwrite) throws IOException;
    }

    private FSDataOutputStream create(Path path, boolean recursive, boolean overwrite, Creator creator) throws IOException {
        Path name = tree.inner(path);
        Path stored = Names.stored(name);
        tree.requireFree(path, overwrite);
        tree.requireFolderAbove(name, recursive);
        Recipients recipients = keys.recipients();
        boolean isDirect = inner.hasPathCapability(stored, CommonPathCapabilities.ABORTABLE_STREAM);
        Path written = isDirect ? stored : new Path(name.getParent(), ".phalanx-" + UUID.randomUUID() + ".tmp");
        FSDataOutputStream out = creator.create(written, overwrite);
        Ending ending = isDirect
                ? Ending.direct(out)
                : Ending.renamed(inner, out, written, stored, new Ending.Rules(overwrite, syncs));
        try {
            return new FSDataOutputStream(new SealedOutput(out, ending, recipients, suite, chunkLog2), statistics);
        } catch (IOException | RuntimeException e) {
            ending.discard();
            throw e;
        }
    }

    @Override
    public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
        throw appending();
    }

    private static UnsupportedOperationException appending() {
        return new UnsupportedOperationException("nothing can be appended to a protected file");
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        Path name = tree.inner(path);
        if (tree.findFile(name) != null) {
            throw new FileAlreadyExistsException(makeQualified(path) + " is a file");
        }
        if (!tree.isFolder(name)) {
            tree.refuseEnding(name);
            tree.requireFolderAbove(name, true);
        }
        return inner.mkdirs(name, permission);
    }

    // Renaming and deleting.

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        FileStatus source = tree.find(from);
        if (source == null) {
            // The inner one says so in its own way, but does not get hold of what is not shown.
            return !tree.isHidden(from) && inner.rename(tree.inner(from), tree.inner(to));
        }
        FileStatus target = tree.find(to);
        boolean into = target != null && target.isDirectory();
        Path name = tree.inner(into ? new Path(makeQualified(to), makeQualified(from).getName()) : to);
        if (target == null || into) {
            if (tree.isOther(source, name)) {
                return false;
            }
            tree.requireFolderAbove(name, true);
        }
        if (source.isFile()) {
            return inner.rename(source.getPath(), Names.stored(name));
        }
        if (!into) {
            tree.refuseEnding(name);
        }
        return inner.rename(source.getPath(), target == null || into ? tree.inner(to) : target.getPath());
    }

    /** As the inner file system does it; HDFS in one step. */
    @Override
    @SuppressWarnings("deprecation")
    protected void rename(Path from, Path to, Options.Rename... options) throws IOException {
        FileStatus source = tree.require(from);
        Path name = tree.inner(to);
        FileStatus target = tree.find(to);
        if (target != null && target.isDirectory() != source.isDirectory()) {
            throw new FileAlreadyExistsException(makeQualified(to) + (target.isDirectory() ? " is a folder" : " is a file"));
        }
        if (target == null && tree.isOther(source, name)) {
            throw new FileAlreadyExistsException(makeQualified(to) + ": a folder has the name of its protected file");
        }
        if (source.isDirectory()) {
            tree.refuseEnding(name);
        }
        tree.requireFolderAbove(name, false);
        inner.rename(source.getPath(), source.isFile() ? Names.stored(name) : name, options);
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        FileStatus found = tree.find(path);
        return found != null && inner.delete(found.getPath(), recursive);
    }

    // All else that the inner one has, by its own names.

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        inner.setPermission(tree.require(path).getPath(), permission);
    }

    @Override
    public void setOwner(Path path, String user, String group) throws IOException {
        inner.setOwner(tree.require(path).getPath(), user, group);
    }

    @Override
    public void setTimes(Path path, long modified, long accessed) throws IOException {
        inner.setTimes(tree.require(path).getPath(), modified, accessed);
    }

    @Override
    public boolean setReplication(Path path, short replication) throws IOException {
        return inner.setReplication(tree.require(path).getPath(), replication);
    }

    @Override
    public void access(Path path, FsAction mode) throws IOException {
        inner.access(tree.require(path).getPath(), mode);
    }

    @Override
    public FsStatus getStatus(Path path) throws IOException {
        return inner.getStatus(path == null ? null : tree.inner(path));
    }

    @Override
    public FsServerDefaults getServerDefaults(Path path) throws IOException {
        return inner.getServerDefaults(tree.inner(path));
    }

    @Override
    public long getDefaultBlockSize(Path path) {
        return inner.getDefaultBlockSize(tree.inner(path));
    }

    @Override
    public short getDefaultReplication(Path path) {
        return inner.getDefaultReplication(tree.inner(path));
    }

    @Override
    public void msync() throws IOException {
        inner.msync();
    }

    /** The inner one's tokens are all that is needed. */
    @Override
    public FileSystem[] getChildFileSystems() {
        return new FileSystem[] {inner};
    }

    @Override
    public boolean hasPathCapability(Path path, String capability) throws IOException {
        return switch (capability.toLowerCase(Locale.ROOT)) {
            case CommonPathCapabilities.ABORTABLE_STREAM -> true;
            case CommonPathCapabilities.FS_PERMISSIONS, CommonPathCapabilities.ETAGS_AVAILABLE,
                    CommonPathCapabilities.ETAGS_PRESERVED_IN_RENAME, CommonPathCapabilities.VIRTUAL_BLOCK_LOCATIONS,
                    CommonPathCapabilities.DIRECTORY_LISTING_INCONSISTENT -> inner.hasPathCapability(tree.inner(path), capability);
            default -> super.hasPathCapability(path, capability);
        };
    }

    /** Shows the URI. */
    @Override
    public String toString() {
        return "PhalanxFileSystem[" + uri + "]";
    }

    @Override
    public void close() throws IOException {
        // First what is to be deleted at the end.
        super.close();
        if (inner != null) {
            lengths.close();
            shared.threads().close();
            keys.close();
            inner.close();
        }
    }
}
