package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program {@code phalanx} takes the trees and manifests of this library for its own, and the other way round. */
class TreeCrossTest {
    @TempDir
    Path folder;

    private final PhalanxKey key = PhalanxKey.random();
    private final Random random = new Random(39);
    private Path program;
    private Path source;

    @BeforeEach
    void prepare() throws IOException {
        program = Needs.phalanx();
        Keyring.in(folder.resolve("ring")).store("work", key);
        source = Files.createDirectory(folder.resolve("source"));
        Files.createDirectories(source.resolve("a/deep"));
        Files.createDirectory(source.resolve("a!"));
        write("a/deep/one", 1);
        write("a/two", 5_000_000);
        write("empty", 0);
        write("tägl%20ich", 100);
        write("x.tmp", 10);
        Files.setPosixFilePermissions(source.resolve("a/two"), PosixFilePermissions.fromString("rw-r-----"));
        link("link", "a//deep/../two");
        link("folder link", "a/");
        link("outside", "/nowhere//at all/");
        // A name that is no text, which only its URI can say.
        Path noText = Files.write(new RawName(new byte[] {'n', (byte) 0xff, '%'}).inFolder(source), new byte[] {1});
        Files.setLastModifiedTime(noText, FileTime.fromMillis(-1));
        Files.createSymbolicLink(new RawName(new byte[] {(byte) 0xfe}).inFolder(source), new RawName(new byte[] {'t', (byte) 0xfd}).path());
    }

    private void write(String name, int length) throws IOException {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        Path file = Files.write(RawName.of(name).inFolder(source), bytes);
        // Without that, the time of birth could be that of the last modification, and so be unknown.
        Files.setLastModifiedTime(file, FileTime.fromMillis(1_600_000_000_123L + length));
    }

    private void link(String name, String target) throws IOException {
        Files.createSymbolicLink(source.resolve(name), RawName.of(target).path());
    }

