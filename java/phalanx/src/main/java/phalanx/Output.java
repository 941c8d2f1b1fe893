package phalanx;

import java.io.Closeable;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import phalanx.primitives.Sponge;

/**
 * A file that appears whole under its name, or not at all. It is written under a temporary name beside its target,
 * synced and renamed. Without {@link #commit} it leaves nothing, even if a signal that the JVM can catch ends it. After
 * SIGKILL the temporary file stays.
 *
 * <p>It is for programs that divide a file among processes, such as the job of Spark. Others use {@link Protector} and {@link
 * Unprotector}.
 */
public final class Output implements Closeable {
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final int RANDOM_BYTES = 8;
    private static final int NAME_HASH = 16;

    /** The temporary files of this JVM. Null when it ends. */
    private static Set<Path> unfinished = ConcurrentHashMap.newKeySet();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(Output::removeUnfinished));
    }

    private final Path target;
    private final Path temporary;
    private final boolean replaces;
    private final FileChannel channel;
    private final Object fileKey;

    private Output(Path target, Path temporary, boolean replaces, FileChannel channel, Object fileKey) {
        this.target = target;
        this.temporary = temporary;
        this.replaces = replaces;
        this.channel = channel;
        this.fileKey = fileKey;
    }

    /**
     * Begins a file that will have this name. Until then, only its owner can read it.
     *
     * @param target the name
     * @param replaces whether a file of that name is replaced
     * @return the new file
     * @throws FileAlreadyExistsException if there is one, and it is not to be replaced
     * @throws OutputException if it cannot be written
     * @throws IOException for other reasons
     */
    public static Output create(Path target, boolean replaces) throws IOException {
        // A link to a folder stays too: it may be on the way to a keyring.
        Systems.checkName(target);
        if (target.getFileName() == null || Files.isDirectory(target)) {
            throw new OutputException(new FileSystemException(target.toString(), null, "it is a folder"));
        }
        if (!replaces && Files.exists(target, LinkOption.NOFOLLOW_LINKS)) {
            throw new FileAlreadyExistsException(target.toString());
        }
        Path temporary = target.resolveSibling(temporaryName(target));
        try {
            register(temporary);
            FileChannel channel = open(temporary);
            try {
                return new Output(target, temporary, replaces, channel, fileKey(temporary));
            } catch (IOException e) {
                channel.close();
                Files.deleteIfExists(temporary);
                throw e;
            }
        } catch (IOException e) {
            forget(temporary);
            throw new OutputException(e);
        }
    }

    /**
     * Takes over a file that another process has written beside its target. No link is followed.
     *
     * @param target the name that it will have
     * @param temporary the name that it has
     * @param replaces whether a file of that name is replaced
     * @return the file
     * @throws OutputException if it is not there, or no regular file
     * @throws IOException for other reasons
     */
    public static Output adopt(Path target, Path temporary, boolean replaces) throws IOException {
        try {
            register(temporary);
            FileChannel channel =
                    FileChannel.open(temporary, StandardOpenOption.READ, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS);
            try {
                return new Output(target, temporary, replaces, channel, fileKey(temporary));
            } catch (IOException e) {
                channel.close();
                throw e;
            }
        } catch (IOException e) {
            forget(temporary);
            throw new OutputException(e);
        }
    }

    private static FileChannel open(Path temporary) throws IOException {
        Set<StandardOpenOption> options =
                Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE, StandardOpenOption.READ);
        if (!temporary.getFileSystem().supportedFileAttributeViews().contains("posix")) {
            return FileChannel.open(temporary, options);
        }
        FileAttribute<?> mine = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
        return FileChannel.open(temporary, options, mine);
    }

    /**
     * The name has a random part, because without flock, which Java lacks, a run cannot see that another one is dead.
     * Other programs leave such files alone.
     */
    private static String temporaryName(Path target) {
        byte[] name = target.getFileName().toString().getBytes(StandardCharsets.UTF_8);
        byte[] hash = new byte[Sponge.DIGEST];
        Sponge.sha3().hash(name, 0, name.length, hash, 0, hash.length);
        byte[] random = new byte[RANDOM_BYTES];
        RANDOM.nextBytes(random);
        HexFormat hex = HexFormat.of();
        return ".phalanx-" + hex.formatHex(hash, 0, NAME_HASH) + "-" + hex.formatHex(random) + ".tmp";
    }

    /** The key that identifies this regular file, or null if the system has none. */
    private static Object fileKey(Path temporary) throws IOException {
        BasicFileAttributes attributes =
                Files.readAttributes(temporary, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
        if (!attributes.isRegularFile()) {
            throw new FileSystemException(temporary.toString(), null, "its temporary file was replaced");
        }
        return attributes.fileKey();
    }

    /**
     * Checks that the temporary name still leads to this file: anybody who may write to the folder can put another one
     * there. No other file has its key as long as it is open.
     */
    void checkPlace() throws IOException {
        if (!Objects.equals(fileKey(temporary), fileKey)) {
            throw new FileSystemException(temporary.toString(), null, "its temporary file was replaced");
        }
    }

    /**
     * Its content.
     *
     * @return a channel that reads and writes
     */
    public FileChannel channel() {
        return channel;
    }

    /**
     * The name that it has before {@link #commit}.
     *
     * @return a path in the folder of its target
     */
    public Path temporary() {
        return temporary;
    }

    /**
     * Takes over the permissions and times of the input, as {@link Protector} and {@link Unprotector} do.
     *
     * @param input the input
     * @param attributes what the system said of it when it was opened
     * @param isProtected whether this is the protected file of it. It then also gets the user's attributes, and owner and group if they
     *     can be set
     * @throws OutputException if that fails
     */
    public void resemble(Path input, BasicFileAttributes attributes, boolean isProtected) throws OutputException {
        try {
            checkPlace();
            if (isProtected) {
                Metadata.all(attributes, Metadata.userAttributes(input), temporary);
            } else {
                Metadata.asNew(attributes, temporary);
            }
        } catch (IOException e) {
            throw new OutputException(e);
        }
    }

    /**
     * Gives it the permissions of a new file, and the time of its input, which has no permissions of this system.
     *
     * @param modified when the input was modified
     * @throws OutputException if that fails
     */
    public void resembleNew(FileTime modified) throws OutputException {
        try {
            checkPlace();
            Files.getFileAttributeView(temporary, BasicFileAttributeView.class, LinkOption.NOFOLLOW_LINKS)
                    .setTimes(modified, null, null);
            Metadata.asNew(temporary);
        } catch (IOException e) {
            throw new OutputException(e);
        }
    }

    /**
     * Gives a file or folder permissions. A link in its place is not followed.
     *
     * @param path the file or folder
     * @param permissions the permissions
     * @throws IOException if that fails
     */
    public static void permit(Path path, Set<PosixFilePermission> permissions) throws IOException {
        Metadata.setPermissions(path, permissions);
    }

    /**
     * Gives it permissions. Another file that somebody has put in its place is left alone.
     *
     * @param permissions the permissions
     * @throws OutputException if that fails, or if it was replaced
     */
    public void permit(Set<PosixFilePermission> permissions) throws OutputException {
        try {
            checkPlace();
            permit(temporary, permissions);
        } catch (IOException e) {
            throw new OutputException(e);
        }
    }

    /** Leaves the file under its temporary name, whatever happens, for a later run. */
    public void keep() {
        forget(temporary);
    }

    /**
     * Gives the file its name.
     *
     * @param sync whether its content is on the disk before that, and its name afterwards
     * @throws FileAlreadyExistsException if there is a file of that name, and it is not to be replaced
     * @throws OutputException if it cannot get the name
     * @throws IOException for other reasons
     */
    public void commit(boolean sync) throws IOException {
        try {
            if (sync) {
                channel.force(true);
            }
            checkPlace();
            channel.close();
            if (replaces) {
                Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            } else {
                takeNewName();
            }
            forget(temporary);
            if (sync) {
                Systems.syncFolder(target.toAbsolutePath().getParent());
            }
        } catch (FileAlreadyExistsException | OutputException e) {
            throw e;
        } catch (IOException e) {
            throw new OutputException(e);
        }
    }

    /** A rename would replace a file that has just appeared. A second name does not. */
    private void takeNewName() throws IOException {
        try {
            Files.createLink(target, temporary);
        } catch (FileAlreadyExistsException e) {
            throw new FileAlreadyExistsException(target.toString());
        } catch (FileSystemException | UnsupportedOperationException e) {
            // A file system without hard links.
            if (Files.exists(target, LinkOption.NOFOLLOW_LINKS)) {
                throw new FileAlreadyExistsException(target.toString());
            }
            Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
            return;
        }
        Files.delete(temporary);
    }

    /** Removes the file, unless it has its name. */
    @Override
    public void close() throws IOException {
        try {
            channel.close();
        } finally {
            if (forget(temporary)) {
                Files.deleteIfExists(temporary);
            }
        }
    }

    private static synchronized void register(Path temporary) throws IOException {
        if (unfinished == null) {
            throw new IOException("the program ends");
        }
        unfinished.add(temporary.toAbsolutePath());
    }

    private static synchronized boolean forget(Path temporary) {
        return unfinished != null && unfinished.remove(temporary.toAbsolutePath());
    }

    private static synchronized void removeUnfinished() {
        Set<Path> files = unfinished;
        unfinished = null;
        for (Path file : files) {
            try {
                Files.deleteIfExists(file);
            } catch (IOException e) {
                // The failure cannot be reported any more.
            }
        }
    }
}
