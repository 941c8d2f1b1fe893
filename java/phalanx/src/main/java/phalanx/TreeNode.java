package phalanx;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * An entry of a tree with all that is in it, in memory: what a manifest lists, or what is in a folder. Entries of a folder are in the
 * order of their names. One value is for one thread at a time.
 */
public final class TreeNode {
    private TreeEntry entry;
    private final SortedMap<RawName, TreeNode> children = new TreeMap<>();

    /**
     * An entry without any in it.
     *
     * @param entry the entry. The contents of a file may be null as long as they are not known
     */
    public TreeNode(TreeEntry entry) {
        this.entry = entry;
    }

    /**
     * What it is; null if that is not known, because it cannot be read or is neither a file, a folder nor a link.
     *
     * @return the entry
     */
    public TreeEntry entry() {
        return entry;
    }

    /**
     * Changes what it is. Its name and kind stay.
     *
     * @param other what it is now
     */
    public void set(TreeEntry other) {
        entry = other;
    }

    /**
     * Whether it is a folder.
     *
     * @return whether it can have entries
     */
    public boolean isFolder() {
        return entry instanceof TreeEntry.Folder;
    }

    /**
     * The entries in it, by their names.
     *
     * @return the entries, which may be changed
     */
    public SortedMap<RawName, TreeNode> children() {
        return children;
    }

    /**
     * Reads a whole manifest.
     *
     * @param manifest a manifest, before its root
     * @return its root
     * @throws IOException if it cannot be read, or breaks a rule of the format
     */
    public static TreeNode read(Manifest manifest) throws IOException {
        Deque<TreeNode> open = new ArrayDeque<>();
        TreeNode root = null;
        while (!manifest.isAtEnd()) {
            Optional<TreeEntry> entry = manifest.next();
            if (entry.isEmpty()) {
                open.pop();
                continue;
            }
            TreeNode node = new TreeNode(entry.get());
            if (open.isEmpty()) {
                root = node;
            } else {
                open.peek().children.put(entry.get().name(), node);
            }
            if (node.isFolder()) {
                open.push(node);
            }
        }
        return root;
    }

    /**
     * The manifest of which this is the root, made while it is read. The tree must not change meanwhile.
     *
     * @param head what precedes the entries
     * @return its bytes. Reading throws {@link IllegalArgumentException} if the format does not allow such a tree
     */
    public InputStream manifest(Manifest.Head head) {
        return new Manifesting(this, head);
    }

    /** Writes entries into memory as they are needed. */
    private static final class Manifesting extends InputStream {
        private static final int ENOUGH = 1 << 16;

        private final TreeNode root;
        private final Manifest.Head head;
        private final ByteArrayOutputStream written = new ByteArrayOutputStream();
        private final Deque<Iterator<TreeNode>> open = new ArrayDeque<>();
        private ManifestWriter writer;
        private byte[] ready = {};
        private int at;
        private boolean isFinished;

        Manifesting(TreeNode root, Manifest.Head head) {
            this.root = root;
            this.head = head;
        }

        private void write() throws IOException {
            if (writer == null) {
                writer = new ManifestWriter(written, head);
                writer.entry(root.entry);
                open.push(root.children.values().iterator());
            } else if (open.isEmpty()) {
                writer.finish();
                isFinished = true;
            } else if (open.peek().hasNext()) {
                TreeNode next = open.peek().next();
                writer.entry(next.entry);
                if (next.isFolder()) {
                    open.push(next.children.values().iterator());
                }
            } else {
                open.pop();
                writer.endFolder();
            }
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : Byte.toUnsignedInt(one[0]);
        }

        @Override
        public int read(byte[] into, int offset, int length) throws IOException {
            if (length == 0) {
                return 0;
            }
            if (at == ready.length) {
                written.reset();
                while (!isFinished && written.size() < ENOUGH) {
                    write();
                }
                ready = written.toByteArray();
                at = 0;
            }
            int count = Math.min(length, ready.length - at);
            System.arraycopy(ready, at, into, offset, count);
            at += count;
            return count == 0 ? -1 : count;
        }
    }
}
