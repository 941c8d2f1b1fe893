package phalanx.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import phalanx.Header;
import phalanx.Keyring;
import phalanx.PhalanxKey;
import phalanx.Suite;

/** Jobs of two threads in this JVM. */
class JobTest extends Fixture {
    private static final int LARGE = (33 << 20) + 12345;

    @Test
    void largeAndSmallFilesAreThoseOfOtherPrograms() throws IOException {
        byte[] large = bytes(LARGE);
        Path input = write("large", large);
        Files.setPosixFilePermissions(input, PosixFilePermissions.fromString("rw-r-----"));
        write("small", bytes(1000));
        write("empty", new byte[0]);
        succeed("protect", "-k", "work", input.toString(), folder.resolve("small").toString(), folder + "/empty");
        assertTrue(said.contains("protected 3 files, 34.6 MB in "), said);
        assertEquals(List.of("empty", "empty.phx", "large", "large.phx", "small", "small.phx"), names());
        assertOpens(large, folder.resolve("large.phx"));
        assertOpens(new byte[0], folder.resolve("empty.phx"));
        assertEquals("rw-r-----", PosixFilePermissions.toString(Files.getPosixFilePermissions(folder.resolve("large.phx"))));
        assertEquals(Files.getLastModifiedTime(input), Files.getLastModifiedTime(folder.resolve("large.phx")));
        succeed("verify", "-k", "work", folder + "/*.phx");
        assertTrue(said.contains("large.phx: " + LARGE + " bytes: whole and authentic"), said);
        assertTrue(said.contains("3 files, "), said);
    }

    @Test
    void filesOfOtherProgramsOpen() throws IOException {
        byte[] large = bytes(LARGE);
        Path stored = protect(write("large", large));
        Path few = protect(write("few", bytes(3_000_000)));
        Path out = Files.createDirectory(folder.resolve("out"));
        succeed("unprotect", "-k", "work", "--output-dir", out.toString(), stored.toString(), few.toString());
        assertArrayEquals(large, Files.readAllBytes(out.resolve("large")));
        assertEquals(-1, Files.mismatch(folder.resolve("few"), out.resolve("few")));
        assertEquals(List.of("few", "large"), names(out));
        // Without a named key, those of the keyring open files.
        succeed("verify", stored.toString(), Files.move(folder.resolve("few.phx"), folder.resolve("a:few.phx")).toString());
    }

    @Test
    void allCiphersAndChunkSizesMakeFilesOfTheFormat() throws IOException {
        byte[] large = bytes(17 << 20);
        Path input = write("large", large);
        for (String cipher : List.of("aes-192", "aes-256-gcm", "aes-256-turbo")) {
            succeed("protect", "-f", "-k", "work", "--cipher", cipher, "--chunk-size", "64K", input.toString());
            assertOpens(large, folder.resolve("large.phx"));
        }
    }

    @Test
    void alteredFilesGetNoOutput() throws IOException {
        Path stored = protect(write("large", bytes(LARGE)));
        Path sound = protect(write("sound", bytes(5000)));
        Files.delete(folder.resolve("large"));
        Files.delete(folder.resolve("sound"));
        try (RandomAccessFile file = new RandomAccessFile(stored.toFile(), "rw")) {
            file.seek(LARGE / 2);
            int old = file.read();
            file.seek(LARGE / 2);
            file.write(~old);
        }
        fail(3, "large.phx: damaged in chunk ", "unprotect", "-k", "work", stored.toString(), sound.toString());
        assertEquals(List.of("large.phx", "sound", "sound.phx"), names());
        fail(3, "damaged in chunk ", "verify", "-k", "work", stored.toString());
    }

    @Test
    void cutAndForeignFilesAreRefused() throws IOException {
        Path stored = protect(write("large", bytes(LARGE)));
        byte[] whole = Files.readAllBytes(stored);
        Path cut = write("cut.phx", java.util.Arrays.copyOf(whole, whole.length - 20));
        fail(3, "cut.phx: ", "verify", "-k", "work", cut.toString());
        Path foreign = write("foreign.phx", bytes(LARGE));
        fail(3, "foreign.phx: not a Phalanx file", "verify", "-k", "work", foreign.toString());
        fail(4, "gone.phx: cannot read: No such file or directory (os error 2)", "verify", "-k", "work", folder + "/gone.phx");
        fail(4, ": it is a folder", "verify", "-k", "work", folder.toString());
    }

