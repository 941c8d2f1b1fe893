package phalanx;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import phalanx.TreeReport.Fault;
import phalanx.TreeReport.Finding;

/**
 * Checks a protected folder that has a manifest: docs/format.md, section 13.
 *
 * <pre>{@code
 * TreeReport report = new PhalanxTree(KeyProvider.of(key)).verify(Path.of("backup"));
 * for (TreeReport.Finding finding : report.findings()) {
 *     System.out.println(finding.fault() + " " + finding.path());
 * }
 * }</pre>
 *
 * <p>An entry that lies in a missing, exchanged or additional folder is not named again. Permissions, times, and the
 * lengths of stored files are not compared. No link is followed.
 */
public final class PhalanxTree {
    /** The name of the manifest in the root. */
    public static final RawName MANIFEST = RawName.of("phalanx.tree");
    /** The name of the manifest's signature, which the command checks. */
    public static final RawName SIGNATURE = RawName.of("phalanx.tree.sig");
    private final KeyProvider keys;
    private final Crew crew;

    /**
     * Opens files with the keys at hand.
     *
     * @param keys the keys and the password at hand
     */
    public PhalanxTree(KeyProvider keys) {
        this.keys = keys;
        this.crew = Crew.common();
    }

    /**
     * Checks that nothing is missing, additional or exchanged, and every chunk of every file.
     *
     * @param folder the protected folder
     * @return what is not as the manifest says
     * @throws PhalanxException if the manifest is not a whole, authentic one for the keys at hand; the type says why
     * @throws IOException if something cannot be read, or there is no manifest
     */
    public TreeReport verify(Path folder) throws IOException {
        return verify(folder, this::checkFully);
    }

    /**
     * Checks that nothing is missing or additional, and of each file only its length and its last chunk's nonce and
     * tag. So a file that was written again or exchanged is noticed, and one that was altered somewhere else is not.
     *
     * @param folder the protected folder
     * @return what is not as the manifest says
     * @throws IOException as for {@link #verify}
     */
    public TreeReport verifyQuickly(Path folder) throws IOException {
        return verify(folder, PhalanxTree::checkQuickly);
    }

    /** Whether the contents of an open file are those of its entry. */
    private interface Check {
        boolean agrees(FileChannel file, TreeEntry.File entry) throws IOException;
    }

    private TreeReport verify(Path folder, Check check) throws IOException {
        try (Input in = Input.open(folder.resolve(MANIFEST.path()));
                ProtectedInput file = ProtectedInput.open(in.channel(), keys)) {
            try (ProtectedInput.Chunks last = file.chunks()) {
                last.openLast();
            }
            Walk walk = new Walk(folder, check);
            Manifest.Head head;
            try (PlainChannel plain = new PlainChannel(file)) {
                Manifest manifest = Manifest.read(new BufferedInputStream(Channels.newInputStream(plain)));
                head = manifest.head();
                walk.along(manifest);
            }
            String digest = Contents.read(in.channel()).toString();
            in.checkUnchanged();
            return new TreeReport(head, digest, walk.entries, walk.findings);
        }
    }

    private static boolean checkQuickly(FileChannel file, TreeEntry.File entry) throws IOException {
        Layout layout = Header.read(file).layout(file.size());
        return layout.plaintextLength() == entry.length()
                && Arrays.equals(Contents.readLast(file, layout), entry.contents().last());
    }

    /** Opens every chunk. The contents are those of the chunks that were opened, so the file cannot change in between. */
    private boolean checkFully(FileChannel file, TreeEntry.File entry) throws IOException {
        if (!checkQuickly(file, entry)) {
            return false;
        }
        try (ProtectedInput opened = ProtectedInput.open(file, keys)) {
            Layout layout = opened.layout();
            HashTree tree = new HashTree();
            ChunkLoop.run(crew, layout.chunks(), () -> new OpenStep(opened, tree));
            return layout.plaintextLength() == entry.length()
                    && Arrays.equals(tree.root(layout.chunks()), entry.contents().root());
        }
    }

    /** Opens chunks, and takes their nonces and tags. */
    static final class OpenStep implements ChunkLoop.Step {
        private final ProtectedInput.Chunks chunks;
        private final HashTree tree;

