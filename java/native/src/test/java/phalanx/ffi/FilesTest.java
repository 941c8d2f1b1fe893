package phalanx.ffi;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import phalanx.AuthenticationException;
import phalanx.KeyProvider;
import phalanx.MalformedHeaderException;
import phalanx.NotPhalanxException;
import phalanx.OutputException;
import phalanx.Password;
import phalanx.PhalanxException;
import phalanx.PhalanxKey;
import phalanx.Protector;
import phalanx.Recipients;
import phalanx.Suite;
import phalanx.TruncatedException;
import phalanx.Unprotector;
import phalanx.UnsupportedVersionException;
import phalanx.WrongKeyException;

/** The library and the pure one open each other's files, and fail in the same way. */
class FilesTest {
    private static final int[] LENGTHS = {0, 1, 4095, 4096, 4097, 3 * 4096, 100_000};

    @TempDir
    Path folder;

    private final PhalanxKey key = PhalanxKey.random();
    private NativeLibrary library;
    private NativeWays ways;

    @BeforeEach
    void prepare() throws IOException {
        library = Needs.library();
        ways = NativeWays.of(library, key);
    }

    @AfterEach
    void close() {
        if (ways != null) {
            ways.close();
        }
    }

    private Path plain(String name, int length) throws IOException {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return Files.write(folder.resolve(name), bytes);
    }

    private Path at(String name) {
        return folder.resolve(name);
    }

    /** A protected file, and its bytes with one of them altered or with the end cut off. */
    private Path damaged(int altered, int cut) throws IOException {
        Path plain = plain("to-damage", 100_000);
        Path whole = at("whole.phx");
        Files.deleteIfExists(whole);
        new NativeProtector(ways).withChunkLog2(12).protect(plain, whole);
        byte[] bytes = Files.readAllBytes(whole);
        if (altered >= 0) {
            bytes[altered] ^= 1;
        }
        return Files.write(at("damaged.phx"), Arrays.copyOf(bytes, bytes.length - cut));
    }

    @Test
    void bothOpenEachOthersFiles() throws IOException {
        for (Suite suite : Suite.values()) {
            for (int length : LENGTHS) {
                Path plain = plain("plain", length);
                NativeProtector protector = new NativeProtector(ways).withSuite(suite).withChunkLog2(12).withoutSync().replacing();
                assertEquals(length, protector.protect(plain, at("native.phx")));
                Unprotector pure = new Unprotector(KeyProvider.of(key)).replacing();
                assertEquals(length, pure.unprotect(at("native.phx"), at("again")));
                assertArrayEquals(Files.readAllBytes(plain), Files.readAllBytes(at("again")), suite + ", " + length);

                new Protector(Recipients.of(key)).withSuite(suite).withChunkLog2(12).replacing().protect(plain, at("pure.phx"));
                NativeUnprotector unprotector = new NativeUnprotector(ways).withoutSync().replacing();
                assertEquals(length, unprotector.unprotect(at("pure.phx"), at("again")));
                assertArrayEquals(Files.readAllBytes(plain), Files.readAllBytes(at("again")), suite + ", " + length);
                assertEquals(length, unprotector.verify(at("pure.phx")));
            }
        }
    }

    @Test
    void chunksHaveTheSizeThatIsAskedFor() throws IOException {
        Path plain = plain("plain", 10);
        for (int log2 : new int[] {12, 20, 24}) {
            new NativeProtector(ways).withChunkLog2(log2).replacing().protect(plain, at("sized.phx"));
            try (phalanx.PhalanxFile file = phalanx.PhalanxFile.open(at("sized.phx"), KeyProvider.of(key))) {
                assertEquals(log2, file.header().chunkLog2());
            }
        }
        for (int log2 : new int[] {Integer.MIN_VALUE, 11, 25}) {
            assertThrows(IllegalArgumentException.class, () -> new NativeProtector(ways).withChunkLog2(log2));
        }
    }

    @Test
    void passwordsOpenEachOthersFiles() throws IOException {
        Path plain = plain("plain", 5000);
        byte[] password = "correct horse".getBytes();
        try (NativeWays mine = NativeWays.of(library).password(password);
                Password theirs = Password.of(password)) {
            new NativeProtector(mine).protect(plain, at("native.phx"));
            assertEquals(5000, new Unprotector(KeyProvider.of(theirs)).verify(at("native.phx")));
            WrongKeyException none = assertThrows(WrongKeyException.class, () -> new NativeUnprotector(ways).verify(at("native.phx")));
            assertTrue(none.lacksPassword());
            assertThrows(IllegalArgumentException.class, () -> mine.password(new byte[0]));
        }
        try (NativeWays wrong = NativeWays.of(library).password("another".getBytes())) {
            WrongKeyException e = assertThrows(WrongKeyException.class, () -> new NativeUnprotector(wrong).verify(at("native.phx")));
            assertTrue(e.wasTried());
        }
    }