    @Test
    void otherKeysOpenNothing() throws IOException {
        Path stored = protect(write("large", bytes(LARGE)));
        Keyring.in(top.resolve("ring")).store("other", PhalanxKey.random());
        fail(3, "large.phx: ", "unprotect", "-f", "-k", "other", stored.toString());
        fail(4, "nobody", "verify", "-k", "nobody", stored.toString());
        fail(2, "no key given: --key, --key-file or --kms", "protect", folder.resolve("large").toString());
    }

    @Test
    void outputsAreNotReplacedUnlessForced() throws IOException {
        byte[] large = bytes(17 << 20);
        Path input = write("large", large);
        Path there = write("large.phx", bytes(10));
        fail(4, "large.phx: exists already", "protect", "-k", "work", input.toString());
        assertEquals(10, Files.size(there));
        succeed("protect", "--force", "-k", "work", input.toString());
        assertOpens(large, there);
        fail(4, "large.phx: protected already", "protect", "-k", "work", there.toString());
        fail(2, "input and output are the same file", "protect", "-k", "work", "-f", "-o", input.toString(), input.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"test", "store", "copied"})
    void otherFileSystemsJoinPartsInTheirWay(String scheme) throws IOException {
        byte[] large = bytes(LARGE);
        write("large", large);
        write("small", bytes(70_000));
        write("empty", new byte[0]);
        String there = scheme + "://" + folder;
        succeed("protect", "-k", "work", there + "/large", there + "/small", there + "/empty");
        assertEquals(List.of("empty", "empty.phx", "large", "large.phx", "small", "small.phx"), visible());
        assertOpens(large, folder.resolve("large.phx"));
        succeed("unprotect", "-f", "-k", "work", there + "/*.phx");
        assertArrayEquals(large, Files.readAllBytes(folder.resolve("large")));
        assertEquals(70_000, Files.size(folder.resolve("small")));
        fail(4, "large.phx: exists already", "protect", "-k", "work", there + "/large");
    }

    /** The uploader of folders leaves its own, empty. */
    private List<String> visible() throws IOException {
        List<String> names = names();
        names.remove("_multipart");
        return names;
    }

    @Test
    void aReadThatFailsIsDoneAgain() throws IOException {
        byte[] large = bytes(LARGE);
        write("large", large);
        TestFs.FAILURES.set(2);
        succeed("protect", "-k", "work", "-o", folder + "/a.phx", "test://" + folder + "/large");
        assertOpens(large, folder.resolve("a.phx"));
        assertEquals(List.of("a.phx", "large"), names());
        TestFs.FAILS_FROM.set(0);
        fail(4, "cannot read: a cable was pulled", "protect", "-k", "work", "-o", folder + "/b.phx", "test://" + folder + "/large");
        assertEquals(List.of("a.phx", "large"), names());
    }

    /** An output with the new time and the old content would be taken for done by the next run. */
    @ParameterizedTest
    @ValueSource(strings = {"file", "test"})
    void anOutputHasTheTimeOfWhatWasRead(String scheme) throws IOException {
        Path input = write("small", bytes(1000));
        String[] line = {"protect", "-k", "work", "--resume", "-o", scheme + "://" + folder + "/out.phx", "test://" + folder + "/small"};
        TestFs.CHANGES.set("small");
        fail(4, "small: ", line);
        assertTrue(said.contains("the input changed while it was read"), said);
        assertEquals(List.of("small"), names());
        succeed(line);
        assertOpens(Files.readAllBytes(input), folder.resolve("out.phx"));
    }

    @Test
    void aFileThatGoesLeavesTheOthers() throws IOException {
        byte[] large = bytes(LARGE);
        write("gone", bytes(LARGE));
        write("large", large);
        TestFs.GOES.set("gone");
        fail(4, "gone: ", "protect", "-k", "work", "test://" + folder + "/gone", "test://" + folder + "/large");
        assertTrue(said.contains("protected 1 file") && said.contains("; 1 failed"), said);
        assertOpens(large, folder.resolve("large.phx"));
        assertEquals(List.of("large", "large.phx"), names());
    }

