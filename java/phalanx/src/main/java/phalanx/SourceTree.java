package phalanx;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * What is in a folder of this machine, as a manifest would list it. No link is followed.
 *
 * <pre>{@code
 * TreeNode root = SourceTree.of(Path.of("results"), Excludes.NONE, (path, why) -> System.err.println(path + ": " + why));
 * }</pre>
 */
public final class SourceTree {
    private static final String ATTRIBUTES = "unix:mode,size,dev,ino,lastModifiedTime,creationTime,isDirectory,isRegularFile,isSymbolicLink";
    /** Names of unfinished files, which belong to no tree. */
    private static final Pattern TEMPORARY =
            Pattern.compile("\\.phalanx-[0-9a-f]{32}(?:(?:-[0-9a-f]{16})?\\.tmp|\\.(?:removed|link|rekey|resume))");

    /** Hears of what cannot be listed. */
    @FunctionalInterface
    public interface Problems {
        /**
         * An entry is left out.
         *
         * @param path the entry
         * @param why why it cannot be read, or null if it is neither a file, a folder nor a link
         */
        void leftOut(Path path, IOException why);
    }

    private final Excludes excludes;
    private final Problems problems;

    private SourceTree(Excludes excludes, Problems problems) {
        this.excludes = excludes;
        this.problems = problems;
    }

    /**
     * Lists a folder. Of an entry that cannot be listed, only the name is known: it is a node without an entry. What the rules leave
     * out is not there.
     *
     * @param folder the folder
     * @param excludes what is left out
     * @param problems hears of what cannot be listed
     * @return its root. Files have no contents yet, and 0 as their stored lengths
     * @throws IOException if the folder itself cannot be read
     */
    public static TreeNode of(Path folder, Excludes excludes, Problems problems) throws IOException {
        Map<String, Object> attributes = Files.readAttributes(folder, ATTRIBUTES);
        if (!(Boolean) attributes.get("isDirectory")) {
            throw new FileSystemException(folder.toString(), null, "Not a directory");
        }
        TreeNode root = new TreeNode(new TreeEntry.Folder(RawName.of(""), attributes(attributes)));
        new SourceTree(excludes, problems).list(folder, "", root);
        return root;
    }

    /**
     * What all entries have, as the system says it.
     *
     * @param path an entry. No link is followed
     * @return its permissions and time
     * @throws IOException if it cannot be looked at
     */
    public static TreeEntry.Attributes attributes(Path path) throws IOException {
        return attributes(Files.readAttributes(path, ATTRIBUTES, LinkOption.NOFOLLOW_LINKS));
    }

    private static TreeEntry.Attributes attributes(Map<String, Object> unix) {
        Instant modified = ((FileTime) unix.get("lastModifiedTime")).toInstant();
        int mode = (Integer) unix.get("mode") & Manifest.PERMISSIONS;
        return new TreeEntry.Attributes(mode, modified.getEpochSecond(), modified.getNano());
    }

    /**
     * Whether a name is one of those that programs give to unfinished files.
     *
     * @param name a name
     * @return whether no tree lists it
     */
    public static boolean isTemporary(RawName name) {
        return TEMPORARY.matcher(name.toString()).matches();
    }

    private void list(Path folder, String above, TreeNode into) throws IOException {
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder)) {
            for (Path entry : entries) {
                add(entry, above, into);
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
    }

    private void add(Path path, String above, TreeNode into) {
        RawName name = RawName.of(path);
        IOException why = null;
        try {
            Map<String, Object> unix = Files.readAttributes(path, ATTRIBUTES, LinkOption.NOFOLLOW_LINKS);
            boolean isFolder = (Boolean) unix.get("isDirectory");
            String inTree = above + new String(name.toBytes(), StandardCharsets.ISO_8859_1);
            if (excludes.excludesBytes(inTree, isFolder)) {
                return;
            }
            TreeNode node = node(path, name, unix);
            if (node != null && isFolder) {
                list(path, inTree + "/", node);
            }
            if (node != null) {
                into.children().put(name, node);
                return;
            }
        } catch (NoSuchFileException e) {
            // It was deleted just now.
            return;
        } catch (IOException e) {
            why = e;
        }
        into.children().put(name, new TreeNode(null));
        problems.leftOut(path, why);
    }

    /** Null if it cannot be in a tree. */
    private static TreeNode node(Path path, RawName name, Map<String, Object> unix) throws IOException {
        TreeEntry.Attributes attributes = attributes(unix);
        if ((Boolean) unix.get("isDirectory")) {
            return new TreeNode(new TreeEntry.Folder(name, attributes));
        }
        if (isTemporary(name)) {
            return null;
        }
        if ((Boolean) unix.get("isSymbolicLink")) {
            return new TreeNode(new TreeEntry.Link(name, attributes, RawName.ofTarget(Files.readSymbolicLink(path))));
        }
        if ((Boolean) unix.get("isRegularFile")) {
            SourceIdentity identity = SourceIdentity.of(unix);
            long length = (Long) unix.get("size");
            return new TreeNode(new TreeEntry.File(name, attributes, length, 0, identity.device(), identity.inode(), null));
        }
        return null;
    }
}
