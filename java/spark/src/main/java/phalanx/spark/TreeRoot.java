package phalanx.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.time.Instant;
import java.util.EnumSet;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import phalanx.Excludes;
import phalanx.Output;
import phalanx.OutputException;
import phalanx.RawName;
import phalanx.SourceTree;
import phalanx.TreeEntry;
import phalanx.TreeNode;

/** The root of a tree, in any file system of Hadoop. Entries are named by their paths from the root on, with {@code /} between the names. */
final class TreeRoot {
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final int PERMISSIONS = 07777;
    private static final String SOMETHING_ELSE = "something else is in its place: not deleted";

    /** Hears of what cannot be listed: its path, and why, or null if it is neither a file, a folder nor a link. */
    interface Problems {
        void leftOut(String path, IOException why);
    }

    private final FileSystem fs;
    private final Path path;
    private final boolean isLocal;
    private final boolean isStore;
    /** The permissions of new folders. */
    private Set<PosixFilePermission> usual = EnumSet.noneOf(PosixFilePermission.class);

    private TreeRoot(FileSystem fs, Path path) throws IOException {
        this.fs = fs;
        this.path = path;
        isLocal = Hadoop.isLocal(fs);
        isStore = fs.hasPathCapability(path, CommonPathCapabilities.ABORTABLE_STREAM);
    }

    static TreeRoot of(Path path, Configuration conf) throws IOException {
        FileSystem fs = Hadoop.of(path, conf);
        return new TreeRoot(fs, fs.makeQualified(path));
    }

    FileSystem fs() {
        return fs;
    }

    /** Whether it is an object store, which has neither folders nor links. */
    boolean isStore() {
        return isStore;
    }

    /** Whether it has links. Those of other file systems are in the manifest alone. */
    boolean hasLinks() {
        return isLocal;
    }

    /** The path of an entry. Unlike a child of a path, its name may have a colon. */
    Path at(String entry) {
        var uri = path.toUri();
        return entry.isEmpty() ? path : new Path(uri.getScheme(), uri.getAuthority(), uri.getPath() + "/" + entry);
    }

    String shown(String entry) {
        return Work.shown(at(entry));
    }

    /** What is at the root, or null. */
    FileStatus status() throws IOException {
        try {
            return fs.getFileStatus(path);
        } catch (FileNotFoundException e) {
            return null;
        }
    }

    /** Whether the folder above is there, as far as the file system has folders. */
    boolean hasParent() throws IOException {
        return isStore || path.getParent() == null || fs.exists(path.getParent());
    }

    /** Whether it is the other one, or lies in it. */
    boolean isWithin(TreeRoot other) throws IOException {
        if (!fs.getUri().equals(other.fs.getUri())) {
            return false;
        }
        String above = real(other);
        String below = real(this);
        return below.equals(above) || below.startsWith(above.endsWith("/") ? above : above + "/");
    }

    /** Its path without links, also if it is not there yet. */
    private static String real(TreeRoot root) throws IOException {
        String path = root.path.toUri().getPath();
        if (!root.isLocal) {
            return path;
        }
        java.nio.file.Path local = java.nio.file.Path.of(path);
        java.nio.file.Path above = local;
        while (above.getParent() != null && !Files.exists(above)) {
            above = above.getParent();
        }
        return above.toRealPath().resolve(above.relativize(local)).normalize().toString();
    }

    /** The name is not text in UTF-8, which paths of Hadoop are. */
    static final class NotText extends IOException {
        private static final long serialVersionUID = 1;

        NotText() {
            super("its name is not text in UTF-8, which paths of Hadoop are");
        }
    }

