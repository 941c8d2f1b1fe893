package phalanx;

import java.io.Closeable;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Objects;
import java.util.Set;

/**
 * The content of a file of secrets, and whether others could read or change it. Java cannot read the owner of an open
 * file, so that of the path is read before and after the file is read, and the path must lead to the same file both
 * times.
 */
final class SecretFile implements Closeable {
    private static final Set<PosixFilePermission> OF_OTHERS = EnumSet.of(
            PosixFilePermission.GROUP_READ, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_EXECUTE,
            PosixFilePermission.OTHERS_READ, PosixFilePermission.OTHERS_WRITE, PosixFilePermission.OTHERS_EXECUTE);
    private static final Set<PosixFilePermission> CHANGES =
            EnumSet.of(PosixFilePermission.GROUP_WRITE, PosixFilePermission.OTHERS_WRITE);

    private final byte[] bytes;
    private final String what;
    private final Reason refusal;

    private SecretFile(byte[] bytes, String what, Reason refusal) {
        this.bytes = bytes;
        this.what = what;
        this.refusal = refusal;
    }

    /** Reads at most this many bytes of a file. */
    static SecretFile read(Path path, String what, int most) throws IOException {
        if (Systems.isStandardInput(path)) {
            // Not by the stream of files itself: its readNBytes asks for the position in Java 17, and a pipe has none.
            InputStream in = new FilterInputStream(new FileInputStream(FileDescriptor.in)) {};
            return new SecretFile(in.readNBytes(most), what, null);
        }
        State before = State.of(path);
        if (before.isOther) {
            // The permissions of a pipe, such as a shell's <(…), do not matter.
            try (InputStream in = Files.newInputStream(path)) {
                return new SecretFile(in.readNBytes(most), what, null);
            }
        }
        byte[] bytes;
        try (InputStream in = Files.newInputStream(path)) {
            bytes = in.readNBytes(most);
        }
        State after = State.of(path);
        Reason why = before.why(path);
        if (why == null) {
            why = after.why(path);
        }
        if (why == null && !Objects.equals(before.fileKey, after.fileKey)) {
            why = new Reason("it was replaced while it was read", null);
        }
        return new SecretFile(bytes, what, why);
    }

    /** Reads a regular file. Anything else is refused before it is opened, since opening a pipe may wait for ever. */
    static SecretFile readRegular(Path path, String what, int most) throws IOException {
        if (!Files.readAttributes(path, BasicFileAttributes.class).isRegularFile()) {
            throw KeyException.refused(what, "it is not a regular file", null);
        }
        return read(path, what, most);
    }

    /** Refuses a folder whose files others could exchange. */
    static void checkFolder(Path folder, String what) throws IOException {
        State state = State.of(folder);
        Reason why = state.foreign();
        if (why == null && state.allows(CHANGES)) {
            why = new Reason("other users may write to it", "chmod 700 " + folder);
        }
        if (why != null) {
            throw KeyException.refused(what, why.text, why.remedy);
        }
    }

    byte[] bytes() {
        return bytes;
    }

    /** Refuses a file that is open to others, or not the user's. */
    void checkPrivate() throws KeyException {
        if (refusal != null) {
            throw KeyException.refused(what, refusal.text, refusal.remedy);
        }
    }

    @Override
    public void close() {
        Arrays.fill(bytes, (byte) 0);
    }

    /** Why a file is refused, and the command that mends it, or null. */
    private record Reason(String text, String remedy) {}

    /** What the system says of a path. */
    private record State(Object fileKey, boolean isOther, Set<PosixFilePermission> permissions, Integer owner) {
        static State of(Path path) throws IOException {
            if (!path.getFileSystem().supportedFileAttributeViews().contains("unix")) {
                var attributes = Files.readAttributes(path, BasicFileAttributes.class);
                return new State(attributes.fileKey(), attributes.isOther(), Set.of(), null);
            }
            var attributes = Files.readAttributes(path, PosixFileAttributes.class);
            Integer owner = (Integer) Files.getAttribute(path, "unix:uid");
            return new State(attributes.fileKey(), attributes.isOther(), attributes.permissions(), owner);
        }

        boolean allows(Set<PosixFilePermission> some) {
            return permissions.stream().anyMatch(some::contains);
        }

        Reason why(Path path) {
            Reason foreign = foreign();
            if (foreign == null && allows(OF_OTHERS)) {
                return new Reason("it is open to other users", "chmod 600 " + path);
            }
            return foreign;
        }

        Reason foreign() {
            int user = user();
            if (owner == null || owner == 0 || user < 0 || owner == user) {
                return null;
            }
            return new Reason("it belongs to another user (uid " + owner + ", not " + user + ")", null);
        }
    }

    /** The effective user id; −1 if the system does not report it. */
    private static int user() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"), StandardCharsets.ISO_8859_1)) {
                if (line.startsWith("Uid:")) {
                    return Integer.parseInt(line.split("\\s+")[2]);
                }
            }
        } catch (IOException | NumberFormatException e) {
            // Not Linux: ask for the owner of the home folder.
        }
        try {
            return (Integer) Files.getAttribute(Path.of(System.getProperty("user.home")), "unix:uid");
        } catch (IOException | RuntimeException e) {
            return -1;
        }
    }
}