    @Test
    void waysAreChecked() throws IOException {
        Path plain = plain("plain", 10);
        assertThrows(IllegalArgumentException.class, () -> ways.recipient("age1nobody"));
        assertThrows(IllegalArgumentException.class, () -> ways.recipient("age1\0"));
        assertThrows(IllegalArgumentException.class, () -> ways.service("no uri"));
        assertThrows(IOException.class, () -> ways.identityFile(at("missing")));
        try (NativeWays none = NativeWays.of(library)) {
            assertThrows(IllegalArgumentException.class, () -> new NativeProtector(none).protect(plain, at("none.phx")));
            none.recipient("age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj");
            new NativeProtector(none).protect(plain, at("age.phx"));
        }
        WrongKeyException e = assertThrows(WrongKeyException.class, () -> new NativeUnprotector(ways).verify(at("age.phx")));
        assertFalse(e.lacksKey() || e.lacksPassword() || e.wasTried());
        PhalanxKey closed = PhalanxKey.random();
        closed.close();
        assertThrows(IllegalStateException.class, () -> ways.key(closed));
    }

    @Test
    void anAlteredChunkIsFound() throws IOException {
        Path damaged = damaged(90_000, 0);
        AuthenticationException e = assertThrows(AuthenticationException.class, () -> new NativeUnprotector(ways).verify(damaged));
        assertTrue(e.getMessage().startsWith("damaged in chunk"), e.getMessage());
        assertThrows(AuthenticationException.class, () -> new NativeUnprotector(ways).unprotect(damaged, at("out")));
        assertFalse(Files.exists(at("out")));
        Path cut = damaged(-1, 5000);
        assertThrows(AuthenticationException.class, () -> new NativeUnprotector(ways).verify(cut));
    }

    /** The failures of both libraries have one class and one message, whatever byte is altered and wherever the file is cut. */
    @Test
    void failuresAreThoseOfThePureLibrary() throws IOException {
        Random random = new Random(39);
        int found = 0;
        for (int i = 0; i < 60; i++) {
            Path damaged = i % 2 == 0 ? damaged(random.nextInt(i < 30 ? 400 : 100_000), 0) : damaged(-1, 1 + random.nextInt(100_000));
            PhalanxException theirs =
                    assertThrows(PhalanxException.class, () -> new Unprotector(KeyProvider.of(key)).verify(damaged));
            PhalanxException ours = assertThrows(PhalanxException.class, () -> new NativeUnprotector(ways).verify(damaged));
            assertEquals(theirs.getClass(), ours.getClass(), () -> theirs + " and " + ours);
            assertEquals(theirs.getMessage(), ours.getMessage());
            found++;
        }
        assertEquals(60, found);
    }

    @Test
    void whatIsNoFileOfThisFormat() throws IOException {
        NativeUnprotector unprotector = new NativeUnprotector(ways);
        assertThrows(NotPhalanxException.class, () -> unprotector.verify(plain("plain", 1000)));
        byte[] bytes = Files.readAllBytes(damaged(-1, 0));
        byte[] newer = bytes.clone();
        newer[7] = 99;
        UnsupportedVersionException version = assertThrows(
                UnsupportedVersionException.class, () -> unprotector.verify(Files.write(at("newer.phx"), newer)));
        assertTrue(version.getMessage().contains("99"), version.getMessage());
        // Ten bytes of the last chunk are too few for one.
        int last = 100_000 % 4096 + Suite.AES_256_CTR_SHA3.overhead();
        byte[] cut = Arrays.copyOf(bytes, bytes.length - last + 10);
        assertThrows(TruncatedException.class, () -> unprotector.verify(Files.write(at("cut.phx"), cut)));
        byte[] malformed = bytes.clone();
        Arrays.fill(malformed, 8, 12, (byte) 0xff);
        assertThrows(MalformedHeaderException.class, () -> unprotector.verify(Files.write(at("bad.phx"), malformed)));
    }

    @Test
    void aMissingKeyIsNamed() throws IOException {
        new NativeProtector(ways).protect(plain("plain", 10), at("file.phx"));
        try (NativeWays others = NativeWays.of(library, PhalanxKey.random())) {
            WrongKeyException e = assertThrows(WrongKeyException.class, () -> new NativeUnprotector(others).verify(at("file.phx")));
            assertTrue(e.lacksKey());
            assertTrue(e.getMessage().contains(key.id().toString()), e.getMessage());
        }
    }

