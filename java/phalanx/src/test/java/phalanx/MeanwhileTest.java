package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.SequenceInputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserDefinedFileAttributeView;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Others change the input, or write to the folder of the output, while a file is protected or unprotected. */
class MeanwhileTest {
    private static final int LENGTH = 3 * 4096;
    private static final FileTime LONG_AGO = FileTime.fromMillis(1_000_000_000_000L);

    @TempDir
    Path folder;

    private final PhalanxKey key = PhalanxKey.random();
    private final KeyProvider keys = KeyProvider.of(key);
    private final Protector protector = new Protector(Recipients.of(key)).withChunkLog2(12).withoutSync();
    private final Unprotector unprotector = new Unprotector(keys).withoutSync();
    private Path input;
    private Path sealed;
    private Path victim;
    private Path output;

    @BeforeEach
    void prepare() throws IOException {
        input = file("in", LENGTH, "rwxr-xr-x");
        sealed = folder.resolve("in.phx");
        protector.protect(input, sealed);
        victim = file("victim", 10, "rw-------");
        Files.setLastModifiedTime(victim, LONG_AGO);
        output = folder.resolve("out");
    }

    private Path file(String name, int length, String permissions) throws IOException {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        Path path = Files.write(folder.resolve(name), bytes);
        return Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(permissions));
    }

    /** A change that others make. */
    private interface Deed {
        void run() throws IOException;
    }

    private static void run(Deed deed) {
        try {
            deed.run();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** An executor without threads. The first time that it is used, others make this change. */
    private static Executor meanwhile(Deed deed) {
        AtomicBoolean isDone = new AtomicBoolean();
        return work -> {
            if (!isDone.getAndSet(true)) {
                run(deed);
            }
        };
    }

    /** A stream. Before its end, others make this change. */
    private static InputStream meanwhile(byte[] bytes, Deed deed) {
        return new SequenceInputStream(new ByteArrayInputStream(bytes), new InputStream() {
            @Override
            public int read() {
                MeanwhileTest.run(deed);
                return -1;
            }
        });
    }

    private List<String> names() throws IOException {
        try (var files = Files.list(folder)) {
            return files.map(path -> path.getFileName().toString()).sorted().toList();
        }
    }

    private Path temporary() throws IOException {
        return folder.resolve(names().stream().filter(name -> name.endsWith(".tmp")).findFirst().orElseThrow());
    }

    private void plantLink() throws IOException {
        Path temporary = temporary();
        Files.delete(temporary);
        Files.createSymbolicLink(temporary, victim);
    }

    private void plantFile() throws IOException {
        Path temporary = temporary();
        Files.move(victim, temporary, StandardCopyOption.REPLACE_EXISTING);
        Files.createLink(victim, temporary);
    }

    private void checkVictim() throws IOException {
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(victim)));
        assertEquals(LONG_AGO, Files.getLastModifiedTime(victim));
        assertEquals(10, Files.size(victim));
        assertEquals(Map.of(), Metadata.userAttributes(victim));
    }

    @Test
    void aPlantedFileInPlaceOfAnOutputIsNotChangedOrRenamed() throws IOException {
        setUserAttribute(input);
        for (Deed plant : List.<Deed>of(this::plantLink, this::plantFile)) {
            byte[] plain = Files.readAllBytes(input);
            byte[] protectedBytes = Files.readAllBytes(sealed);
            for (Protector each : List.of(protector, protector.replacing())) {
                Protector meanwhile = each.on(meanwhile(plant), 2);
                refuses(() -> meanwhile.protect(input, output));
                refuses(() -> each.protect(meanwhile(plain, plant), output));
            }
            for (Unprotector each : List.of(unprotector, unprotector.replacing())) {
                Unprotector meanwhile = each.on(meanwhile(plant), 2);
                refuses(() -> meanwhile.unprotect(sealed, output));
                refuses(() -> each.unprotect(meanwhile(protectedBytes, plant), output));
            }
            refuses(() -> {
                try (SharedFile file = SharedFile.protect(
                        input, output, Recipients.of(key), Suite.AES_256_CTR_SHA3, 12, false)) {
                    file.work(0, 1, Runnable::run, 1, false);
                    plant.run();
                    file.finish(false);
                }
            });
            refuses(() -> {
                try (SharedFile file = SharedFile.unprotect(sealed, output, keys, false)) {
                    file.work(0, 1, Runnable::run, 1, false);
                    plant.run();
                    file.finish(false);
                }
            });
        }
    }

    private void refuses(Deed deed) throws IOException {
        OutputException e = assertThrows(OutputException.class, deed::run);
        assertTrue(e.getMessage().contains("its temporary file was replaced"), e.getMessage());
        checkVictim();
        assertEquals(List.of("in", "in.phx", "victim"), names());
    }

    /** Also if the link is planted after the last check. */
    @Test
    void metadataFollowsNoLink() throws IOException {
        BasicFileAttributes attributes = Input.attributes(input);
        Map<String, byte[]> userAttributes = Map.of("phalanx.test", new byte[] {1});
        Path link = Files.createSymbolicLink(folder.resolve("link"), victim);
        assertThrows(IOException.class, () -> Metadata.all(attributes, userAttributes, link));
        checkVictim();
        assertThrows(IOException.class, () -> Metadata.asNew(attributes, link));
        checkVictim();
        assertThrows(IOException.class, () -> Metadata.asNew(link));
        checkVictim();
    }

    /** Whether the file system supports them. */
    private static boolean setUserAttribute(Path path) {
        try {
            Files.getFileAttributeView(path, UserDefinedFileAttributeView.class)
                    .write("phalanx.test", ByteBuffer.wrap(new byte[] {1, 2, 3}));
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    @Test
    void onlyAProtectedFileHasTheExtendedAttributes() throws IOException {
        Needs.require("xattrs", setUserAttribute(input));
        protector.protect(input, output);
        Map<String, byte[]> found = Metadata.userAttributes(output);
        assertArrayEquals(new byte[] {1, 2, 3}, found.get("phalanx.test"));
        unprotector.unprotect(output, folder.resolve("plain"));
        assertEquals(Map.of(), Metadata.userAttributes(folder.resolve("plain")));
    }

    @Test
    void permissionsMayKeepTheOwnerFromReading() throws IOException {
        Path closed = file("closed", 1, "rw-------");
        Files.setPosixFilePermissions(input, PosixFilePermissions.fromString("-w-------"));
        Metadata.all(Input.attributes(input), Map.of(), closed);
        assertEquals("-w-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(closed)));
        assertEquals(Files.getLastModifiedTime(input), Files.getLastModifiedTime(closed));
    }

    @Test
    void aPlaintextHasThePermissionsOfTheFileThatWasOpened() throws IOException {
        Files.setPosixFilePermissions(sealed, PosixFilePermissions.fromString("rw-------"));
        Deed replace = () -> {
            Files.move(sealed, folder.resolve("aside"));
            file("in.phx", 10, "rw-rw-rw-");
        };
        unprotector.on(meanwhile(replace), 2).unprotect(sealed, output);
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(output)));
        Files.delete(output);
        Files.move(folder.resolve("aside"), sealed, StandardCopyOption.REPLACE_EXISTING);
        try (SharedFile file = SharedFile.unprotect(sealed, output, keys, false)) {
            file.work(0, 1, Runnable::run, 1, false);
            Files.setPosixFilePermissions(sealed, PosixFilePermissions.fromString("rw-rw-rw-"));
            file.finish(false);
        }
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(output)));
    }

    @Test
    void aChangeOfTheInputIsFound() throws IOException {
        Deed write = () -> {
            Files.write(input, new byte[LENGTH]);
            Files.setLastModifiedTime(input, FileTime.fromMillis(Files.getLastModifiedTime(input).toMillis() + 5));
        };
        Deed append = () -> Files.write(input, new byte[1], StandardOpenOption.APPEND);
        // The time and the length are unchanged.
        Deed exchange = () -> {
            FileTime time = Files.getLastModifiedTime(input);
            Files.move(input, folder.resolve("aside"));
            Files.write(input, new byte[LENGTH]);
            Files.setLastModifiedTime(input, time);
        };
        for (Deed deed : List.of(write, append, exchange)) {
            for (int way = 0; way < 3; way++) {
                Files.deleteIfExists(folder.resolve("aside"));
                file("in", LENGTH, "rw-r--r--");
                Protector meanwhile = protector.on(meanwhile(deed), 2);
                if (way == 0) {
                    assertThrows(ChangedException.class, () -> meanwhile.protect(input, output));
                } else if (way == 1) {
                    ByteArrayOutputStream out = new ByteArrayOutputStream();
                    assertThrows(ChangedException.class, () -> meanwhile.protect(input, out));
                    byte[] bytes = out.toByteArray();
                    assertThrows(PhalanxException.class, () -> unprotector.verify(new ByteArrayInputStream(bytes)));
                } else {
                    try (SharedFile file = SharedFile.protect(
                            input, output, Recipients.of(key), Suite.AES_256_CTR_SHA3, 12, false)) {
                        file.work(0, 1, Runnable::run, 1, false);
                        deed.run();
                        assertThrows(ChangedException.class, () -> file.finish(false));
                    }
                }
                assertTrue(Files.notExists(output));
            }
        }
    }

    @Test
    void aFileIsProtectedAsAStream() throws IOException {
        for (int length : new int[] {0, 1, 4095, 4096, 4097, 3 * 4096, 3 * 4096 + 1}) {
            Path plain = file("in", length, "rw-------");
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            assertEquals(length, protector.protect(plain, out));
            ByteArrayOutputStream back = new ByteArrayOutputStream();
            unprotector.unprotect(new ByteArrayInputStream(out.toByteArray()), back);
            assertArrayEquals(Files.readAllBytes(plain), back.toByteArray());
        }
    }

    /** A folder of files with three chunks each, so that the executor is asked. The first one is protected first. */
    private Path tree() throws IOException {
        Path source = Files.createDirectory(folder.resolve("source"));
        Files.createDirectories(folder.resolve("foreign"));
        Files.write(folder.resolve("foreign/x"), "foreign".getBytes());
        Files.createDirectory(source.resolve("c"));
        for (String name : List.of("a", "b", "c/x")) {
            Files.write(source.resolve(name), new byte[LENGTH]);
        }
        return source;
    }

    private static void linkInPlaceOf(Path path, Path target) throws IOException {
        Files.move(path, path.resolveSibling("aside"));
        Files.createSymbolicLink(path, target);
    }

    /** What lies elsewhere does not come into a tree because a link is put in the place of a file or folder after it was listed. */
    @Test
    void noLinkIsFollowedThatTakesAPlaceInATree() throws IOException {
        Path source = tree();
        Deed file = () -> linkInPlaceOf(source.resolve("b"), folder.resolve("foreign/x"));
        Deed inside = () -> linkInPlaceOf(source.resolve("c"), folder.resolve("foreign"));
        int number = 0;
        for (Deed deed : List.of(file, inside)) {
            Path mirror = folder.resolve("mirror" + number++);
            assertThrows(FileSystemException.class,
                    () -> protector.on(meanwhile(deed), 2).protectTree(source, mirror, Excludes.NONE, (path, why) -> {}));
            String last = number == 1 ? "b.phx" : "c/x.phx";
            assertTrue(Files.exists(mirror.resolve("a.phx")));
            assertTrue(Files.notExists(mirror.resolve(last)) && Files.notExists(mirror.resolve("phalanx.tree")));
            Path place = source.resolve(number == 1 ? "b" : "c");
            Files.delete(place);
            Files.move(source.resolve("aside"), place);
        }
        // Another file in the place is one of the source.
        Deed replaced = () -> {
            Files.delete(source.resolve("b"));
            Files.write(source.resolve("b"), new byte[1]);
        };
        protector.on(meanwhile(replaced), 2).protectTree(source, folder.resolve("mirror"), Excludes.NONE, (path, why) -> {});
        assertTrue(new PhalanxTree(keys).verify(folder.resolve("mirror")).isWhole());
        assertEquals(1, unprotector.verify(folder.resolve("mirror/b.phx")));
    }

    /** A folder that is put in the place of one, while what is in it is protected, is noticed. */
    @Test
    void noFolderTakesTheWayOfAFileThatIsRead() throws IOException {
        Path source = tree();
        Files.delete(source.resolve("a"));
        Files.delete(source.resolve("b"));
        Deed deed = () -> linkInPlaceOf(source.resolve("c"), folder.resolve("foreign"));
        assertThrows(ChangedException.class, () -> protector.on(meanwhile(deed), 2)
                .protectTree(source, folder.resolve("mirror"), Excludes.NONE, (path, why) -> {}));
        assertTrue(Files.notExists(folder.resolve("mirror/c/x.phx")));
    }

    /** Until it is finished, nobody else sees what is in a tree, as with the program. */
    @Test
    void foldersOfATreeAreClosedUntilTheyAreFinished() throws IOException {
        Path source = tree();
        Files.delete(source.resolve("a"));
        Files.delete(source.resolve("b"));
        Files.setPosixFilePermissions(source.resolve("c"), PosixFilePermissions.fromString("r-xr-x--x"));
        Path mirror = folder.resolve("mirror");
        List<Path> folders = List.of(mirror, mirror.resolve("c"));
        List<String> before = new ArrayList<>();
        Deed look = () -> {
            for (Path each : folders) {
                before.add(PosixFilePermissions.toString(Files.getPosixFilePermissions(each)));
            }
        };
        new Protector(Recipients.of(key)).withChunkLog2(12).on(meanwhile(look), 2)
                .protectTree(source, mirror, Excludes.NONE, (path, why) -> {});
        assertEquals(List.of("rwx------", "rwx------"), before);
        assertEquals(Files.getPosixFilePermissions(source), Files.getPosixFilePermissions(mirror));
        assertEquals("r-xr-x--x", PosixFilePermissions.toString(Files.getPosixFilePermissions(mirror.resolve("c"))));
        // So that it can be deleted.
        for (Path each : List.of(source.resolve("c"), mirror.resolve("c"))) {
            Files.setPosixFilePermissions(each, PosixFilePermissions.fromString("rwxr-x---"));
        }
    }
}