        OpenStep(ProtectedInput file, HashTree tree) {
            this.chunks = file.chunks();
            this.tree = tree;
        }

        @Override
        public void chunk(long index) throws IOException {
            chunks.open(index);
            tree.add(index, chunks.bytes(), chunks.offset());
        }

        @Override
        public void close() {
            chunks.close();
        }
    }

    /** A folder of the tree, and what was stored in it and has not been listed so far. */
    private record Open(Path path, String name, Map<RawName, Path> unlisted) {
        static Open of(Path path, String name) throws IOException {
            Map<RawName, Path> stored = new TreeMap<>();
            try (DirectoryStream<Path> entries = Files.newDirectoryStream(path)) {
                for (Path entry : entries) {
                    stored.put(RawName.of(entry), entry);
                }
            } catch (DirectoryIteratorException e) {
                throw e.getCause();
            }
            // What other programs keep for a while in a folder of protected files (sections 8 and 11).
            stored.keySet().removeIf(SourceTree::isTemporary);
            return new Open(path, name, stored);
        }

        String pathOf(RawName entry) {
            return name + entry;
        }
    }

    /** Compares the stored entries with a manifest, folder by folder. */
    private static final class Walk {
        private final Path root;
        private final Check check;
        private final Deque<Open> open = new ArrayDeque<>();
        private final List<Finding> findings = new ArrayList<>();
        private long entries;

        Walk(Path root, Check check) {
            this.root = root;
            this.check = check;
        }

        void along(Manifest manifest) throws IOException {
            // The depth of the entries of a folder that is not there.
            int skipped = Integer.MAX_VALUE;
            while (!manifest.isAtEnd()) {
                int depth = manifest.depth();
                Optional<TreeEntry> entry = manifest.next();
                if (entry.isEmpty()) {
                    if (depth < skipped) {
                        leave();
                    } else if (depth == skipped) {
                        skipped = Integer.MAX_VALUE;
                    }
                    continue;
                }
                entries++;
                if (depth < skipped && !isEntered(entry.get())) {
                    skipped = entry.get() instanceof TreeEntry.Folder ? depth + 1 : skipped;
                }
            }
        }

        /** Compares an entry. Whether it is a folder that is there. */
        private boolean isEntered(TreeEntry entry) throws IOException {
            if (open.isEmpty()) {
                open.push(Open.of(root, ""));
                open.peek().unlisted().remove(MANIFEST);
                open.peek().unlisted().remove(SIGNATURE);
                return true;
            }
            Open folder = open.peek();
            RawName name = entry instanceof TreeEntry.File ? entry.name().with(".phx") : entry.name();
            Path stored = folder.unlisted().remove(name);
            if (stored == null) {
                found(Fault.MISSING, folder.pathOf(name), "");
                return false;
            }
            BasicFileAttributes attributes =
                    Files.readAttributes(stored, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
            if (entry instanceof TreeEntry.Folder && attributes.isDirectory()) {
                open.push(Open.of(stored, folder.pathOf(name) + "/"));
                return true;
            }
            if (entry instanceof TreeEntry.File file && attributes.isRegularFile()) {
                compare(file, stored, folder.pathOf(name));
            } else if (!(entry instanceof TreeEntry.Link link
                    && attributes.isSymbolicLink()
                    && Files.readSymbolicLink(stored).equals(link.target().path()))) {
                found(Fault.EXCHANGED, folder.pathOf(name), "");
            }
            return false;
        }

        private void compare(TreeEntry.File entry, Path stored, String path) throws IOException {
            try (Input in = Input.open(stored)) {
                if (!check.agrees(in.channel(), entry)) {
                    found(Fault.EXCHANGED, path, "");
                }
            } catch (PhalanxException e) {
                found(Fault.DAMAGED, path, e.getMessage());
            }
        }

        private void leave() {
            Open folder = open.pop();
            folder.unlisted().keySet().forEach(name -> found(Fault.ADDITIONAL, folder.pathOf(name), ""));
        }

        private void found(Fault fault, String path, String why) {
            findings.add(new Finding(fault, path, why));
        }
    }
}
