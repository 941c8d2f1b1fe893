package phalanx;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.SecureDirectoryStream;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.GroupPrincipal;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.UserDefinedFileAttributeView;
import java.nio.file.attribute.UserPrincipal;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * The metadata that an output takes over from its input. Java does not support POSIX access control lists, so they are
 * left out.
 *
 * <p>An output is named by its path, and others may be able to write to its folder. So no link is followed there.
 * Permissions are set last, because Java opens the file to set anything, and they may not allow that.
 */
final class Metadata {
    /** The usual umask, if the system does not report it. */
    private static final int USUAL_UMASK = 022;

    private static final Set<PosixFilePermission> OF_GROUP = EnumSet.of(
            PosixFilePermission.GROUP_READ, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_EXECUTE);
    private static final Set<PosixFilePermission> OF_NEW = EnumSet.of(
            PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE,
            PosixFilePermission.GROUP_READ, PosixFilePermission.GROUP_WRITE,
            PosixFilePermission.OTHERS_READ, PosixFilePermission.OTHERS_WRITE);

    private Metadata() {}

    /** A protected file gets permissions, times, attributes, and owner and group if they can be set. */
    static void all(BasicFileAttributes from, Map<String, byte[]> userAttributes, Path to) throws IOException {
        PosixFileAttributeView view = posix(to);
        if (view == null || !(from instanceof PosixFileAttributes attributes)) {
            times(from, to);
            return;
        }
        Set<PosixFilePermission> permissions = permissions(attributes);
        if (!takeOwner(attributes, view)) {
            permissions.removeAll(OF_GROUP);
        }
        setUserAttributes(userAttributes, to);
        times(from, to);
        setPermissions(to, permissions);
    }

    /** A plaintext gets times, and the permissions of a new file without those that the protected file lacks. */
    static void asNew(BasicFileAttributes from, Path to) throws IOException {
        times(from, to);
        if (posix(to) != null && from instanceof PosixFileAttributes attributes) {
            Set<PosixFilePermission> permissions = permissions(attributes);
            permissions.retainAll(ofNew());
            setPermissions(to, permissions);
        }
    }

    /** An output of a stream gets the permissions of a new file. */
    static void asNew(Path to) throws IOException {
        if (posix(to) != null) {
            setPermissions(to, ofNew());
        }
    }

    /** The extended attributes of a user that an input has. */
    static Map<String, byte[]> userAttributes(Path from) {
        Map<String, byte[]> all = new LinkedHashMap<>();
        UserDefinedFileAttributeView view = Files.getFileAttributeView(from, UserDefinedFileAttributeView.class);
        if (view == null) {
            return all;
        }
        try {
            for (String name : view.list()) {
                ByteBuffer value = ByteBuffer.allocate(view.size(name));
                view.read(name, value);
                all.put(name, Arrays.copyOf(value.array(), value.position()));
            }
        } catch (IOException e) {
            // The file system of the input has none.
        }
        return all;
    }

    private static PosixFileAttributeView posix(Path to) {
        return Files.getFileAttributeView(to, PosixFileAttributeView.class, LinkOption.NOFOLLOW_LINKS);
    }

    /**
     * Follows no link. Java 25 and 27 do follow one when a file's path is all that they get, so they get its folder, opened.
     */
    static void setPermissions(Path to, Set<PosixFilePermission> permissions) throws IOException {
        DirectoryStream<Path> folder;
        try {
            folder = Files.newDirectoryStream(to.toAbsolutePath().getParent());
        } catch (AccessDeniedException e) {
            // Nobody else can list it either, and so find the name of a temporary file.
            posix(to).setPermissions(permissions);
            return;
        }
        try (folder) {
            if (folder instanceof SecureDirectoryStream<Path> opened) {
                opened.getFileAttributeView(to.getFileName(), PosixFileAttributeView.class, LinkOption.NOFOLLOW_LINKS)
                        .setPermissions(permissions);
            } else {
                // The system has no such folders.
                posix(to).setPermissions(permissions);
            }
        }
    }

    private static Set<PosixFilePermission> permissions(PosixFileAttributes attributes) {
        Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
        permissions.addAll(attributes.permissions());
        return permissions;
    }

    /** Returns whether the group is now that of the original. */
    private static boolean takeOwner(PosixFileAttributes from, PosixFileAttributeView to) throws IOException {
        PosixFileAttributes own = to.readAttributes();
        UserPrincipal owner = from.owner();
        GroupPrincipal group = from.group();
        if (!own.group().equals(group)) {
            try {
                to.setGroup(group);
            } catch (IOException e) {
                return false;
            }
        }
        if (!own.owner().equals(owner)) {
            try {
                to.setOwner(owner);
            } catch (IOException e) {
                // Like the command, this leaves the owner unchanged.
            }
        }
        return true;
    }

    private static void setUserAttributes(Map<String, byte[]> attributes, Path to) {
        UserDefinedFileAttributeView view =
                Files.getFileAttributeView(to, UserDefinedFileAttributeView.class, LinkOption.NOFOLLOW_LINKS);
        if (view == null) {
            return;
        }
        try {
            for (Map.Entry<String, byte[]> attribute : attributes.entrySet()) {
                view.write(attribute.getKey(), ByteBuffer.wrap(attribute.getValue()));
            }
        } catch (IOException e) {
            // The file system of the output does not support them.
        }
    }

    private static void times(BasicFileAttributes from, Path to) throws IOException {
        Files.getFileAttributeView(to, BasicFileAttributeView.class, LinkOption.NOFOLLOW_LINKS)
                .setTimes(from.lastModifiedTime(), from.lastAccessTime(), null);
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

    /** The process's file mode creation mask, which only Linux reports. */
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
