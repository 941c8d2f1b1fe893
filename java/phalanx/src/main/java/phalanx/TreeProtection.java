package phalanx;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Iterator;
import java.util.Map;

/** Writes the stored files, folders and links of a tree, and lists what was written. */
final class TreeProtection {
    private final Protector protector;
    private final boolean syncs;

    /** Whether it waits until the folders are on the disk, as the protector does for its files. */
    TreeProtection(Protector protector, boolean syncs) {
        this.protector = protector;
        this.syncs = syncs;
    }

    /** Writes a folder and all in it. Entries that are not known any more are taken out of the tree. */
    void write(TreeNode node, SourceFolder source, Path output) throws IOException {
        make(output);
        for (Iterator<TreeNode> entries = node.children().values().iterator(); entries.hasNext(); ) {
            TreeNode next = entries.next();
            if (next.entry() == null) {
                entries.remove();
                continue;
            }
            RawName name = next.entry().name();
            if (next.entry() instanceof TreeEntry.File file) {
                next.set(file(file, source, output.resolve(name.with(".phx").path())));
                continue;
            }
            refuseRival(node, name, output);
            Path to = output.resolve(name.path());
            if (next.entry() instanceof TreeEntry.Link link) {
                Files.createSymbolicLink(to, link.target().path());
            } else {
                try (SourceFolder inside = source.folder(name)) {
                    write(next, inside, to);
                    finish(inside.attributes(), to);
                }
            }
        }
    }

    /** Makes a folder that nobody else can look into before it is finished. */
    private static void make(Path folder) throws IOException {
        if (folder.getFileSystem().supportedFileAttributeViews().contains("posix")) {
            Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        } else {
            Files.createDirectory(folder);
        }
    }

    /** Gives a folder what its original has. */
    void finish(BasicFileAttributes original, Path folder) throws IOException {
        // Its new permissions may not allow to open it.
        try (FileChannel opened = syncs ? Systems.openFolder(folder) : null) {
            Metadata.all(original, Map.of(), folder);
            if (opened != null) {
                opened.force(true);
            }
        }
    }

    private TreeEntry.File file(TreeEntry.File listed, SourceFolder source, Path to) throws IOException {
        // Of before it was read: if it changes later, the next run finds another time than the manifest's.
        TreeEntry.Attributes now = SourceTree.attributes(source.path(listed.name()));
        try (Input in = source.file(listed.name())) {
            long length = protector.protect(in, to);
            return new TreeEntry.File(
                    listed.name(), now, length, Files.size(to), listed.device(), listed.inode(), Contents.read(to));
        }
    }

    /** No two entries have one stored name. */
    private static void refuseRival(TreeNode folder, RawName name, Path output) throws IOException {
        String text = name.toString();
        boolean isManifest = folder.entry().name().length() == 0 && (name.equals(PhalanxTree.MANIFEST) || name.equals(PhalanxTree.SIGNATURE));
        boolean isRival = text.endsWith(".phx") && folder.children().values().stream().anyMatch(other ->
                other.entry() instanceof TreeEntry.File && other.entry().name().with(".phx").equals(name));
        if (isManifest || isRival) {
            throw new FileSystemException(output.resolve(name.path()).toString(), null, "its name in the mirror would be that of another entry");
        }
    }
}
