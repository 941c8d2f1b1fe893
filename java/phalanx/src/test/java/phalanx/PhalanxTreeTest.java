package phalanx;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A tree with a manifest is checked: what is missing, additional, exchanged or damaged is named. */
class PhalanxTreeTest {
    private static final int CHUNK = 4096;

    @TempDir
    Path folder;

    private final PhalanxKey key = PhalanxKey.random();
    private final PhalanxTree checker = new PhalanxTree(KeyProvider.of(key));
    private Path tree;

    /** A tree of two folders, files in all suites, and links. Its names are in another order than its paths. */
    @BeforeEach
    void make() throws IOException {
        tree = Files.createDirectory(folder.resolve("tree"));
        ManifestBytes manifest = new ManifestBytes();
        manifest.entry(1, "");
        manifest.folder("a", Files.createDirectory(tree.resolve("a")));
        manifest.folder("deep", Files.createDirectory(tree.resolve("a/deep")));
        manifest.file("one", protect("a/deep/one.phx", 1, Suite.AES_256_CTR_SHA3));
        manifest.end();
        manifest.file("two", protect("a/two.phx", 5 * CHUNK + 7, Suite.AES_256_GCM));
        manifest.end();
        manifest.folder("a!", Files.createDirectory(tree.resolve("a!")));
        manifest.end();
        manifest.file("empty", protect("empty.phx", 0, Suite.AES_128_CTR_SHA3));
        manifest.link("link", "a//deep/../two.phx");
        manifest.link("link to a folder", "a/");
        manifest.link("outside", "/nowhere");
        manifest.file("three", protect("three.phx", 3 * CHUNK, Suite.AES_256_CTR_TURBOSHAKE));
        manifest.file("tägl%20ich", protect("tägl%20ich.phx", 100, Suite.AES_192_CTR_SHA3));
        manifest.end();
        protector(Suite.AES_256_CTR_SHA3).protect(new ByteArrayInputStream(manifest.whole()), at("phalanx.tree"));
    }

    @Test
    void aCheckForgetsItsKeys() throws IOException {
        try (FileChannel file = FileChannel.open(at("three.phx"));
                ProtectedInput opened = ProtectedInput.open(file, KeyProvider.of(key))) {
            PhalanxTree.OpenStep step = new PhalanxTree.OpenStep(opened, new HashTree());
            step.chunk(0);
            step.close();
            assertThrows(IllegalStateException.class, () -> step.chunk(1));
        }
    }

    private Path at(String path) {
        return tree.resolve(path);
    }

    private Protector protector(Suite suite) {
        return new Protector(Recipients.of(key)).withSuite(suite).withChunkLog2(12).withoutSync();
    }

    private Path protect(String path, int length, Suite suite) throws IOException {
        byte[] plaintext = new byte[length];
        Arrays.fill(plaintext, (byte) 7);
        Files.deleteIfExists(at(path));
        protector(suite).protect(new ByteArrayInputStream(plaintext), at(path));
        return at(path);
    }

    /** Writes a manifest as docs/format.md, section 13.3, says. */
    private final class ManifestBytes {
        private final ByteBuffer bytes = ByteBuffer.allocate(1 << 16).order(ByteOrder.LITTLE_ENDIAN);
        private long entries;

        ManifestBytes() {
            bytes.put("PHXTREE1".getBytes(StandardCharsets.US_ASCII)).position(24);
            bytes.putLong(9).position(76);
        }

        void entry(int kind, String name) {
            byte[] utf8 = name.getBytes(StandardCharsets.UTF_8);
            bytes.put((byte) kind).putShort((short) utf8.length).put(utf8).putInt(0644).putLong(0).putInt(0);
            entries++;
        }

        void folder(String name, Path made) {
            assertTrue(Files.isDirectory(made));
            entry(1, name);
        }

        void file(String name, Path stored) throws IOException {
            entry(2, name);
            long length = new Unprotector(KeyProvider.of(key)).verify(stored);
            Contents contents = Contents.read(stored);
            bytes.putLong(length).putLong(Files.size(stored)).putLong(0).putLong(0);
            bytes.put(contents.last()).put(contents.root());
        }

        void link(String name, String target) throws IOException {
            Path path = RawName.of(target).path();
            Files.createSymbolicLink(at(name), path);
            entry(3, name);
            bytes.putShort((short) target.length()).put(target.getBytes(StandardCharsets.UTF_8));
        }

        void end() {
            bytes.put((byte) 0);
        }

        byte[] whole() {
            bytes.putLong(entries);
            return Arrays.copyOf(bytes.array(), bytes.position());
        }
    }

    private List<String> fully() throws IOException {
        return named(checker.verify(tree));
    }

    private List<String> quickly() throws IOException {
        return named(checker.verifyQuickly(tree));
    }

    private static List<String> named(TreeReport report) {
        assertEquals(report.findings().isEmpty(), report.isWhole());
        return report.findings().stream().map(finding -> finding.fault() + " " + finding.path()).toList();
    }

    private void both(String... findings) throws IOException {
        assertEquals(List.of(findings), fully());
        assertEquals(List.of(findings), quickly());
    }

    @Test
    void aWholeTreeHasNoFindings() throws Exception {
        both();
        TreeReport report = checker.verify(tree);
        assertEquals(12, report.entries());
        assertEquals(9, report.manifest().generation());
        assertEquals(Contents.read(at("phalanx.tree")).toString(), report.digest());
    }

