package phalanx;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.GroupPrincipal;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.UserDefinedFileAttributeView;
import java.nio.file.attribute.UserPrincipal;
import java.util.EnumSet;
import java.util.Set;

/** What an output takes over from its input. Java has no access control lists of POSIX; they are left out. */
final class Metadata {
    /** The usual umask where the system does not tell. */
    private static final int USUAL_UMASK = 022;

    private static final Set<PosixFilePermission> OF_GROUP = EnumSet.of(
            PosixFilePermission.GROUP_READ, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_EXECUTE);
    private static final Set<PosixFilePermission> OF_NEW = EnumSet.of(
            PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE,
            PosixFilePermission.GROUP_READ, PosixFilePermission.GROUP_WRITE,
            PosixFilePermission.OTHERS_READ, PosixFilePermission.OTHERS_WRITE);

    private Metadata() {}

    /** A protected file gets permissions, times, attributes, and owner and group if they can be set. */
    static void all(Path from, Path to) throws IOException {
        PosixFileAttributes attributes = posix(from);
        if (attributes != null) {
            Set<PosixFilePermission> permissions = permissions(attributes);
            if (!takeOwner(attributes, to)) {
                permissions.removeAll(OF_GROUP);
            }
            copyUserAttributes(from, to);
            Files.setPosixFilePermissions(to, permissions);
        }
        times(from, to);
    }

    /** A plaintext gets times, and the permissions of a new file without those that the protected file lacks. */
    static void asNew(Path from, Path to) throws IOException {
        PosixFileAttributes attributes = posix(from);
        if (attributes != null) {
            Set<PosixFilePermission> permissions = permissions(attributes);
            permissions.retainAll(ofNew());
            Files.setPosixFilePermissions(to, permissions);
        }
        times(from, to);
    }

    /** An output of a stream gets the permissions of a new file. */
    static void asNew(Path to) throws IOException {
        if (posix(to) != null) {
            Files.setPosixFilePermissions(to, ofNew());
        }
    }

    private static PosixFileAttributes posix(Path path) throws IOException {
        PosixFileAttributeView view = Files.getFileAttributeView(path, PosixFileAttributeView.class);
        return view == null ? null : view.readAttributes();
    }

    private static Set<PosixFilePermission> permissions(PosixFileAttributes attributes) {
        Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
        permissions.addAll(attributes.permissions());
        return permissions;
    }

    /** Whether the group is that of the original now. */
    private static boolean takeOwner(PosixFileAttributes from, Path to) throws IOException {
        PosixFileAttributeView view = Files.getFileAttributeView(to, PosixFileAttributeView.class);
        PosixFileAttributes own = view.readAttributes();
        UserPrincipal owner = from.owner();
        GroupPrincipal group = from.group();
        if (!own.group().equals(group)) {
            try {
                view.setGroup(group);
            } catch (IOException e) {
                return false;
            }
        }
        if (!own.owner().equals(owner)) {
            try {
                view.setOwner(owner);
            } catch (IOException e) {
                // As the command does, it keeps its own owner.
            }
        }
        return true;
    }

    private static void copyUserAttributes(Path from, Path to) {
        try {
            UserDefinedFileAttributeView source = Files.getFileAttributeView(from, UserDefinedFileAttributeView.class);
            UserDefinedFileAttributeView sink = Files.getFileAttributeView(to, UserDefinedFileAttributeView.class);
            if (source == null || sink == null) {
                return;
            }
            for (String name : source.list()) {
                ByteBuffer value = ByteBuffer.allocate(source.size(name));
                source.read(name, value);
                sink.write(name, value.flip());
            }
        } catch (IOException e) {
            // The file system of the output does not take them.
        }
    }

    private static void times(Path from, Path to) throws IOException {
        BasicFileAttributeView view = Files.getFileAttributeView(from, BasicFileAttributeView.class);
        var times = view.readAttributes();
        Files.getFileAttributeView(to, BasicFileAttributeView.class)
                .setTimes(times.lastModifiedTime(), times.lastAccessTime(), null);
    }

    private static Set<PosixFilePermission> ofNew() {
        int mask = umask();
        Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
        for (PosixFilePermission permission : OF_NEW) {
            // The order of the constants is that of the bits, from the highest.
            int bit = 0400 >> permission.ordinal();
            if ((mask & bit) == 0) {
                permissions.add(permission);
            }
        }
        return permissions;
    }

    /** The process's file mode creation mask, which only Linux tells. */
    private static int umask() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"), StandardCharsets.ISO_8859_1)) {
                if (line.startsWith("Umask:")) {
                    return Integer.parseInt(line.substring("Umask:".length()).strip(), 8);
                }
            }
        } catch (IOException | NumberFormatException e) {
            // Not Linux.
        }
        return USUAL_UMASK;
    }
}
