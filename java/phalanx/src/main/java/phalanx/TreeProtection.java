package phalanx;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Map;

/** Writes the stored files, folders and links of a tree, and lists what was written. */
final class TreeProtection {
    private final Protector protector;

    TreeProtection(Protector protector) {
        this.protector = protector;
    }

    /** Writes a folder and all in it. Entries that are not known any more are taken out of the tree. */
    void write(TreeNode node, SourceFolder source, Path output) throws IOException {
        Files.createDirectory(output);
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
                    Metadata.all(inside.attributes(), Map.of(), to);
                }
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
