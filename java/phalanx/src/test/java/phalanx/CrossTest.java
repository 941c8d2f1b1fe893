package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program {@code phalanx} opens what this library writes, and the other way round. */
class CrossTest {
    private static final int FILES = 100;
    private static final String[] CIPHERS = {"aes-256", "aes-192", "aes-128", "aes-256-gcm", "aes-256-turbo"};
    private static final int[] LOG2 = {12, 13, 14, 15, 16, 20};

    @TempDir
    Path folder;

    private final Random random = new Random(20);
    private Path program;
    private PhalanxKey key;

    @BeforeEach
    void prepare() throws IOException {
        program = Needs.phalanx();
        key = PhalanxKey.random();
        Keyring.in(folder.resolve("ring")).store("work", key);
    }

    /** Lengths at and around the edges of slices and chunks. */
    private byte[] plaintext(int log2) {
        int chunk = 1 << log2;
        int slice = Layout.sliceLength(log2);
        int[] edges = {0, 1, slice, 2 * slice, 40 * slice, 64 * slice, chunk, 2 * chunk, 3 * chunk, random.nextInt(3 * chunk)};
        int edge = edges[random.nextInt(edges.length)];
        byte[] bytes = new byte[Math.max(0, edge + random.nextInt(5) - 2)];
        random.nextBytes(bytes);
        return bytes;
    }

    private Needs.Ran phalanx(List<String> names, String... args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(program.toString()));
        command.addAll(List.of(args));
        command.addAll(names);
        return Needs.run(folder, command);
    }

    @Test
    void phalanxOpensWhatJavaWrites() throws IOException, InterruptedException {
        Files.createDirectory(folder.resolve("out"));
        List<String> names = new ArrayList<>();
        List<byte[]> plaintexts = new ArrayList<>();
        for (int i = 0; i < FILES; i++) {
            int log2 = LOG2[i % LOG2.length];
            Suite suite = Suite.values()[i % Suite.values().length];
            Protector protector = new Protector(Recipients.of(key)).withSuite(suite).withChunkLog2(log2).withoutSync();
            byte[] plaintext = plaintext(log2);
            plaintexts.add(plaintext);
            names.add("f" + i + ".phx");
            Path output = folder.resolve(names.get(i));
            if (i % 3 == 0) {
                protector.protect(new ByteArrayInputStream(plaintext), output);
            } else {
                protector.protect(Files.write(folder.resolve("in" + i), plaintext), output);
            }
        }
        phalanx(names, "unprotect", "--quiet", "--no-sync", "--output-dir", "out").ok();
        for (int i = 0; i < FILES; i++) {
            assertArrayEquals(plaintexts.get(i), Files.readAllBytes(folder.resolve("out").resolve("f" + i)), "file " + i);
        }
    }

    @Test
    void javaOpensWhatPhalanxWrites() throws IOException, InterruptedException {
        int opened = 0;
        for (int c = 0; c < CIPHERS.length; c++) {
            for (int log2 : LOG2) {
                Path out = Files.createDirectory(folder.resolve("out" + c + "-" + log2));
                List<String> names = new ArrayList<>();
                List<byte[]> plaintexts = new ArrayList<>();
                for (int i = 0; i < 4; i++) {
                    plaintexts.add(plaintext(log2));
                    names.add("f" + i);
                    Files.write(folder.resolve(names.get(i)), plaintexts.get(i));
                }
                String size = String.valueOf(1 << log2);
                phalanx(names, "protect", "--quiet", "--no-sync", "--key", "work", "--cipher", CIPHERS[c],
                        "--chunk-size", size, "--output-dir", out.toString()).ok();
                Unprotector unprotector = new Unprotector(KeyProvider.of(key));
                for (int i = 0; i < names.size(); i++) {
                    Path input = out.resolve(names.get(i) + ".phx");
                    ByteArrayOutputStream plain = new ByteArrayOutputStream();
                    unprotector.unprotect(input, plain);
                    assertArrayEquals(plaintexts.get(i), plain.toByteArray());
                    assertEquals(plaintexts.get(i).length, unprotector.verify(input));
                    opened++;
                }
            }
        }
        assertEquals(120, opened);
    }

    @Test
    void passwordsOpenEachOthersFiles() throws IOException, InterruptedException {
        Path secret = Files.write(folder.resolve("password"), "correct horse\n".getBytes());
        Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("rw-------"));
        Password password = KeyFiles.password(secret);
        byte[] plaintext = plaintext(20);
        Path in = Files.write(folder.resolve("f"), plaintext);
        phalanx(List.of("f"), "protect", "--password-file", "password", "--output", "by-phalanx").ok();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        new Unprotector(KeyProvider.of(password)).unprotect(folder.resolve("by-phalanx"), out);
        assertArrayEquals(plaintext, out.toByteArray());
        new Protector(Recipients.of(password).and(key)).protect(in, folder.resolve("by-java"));
        phalanx(List.of("by-java"), "unprotect", "--password-file", "password", "--output", "plain").ok();
        assertArrayEquals(plaintext, Files.readAllBytes(folder.resolve("plain")));
    }

    /** Both find the same files altered or cut. */
    @Test
    void bothFindTheSameDamage() throws IOException, InterruptedException {
        Files.createDirectory(folder.resolve("out"));
        List<String> names = new ArrayList<>();
        Unprotector unprotector = new Unprotector(KeyProvider.of(key));
        for (int i = 0; i < FILES; i++) {
            Suite suite = Suite.values()[i % Suite.values().length];
            Protector protector = new Protector(Recipients.of(key)).withSuite(suite).withChunkLog2(12);
            ByteArrayOutputStream sealed = new ByteArrayOutputStream();
            protector.protect(new ByteArrayInputStream(plaintext(12)), sealed);
            byte[] file = sealed.toByteArray();
            if (i % 2 == 0) {
                file[random.nextInt(file.length)] ^= (byte) (1 << random.nextInt(8));
            } else {
                file = Arrays.copyOf(file, random.nextInt(file.length));
            }
            names.add("d" + i + ".phx");
            Path damaged = Files.write(folder.resolve(names.get(i)), file);
            assertThrows(PhalanxException.class, () -> unprotector.verify(damaged), names.get(i));
            assertThrows(PhalanxException.class, () -> unprotector.unprotect(damaged, folder.resolve("plain")));
        }
        Needs.Ran ran = phalanx(names, "unprotect", "--key", "work", "--output-dir", "out");
        assertEquals(3, ran.code());
        assertEquals(FILES, ran.err().lines().count(), ran.err());
        try (var left = Files.list(folder.resolve("out"))) {
            assertEquals(0, left.count());
        }
    }
}