    @Test
    void filesThatAreMissingOrInTheWay() throws IOException {
        Path plain = plain("plain", 10);
        NativeProtector protector = new NativeProtector(ways);
        protector.protect(plain, at("file.phx"));
        FileAlreadyExistsException exists =
                assertThrows(FileAlreadyExistsException.class, () -> protector.protect(plain, at("file.phx")));
        assertEquals(at("file.phx").toString(), exists.getFile());
        NoSuchFileException missing = assertThrows(NoSuchFileException.class, () -> protector.protect(at("gone"), at("new")));
        assertEquals(at("gone").toString(), missing.getFile());
        assertThrows(OutputException.class, () -> protector.protect(plain, at("no folder").resolve("new")));
        assertThrows(OutputException.class, () -> protector.replacing().protect(plain, plain));
        assertThrows(FileSystemException.class, () -> protector.protect(folder, at("new")));
        FileSystemException twice = assertThrows(FileSystemException.class, () -> protector.protect(at("file.phx"), at("new")));
        assertEquals("protected already", twice.getReason());
        assertFalse(Files.exists(at("new")));
    }

    @Test
    void namesMayHaveAnyCharacters() throws IOException {
        Path plain = Files.write(at("a b 'ü€'\n"), new byte[3]);
        assertEquals(3, new NativeProtector(ways).protect(plain, at("ß.phx")));
        assertEquals(3, new NativeUnprotector(ways).verify(at("ß.phx")));
    }

    /** A program that protects {@code x} as {@code x.phx}, and prints what a missing file is called. */
    static final class Relative {
        private Relative() {}

        public static void main(String[] args) throws IOException {
            try (NativeWays ways = NativeWays.of(PhalanxKey.random())) {
                System.out.println(new NativeProtector(ways).protect(Path.of("x"), Path.of("x.phx")));
                Files.write(Path.of("bad"), Arrays.copyOf(Files.readAllBytes(Path.of("x.phx")), 10));
                new NativeUnprotector(ways).verify(Path.of("bad"));
            } catch (PhalanxException e) {
                System.out.println(e.getMessage());
            }
        }
    }

    /** Java's current folder may be another one than that of the process. */
    @Test
    void pathsAreThoseOfJava() throws IOException, InterruptedException {
        Path current = Files.createDirectory(at("current"));
        Files.write(current.resolve("x"), new byte[7]);
        Files.write(at("x"), new byte[3]);
        String printed = Needs.run(0, folder, Map.of(), Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED", "-Dphalanx.library=" + Needs.libraryFile().toAbsolutePath(), "-Duser.dir=" + current,
                "-cp", System.getProperty("java.class.path"), Relative.class.getName());
        assertTrue(printed.startsWith("7\n"), printed);
        assertFalse(printed.contains(folder.toString()), printed);
        assertTrue(Files.exists(current.resolve("x.phx")));
        assertFalse(Files.exists(at("x.phx")));
    }

    /** Java's text of such a name is that of another file, which may exist. */
    @Test
    void aNameThatIsNoTextIsRefused() throws IOException, InterruptedException {
        Path names = Files.createDirectory(at("names"));
        Needs.run(0, names, Map.of(), "sh", "-c", ": > \"$(printf 'a\\377')\"");
        try (DirectoryStream<Path> all = Files.newDirectoryStream(names)) {
            Path name = all.iterator().next();
            Files.write(Path.of(name.toString()), new byte[3]);
            InvalidPathException e =
                    assertThrows(InvalidPathException.class, () -> new NativeProtector(ways).protect(name, at("out.phx")));
            assertTrue(e.getMessage().startsWith("the library cannot be given a name that is no text in "), e.getMessage());
            assertThrows(InvalidPathException.class, () -> NativeFile.open(name, ways));
            assertFalse(Files.exists(at("out.phx")));
        }
    }

    @Test
    void closedWaysFail() throws IOException {
        Path plain = plain("plain", 10);
        new NativeProtector(ways).protect(plain, at("file.phx"));
        ways.close();
        ways.close();
        assertThrows(IllegalStateException.class, () -> new NativeProtector(ways).protect(plain, at("new")));
        assertThrows(IllegalStateException.class, () -> new NativeUnprotector(ways).verify(at("file.phx")));
        assertThrows(IllegalStateException.class, () -> NativeFile.open(at("file.phx"), ways));
        assertThrows(IllegalStateException.class, () -> ways.key(key));
    }
}