    private Needs.Ran phalanx(String... args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("env", "PHALANX_STATE=" + folder.resolve("state"), program.toString()));
        command.addAll(Arrays.asList(args));
        return Needs.run(folder, command);
    }

    private static void never(Path path, IOException why) {
        fail(path + ": " + why);
    }

    private TreeNode manifest(Path mirror, Manifest.Head[] head) throws IOException {
        try (PhalanxFile file = PhalanxFile.open(mirror.resolve("phalanx.tree"), KeyProvider.of(key)); InputStream in = file.inputStream()) {
            Manifest manifest = Manifest.read(in);
            head[0] = manifest.head();
            return TreeNode.read(manifest);
        }
    }

    @Test
    void aManifestOfPhalanxIsWrittenAgainByteByByte() throws IOException, InterruptedException {
        phalanx("mirror", "source", "mirror", "-k", "work", "--exclude", "*.tmp").ok();
        Manifest.Head[] head = new Manifest.Head[1];
        TreeNode root = manifest(folder.resolve("mirror"), head);
        try (PhalanxFile file = PhalanxFile.open(folder.resolve("mirror/phalanx.tree"), KeyProvider.of(key))) {
            assertArrayEquals(file.inputStream().readAllBytes(), root.manifest(head[0]).readAllBytes());
        }
        assertEquals(Excludes.of(List.of(Excludes.Rule.exclude("*.tmp"))).text(), head[0].rules());
        // This library lists the same, but for what only a stored file has.
        TreeNode listed = SourceTree.of(source, Excludes.of(List.of(Excludes.Rule.exclude("*.tmp"))), TreeCrossTest::never);
        assertSame(root, listed);
    }

    private static void assertSame(TreeNode stored, TreeNode listed) {
        TreeEntry expected = stored.entry();
        if (expected instanceof TreeEntry.File file) {
            expected = new TreeEntry.File(file.name(), file.attributes(), file.length(), 0, file.device(), file.inode(), null);
        }
        assertEquals(expected, listed.entry());
        assertEquals(stored.children().keySet(), listed.children().keySet());
        stored.children().forEach((name, child) -> assertSame(child, listed.children().get(name)));
    }

    @Test
    void phalanxChecksRenewsAndRestoresATreeOfJava() throws IOException, InterruptedException {
        Excludes excludes = Excludes.of(List.of(Excludes.Rule.include("keep.tmp"), Excludes.Rule.exclude("*.tmp")));
        Path mirror = folder.resolve("mirror");
        String digest = new Protector(Recipients.of(key)).protectTree(source, mirror, excludes, TreeCrossTest::never);
        phalanx("verify", "-R", "mirror", "-k", "work", "--expect", digest).ok();
        Needs.Ran same = phalanx("mirror", "source", "mirror", "-k", "work", "--include", "keep.tmp", "--exclude", "*.tmp").ok();
        assertTrue(same.err().contains("0 files new, 9 unchanged"), same.err());
        assertEquals(digest, Contents.read(mirror.resolve("phalanx.tree")).toString());
        phalanx("unprotect", "-R", "mirror", "-k", "work", "-o", "restored").ok();
        assertEquals(-1, Files.mismatch(source.resolve("a/two"), folder.resolve("restored/a/two")));
        // It finds a file that was moved by the identity that Java has listed.
        Files.move(source.resolve("empty"), source.resolve("a/moved"));
        Needs.Ran moved = phalanx("mirror", "source", "mirror", "-k", "work", "--include", "keep.tmp", "--exclude", "*.tmp").ok();
        assertTrue(moved.err().contains("1 moved"), moved.err());
        Manifest.Head[] head = new Manifest.Head[1];
        manifest(mirror, head);
        assertEquals(digest, head[0].previous());
        assertTrue(new PhalanxTree(KeyProvider.of(key)).verify(mirror).isWhole());
    }

    @Test
    void theNextManifestFollowsThatOfPhalanx() throws IOException, InterruptedException {
        phalanx("mirror", "source", "mirror", "-k", "work").ok();
        Path mirror = folder.resolve("mirror");
        Manifest.Head[] head = new Manifest.Head[1];
        TreeNode root = manifest(mirror, head);
        String digest = Contents.read(mirror.resolve("phalanx.tree")).toString();
        Manifest.Head next = head[0].next(digest, head[0].generation() + 10, "");
        Protector protector = new Protector(Recipients.of(key)).replacing();
        protector.protect(root.manifest(next), mirror.resolve("phalanx.tree"));
        Needs.Ran checked = phalanx("verify", "-R", "mirror", "-k", "work", "--at-least", String.valueOf(head[0].generation() + 11)).ok();
        assertEquals("", checked.err().replaceAll("(?m)^.*(whole and authentic|generation).*$", "").strip());
        assertNotEquals(digest, Contents.read(mirror.resolve("phalanx.tree")).toString());
        Needs.Ran same = phalanx("mirror", "source", "mirror", "-k", "work").ok();
        assertTrue(same.err().contains("0 files new, 10 unchanged"), same.err());
    }

    @Test
    void treesForPublicKeysAreChecked() throws IOException, InterruptedException {
        String recipient = phalanx("key", "new", "--identity", "identity.txt").ok().out().strip();
        Recipients recipients = Recipients.of(AgeRecipient.parse(recipient));
        String digest = new Protector(recipients).withSuite(Suite.AES_256_GCM)
                .protectTree(source, folder.resolve("mirror"), Excludes.NONE, TreeCrossTest::never);
        phalanx("verify", "-R", "mirror", "--identity", "identity.txt", "--expect", digest).ok();
        List<AgeIdentity> identities = AgeIdentity.read(folder.resolve("identity.txt"));
        assertTrue(new PhalanxTree(KeyProvider.of(identities)).verify(folder.resolve("mirror")).isWhole());
    }

    @Test
    void treesForKeyServicesAreChecked() throws IOException, InterruptedException {
        Path bin = Files.createDirectory(folder.resolve("bin"));
        ServiceProgramTest.install(bin, "test", ServiceProgramTest.SERVICE);
        String path = bin + ":" + System.getenv("PATH");
        try (KeyServices services = KeyServices.of(List.of((KeyService) ServiceProgram.of("test://one", path)))) {
            new Protector(Recipients.of(services)).protectTree(source, folder.resolve("mirror"), Excludes.NONE, TreeCrossTest::never);
            assertTrue(new PhalanxTree(services).verify(folder.resolve("mirror")).isWhole());
        }
        Needs.run(folder, List.of("env", "PATH=" + path, "PHALANX_STATE=" + folder.resolve("state"), program.toString(), "verify", "-R",
                "mirror", "--kms", "test://one")).ok();
    }

    /** Patterns leave out what they leave out of mirrors of the program. */
    @Test
    void patternsMeanTheSame() throws IOException, InterruptedException {
        for (String name : List.of("b", "b/c", "b/c/b", "bb", "b]", "a*c")) {
            Files.createDirectories(source.resolve(name));
            for (String file : List.of("a", "ab", "abc", "b.c", "[x", "x-", "A1", "a\\c", "é", " ", "*")) {
                Files.write(source.resolve(name).resolve(file), new byte[1]);
            }
        }
        String[] parts = {"a", "b", "c", "*", "**", "?", "/", "/", "[a-c]", "[!a]", "[[:upper:]x-]", "[]b]", "\\*", "\\", ".", "***", "é",
            "[c-a]", "[^b-]", "**/", "/**"};
        int tried = 0;
        while (tried < 150) {
            List<Excludes.Rule> rules = new ArrayList<>();
            List<String> args = new ArrayList<>(List.of("mirror", "source", "new", "-k", "work", "-n", "-v"));
            for (int i = random.nextInt(2); i >= 0; i--) {
                StringBuilder pattern = new StringBuilder();
                for (int j = random.nextInt(5); j >= 0; j--) {
                    pattern.append(parts[random.nextInt(parts.length)]);
                }
                boolean excludes = i == 0 || random.nextBoolean();
                rules.add(new Excludes.Rule(excludes, RawName.of(pattern.toString())));
                args.add((excludes ? "--exclude=" : "--include=") + pattern);
            }
            Needs.Ran ran = phalanx(args.toArray(String[]::new));
            Excludes excludes;
            try {
                excludes = Excludes.of(rules);
            } catch (IllegalArgumentException e) {
                assertEquals(2, ran.code(), args + ran.err());
                assertTrue(ran.err().contains(e.getMessage()), ran.err() + e.getMessage());
                continue;
            }
            TreeSet<String> here = new TreeSet<>();
            collect(SourceTree.of(source, excludes, TreeCrossTest::never), "", here);
            TreeSet<String> there = new TreeSet<>();
            ran.ok().out().lines().filter(line -> line.startsWith("new ") && !line.contains("\ufffd")).forEach(line -> there.add(line.substring(4)));
            assertEquals(there, here, args.toString());
            tried++;
        }
    }

    private static void collect(TreeNode node, String path, TreeSet<String> into) {
        node.children().forEach((name, child) -> {
            // The two names that are no text are shown in another way.
            if (RawName.of(name.toString()).equals(name)) {
                into.add(path + name);
            }
            collect(child, path + name + "/", into);
        });
    }

    @Test
    void whatIsNoManifestIsRefused() throws IOException {
        TreeEntry.Attributes usual = new TreeEntry.Attributes(0644, 0, 0);
        TreeNode root = new TreeNode(new TreeEntry.Folder(RawName.of(""), usual));
        for (String name : List.of("", ".", "..", "a/b", "a\0", "x".repeat(4097))) {
            root.children().clear();
            root.children().put(RawName.of(name), new TreeNode(new TreeEntry.Folder(RawName.of(name), usual)));
            assertRefused(root);
        }
        Contents contents = new Contents(new byte[48], new byte[32]);
        for (TreeEntry entry : List.of(
                new TreeEntry.Link(RawName.of("a"), usual, RawName.of("")),
                new TreeEntry.Link(RawName.of("a"), usual, RawName.of("x".repeat(65536))),
                new TreeEntry.Link(RawName.of("a"), usual, RawName.of("b\0")),
                new TreeEntry.File(RawName.of("a"), usual, 5, 5, 0, 0, contents),
                new TreeEntry.File(RawName.of("a"), usual, 5, -6, 0, 0, contents),
                new TreeEntry.File(RawName.of("a"), new TreeEntry.Attributes(010000, 0, 0), 5, 6, 0, 0, contents),
                new TreeEntry.File(RawName.of("a"), new TreeEntry.Attributes(0, 0, 1_000_000_000), 5, 6, 0, 0, contents))) {
            root.children().clear();
            root.children().put(RawName.of("a"), new TreeNode(entry));
            assertRefused(root);
        }
        assertRefused(new TreeNode(new TreeEntry.Link(RawName.of(""), usual, RawName.of("x"))));
        assertRefused(new TreeNode(new TreeEntry.Folder(RawName.of("x"), usual)));
    }

    private static void assertRefused(TreeNode root) throws IOException {
        try {
            root.manifest(Manifest.Head.first("")).readAllBytes();
        } catch (IllegalArgumentException e) {
            return;
        }
        fail("it was written: " + root.children());
    }

    /** Contents are the same from parts in any order. */
    @Test
    void contentsComeTogetherFromParts() throws IOException {
        for (int chunks : new int[] {1, 2, 3, 7, 8, 100}) {
            Path file = folder.resolve("f" + chunks);
            new Protector(Recipients.of(key)).withChunkLog2(12)
                    .protect(new ByteArrayInputStream(new byte[chunks * 4096]), file);
            byte[] bytes = Files.readAllBytes(file);
            int header = bytes.length - chunks * (4096 + 48);
            List<PartialContents> parts = List.of(new PartialContents(), new PartialContents(), new PartialContents());
            for (int i = 0; i < chunks; i++) {
                int at = header + i * (4096 + 48);
                parts.get(i * 3 / chunks).add(i, Arrays.copyOfRange(bytes, at, at + 48), 48);
            }
            PartialContents all = new PartialContents();
            for (int i = 2; i >= 0; i--) {
                assertTrue(all.whole(chunks).isEmpty());
                all.join(parts.get(i).toBytes());
            }
            assertEquals(Contents.read(file), all.whole(chunks).orElseThrow());
            assertTrue(all.whole(chunks + 1).isEmpty());
        }
    }
}