    @Test
    void whatIsMissingIsNamed() throws IOException {
        Files.delete(at("a/two.phx"));
        Files.delete(at("a!"));
        Files.delete(at("link"));
        both("MISSING a/two.phx", "MISSING a!", "MISSING link");
        Files.delete(at("a/deep/one.phx"));
        Files.delete(at("a/deep"));
        Files.delete(at("a"));
        both("MISSING a", "MISSING a!", "MISSING link");
    }

    @Test
    void whatIsAdditionalIsNamed() throws IOException {
        Files.createDirectories(at("a/deep/new/within"));
        Files.writeString(at("zero"), "");
        Files.writeString(at("a!/phalanx.tree"), "only the root has one");
        Files.writeString(at("phalanx.tree.sig"), "the root may have the signature of its manifest");
        both("ADDITIONAL a/deep/new", "ADDITIONAL a!/phalanx.tree", "ADDITIONAL zero");
    }

    @Test
    void filesOfUnfinishedRunsAreNoFindings() throws IOException {
        for (String suffix : List.of("tmp", "resume", "rekey")) {
            Files.writeString(at("a/.phalanx-0123456789abcdef0123456789abcdef." + suffix), "");
        }
        both();
        Files.writeString(at(".phalanx-0123456789abcdef.tmp"), "");
        both("ADDITIONAL .phalanx-0123456789abcdef.tmp");
    }

    @Test
    void whatIsExchangedIsNamed() throws IOException {
        protect("a/two.phx", 5 * CHUNK + 7, Suite.AES_256_GCM);
        Files.move(at("three.phx"), at("a/deep/one.phx"), StandardCopyOption.REPLACE_EXISTING);
        protect("three.phx", 3 * CHUNK, Suite.AES_256_CTR_SHA3);
        both("EXCHANGED a/deep/one.phx", "EXCHANGED a/two.phx", "EXCHANGED three.phx");
    }

    @Test
    void anotherKindOfEntryIsExchanged() throws IOException {
        Files.delete(at("empty.phx"));
        Files.createSymbolicLink(at("empty.phx"), Path.of("three.phx"));
        Files.delete(at("a!"));
        Files.createSymbolicLink(at("a!"), Path.of("a"));
        Files.delete(at("link"));
        Files.createSymbolicLink(at("link"), Path.of("a/deep/../two"));
        Files.delete(at("outside"));
        Files.writeString(at("outside"), "");
        both("EXCHANGED a!", "EXCHANGED empty.phx", "EXCHANGED link", "EXCHANGED outside");
    }

    @Test
    void onlyAFullCheckFindsDamageBeforeTheLastChunk() throws IOException {
        byte[] file = Files.readAllBytes(at("a/two.phx"));
        file[file.length - 2 * CHUNK] ^= 1;
        Files.write(at("a/two.phx"), file);
        assertEquals(List.of(), quickly());
        assertEquals(List.of("DAMAGED a/two.phx"), fully());
        Files.write(at("a/two.phx"), Arrays.copyOf(file, 20));
        both("DAMAGED a/two.phx");
    }

    /** Its chunks are all authentic. */
    @Test
    void onlyAFullCheckFindsAChunkThatWasWrittenAgain() throws IOException {
        byte[] file = Files.readAllBytes(at("three.phx"));
        Header header = Header.read(new ByteArrayInputStream(file));
        try (FileKeys keys = header.open(KeyProvider.of(key)).keys()) {
            new ChunkCipher(keys, 12).seal(file, header.length(), CHUNK, 0, false);
        }
        Files.write(at("three.phx"), file);
        new Unprotector(KeyProvider.of(key)).verify(at("three.phx"));
        assertEquals(List.of(), quickly());
        assertEquals(List.of("EXCHANGED three.phx"), fully());
    }

    @Test
    void withoutAKeyOrAManifestNothingIsChecked() throws IOException {
        PhalanxTree other = new PhalanxTree(id -> Optional.empty());
        assertThrows(WrongKeyException.class, () -> other.verify(tree));
        Files.delete(at("phalanx.tree"));
        assertThrows(NoSuchFileException.class, this::fully);
    }

    @Test
    void aManifestThatIsNoneIsRefused() throws IOException {
        byte[] file = Files.readAllBytes(at("phalanx.tree"));
        file[file.length - 1] ^= 1;
        Files.write(at("phalanx.tree"), file);
        assertThrows(AuthenticationException.class, this::fully);
        protect("phalanx.tree", 100, Suite.AES_256_CTR_SHA3);
        assertThrows(MalformedManifestException.class, this::fully);
    }

    @Test
    void namesNeedNotBeText() throws IOException {
        RawName name = new RawName(new byte[] {'%', (byte) 0xff, '2', '0', (byte) 0x80});
        Path file = Files.createFile(tree.resolve(name.path()));
        assertEquals(name, RawName.of(file));
        try (var entries = Files.newDirectoryStream(tree)) {
            for (Path entry : entries) {
                assertEquals(entry, tree.resolve(RawName.of(entry).path()));
            }
        }
        RawName directory = RawName.of("ordner é");
        assertEquals(directory, RawName.of(Files.createDirectory(tree.resolve(directory.path()))));
        for (String target : List.of(".", "..", "a/b", "/", "/a")) {
            assertEquals(Path.of(target), RawName.of(target).path());
        }
    }
}