    /**
     * Lists all that is in it. Of what cannot be listed, only the name is known.
     *
     * @return the root. Files have their lengths as length, and no contents
     */
    TreeNode list(Excludes excludes, Problems problems) throws IOException {
        if (!isLocal) {
            TreeNode root = new TreeNode(new TreeEntry.Folder(RawName.of(""), attributes(fs.getFileStatus(path))));
            list(path, "", root, excludes, problems);
            return root;
        }
        java.nio.file.Path folder = Hadoop.local(path);
        TreeNode root = SourceTree.of(folder, excludes, (entry, why) -> problems.leftOut(folder.relativize(entry).toString(), why));
        refuseBytes(root, "", problems);
        return root;
    }

    private void list(Path folder, String above, TreeNode into, Excludes excludes, Problems problems) throws IOException {
        for (FileStatus status : fs.listStatus(folder)) {
            RawName name = RawName.of(status.getPath().getName());
            String entry = above + name;
            if (status.getPath().depth() != folder.depth() + 1) {
                // An object whose name has empty parts, or leads upwards.
                problems.leftOut(entry, null);
                continue;
            }
            if (excludes.excludes(RawName.of(entry), status.isDirectory())) {
                continue;
            }
            TreeNode node = new TreeNode(null);
            if (status.isDirectory()) {
                node.set(new TreeEntry.Folder(name, attributes(status)));
                try {
                    list(status.getPath(), entry + "/", node, excludes, problems);
                } catch (IOException e) {
                    node = new TreeNode(null);
                    problems.leftOut(entry, e);
                }
            } else if (status.isFile() && !SourceTree.isTemporary(name)) {
                node.set(new TreeEntry.File(name, attributes(status), status.getLen(), 0, 0, 0, null));
            } else {
                problems.leftOut(entry, null);
            }
            into.children().put(name, node);
        }
    }

    private static TreeEntry.Attributes attributes(FileStatus status) {
        long millis = status.getModificationTime();
        int nanos = Math.floorMod(millis, 1000) * 1_000_000;
        return new TreeEntry.Attributes(status.getPermission().toShort() & PERMISSIONS, Math.floorDiv(millis, 1000), nanos);
    }

    /** Hadoop's paths are text. */
    private static void refuseBytes(TreeNode folder, String above, Problems problems) {
        for (Map.Entry<RawName, TreeNode> child : folder.children().entrySet()) {
            if (child.getKey().isText()) {
                refuseBytes(child.getValue(), above + child.getKey() + "/", problems);
            } else {
                child.setValue(new TreeNode(null));
                problems.leftOut(above + child.getKey(), new NotText());
            }
        }
    }

