package phalanx.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import phalanx.Contents;
import phalanx.KeyProvider;
import phalanx.Keyring;
import phalanx.Manifest;
import phalanx.PhalanxFile;
import phalanx.PhalanxKey;
import phalanx.PhalanxTree;
import phalanx.Suite;

/** Folders and mirrors, with their manifests. */
class TreeTest extends Fixture {
    private static final int LARGE = (17 << 20) + 5;

    private Path source;
    private Path mirror;

    @BeforeEach
    void makeSource() throws IOException {
        source = Files.createDirectories(folder.resolve("source"));
        mirror = folder.resolve("mirror");
        Files.createDirectories(source.resolve("a/deep"));
        Files.createDirectory(source.resolve("none"));
        put("a/large", bytes(LARGE));
        put("a/deep/small", bytes(1000));
        put("empty", new byte[0]);
        put("a:b%20c", bytes(10));
        Files.createSymbolicLink(source.resolve("link"), Path.of("a/large"));
        Files.setPosixFilePermissions(source.resolve("a"), PosixFilePermissions.fromString("rwxr-x---"));
    }

    private Path put(String name, byte[] bytes) throws IOException {
        Path file = Files.write(source.resolve(name), bytes);
        Files.setLastModifiedTime(file, FileTime.fromMillis(1_600_000_000_123L));
        return file;
    }

    private void mirror(String... options) {
        String[] all = {"mirror", "-k", "work", source.toString(), mirror.toString()};
        succeed(joined(all, options));
    }