    /** An error that is no exception ends a thread of the driver. Its file counts as failed nevertheless. */
    @ParameterizedTest
    @ValueSource(strings = {"a.resume", "b.phx"})
    void aLackOfMemoryInTheDriverIsAFailure(String at) throws IOException {
        byte[] small = bytes(1000);
        write("a", small);
        write("b", small);
        // The one name is opened when a file is prepared, and the other given when it is done.
        String record = Record.path(new org.apache.hadoop.fs.Path(folder + "/a.phx")).getName();
        TestFs.LACKS_MEMORY_AT.set(at.equals("a.resume") ? record : at);
        String there = "test://" + folder;
        fail(1, ": not enough memory: --driver-memory gives more", "protect", "--resume", "-k", "work", there + "/a", there + "/b");
        assertTrue(said.contains("protected 1 file") && said.contains("; 1 failed"), said);
        assertEquals(at.equals("b.phx") ? List.of("a", "a.phx", "b") : List.of("a", "b", "b.phx"), names());
        TestFs.LACKS_MEMORY_AT.set("");
        succeed("protect", "--resume", "-k", "work", there + "/a", there + "/b");
        assertOpens(small, folder.resolve("a.phx"));
        assertOpens(small, folder.resolve("b.phx"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"file", "test", "store"})
    void anInterruptedRunGoesOn(String scheme) throws IOException {
        byte[] large = bytes(LARGE);
        write("large", large);
        String input = "test://" + folder + "/large";
        String output = scheme + "://" + folder + "/large.phx";
        TestFs.FAILS_FROM.set(20 << 20);
        fail(4, "a cable was pulled", "protect", "--resume", "-k", "work", "-o", output, input);
        assertFalse(names().contains("large.phx"));
        assertTrue(names().stream().anyMatch(name -> name.endsWith(".resume")), () -> said);
        TestFs.FAILS_FROM.set(Long.MAX_VALUE);
        TestFs.BEGUN.clear();
        succeed("protect", "--resume", "-k", "work", "-o", output, input);
        assertTrue(new TreeSet<>(TestFs.BEGUN).first() > 16 << 20, () -> "read again from " + TestFs.BEGUN);
        assertOpens(large, folder.resolve("large.phx"));
        assertEquals(List.of("large", "large.phx"), visible());
        TestFs.BEGUN.clear();
        succeed("protect", "--resume", "-k", "work", "-o", output, input);
        assertEquals(List.of(), TestFs.BEGUN);
    }

    @Test
    void anotherInputBeginsAnew() throws IOException {
        write("large", bytes(LARGE));
        String input = "test://" + folder + "/large";
        TestFs.FAILS_FROM.set(20 << 20);
        fail(4, "a cable was pulled", "protect", "--resume", "-k", "work", "-o", folder + "/large.phx", input);
        TestFs.FAILS_FROM.set(Long.MAX_VALUE);
        byte[] other = bytes(LARGE + 1);
        write("large", other);
        succeed("protect", "--resume", "-k", "work", "-o", folder + "/large.phx", input);
        assertTrue(said.contains("it changed since the run that was interrupted"), said);
        assertOpens(other, folder.resolve("large.phx"));
    }

    /** What each run adds to the line of the other one, with words between which there are spaces. */
    @ParameterizedTest
    @CsvSource({
        "-k bob, ''", "'', -k bob", "'', --cipher aes-256-turbo", "--cipher aes-192, ''", "'', --chunk-size 512K"
    })
    void otherKeysAnotherCipherAndAnotherChunkSizeBeginAnew(String before, String now) throws IOException {
        PhalanxKey bob = PhalanxKey.random();
        Keyring.in(top.resolve("ring")).store("bob", bob);
        byte[] large = bytes(LARGE);
        write("large", large);
        String line = "protect --resume -k work -o " + folder + "/large.phx test://" + folder + "/large ";
        TestFs.FAILS_FROM.set(20 << 20);
        fail(4, "a cable was pulled", (line + before).trim().split(" "));
        TestFs.FAILS_FROM.set(Long.MAX_VALUE);
        TestFs.BEGUN.clear();
        succeed((line + now).trim().split(" "));
        assertTrue(said.contains("is for other keys, or another cipher or chunk size, so it begins anew"), said);
        assertTrue(TestFs.BEGUN.contains(0L), () -> "it went on: " + TestFs.BEGUN);
        assertOpens(large, folder.resolve("large.phx"));
        Header header = header(folder.resolve("large.phx"));
        assertEquals(now.contains("bob") ? List.of(key.id(), bob.id()) : List.of(key.id()), keys(header));
        assertEquals(now.contains("turbo") ? Suite.AES_256_CTR_TURBOSHAKE : Suite.AES_256_CTR_SHA3, header.suite());
        assertEquals(now.contains("512K") ? 19 : 20, header.chunkLog2());
    }

    /** Its chunks are sealed only once under a file key, so another attempt needs a key of its own, and does the whole file. */
    @ParameterizedTest
    @ValueSource(strings = {"file", "test", "store"})
    void aFileWhoseChunksAreWrittenOnceIsDoneAsAWhole(String scheme) throws IOException {
        byte[] large = bytes(LARGE);
        write("large", large);
        String[] line = {"protect", "-k", "work", "--cipher", "aes-256-gcm", "-o", scheme + "://" + folder + "/large.phx",
            "test://" + folder + "/large"};
        TestFs.FAILURES.set(1);
        succeed(line);
        assertEquals(List.of(0L, 0L), TestFs.BEGUN);
        assertEquals(Suite.AES_256_GCM, header(folder.resolve("large.phx")).suite());
        assertOpens(large, folder.resolve("large.phx"));
        assertEquals(List.of("large", "large.phx"), visible());
    }

    @Test
    void aFileWhoseChunksAreWrittenOnceIsNotGoneOnWith() throws IOException {
        Path input = write("large", bytes(10));
        fail(2, "--resume does not work with aes-256-gcm, whose chunks are written once", "protect", "--resume", "-k", "work",
                "--cipher", "aes-256-gcm", input.toString());
        assertEquals(List.of("large"), names());
    }

    @Test
    void aFileWhoseChunksAreWrittenOnceMustFitIntoMemoryForAStore() throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(folder.resolve("large").toFile(), "rw")) {
            file.setLength((1L << 30) + 1);
        }
        fail(4, "too large: an object with the cipher aes-256-gcm has at most 1 GiB here", "protect", "-k", "work",
                "--cipher", "aes-256-gcm", "store://" + folder + "/large");
        assertEquals(List.of("large"), visible());
    }

    @Test
    void aRecordThatSomebodyElseMadeCountsNothing() throws IOException {
        byte[] large = bytes(LARGE);
        Path input = write("large", large);
        Path victim = write("victim", bytes(100));
        String record = Record.path(new org.apache.hadoop.fs.Path(folder + "/large.phx")).getName();
        Files.createSymbolicLink(folder.resolve(record), victim);
        succeed("protect", "--resume", "-k", "work", input.toString());
        assertOpens(large, folder.resolve("large.phx"));
        assertEquals(100, Files.size(victim));
    }

    @Test
    void aFileSystemThatIsNotThereIsAnError() {
        spark().hadoopConfiguration().set("fs.nowhere.impl", "no.such.FileSystem");
        fail(4, "nowhere://a/b: cannot read: Class no.such.FileSystem not found", "verify", "nowhere://a/b");
        fail(4, "unheard://a/b: cannot read: No FileSystem for scheme", "verify", "unheard://a/b");
    }

    @Test
    void noOutputReplacesAKey() throws IOException {
        Path file = top.resolve("key");
        Files.write(file, bytes(32));
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
        fail(2, "it holds a key or password, which no output replaces", "protect", "-f", "--key-file", file.toString(),
                "-o", file.toString(), write("small", bytes(10)).toString());
        assertEquals(32, Files.size(file));
    }

    @Test
    void twoOutputsOfOneNameAreRefused() throws IOException {
        Files.createDirectory(folder.resolve("a"));
        Files.createDirectory(folder.resolve("b"));
        Path one = Files.write(folder.resolve("a/x"), bytes(10));
        Path two = Files.write(folder.resolve("b/x"), bytes(10));
        fail(2, "it would be the output of both", "protect", "-k", "work", "--output-dir", folder.toString(),
                one.toString(), two.toString());
        Files.createSymbolicLink(folder.resolve("c"), folder.resolve("a"));
        fail(2, "it is an input, and would be the output of", "unprotect", "-f", "-k", "work", protect(protect(one)).toString(),
                folder + "/c/x.phx");
        fail(2, "unknown option --recursiv", "protect", "--recursiv", one.toString());
        fail(2, "the program phalanx has it", "protect", "--remove", one.toString());
        fail(2, "the program phalanx has it", "mount", one.toString());
    }
}
