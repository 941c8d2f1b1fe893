package phalanx;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * Writes the manifest of a tree, entry by entry: docs/format.md, section 13.3. What no reader would take is refused. Its bytes are the
 * plaintext of the file {@code phalanx.tree}, which a {@link Protector} writes.
 *
 * <pre>{@code
 * ByteArrayOutputStream bytes = new ByteArrayOutputStream();
 * ManifestWriter writer = new ManifestWriter(bytes, Manifest.Head.first(""));
 * TreeEntry.Attributes usual = new TreeEntry.Attributes(0755, 0, 0);
 * writer.entry(new TreeEntry.Folder(RawName.of(""), usual));
 * writer.entry(new TreeEntry.Link(RawName.of("latest"), usual, RawName.of("run42")));
 * writer.endFolder();
 * writer.finish();
 * }</pre>
 */
public final class ManifestWriter {
    private final OutputStream out;
    /** For each open folder, the name of its last entry so far. */
    private final List<RawName> lastNames = new ArrayList<>();

    private long entries;

    /**
     * Writes the head.
     *
     * @param out where the bytes go, in small pieces. It stays open
     * @param head what precedes the entries
     * @throws IllegalArgumentException if the rules are longer than 1 MiB
     * @throws IOException if it cannot be written
     */
    public ManifestWriter(OutputStream out, Manifest.Head head) throws IOException {
        this.out = out;
        byte[] rules = head.rules().getBytes(StandardCharsets.UTF_8);
        if (rules.length > Manifest.MOST_RULES) {
            throw new IllegalArgumentException("the rules are longer than 1 MiB");
        }
        ByteBuffer tree = ByteBuffer.allocate(2 * Long.BYTES);
        tree.putLong(head.tree().getMostSignificantBits()).putLong(head.tree().getLeastSignificantBits());
        out.write(Manifest.MAGIC);
        out.write(tree.array());
        out.write(fields(2 * Long.BYTES).putLong(head.generation()).putLong(head.written()).array());
        out.write(HexFormat.of().parseHex(head.previous()));
        out.write(fields(Integer.BYTES).putInt(rules.length).array());
        out.write(rules);
    }

    private static ByteBuffer fields(int length) {
        return ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
    }

    /**
     * Writes an entry: the root first, then the entries of each folder after it, in the order of their names.
     *
     * @param entry the entry
     * @throws IllegalArgumentException if the format does not allow such an entry here
     * @throws IOException if it cannot be written
     */
    public void entry(TreeEntry entry) throws IOException {
        check(entry);
        int kind = entry instanceof TreeEntry.Folder ? Manifest.FOLDER : entry instanceof TreeEntry.File ? Manifest.FILE : Manifest.LINK;
        byte[] name = entry.name().toBytes();
        TreeEntry.Attributes attributes = entry.attributes();
        out.write(kind);
        out.write(fields(Short.BYTES).putShort((short) name.length).array());
        out.write(name);
        out.write(fields(2 * Integer.BYTES + Long.BYTES)
                .putInt(attributes.mode()).putLong(attributes.seconds()).putInt(attributes.nanoseconds()).array());
        if (entry instanceof TreeEntry.File file) {
            out.write(fields(4 * Long.BYTES)
                    .putLong(file.length()).putLong(file.storedLength()).putLong(file.device()).putLong(file.inode()).array());
            out.write(file.contents().last());
            out.write(file.contents().root());
        } else if (entry instanceof TreeEntry.Link link) {
            byte[] target = link.target().toBytes();
            out.write(fields(Short.BYTES).putShort((short) target.length).array());
            out.write(target);
        } else {
            lastNames.add(RawName.of(""));
        }
        entries++;
    }

    private void check(TreeEntry entry) {
        RawName name = entry.name();
        if (lastNames.isEmpty()) {
            boolean isRoot = entries == 0 && entry instanceof TreeEntry.Folder && name.length() == 0;
            require(isRoot, "its first entry is not the root");
        } else {
            require(name.length() <= Manifest.LONGEST_NAME, "a name is too long");
            require(Manifest.isName(name), "a name is no file's name");
            int last = lastNames.size() - 1;
            require(lastNames.set(last, name).compareTo(name) < 0, "its names are not in order");
        }
        TreeEntry.Attributes attributes = entry.attributes();
        require(Integer.compareUnsigned(attributes.mode(), Manifest.PERMISSIONS) <= 0, "a mode has more than permissions");
        boolean isTime = Integer.compareUnsigned(attributes.nanoseconds(), Manifest.SECOND) < 0;
        require(isTime, "a time has more than a second of nanoseconds");
        if (entry instanceof TreeEntry.Folder) {
            require(lastNames.size() < Manifest.MOST_FOLDERS, "too many folders lie within each other");
        } else if (entry instanceof TreeEntry.File file) {
            boolean isPossible = file.storedLength() >= 0 && Long.compareUnsigned(file.length(), file.storedLength()) < 0;
            require(isPossible, "a file has an impossible length");
        } else if (entry instanceof TreeEntry.Link link) {
            int length = link.target().length();
            require(length > 0 && length <= Manifest.LONGEST_TARGET && !link.target().contains(0), "a link leads to no path");
        }
    }

    private static void require(boolean isRight, String rule) {
        if (!isRight) {
            throw new IllegalArgumentException("malformed manifest: " + rule);
        }
    }

    /**
     * Ends the folder that was begun last and has not ended.
     *
     * @throws IllegalStateException if there is none
     * @throws IOException if it cannot be written
     */
    public void endFolder() throws IOException {
        if (lastNames.isEmpty()) {
            throw new IllegalStateException("no folder is open");
        }
        lastNames.remove(lastNames.size() - 1);
        out.write(Manifest.END);
    }

    /**
     * Ends the manifest, when the root has ended.
     *
     * @throws IllegalStateException if a folder is still open, or there is no root
     * @throws IOException if it cannot be written
     */
    public void finish() throws IOException {
        if (entries == 0 || !lastNames.isEmpty()) {
            throw new IllegalStateException("the root has not ended");
        }
        out.write(fields(Long.BYTES).putLong(entries).array());
    }
}
