package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SharedFileTest {
    private static final int LOG2 = 12;
    private static final int CHUNK = 1 << LOG2;

    @TempDir
    Path folder;

    private final PhalanxKey key = PhalanxKey.random();
    private final KeyProvider keys = KeyProvider.of(key);

    private Path file(String name, int length) throws IOException {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return Files.write(folder.resolve(name), bytes);
    }

    private SharedFile protect(Path plain, Suite suite) throws IOException {
        return SharedFile.protect(plain, folder.resolve("sealed.phx"), Recipients.of(key), suite, LOG2, false);
    }

    /** Does all parts, the last one first, each by a separate value. */
    private static long inParts(SharedFile file, int parts) throws IOException {
        long bytes = 0;
        for (int part = parts - 1; part > 0; part--) {
            try (SharedFile other = SharedFile.join(file.toBytes())) {
                bytes += other.work(part, parts, Runnable::run, 1, false);
            }
        }
        return bytes + file.work(0, parts, Runnable::run, 1, false);
    }

    private Set<String> names() throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.map(path -> path.getFileName().toString()).collect(Collectors.toSet());
        }
    }

    @Test
    void anyNumberOfPartsGivesOneWholeFile() throws IOException {
        for (int length : List.of(0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 17)) {
            Path plain = file("plain", length);
            for (int parts : List.of(1, 2, 3, 7, 9)) {
                Suite suite = Suite.values()[(length + parts) % Suite.values().length];
                Path sealed = folder.resolve("sealed.phx");
                try (SharedFile file = protect(plain, suite)) {
                    assertEquals(length, inParts(file, parts));
                    assertFalse(Files.exists(sealed));
                    file.finish(true);
                }
                Path once = folder.resolve("once");
                new Unprotector(keys).unprotect(sealed, once);
                assertArrayEquals(Files.readAllBytes(plain), Files.readAllBytes(once), length + " in " + parts);
                try (SharedFile file = SharedFile.verify(sealed, keys)) {
                    assertEquals(length, inParts(file, parts));
                    file.finish(false);
                }
                Path back = folder.resolve("back");
                try (SharedFile file = SharedFile.unprotect(sealed, back, keys, false)) {
                    assertEquals(length, inParts(file, parts));
                    file.finish(false);
                }
                assertArrayEquals(Files.readAllBytes(plain), Files.readAllBytes(back), length + " in " + parts);
                assertEquals(Set.of("plain", "sealed.phx", "once", "back"), names());
                for (Path made : List.of(sealed, once, back)) {
                    Files.delete(made);
                }
            }
        }
    }

    @Test
    void damageIsFoundByThePartThatHasItAndNothingIsLeft() throws IOException {
        Path plain = file("plain", 6 * CHUNK);
        try (SharedFile file = protect(plain, Suite.AES_256_CTR_SHA3)) {
            inParts(file, 3);
            file.finish(false);
        }
        Path sealed = folder.resolve("sealed.phx");
        byte[] bytes = Files.readAllBytes(sealed);
        bytes[bytes.length - 1] ^= 1;
        Files.write(sealed, bytes);
        try (SharedFile file = SharedFile.unprotect(sealed, folder.resolve("back"), keys, false)) {
            file.work(0, 3, Runnable::run, 1, false);
            try (SharedFile other = SharedFile.join(file.toBytes())) {
                other.work(1, 3, Runnable::run, 1, false);
                assertThrows(AuthenticationException.class, () -> other.work(2, 3, Runnable::run, 1, false));
            }
        }
        assertEquals(Set.of("plain", "sealed.phx"), names());
    }

    /** As if the write of one of two processes to a page were lost, where the caches of two machines are not coherent. */
    @Test
    void whatIsLostWhereTwoPartsMeetIsFound() throws IOException {
        Path plain = file("plain", 200 * CHUNK);
        Path sealed = folder.resolve("sealed.phx");
        try (SharedFile file = protect(plain, Suite.AES_256_CTR_SHA3)) {
            inParts(file, 2);
            lose(101 * CHUNK);
            assertThrows(OutputException.class, () -> file.finish(false));
        }
        assertEquals(Set.of("plain"), names());
        try (SharedFile file = protect(plain, Suite.AES_256_CTR_SHA3)) {
            inParts(file, 2);
            file.finish(false);
        }
        try (SharedFile file = SharedFile.unprotect(sealed, folder.resolve("back"), keys, false)) {
            inParts(file, 2);
            lose(98 * CHUNK);
            assertThrows(OutputException.class, () -> file.finish(false));
        }
        assertEquals(Set.of("plain", "sealed.phx"), names());
    }

    @Test
    void noChunkIsReadAgainTwiceAndNoneWhereNoPartsMeet() throws IOException {
        int around = 16;
        for (int chunks : List.of(0, 1, 2, 7, 31, 200)) {
            Path plain = file("plain", chunks * CHUNK);
            for (int parts : List.of(1, 2, 8, 50)) {
                try (SharedFile file = protect(plain, Suite.AES_256_CTR_SHA3)) {
                    inParts(file, parts);
                    Set<Long> near = new TreeSet<>();
                    for (int part = 1; part < parts; part++) {
                        long meeting = file.layout().firstChunk(part, parts);
                        for (long i = meeting - around; i < meeting + around; i++) {
                            if (meeting < chunks && i >= 0 && i < chunks) {
                                near.add(i);
                            }
                        }
                    }
                    assertEquals(List.copyOf(near), file.aroundMeetings().boxed().toList(), chunks + " in " + parts);
                    assertEquals(chunks > 1 && parts > 1, !near.isEmpty(), chunks + " in " + parts);
                }
            }
        }
    }

    private void lose(long at) throws IOException {
        Path unfinished = folder.resolve(names().stream().filter(name -> name.endsWith(".tmp")).findFirst().orElseThrow());
        try (FileChannel file = FileChannel.open(unfinished, StandardOpenOption.WRITE)) {
            file.write(java.nio.ByteBuffer.allocate(CHUNK), at);
        }
    }

    @Test
    void aProcessThatSeesOtherFilesIsRefused() throws IOException {
        Path plain = file("plain", 2 * CHUNK);
        try (SharedFile file = protect(plain, Suite.AES_256_CTR_SHA3)) {
            byte[] told = file.toBytes();
            Path unfinished = folder.resolve(names().stream().filter(name -> name.endsWith(".tmp")).findFirst().orElseThrow());
            byte[] header = Files.readAllBytes(unfinished);
            Files.write(unfinished, new byte[header.length]);
            try (SharedFile other = SharedFile.join(told)) {
                assertThrows(OutputException.class, () -> other.work(1, 2, Runnable::run, 1, false));
            }
            Files.write(unfinished, header);
            try (FileChannel longer = FileChannel.open(plain, StandardOpenOption.APPEND)) {
                longer.write(java.nio.ByteBuffer.allocate(1));
            }
            try (SharedFile other = SharedFile.join(told)) {
                assertThrows(FileSystemException.class, () -> other.work(1, 2, Runnable::run, 1, false));
            }
            assertThrows(ChangedException.class, () -> file.finish(false));
        }
        assertEquals(Set.of("plain"), names());
    }

    @Test
    void sharedBytesHoldNoUserKeyAndNoFileKey() throws IOException {
        Path plain = file("plain", 1);
        try (SharedFile file = protect(plain, Suite.AES_128_CTR_SHA3)) {
            byte[] told = file.toBytes();
            assertTrue(contains(told, Files.readAllBytes(folder.resolve(
                    names().stream().filter(name -> name.endsWith(".tmp")).findFirst().orElseThrow()))));
            assertFalse(contains(told, key.expose()));
            byte[] cut = java.util.Arrays.copyOf(told, told.length - 1);
            assertThrows(IllegalArgumentException.class, () -> SharedFile.join(cut));
        }
    }

    private static boolean contains(byte[] all, byte[] part) {
        for (int at = 0; at + part.length <= all.length; at++) {
            if (java.util.Arrays.equals(all, at, at + part.length, part, 0, part.length)) {
                return true;
            }
        }
        return false;
    }
}