    private static String[] joined(String[] first, String... second) {
        String[] all = java.util.Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, all, first.length, second.length);
        return all;
    }

    private void assertWhole(Path tree) throws IOException {
        assertEquals(List.of(), new PhalanxTree(KeyProvider.of(key)).verify(tree).findings());
    }

    private Manifest.Head head(Path tree) throws IOException {
        try (PhalanxFile file = PhalanxFile.open(tree.resolve("phalanx.tree"), KeyProvider.of(key)); InputStream in = file.inputStream()) {
            return Manifest.read(in).head();
        }
    }

    private static String digest(Path tree) throws IOException {
        return Contents.read(tree.resolve("phalanx.tree")).toString();
    }

    @Test
    void aMirrorHasAManifestAndIsRenewed() throws IOException {
        mirror();
        assertTrue(said.contains("5 files new, 0 unchanged"), said);
        assertWhole(mirror);
        assertEquals(List.of("a", "a:b%20c.phx", "empty.phx", "link", "none", "phalanx.tree"), names(mirror));
        assertEquals("rwxr-x---", PosixFilePermissions.toString(Files.getPosixFilePermissions(mirror.resolve("a"))));
        assertEquals(Files.getLastModifiedTime(source.resolve("a")), Files.getLastModifiedTime(mirror.resolve("a")));
        String digest = digest(mirror);
        mirror();
        assertTrue(said.contains("0 files new, 5 unchanged; 0.0 MB"), said);
        assertEquals(digest, digest(mirror));
        put("empty", bytes(3));
        put("new", bytes(4));
        Files.move(source.resolve("a/large"), source.resolve("none/moved"));
        Files.setPosixFilePermissions(source.resolve("a:b%20c"), PosixFilePermissions.fromString("rw-------"));
        mirror();
        assertTrue(said.contains("1 file new, 1 changed, 1 moved, 1 with new permissions, 2 unchanged"), said);
        assertWhole(mirror);
        assertEquals(digest, head(mirror).previous());
        assertEquals(-1, Files.mismatch(source.resolve("none/moved"), restored("none/moved")));
    }

    private Path restored(String name) throws IOException {
        Path again = top.resolve("again");
        new phalanx.Unprotector(KeyProvider.of(key)).replacing().unprotect(mirror.resolve(name + ".phx"), again);
        return again;
    }

    @Test
    void whatIsGoneStaysUntilItIsDeleted() throws IOException {
        for (int i = 0; i < 4; i++) {
            put("gone" + i, bytes(5));
        }
        mirror();
        for (int i = 0; i < 4; i++) {
            Files.delete(source.resolve("gone" + i));
        }
        Files.delete(source.resolve("link"));
        Files.write(mirror.resolve("stray.phx"), bytes(10));
        Files.write(mirror.resolve("readme"), bytes(10));
        mirror();
        assertTrue(said.contains("stray.phx: it has no input, and stays"), said);
        assertTrue(Files.exists(mirror.resolve("gone0.phx")));
        fail(4, "6 files would be deleted, and --max-delete allows 3: nothing was done", "mirror", "-k", "work", source.toString(),
                mirror.toString(), "--delete", "--max-delete", "3");
        assertTrue(Files.exists(mirror.resolve("gone0.phx")));
        mirror("--delete", "--dry-run");
        assertTrue(said.contains("deleted gone0\n") && said.contains("deleted stray.phx\n"), said);
        mirror("--delete");
        assertTrue(said.contains("6 deleted"), said);
        assertEquals(List.of("a", "a:b%20c.phx", "empty.phx", "none", "phalanx.tree", "readme"), names(mirror));
        Files.delete(mirror.resolve("readme"));
        assertWhole(mirror);
        for (String left : List.of("a/large", "a/deep/small", "empty", "a:b%20c")) {
            Files.delete(source.resolve(left));
        }
        fail(4, "it has none of the mirror's files, and all 4 would be deleted: nothing was done", "mirror", "-k", "work", source.toString(),
                mirror.toString(), "--delete");
        assertWhole(mirror);
    }

    /** Somebody who wants to restore a mirror may exchange the two names. */
    @Test
    void aMirrorIsNoSource() throws IOException {
        mirror();
        List<String> before = names(source);
        fail(4, "mirror: it is a mirror itself", "mirror", "-k", "work", mirror.toString(), source.toString());
        assertEquals(before, names(source));
    }

    /** Data that some tool has moved elsewhere, and left links to, count in the limits without --delete, too. */
    @Test
    void filesThatBecameLinksAreNotReplacedAllAtOnce() throws IOException {
        Files.delete(source.resolve("link"));
        mirror();
        for (String name : List.of("a/large", "a/deep/small", "empty", "a:b%20c")) {
            Files.delete(source.resolve(name));
            Files.createSymbolicLink(source.resolve(name), Path.of("../store"));
        }
        String[] again = {"mirror", "-k", "work", source.toString(), mirror.toString()};
        fail(4, "it has none of the mirror's files, and all 4 would be deleted: nothing was done", again);
        fail(4, "4 files would be deleted, and --max-delete allows 3", joined(again, "--max-delete", "3"));
        assertTrue(Files.exists(mirror.resolve("empty.phx")));
        mirror("--max-delete", "4");
        assertWhole(mirror);
        assertTrue(Files.isSymbolicLink(mirror.resolve("empty")));
    }

    @Test
    void rulesLeaveOut() throws IOException {
        put("x.tmp", bytes(5));
        put("keep.tmp", bytes(5));
        Path list = Files.writeString(top.resolve("list"), "# a comment\n+ keep.tmp\n*.tmp\ndeep/\n");
        mirror();
        mirror("--delete", "--exclude-from", list.toString());
        // What is in the mirror already and is now left out stays.
        assertTrue(Files.exists(mirror.resolve("x.tmp.phx")));
        assertEquals("include keep.tmp\nexclude *.tmp\nexclude deep/\n", head(mirror).rules());
        assertWhole(mirror);
        mirror("--delete", "--delete-excluded", "--exclude-from", list.toString());
        assertFalse(Files.exists(mirror.resolve("x.tmp.phx")));
        assertFalse(Files.exists(mirror.resolve("a/deep")));
        assertTrue(Files.exists(mirror.resolve("keep.tmp.phx")));
        assertWhole(mirror);
        fail(2, "pattern a[b: a [ in it has no ]", "mirror", "-k", "work", source.toString(), mirror.toString(), "--exclude", "a[b");
        fail(2, "the program phalanx has it", "mirror", "-k", "work", source.toString(), mirror.toString(), "--exclude-caches");
    }

    private void refuse(String line, String... options) {
        String[] all = {"mirror", "-k", "work", source.toString(), mirror.toString()};
        fail(4, line, joined(all, options));
    }

    private void removeFolder(String name) throws IOException {
        for (String each : names(source.resolve(name))) {
            Files.delete(source.resolve(name).resolve(each));
        }
        Files.delete(source.resolve(name));
    }

    private boolean isStored(String name) {
        return Files.exists(mirror.resolve(name), java.nio.file.LinkOption.NOFOLLOW_LINKS);
    }

    @Test
    void whatIsLeftOutStaysInAFolderThatIsGone() throws IOException {
        String[] rules = {"--delete", "--exclude", "*.tmp", "--exclude", "deep/"};
        Files.createDirectory(source.resolve("f"));
        put("f/x", bytes(5));
        put("f/x.tmp", bytes(5));
        mirror();
        removeFolder("f");
        removeFolder("a/deep");
        Files.delete(source.resolve("a/large"));
        Files.delete(source.resolve("a"));
        Files.copy(mirror.resolve("empty.phx"), mirror.resolve("a/deep/stray.phx"));
        Files.createSymbolicLink(mirror.resolve("stray.tmp"), Path.of("empty"));
        for (int i = 0; i < 2; i++) {
            mirror(rules);
            for (String name : List.of("f/x.tmp.phx", "a/deep/small.phx", "a/deep/stray.phx", "stray.tmp")) {
                assertTrue(isStored(name), name);
            }
            assertFalse(isStored("f/x.phx") || isStored("a/large.phx"));
        }
        Files.delete(mirror.resolve("a/deep/stray.phx"));
        Files.delete(mirror.resolve("stray.tmp"));
        assertWhole(mirror);
        mirror(joined(rules, "--delete-excluded"));
        assertFalse(isStored("f") || isStored("a"));
        assertWhole(mirror);
    }

    /** The manifest alone lists the folders of a store. */
    @Test
    void whatIsLeftOutStaysInAFolderOfAStoreThatIsGone() throws IOException {
        Files.delete(source.resolve("a:b%20c"));
        Files.createDirectories(mirror.resolve("a/deep"));
        String[] line = {"mirror", "-k", "work", "--delete", "--exclude", "small", source.toString(), "store://" + mirror};
        succeed("mirror", "-k", "work", source.toString(), "store://" + mirror);
        removeFolder("a/deep");
        Files.delete(source.resolve("a/large"));
        Files.delete(source.resolve("a"));
        succeed(line);
        assertTrue(isStored("a/deep/small.phx") && !isStored("a/large.phx"));
        succeed("verify", "-R", "-k", "work", "store://" + mirror);
        succeed(joined(line, "--delete-excluded"));
        assertFalse(isStored("a/deep/small.phx"));
        succeed("verify", "-R", "-k", "work", "store://" + mirror);
    }

    @Test
    void whatIsLeftOutStaysWhereAnotherEntryTakesItsPlace() throws IOException {
        String line = "f: something of it is left out, and another entry takes its place\n";
        Files.createDirectory(source.resolve("f"));
        put("f/x", bytes(5));
        put("f/x.tmp", bytes(5));
        mirror();
        removeFolder("f");
        put("f", bytes(6));
        for (int i = 0; i < 2; i++) {
            refuse(mirror + "/" + line, "--delete", "--exclude", "*.tmp");
            assertTrue(said.contains("hint: --delete --delete-excluded removes it"), said);
            assertTrue(isStored("f/x.phx") && isStored("f/x.tmp.phx") && !isStored("f.phx"));
            assertWhole(mirror);
        }
        mirror("--delete", "--exclude", "*.tmp", "--delete-excluded");
        assertTrue(isStored("f.phx") && !isStored("f"));
        assertWhole(mirror);
    }

    @Test
    void whatIsGoneStaysWithoutDeleteWhereAnotherEntryTakesItsPlace() throws IOException {
        byte[] content = bytes(9);
        put("b", content);
        put("b.phx", bytes(8));
        put("c", bytes(7));
        mirror();
        Files.delete(source.resolve("b"));
        Files.delete(source.resolve("b.phx"));
        Files.delete(source.resolve("c"));
        Files.createDirectory(source.resolve("b.phx"));
        put("b.phx/in", bytes(6));
        Files.createSymbolicLink(source.resolve("c.phx"), Path.of("empty"));
        for (int i = 0; i < 2; i++) {
            for (String name : List.of("b.phx", "c.phx")) {
                refuse(mirror + "/" + name + ": it is gone at the source, and another entry takes its place\n");
                assertTrue(said.contains("hint: --delete removes it, if nothing else fails"), said);
            }
            // What had the name of an entry that is refused stays too.
            assertTrue(isStored("b.phx.phx"));
            assertWhole(mirror);
            assertArrayEquals(content, Files.readAllBytes(restored("b")));
        }
        mirror("--delete");
        assertTrue(isStored("b.phx/in.phx") && Files.isSymbolicLink(mirror.resolve("c.phx")) && !isStored("b.phx.phx"));
        assertWhole(mirror);
        // A file of the same name is replaced, as if it had changed.
        Files.delete(source.resolve("empty"));
        Files.createDirectory(source.resolve("empty"));
        mirror();
        assertTrue(Files.isDirectory(mirror.resolve("empty")) && !isStored("empty.phx"));
        assertWhole(mirror);
    }

    /** An entry that is refused leaves what it was before in the mirror, and nothing takes the place of that either. */
    @Test
    void whatStaysKeepsItsPlace() throws IOException {
        Files.createSymbolicLink(source.resolve("b.phx"), Path.of("empty"));
        Files.createSymbolicLink(source.resolve("c"), Path.of("empty"));
        Files.createDirectory(source.resolve("c.phx"));
        put("c.phx/in", bytes(5));
        mirror();
        put("b", bytes(6));
        removeFolder("c.phx");
        Files.delete(source.resolve("c"));
        put("c", bytes(7));
        for (String[] options : new String[][] {{}, {"--delete"}}) {
            refuse("b.phx: cannot read: its name in the mirror would be that of another entry: left out\n", options);
            assertTrue(said.contains(mirror + "/b.phx: something of it is left out, and another entry takes its place\n"), said);
            assertTrue(said.contains(mirror + "/c.phx: it was a folder, and is none at the source any more\n"), said);
            assertTrue(Files.isSymbolicLink(mirror.resolve("b.phx")) && Files.isSymbolicLink(mirror.resolve("c")));
            assertTrue(isStored("c.phx/in.phx"));
            assertWhole(mirror);
        }
        Files.delete(source.resolve("b.phx"));
        mirror("--delete");
        assertTrue(Files.isRegularFile(mirror.resolve("b.phx")) && Files.isRegularFile(mirror.resolve("c.phx")) && !isStored("c"));
        assertWhole(mirror);
    }

    @Test
    void whatIsLeftOutDoesNotHideThatTheSourceHasVanished() throws IOException {
        put("old.tmp", bytes(5));
        mirror();
        Path away = Files.move(source, top.resolve("away"));
        Files.createDirectory(source);
        String line = "source: it has none of the mirror's files, and all 5 would be deleted: nothing was done";
        refuse(line, "--delete", "--exclude", "*.tmp");
        put("new", bytes(4));
        refuse(line, "--delete", "--exclude", "*.tmp");
        assertWhole(mirror);
        // One of the files shows that it has not, also if the mirror has lost it.
        Files.move(away.resolve("empty"), source.resolve("empty"));
        Files.delete(mirror.resolve("empty.phx"));
        mirror("--delete", "--exclude", "*.tmp");
        assertEquals(List.of("empty.phx", "new.phx", "old.tmp.phx", "phalanx.tree"), names(mirror));
        assertWhole(mirror);
    }

    @Test
    void aFolderThatBecameAFileStaysIfSomethingFails() throws IOException, InterruptedException {
        Files.createDirectory(source.resolve("f"));
        put("f/x", bytes(5));
        mirror();
        removeFolder("f");
        put("f", bytes(6));
        String line = mirror + "/f: it was a folder, and is none at the source any more\n";
        // One failure is found when the source is compared, and one when it is listed.
        Files.createDirectory(source.resolve("f.phx"));
        refuse(line, "--delete");
        assertEquals(1, said.split("f.phx: cannot read: its name in the mirror would be", -1).length - 1, said);
        assertTrue(said.contains("warning: something failed, so nothing more is deleted"), said);
        assertTrue(isStored("f/x.phx") && !isStored("f.phx"));
        assertWhole(mirror);
        Files.delete(source.resolve("f.phx"));
        bash("touch $'\\xff'");
        refuse(line, "--delete");
        assertTrue(isStored("f/x.phx") && !isStored("f.phx"));
        assertWhole(mirror);
        bash("rm $'\\xff'");
        mirror("--delete");
        assertTrue(isStored("f.phx") && !isStored("f"));
        assertWhole(mirror);
    }

    private void bash(String line) throws IOException, InterruptedException {
        assertEquals(0, new ProcessBuilder("bash", "-c", line).directory(source.toFile()).start().waitFor());
    }

    @Test
    void verifyFindsWhatIsWrong() throws IOException {
        put("b", bytes(7));
        put("c", bytes(8));
        put("old", bytes(9));
        mirror();
        Path old = Files.copy(mirror.resolve("old.phx"), top.resolve("old.phx"));
        Files.write(source.resolve("old"), bytes(9));
        mirror();
        long generation = head(mirror).generation();
        succeed("verify", "-R", "-k", "work", mirror.toString(), "--at-least", String.valueOf(generation), "--expect", digest(mirror));
        assertTrue(said.contains("generation " + Long.toUnsignedString(generation)), said);
        assertTrue(said.contains("7 files, "), said);
        fail(3, "which is before", "verify", "-R", "-k", "work", mirror.toString(), "--at-least", String.valueOf(generation + 1));
        fail(3, "its manifest has the digest", "verify", "-R", "-k", "work", mirror.toString(), "--expect", "ab".repeat(32));
        Files.copy(old, mirror.resolve("old.phx"), StandardCopyOption.REPLACE_EXISTING);
        Files.move(mirror.resolve("b.phx"), mirror.resolve("x"));
        Files.move(mirror.resolve("c.phx"), mirror.resolve("b.phx"));
        Files.move(mirror.resolve("x"), mirror.resolve("c.phx"));
        Files.move(mirror.resolve("empty.phx"), mirror.resolve("other.phx"));
        Files.delete(mirror.resolve("a:b%20c.phx"));
        Files.delete(mirror.resolve("link"));
        Files.createSymbolicLink(mirror.resolve("link"), Path.of("elsewhere"));
        Files.createDirectory(mirror.resolve("more"));
        for (String quick : new String[] {"--quick", "--no-quick"}) {
            String[] args = {"verify", "-R", "-k", "work", mirror.toString()};
            fail(3, "old.phx: another version: the manifest lists other content", quick.equals("--quick") ? joined(args, quick) : args);
            for (String line : List.of(
                    "b.phx: exchanged with " + mirror + "/c.phx", "c.phx: exchanged with " + mirror + "/b.phx",
                    "empty.phx: missing: it was renamed to " + mirror + "/other.phx",
                    "other.phx: additional: it has the content of " + mirror + "/empty.phx",
                    "a:b%20c.phx: missing: the manifest lists it", "link: another version: the manifest lists another target",
                    "more: additional: the manifest does not list it", "; 8 failed")) {
                assertTrue(said.contains(line), () -> line + "\n" + said);
            }
        }
    }

    @Test
    void aChangedChunkIsFoundByTheFullCheckOnly() throws IOException {
        mirror();
        byte[] stored = Files.readAllBytes(mirror.resolve("a/large.phx"));
        stored[stored.length / 2] ^= 1;
        Files.write(mirror.resolve("a/large.phx"), stored);
        succeed("verify", "-R", "--quick", "-k", "work", mirror.toString());
        assertTrue(said.contains("4 files in place; content was not read"), said);
        fail(3, "a/large.phx: damaged in chunk", "verify", "-R", "-k", "work", mirror.toString());
        Path out = folder.resolve("out");
        fail(3, "a/large.phx: damaged in chunk", "unprotect", "-R", "-k", "work", mirror.toString(), "-o", out.toString());
        assertFalse(Files.exists(out.resolve("a/large")));
        assertEquals(-1, Files.mismatch(source.resolve("a/deep/small"), out.resolve("a/deep/small")));
    }

    @Test
    void aTreeIsRestored() throws IOException {
        Files.setPosixFilePermissions(source.resolve("a:b%20c"), PosixFilePermissions.fromString("rwxr-xr-x"));
        mirror();
        Path out = folder.resolve("out");
        succeed("unprotect", "-R", "-k", "work", mirror.toString(), "-o", out.toString());
        assertTrue(said.contains("4 files, "), said);
        assertEquals(List.of("a", "a:b%20c", "empty", "link", "none"), names(out));
        assertEquals(-1, Files.mismatch(source.resolve("a/large"), out.resolve("a/large")));
        assertEquals(Path.of("a/large"), Files.readSymbolicLink(out.resolve("link")));
        for (String same : List.of("a/large", "a", "none", "")) {
            assertEquals(Files.getLastModifiedTime(source.resolve(same)), Files.getLastModifiedTime(out.resolve(same)), same);
        }
        assertTrue(Files.isExecutable(out.resolve("a:b%20c")));
        fail(4, "out: it is a folder already", "unprotect", "-R", "-k", "work", mirror.toString(), "-o", out.toString());
        // What is not listed is not written, and older content is not either.
        Files.copy(mirror.resolve("empty.phx"), mirror.resolve("more.phx"));
        Files.copy(mirror.resolve("a:b%20c.phx"), mirror.resolve("empty.phx"), StandardCopyOption.REPLACE_EXISTING);
        Path less = folder.resolve("less");
        fail(3, "more.phx: additional: it has the content of", "unprotect", "-R", "-k", "work", mirror.toString(), "-o", less.toString());
        assertEquals(List.of("a", "a:b%20c", "link", "none"), names(less));
    }

    @Test
    void protectTakesFolders() throws IOException {
        succeed("protect", "-R", "-k", "work", "--cipher", "aes-256-gcm", source.toString());
        Path stored = folder.resolve("source.phx");
        assertWhole(stored);
        String digest = digest(stored);
        fail(4, "source.phx: it is a folder already", "protect", "-R", "-k", "work", source.toString());
        succeed("protect", "-R", "-k", "work", "--resume", source.toString());
        assertEquals(digest, digest(stored));
        succeed("protect", "-R", "-k", "work", "--force", source.toString());
        assertTrue(said.contains("4 changed"), said);
        assertEquals(digest, head(stored).previous());
        assertWhole(stored);
        Path out = Files.createDirectory(folder.resolve("out"));
        succeed("unprotect", "-R", "-k", "work", "--output-dir", out.toString(), stored.toString());
        assertEquals(List.of("source"), names(out));
        fail(4, "source: it is a folder", "protect", "-k", "work", source.toString());
    }

    @Test
    void whatNoManifestListsIsCountedInFoldersToo() throws IOException {
        Path old = Files.createDirectories(mirror.resolve("old/deep")).getParent();
        for (String name : List.of("1.phx", "deep/2.phx", "x.tmp.phx")) {
            Files.write(old.resolve(name), bytes(10));
        }
        Files.createSymbolicLink(old.resolve("deep/link"), Path.of("2.phx"));
        mirror("--delete", "--exclude", "*.tmp");
        assertTrue(said.contains("warning: " + mirror + ": the next run with --delete deletes 3 files that no manifest lists"), said);
        assertTrue(Files.exists(old.resolve("1.phx")));
        refuse("3 files would be deleted, and --max-delete allows 2: nothing was done", "--delete", "--exclude", "*.tmp", "--max-delete", "2");
        assertTrue(Files.exists(old.resolve("1.phx")));
        mirror("--delete", "--exclude", "*.tmp", "--dry-run");
        for (String name : List.of("1.phx", "deep", "deep/2.phx", "deep/link")) {
            assertTrue(said.contains("deleted old/" + name + "\n"), said);
        }
        assertFalse(said.contains("deleted old\n") || said.contains("x.tmp"), said);
        mirror("--delete", "--exclude", "*.tmp", "--max-delete", "3");
        assertTrue(said.contains("3 deleted"), said);
        assertEquals(List.of("x.tmp.phx"), names(old));
        for (int i = 0; i < 101; i++) {
            Files.write(old.resolve(i + ".phx"), bytes(1));
        }
        refuse("files would be deleted, and 102 that no manifest lists: nothing was done", "--delete");
        assertEquals(102, names(old).size());
    }

    /** A volume lies in the mirror, which no manifest lists. Its links and empty folders are its own. */
    @Test
    void noVolumeInTheMirrorIsEmptied() throws IOException {
        mirror();
        Path volume = Files.createDirectories(mirror.resolve("volume/aaa")).getParent();
        Files.write(volume.resolve("phalanx.volume"), bytes(10));
        Files.createSymbolicLink(volume.resolve("aab"), Path.of("aac"));
        mirror("--delete");
        assertEquals(List.of("aaa", "aab", "phalanx.volume"), names(volume));
        assertTrue(said.contains("volume: it has no input, and stays"), said);
    }

    /** As for {@code phalanx mirror}: the entry is gone, and what is in its place is no concern of the mirror. */
    @Test
    void aFileInPlaceOfALinkIsNotDeleted() throws IOException {
        String line = "warning: " + mirror + "/link: something else is in its place, and stays\n";
        byte[] content = bytes(10);
        mirror();
        Files.delete(source.resolve("link"));
        Files.delete(mirror.resolve("link"));
        Files.write(mirror.resolve("link"), content);
        mirror("--delete");
        assertTrue(said.contains(line), said);
        assertArrayEquals(content, Files.readAllBytes(mirror.resolve("link")));
        mirror("--delete");
        assertTrue(said.contains("link: it has no input, and stays"), said);
        Files.createDirectory(source.resolve("link"));
        put("link/in", bytes(5));
        refuse(mirror + "/link: cannot write: it is no folder", "--delete");
        assertArrayEquals(content, Files.readAllBytes(mirror.resolve("link")));
        Files.delete(mirror.resolve("link"));
        mirror("--delete");
        assertWhole(mirror);
    }

    @Test
    void aFileInPlaceOfALinkThatBecameAFileIsNotDeleted() throws IOException {
        byte[] content = bytes(10);
        mirror();
        Files.delete(source.resolve("link"));
        put("link", bytes(6));
        Files.delete(mirror.resolve("link"));
        Files.write(mirror.resolve("link"), content);
        mirror();
        assertTrue(said.contains(mirror + "/link: something else is in its place, and stays"), said);
        assertArrayEquals(content, Files.readAllBytes(mirror.resolve("link")));
        Files.delete(mirror.resolve("link"));
        assertWhole(mirror);
    }

    @Test
    void aLinkInPlaceOfAFileAndAFileInPlaceOfAFolderAreNotDeleted() throws IOException {
        byte[] content = bytes(10);
        mirror();
        Files.delete(source.resolve("empty"));
        Files.delete(mirror.resolve("empty.phx"));
        Files.createSymbolicLink(mirror.resolve("empty.phx"), Path.of("elsewhere"));
        mirror("--delete");
        assertTrue(said.contains("warning: " + mirror + "/empty.phx: something else is in its place, and stays"), said);
        assertEquals(Path.of("elsewhere"), Files.readSymbolicLink(mirror.resolve("empty.phx")));
        Files.delete(mirror.resolve("empty.phx"));
        assertWhole(mirror);
        Files.delete(source.resolve("none"));
        Files.delete(mirror.resolve("none"));
        Files.write(mirror.resolve("none"), content);
        refuse(mirror + "/none: cannot write: something else is in its place: not deleted", "--delete");
        assertArrayEquals(content, Files.readAllBytes(mirror.resolve("none")));
        // A link of the user, as to a larger disk.
        Path elsewhere = Files.createDirectory(top.resolve("elsewhere"));
        Files.delete(mirror.resolve("none"));
        Files.createSymbolicLink(mirror.resolve("none"), elsewhere);
        refuse(mirror + "/none: cannot write: something else is in its place: not deleted", "--delete");
        assertEquals(elsewhere, Files.readSymbolicLink(mirror.resolve("none")));
    }

    @Test
    void aLinkInPlaceOfAFolderAndWhatItLeadsToAreNotDeleted() throws IOException {
        mirror();
        Path elsewhere = Files.move(mirror.resolve("a"), top.resolve("elsewhere"));
        Files.createSymbolicLink(mirror.resolve("a"), elsewhere);
        removeFolder("a/deep");
        removeFolder("a");
        refuse(mirror + "/a: cannot write: something else is in its place: not deleted", "--delete", "--max-delete", "9");
        assertEquals(elsewhere, Files.readSymbolicLink(mirror.resolve("a")));
        assertEquals(List.of("deep", "large.phx"), names(elsewhere));
        assertEquals(List.of("small.phx"), names(elsewhere.resolve("deep")));
    }

    /** The manifest alone lists links there, and an object of such a name is somebody else's. */
    @ParameterizedTest
    @ValueSource(strings = {"test", "store"})
    void whatHasTheNameOfALinkElsewhereIsNotDeleted(String scheme) throws IOException {
        Files.createDirectories(mirror.resolve("a/deep"));
        Files.delete(source.resolve("a:b%20c"));
        Files.createSymbolicLink(source.resolve("cur"), Path.of("empty"));
        String[] line = {"mirror", "-k", "work", source.toString(), scheme + "://" + mirror};
        succeed(line);
        byte[] content = bytes(10);
        Files.write(mirror.resolve("link"), content);
        Files.write(mirror.resolve("cur"), content);
        Files.delete(source.resolve("link"));
        Files.delete(source.resolve("cur"));
        put("cur", bytes(6));
        succeed(line);
        assertArrayEquals(content, Files.readAllBytes(mirror.resolve("cur")));
        succeed(joined(line, "--delete"));
        assertTrue(said.contains("1 deleted"), said);
        assertArrayEquals(content, Files.readAllBytes(mirror.resolve("link")));
        assertArrayEquals(content, Files.readAllBytes(mirror.resolve("cur")));
        Files.delete(mirror.resolve("link"));
        Files.delete(mirror.resolve("cur"));
        succeed("verify", "-R", "-k", "work", scheme + "://" + mirror);
    }

    /** A copy of a folder has all that is in it. */
    @Test
    void protectedFilesOfTheSourceAreProtectedOnceMore() throws IOException {
        Path plain = put("run", bytes(50));
        byte[] inner = Files.readAllBytes(protect(plain));
        Files.delete(plain);
        mirror();
        assertWhole(mirror);
        assertArrayEquals(inner, Files.readAllBytes(restored("run.phx")));
        succeed("protect", "-R", "-k", "work", source.toString());
        assertTrue(Files.exists(folder.resolve("source.phx/run.phx.phx")));
    }

    @Test
    void twoFoldersDoNotBecomeOne() throws IOException {
        Path out = Files.createDirectory(folder.resolve("out"));
        for (String name : List.of("a", "b")) {
            Files.createDirectories(folder.resolve(name + "/x"));
            Files.write(folder.resolve(name + "/x/" + name), bytes(5));
        }
        for (String other : List.of("b/x", "b/./x")) {
            fail(2, "out/x.phx: it would be the output of both", "protect", "-R", "--force", "-k", "work", "--output-dir", out.toString(),
                    folder + "/a/x", folder + "/" + other);
        }
        assertEquals(List.of(), names(out));
    }

    /** File systems with and without folders keep links in the manifest alone. */
    @ParameterizedTest
    @ValueSource(strings = {"test", "store", "copied"})
    void otherFileSystemsHaveMirrors(String scheme) throws IOException {
        String there = scheme + "://" + mirror;
        if (scheme.equals("store")) {
            // The store of the tests has its parts in folders, which others do not need, and takes no colon.
            Files.createDirectories(mirror.resolve("a/deep"));
        }
        Files.move(source.resolve("a:b%20c"), source.resolve("ab%20c"));
        succeed("mirror", "-k", "work", source.toString(), there);
        assertTrue(said.contains("5 files new"), said);
        succeed("verify", "-R", "-k", "work", there);
        assertTrue(said.contains("4 files, "), said);
        succeed("verify", "-R", "--quick", "-k", "work", there);
        String digest = digest(mirror);
        succeed("mirror", "-k", "work", source.toString(), there);
        assertTrue(said.contains("0 files new, 5 unchanged"), said);
        assertEquals(digest, digest(mirror));
        put("empty", bytes(30));
        Files.delete(source.resolve("a/deep/small"));
        succeed("mirror", "-k", "work", "--delete", source.toString(), there);
        assertTrue(said.contains("1 changed, 1 deleted"), said);
        succeed("verify", "-R", "-k", "work", there);
        Path out = folder.resolve("out");
        succeed("unprotect", "-R", "-k", "work", there, "-o", out.toString());
        assertArrayEquals(Files.readAllBytes(source.resolve("empty")), Files.readAllBytes(out.resolve("empty")));
        assertEquals(Path.of("a/large"), Files.readSymbolicLink(out.resolve("link")));
        Files.delete(mirror.resolve("ab%20c.phx"));
        fail(3, "ab%20c.phx: missing", "verify", "-R", "-k", "work", there);
    }

    @Test
    void aFileThatFailsIsLeftAsItWasAndTheNextRunCompletes() throws IOException {
        mirror();
        String from = "test://" + source;
        byte[] before = Files.readAllBytes(mirror.resolve("a/large.phx"));
        byte[] large = bytes(LARGE);
        Files.write(source.resolve("a/large"), large);
        put("new", bytes(9));
        put("a:b%20c", bytes(11));
        TestFs.FAILS_FROM.set(1 << 20);
        fail(4, "a cable was pulled", "mirror", "-k", "work", "--delete", from, mirror.toString());
        assertTrue(said.contains("something failed, so nothing more is deleted"), said);
        assertArrayEquals(before, Files.readAllBytes(mirror.resolve("a/large.phx")));
        // The manifest lists what is there: the old content, and the new file.
        assertWholeButForUnfinished();
        assertTrue(Files.exists(mirror.resolve("new.phx")));
        TestFs.FAILS_FROM.set(Long.MAX_VALUE);
        succeed("mirror", "-k", "work", from, mirror.toString());
        assertWhole(mirror);
        assertArrayEquals(large, Files.readAllBytes(restored("a/large")));
        assertTrue(names(mirror.resolve("a")).stream().noneMatch(name -> name.startsWith(".phalanx")));
    }

    @Test
    void aLargeFileForAKeyThatWasTakenAwayBeginsAnew() throws IOException {
        Keyring.in(top.resolve("ring")).store("bob", PhalanxKey.random());
        TestFs.FAILS_FROM.set(1 << 20);
        fail(4, "a cable was pulled", "mirror", "-k", "work", "-k", "bob", "test://" + source, mirror.toString());
        assertTrue(names(mirror.resolve("a")).stream().anyMatch(name -> name.endsWith(".resume")), () -> said);
        TestFs.FAILS_FROM.set(Long.MAX_VALUE);
        succeed("mirror", "-k", "work", "test://" + source, mirror.toString());
        assertTrue(said.contains("a/large: what the run that was interrupted has left is for other keys"), said);
        assertEquals(List.of(key.id()), keys(header(mirror.resolve("a/large.phx"))));
        assertWhole(mirror);
    }

    @Test
    void aMirrorGoesOnWithNoFileWhoseChunksAreWrittenOnce() throws IOException {
        String[] line = {"mirror", "-k", "work", "--cipher", "aes-256-gcm", "test://" + source, mirror.toString()};
        TestFs.FAILS_FROM.set(0);
        fail(4, "a cable was pulled", line);
        assertEquals(List.of("deep"), names(mirror.resolve("a")));
        TestFs.FAILS_FROM.set(Long.MAX_VALUE);
        TestFs.BEGUN.clear();
        succeed(line);
        assertEquals(Set.of(0L), Set.copyOf(TestFs.BEGUN));
        assertEquals(Suite.AES_256_GCM, header(mirror.resolve("a/large.phx")).suite());
        assertWhole(mirror);
    }

    /** What is in the way of another kind of entry counts as deleted, and what a link in the mirror leads to is not the mirror's. */
    @Test
    void aFolderThatBecomesSomethingElseIsCountedAndNoLinkIsFollowed() throws IOException {
        Files.createDirectory(source.resolve("data"));
        for (int i = 0; i < 3; i++) {
            put("data/" + i, bytes(5));
        }
        mirror();
        for (int i = 0; i < 3; i++) {
            Files.delete(source.resolve("data/" + i));
        }
        Files.delete(source.resolve("data"));
        put("data", bytes(7));
        fail(4, "3 files would be deleted, and --max-delete allows 2: nothing was done", "mirror", "-k", "work", source.toString(),
                mirror.toString(), "--delete", "--max-delete", "2");
        assertEquals(3, names(mirror.resolve("data")).size());
        Path outside = Files.move(mirror.resolve("data"), top.resolve("outside"));
        Files.createSymbolicLink(mirror.resolve("data"), outside);
        refuse(mirror + "/data: cannot write: something else is in its place: not deleted", "--delete");
        assertEquals(outside, Files.readSymbolicLink(mirror.resolve("data")));
        assertEquals(3, names(outside).size());
        Files.delete(mirror.resolve("data"));
        mirror("--delete");
        assertWhole(mirror);
    }

    /** One failure does not stop the others, and nothing is moved through a link in the place of a folder. */
    @Test
    void aFolderThatCannotBeMadeIsLeftOutAlone() throws IOException {
        put("moves", bytes(9));
        mirror();
        Path outside = Files.move(mirror.resolve("a"), top.resolve("outside"));
        Files.createSymbolicLink(mirror.resolve("a"), outside);
        Files.move(source.resolve("moves"), source.resolve("a/moves"));
        put("new", bytes(4));
        fail(4, "it is no folder", "mirror", "-k", "work", source.toString(), mirror.toString());
        assertEquals(List.of("deep", "large.phx"), names(outside));
        assertTrue(Files.exists(mirror.resolve("new.phx")));
        Files.delete(mirror.resolve("a"));
        mirror("--delete");
        assertWhole(mirror);
        assertEquals(-1, Files.mismatch(source.resolve("a/moves"), restored("a/moves")));
    }

    /** A manifest that cannot be opened is not one that is not there. */
    @Test
    void aManifestThatCannotBeOpenedEndsTheRun() throws IOException {
        mirror();
        Files.move(mirror.resolve("phalanx.tree"), top.resolve("kept"));
        Files.createDirectory(mirror.resolve("phalanx.tree"));
        fail(4, "phalanx.tree", "mirror", "-k", "work", source.toString(), mirror.toString());
        fail(4, "phalanx.tree", "verify", "-R", "-k", "work", mirror.toString());
        Files.delete(mirror.resolve("phalanx.tree"));
        Files.move(top.resolve("kept"), mirror.resolve("phalanx.tree"));
        mirror();
        assertTrue(said.contains("0 files new, 5 unchanged"), said);
    }

    @Test
    void aStoredFileThatWouldBecomeAFolderIsNamed() throws IOException {
        mirror();
        Files.delete(mirror.resolve("phalanx.tree"));
        Files.copy(mirror.resolve("empty.phx"), mirror.resolve("a.phx"));
        fail(4, "a folder has the name that it would be unprotected to", "verify", "-R", "-k", "work", mirror.toString());
        assertTrue(said.contains("4 files"), said);
    }

    private void assertWholeButForUnfinished() throws IOException {
        var findings = new PhalanxTree(KeyProvider.of(key)).verify(mirror).findings();
        assertEquals(List.of(), findings.stream().filter(finding -> !finding.path().contains(".phalanx-")).toList());
    }

    /** A run that was killed may have replaced a file by another one of the same length, and the source may have gone back since. */
    @Test
    void theJournalOfAKilledRunIsBelieved() throws IOException {
        put("same", "version 1".getBytes());
        mirror();
        FileTime time = Files.getLastModifiedTime(source.resolve("same"));
        // What such a run has done: the intention, and the file.
        TreeRoot root = TreeRoot.of(new org.apache.hadoop.fs.Path(mirror.toString()), new org.apache.hadoop.conf.Configuration());
        Journal journal = Journal.of(root, phalanx.Recipients.of(key), KeyProvider.of(key), new org.apache.hadoop.conf.Configuration());
        journal.begin(List.of("same"), phalanx.Recipients.of(key));
        Files.writeString(top.resolve("plain"), "version 2");
        new phalanx.Protector(phalanx.Recipients.of(key)).replacing().protect(top.resolve("plain"), mirror.resolve("same.phx"));
        Files.setLastModifiedTime(source.resolve("same"), time);
        Files.write(mirror.resolve("a/.phalanx-" + "ab".repeat(16) + "-" + "cd".repeat(8) + ".tmp"), bytes(5));
        mirror();
        assertEquals(List.of("deep", "large.phx"), names(mirror.resolve("a")));
        assertTrue(said.contains("1 changed, 5 unchanged"), said);
        assertEquals("version 1", Files.readString(restored("same")));
        assertWhole(mirror);
        assertTrue(names(mirror).stream().noneMatch(name -> name.startsWith(".phalanx")));
    }

    @Test
    void whatCannotBeAMirrorIsRefused() throws IOException {
        fail(2, "the mirror is within the source", "mirror", "-k", "work", source.toString(), source + "/m");
        fail(4, "No such file or directory", "mirror", "-k", "work", source.toString(), folder + "/no/such");
        fail(4, "No such file or directory", "mirror", "-k", "work", folder + "/nothing", mirror.toString());
        fail(2, "missing: MIRROR", "mirror", "-k", "work", source.toString());
        fail(2, "--delete-excluded needs --delete", "mirror", "-k", "work", source.toString(), mirror.toString(), "--delete-excluded");
        fail(2, "--quick needs --recursive", "verify", "--quick", source.toString());
        // A link in the place of a folder is not followed.
        Files.createDirectories(mirror);
        Path outside = Files.createDirectory(top.resolve("outside"));
        Files.createSymbolicLink(mirror.resolve("a"), outside);
        fail(4, "a: cannot write: it is no folder", "mirror", "-k", "work", source.toString(), mirror.toString());
        assertEquals(List.of(), names(outside));
        Files.createDirectories(source.resolve("x.phx"));
        put("x", bytes(1));
        fail(4, "x.phx: cannot read: its name in the mirror would be that of another entry", "mirror", "-k", "work", source.toString(),
                mirror.toString());
        Path plain = Files.createDirectory(folder.resolve("plain"));
        fail(4, "there is no protected file in it", "verify", "-R", "-k", "work", plain.toString());
        assertTrue(said.contains("no manifest, so nothing is known of what is missing or older"), said);
        fail(3, "it has no manifest", "verify", "-R", "--quick", "-k", "work", plain.toString());
    }

    @Test
    void otherKeysRenewNothing() throws IOException {
        mirror();
        phalanx.Keyring.in(top.resolve("ring")).store("other", phalanx.PhalanxKey.random());
        String digest = digest(mirror);
        fail(3, mirror + ": ", "mirror", "-k", "other", source.toString(), mirror.toString());
        assertEquals(digest, digest(mirror));
        assertNotEquals("", said);
    }
}