    /** Makes a folder that only its owner may enter until it is done. In a store there is none. A link in its place is not followed. */
    void makeFolder(String entry) throws IOException {
        if (isStore) {
            return;
        }
        if (!isLocal) {
            if (!fs.mkdirs(at(entry), new FsPermission((short) 0700))) {
                throw new OutputException(new IOException("it is no folder"));
            }
            return;
        }
        java.nio.file.Path folder = Hadoop.local(at(entry));
        try {
            Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        } catch (java.nio.file.FileAlreadyExistsException e) {
            if (!Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)) {
                throw new OutputException(new IOException("it is no folder"));
            }
        }
    }

    /** Makes a link, or replaces one. */
    void link(String entry, RawName target) throws IOException {
        if (!isLocal) {
            return;
        }
        java.nio.file.Path link = Hadoop.local(at(entry));
        java.nio.file.Path temporary = link.resolveSibling(temporary(".link"));
        Files.createSymbolicLink(temporary, target.path());
        Files.move(temporary, link, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Gives an entry permissions and its time. Set-user-ID and its like are not kept. In a store it has none. */
    void settle(String entry, TreeEntry.Attributes attributes, boolean isPlain) throws IOException {
        if (isStore) {
            return;
        }
        int mode = attributes.mode() & 0777;
        if (!isLocal) {
            FsPermission permission = new FsPermission((short) mode);
            fs.setPermission(at(entry), isPlain ? permission.applyUMask(FsPermission.getUMask(fs.getConf())) : permission);
            fs.setTimes(at(entry), attributes.seconds() * 1000 + attributes.nanoseconds() / 1_000_000, -1);
            return;
        }
        java.nio.file.Path local = Hadoop.local(at(entry));
        PosixFileAttributeView view = Files.getFileAttributeView(local, PosixFileAttributeView.class, LinkOption.NOFOLLOW_LINKS);
        view.setTimes(FileTime.from(Instant.ofEpochSecond(attributes.seconds(), attributes.nanoseconds())), null, null);
        Set<PosixFilePermission> permissions = permissions(mode);
        if (isPlain) {
            permissions.retainAll(usual);
        }
        Output.permit(local, permissions);
    }

    private static Set<PosixFilePermission> permissions(int mode) {
        Set<PosixFilePermission> all = EnumSet.noneOf(PosixFilePermission.class);
        for (PosixFilePermission permission : PosixFilePermission.values()) {
            // The order of the constants is that of the bits, from the highest.
            if ((mode & 0400 >> permission.ordinal()) != 0) {
                all.add(permission);
            }
        }
        return all;
    }

    /** Finds out which permissions new folders have. The root must be there. */
    void learnPermissions() throws IOException {
        if (isLocal) {
            java.nio.file.Path folder = Hadoop.local(at(temporary(".tmp")));
            Files.createDirectory(folder);
            usual = Files.getPosixFilePermissions(folder);
            Files.delete(folder);
        }
    }

    /** A name that no other run chooses, and by which other programs know unfinished work. */
    private static String temporary(String ending) {
        byte[] random = new byte[16];
        RANDOM.nextBytes(random);
        return ".phalanx-" + HexFormat.of().formatHex(random) + ending;
    }

    /** Gives an entry another name. Returns false if it is not there, or something has the name already. */
    boolean rename(String from, String to) throws IOException {
        if (fs.exists(at(to)) || !fs.exists(at(from))) {
            return false;
        }
        if (isLocal) {
            try {
                Files.move(Hadoop.local(at(from)), Hadoop.local(at(to)), StandardCopyOption.ATOMIC_MOVE);
                return true;
            } catch (java.nio.file.AtomicMoveNotSupportedException e) {
                // Another file system begins within the tree.
                return false;
            }
        }
        return fs.rename(at(from), at(to));
    }

    /**
     * Whether a link lies in the place of a file, or a file in that of a link. Where there are no links, it is not asked.
     *
     * @throws IOException if it is neither a file nor a link
     */
    boolean isAnother(String entry, boolean isLink) throws IOException {
        if (!isLocal) {
            return false;
        }
        BasicFileAttributes found;
        try {
            found = Files.readAttributes(Hadoop.local(at(entry)), BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
        } catch (java.nio.file.NoSuchFileException e) {
            return false;
        }
        if (!found.isRegularFile() && !found.isSymbolicLink()) {
            throw new IOException(SOMETHING_ELSE);
        }
        return found.isSymbolicLink() != isLink;
    }

    /** Deletes a file, a link or an empty folder. Returns false if the folder is not empty. */
    boolean delete(String entry, boolean isFolder) throws IOException {
        if (isStore && isFolder) {
            return true;
        }
        if (isLocal) {
            java.nio.file.Path local = Hadoop.local(at(entry));
            boolean isThere = Files.exists(local, LinkOption.NOFOLLOW_LINKS);
            if (isFolder && isThere && !Files.isDirectory(local, LinkOption.NOFOLLOW_LINKS)) {
                throw new IOException(SOMETHING_ELSE);
            }
            try {
                Files.deleteIfExists(local);
                return true;
            } catch (java.nio.file.DirectoryNotEmptyException e) {
                return false;
            }
        }
        if (isFolder && fs.listStatus(at(entry)).length > 0) {
            return false;
        }
        fs.delete(at(entry), false);
        return true;
    }

    /** The nonce and tag of a file's last chunk, and the length of its plaintext. */
    LastChunk last(String entry) throws IOException {
        return LastChunk.read(fs, fs.getFileStatus(at(entry)));
    }
}
