package phalanx;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.UUID;

/**
 * Reads the manifest of a tree, entry by entry: docs/format.md, section 13.3. Each rule is checked before an entry is
 * returned. Only the end proves that none is missing.
 *
 * <pre>{@code
 * try (PhalanxFile file = PhalanxFile.open(Path.of("backup", "phalanx.tree"), KeyProvider.of(key));
 *         InputStream in = new BufferedInputStream(file.inputStream())) {
 *     Manifest manifest = Manifest.read(in);
 *     while (!manifest.isAtEnd()) {
 *         Optional<TreeEntry> entry = manifest.next();
 *         entry.ifPresent(listed -> System.out.println(listed.name()));
 *     }
 * }
 * }</pre>
 */
public final class Manifest {
    static final byte[] MAGIC = "PHXTREE1".getBytes(StandardCharsets.US_ASCII);
    static final int MOST_RULES = 1 << 20;
    static final int MOST_FOLDERS = 1 << 16;
    static final int LONGEST_NAME = 4096;
    static final int LONGEST_TARGET = 65535;
    static final int PERMISSIONS = 07777;
    static final int SECOND = 1_000_000_000;
    private static final RawName DOT = RawName.of(".");
    private static final RawName DOTS = RawName.of("..");
    /** The name before all others. */
    private static final RawName NONE = RawName.of("");

    static final int END = 0;
    static final int FOLDER = 1;
    static final int FILE = 2;
    static final int LINK = 3;

    private final InputStream in;
    private final Head head;
    /** For each open folder, the name of its last entry so far. */
    private final List<RawName> lastNames = new ArrayList<>();

    private long entries;
    private boolean ended;

    /**
     * What precedes the entries.
     *
     * @param tree the tree's id, which all its manifests have
     * @param generation grows with each manifest of the tree; unsigned
     * @param written when it was written, in seconds since 1970
     * @param previous the digest of the manifest before it, in hexadecimal digits; zeros for the first
     * @param rules which entries of the source were left out, one rule a line
     */
    public record Head(UUID tree, long generation, long written, String previous, String rules) {
        private static final String NO_DIGEST = "00".repeat(Contents.ROOT);
        private static final SecureRandom RANDOM = new SecureRandom();

        /**
         * The head of the first manifest of a new tree. As in all programs its generation is the time.
         *
         * @param rules which entries of the source were left out
         * @return the head, with a random id
         */
        public static Head first(String rules) {
            ByteBuffer id = ByteBuffer.allocate(2 * Long.BYTES);
            RANDOM.nextBytes(id.array());
            long now = Instant.now().getEpochSecond();
            return new Head(new UUID(id.getLong(), id.getLong()), now, now, NO_DIGEST, rules);
        }

        /**
         * The head of the manifest that follows this one. Its generation is greater than all that are known, and than those that other
         * machines wrote before now.
         *
         * @param digest the digest of this manifest, in hexadecimal digits
         * @param seen the greatest generation of this tree that was seen, unsigned; 0 if none was
         * @param otherRules which entries of the source were left out
         * @return the head
         */
        public Head next(String digest, long seen, String otherRules) {
            long now = Instant.now().getEpochSecond();
            long last = Long.compareUnsigned(generation, seen) > 0 ? generation : seen;
            long following = last == -1 ? last : last + 1;
            return new Head(tree, Long.compareUnsigned(now, following) > 0 ? now : following, now, digest, otherRules);
        }
    }

    private Manifest(InputStream in) throws IOException {
        this.in = in;
        this.head = readHead();
    }

    /**
     * Reads the head of a manifest.
     *
     * @param in its plaintext, which is read in small pieces. It stays open
     * @return the manifest, before its root
     * @throws UnsupportedVersionException if it has another version
     * @throws MalformedManifestException if it is no manifest
     * @throws IOException if it cannot be read
     */
    public static Manifest read(InputStream in) throws IOException {
        return new Manifest(in);
    }

    /**
     * What precedes the entries.
     *
     * @return the head
     */
    public Head head() {
        return head;
    }

    /**
     * Whether all entries have been read, and the manifest was whole.
     *
     * @return whether there is nothing more to read
     */
    public boolean isAtEnd() {
        return ended;
    }

    /**
     * In how many folders the next entry lies.
     *
     * @return 0 before the root, and at the end
     */
    public int depth() {
        return lastNames.size();
    }

    /**
     * Reads the next entry. The root comes first. The entries of a folder follow it, in the order of their names.
     *
     * @return the entry, or nothing where a folder ends
     * @throws MalformedManifestException if a rule of the format is broken
     * @throws IOException if it cannot be read
     * @throws IllegalStateException if it is at its end
     */
    public Optional<TreeEntry> next() throws IOException {
        if (ended) {
            throw new IllegalStateException("the manifest has ended");
        }
        int kind = fields(1).get() & 0xff;
        if (kind != END) {
            entries++;
            return Optional.of(entry(kind));
        }
        if (lastNames.isEmpty()) {
            throw new MalformedManifestException("it has no root");
        }
        lastNames.remove(lastNames.size() - 1);
        if (lastNames.isEmpty()) {
            finish();
        }
        return Optional.empty();
    }

    private Head readHead() throws IOException {
        byte[] magic = bytes(MAGIC.length);
        int version = MAGIC.length - 1;
        if (!Arrays.equals(magic, 0, version, MAGIC, 0, version)) {
            throw new MalformedManifestException("it does not begin like one");
        }
        if (magic[version] != MAGIC[version]) {
            throw UnsupportedVersionException.manifest();
        }
        ByteBuffer id = ByteBuffer.wrap(bytes(16));
        UUID tree = new UUID(id.getLong(), id.getLong());
        ByteBuffer numbers = fields(2 * Long.BYTES);
        long generation = numbers.getLong();
        long written = numbers.getLong();
        String previous = HexFormat.of().formatHex(bytes(32));
        int length = fields(Integer.BYTES).getInt();
        if (Integer.compareUnsigned(length, MOST_RULES) > 0) {
            throw new MalformedManifestException("its rules are too long");
        }
        try {
            // A decoder, unlike a string's constructor, refuses what is no text.
            String rules = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes(length))).toString();
            return new Head(tree, generation, written, previous, rules);
        } catch (CharacterCodingException e) {
            throw new MalformedManifestException("its rules are not text");
        }
    }

    private TreeEntry entry(int kind) throws IOException {
        int length = Short.toUnsignedInt(fields(Short.BYTES).getShort());
        if (length > LONGEST_NAME) {
            throw new MalformedManifestException("a name is too long");
        }
        RawName name = new RawName(bytes(length));
        checkName(kind, name);
        ByteBuffer common = fields(Integer.BYTES + Long.BYTES + Integer.BYTES);
        TreeEntry.Attributes attributes =
                new TreeEntry.Attributes(common.getInt(), common.getLong(), common.getInt());
        if (Integer.compareUnsigned(attributes.mode(), PERMISSIONS) > 0) {
            throw new MalformedManifestException("a mode has more than permissions");
        }
        if (Integer.compareUnsigned(attributes.nanoseconds(), SECOND) >= 0) {
            throw new MalformedManifestException("a time has more than a second of nanoseconds");
        }
        switch (kind) {
            case FOLDER:
                if (lastNames.size() == MOST_FOLDERS) {
                    throw new MalformedManifestException("too many folders lie within each other");
                }
                lastNames.add(NONE);
                return new TreeEntry.Folder(name, attributes);
            case FILE:
                return file(name, attributes);
            case LINK:
                return new TreeEntry.Link(name, attributes, target());
            default:
                throw new MalformedManifestException("an entry is of an unknown kind");
        }
    }

    private void checkName(int kind, RawName name) throws MalformedManifestException {
        if (lastNames.isEmpty()) {
            if (kind != FOLDER || name.length() > 0) {
                throw new MalformedManifestException("its first entry is not the root");
            }
            return;
        }
        if (!isName(name)) {
            throw new MalformedManifestException("a name is no file's name");
        }
        if (lastNames.set(lastNames.size() - 1, name).compareTo(name) >= 0) {
            throw new MalformedManifestException("its names are not in order");
        }
    }

    /** Whether a file can have this name. */
    static boolean isName(RawName name) {
        return name.length() > 0 && !name.equals(DOT) && !name.equals(DOTS) && !name.contains('/') && !name.contains(0);
    }

    private TreeEntry file(RawName name, TreeEntry.Attributes attributes) throws IOException {
        ByteBuffer numbers = fields(4 * Long.BYTES);
        long length = numbers.getLong();
        long storedLength = numbers.getLong();
        if (storedLength < 0 || Long.compareUnsigned(length, storedLength) >= 0) {
            throw new MalformedManifestException("a file has an impossible length");
        }
        long device = numbers.getLong();
        long inode = numbers.getLong();
        Contents contents = new Contents(bytes(Contents.LAST), bytes(Contents.ROOT));
        return new TreeEntry.File(name, attributes, length, storedLength, device, inode, contents);
    }

    private RawName target() throws IOException {
        RawName target = new RawName(bytes(Short.toUnsignedInt(fields(Short.BYTES).getShort())));
        if (target.length() == 0 || target.contains(0)) {
            throw new MalformedManifestException("a link leads to no path");
        }
        return target;
    }

    private void finish() throws IOException {
        if (fields(Long.BYTES).getLong() != entries) {
            throw new MalformedManifestException("its number of entries is wrong");
        }
        if (in.read() >= 0) {
            throw new MalformedManifestException("it goes on after its end");
        }
        ended = true;
    }

    private ByteBuffer fields(int length) throws IOException {
        return ByteBuffer.wrap(bytes(length)).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** Reads this many bytes, at most 1 MiB. */
    private byte[] bytes(int length) throws IOException {
        byte[] bytes = in.readNBytes(length);
        if (bytes.length < length) {
            throw new MalformedManifestException("it is cut short");
        }
        return bytes;
    }
}
