package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import phalanx.Vectors.Vector;

/** Every vector of {@code vectors/format} and {@code vectors/age} has the expected verdict, in every way of reading. */
class FormatVectorsTest {
    @TempDir
    Path folder;

    static List<Vector> format() {
        return Vectors.of("format", 527);
    }

    static List<Vector> age() {
        return Vectors.of("age", 12);
    }

    @ParameterizedTest
    @MethodSource("format")
    void asAFile(Vector vector) throws IOException {
        Path input = Files.write(folder.resolve("in"), vector.bytes("file"));
        Path output = folder.resolve("out");
        Unprotector unprotector = new Unprotector(Vectors.keys(vector));
        check(vector, () -> unprotector.unprotect(input, output), true);
        check(vector, () -> unprotector.verify(input), true);
        if (vector.text("expect").equals("ok")) {
            assertArrayEquals(vector.bytes("plaintext"), Files.readAllBytes(output));
        } else {
            try (var files = Files.list(folder)) {
                assertEquals(List.of(input), files.toList(), "nothing is left of a refused file");
            }
        }
    }

    @ParameterizedTest
    @MethodSource("format")
    void asAStream(Vector vector) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Unprotector unprotector = new Unprotector(Vectors.keys(vector)).on(Runnable::run, 1);
        check(vector, () -> unprotector.unprotect(new ByteArrayInputStream(vector.bytes("file")), out), false);
        if (vector.text("expect").equals("ok")) {
            assertArrayEquals(vector.bytes("plaintext"), out.toByteArray());
        }
    }

    /** When reading by range, only the requested chunks and the last one are checked. */
    @ParameterizedTest
    @MethodSource("format")
    void byRange(Vector vector) throws IOException {
        Path input = Files.write(folder.resolve("in"), vector.bytes("file"));
        check(vector, () -> {
            try (PhalanxFile file = PhalanxFile.open(input, Vectors.keys(vector));
                    InputStream in = file.inputStream()) {
                byte[] plaintext = in.readAllBytes();
                assertEquals(file.size(), plaintext.length);
                assertArrayEquals(vector.bytes("plaintext"), plaintext);
            }
        }, true);
    }

    /** With given keys and nonces, a writer makes the same chunks. */
    @ParameterizedTest
    @MethodSource("format")
    void aWriterMakesTheSameChunks(Vector vector) throws IOException {
        if (!vector.has("nonces")) {
            return;
        }
        byte[] file = vector.bytes("file");
        Header header = Header.read(new ByteArrayInputStream(file));
        assertEquals(vector.number("suite"), header.suite().number());
        assertEquals(vector.number("chunk_log2"), header.chunkLog2());
        assertEquals(vector.number("header_len"), header.length());
        byte[] plaintext = vector.bytes("plaintext");
        Layout layout = new Layout(header.suite(), header.chunkLog2(), header.length(), plaintext.length);
        assertEquals(file.length, layout.fileLength());
        assertEquals(layout, header.layout(file.length));
        List<byte[]> nonces = vector.list("nonces");
        assertEquals(nonces.size(), layout.chunks());
        try (FileKeys keys = FileKeys.ofFile(vector.bytes("file_key"), header.suite())) {
            ChunkCipher cipher = new ChunkCipher(keys, header.chunkLog2());
            for (int i = 0; i < nonces.size(); i++) {
                int length = layout.plaintextLength(i);
                byte[] chunk = Arrays.copyOf(nonces.get(i), length + header.suite().overhead());
                int offset = (int) layout.plaintextOffset(i);
                System.arraycopy(plaintext, offset, chunk, header.suite().overhead(), length);
                cipher.sealUnder(chunk, 0, length, i, layout.isLast(i));
                int at = (int) layout.fileOffset(i);
                assertArrayEquals(Arrays.copyOfRange(file, at, at + chunk.length), chunk);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("age")
    void withoutAnIdentityAgeSlotsAreSkipped(Vector vector) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        KeyProvider keys = Vectors.keys(vector);
        new Unprotector(keys).unprotect(new ByteArrayInputStream(vector.bytes("file")), out);
        assertArrayEquals(vector.bytes("plaintext"), out.toByteArray());
    }

    private interface Attempt {
        void run() throws IOException;
    }

    private static void check(Vector vector, Attempt attempt, boolean knowsLength) throws IOException {
        String expected = vector.text("expect");
        if (expected.equals("ok")) {
            attempt.run();
            return;
        }
        PhalanxException e = assertThrows(PhalanxException.class, attempt::run, expected);
        String found = switch (e.getClass().getSimpleName()) {
            case "NotPhalanxException" -> "not-phalanx";
            case "UnsupportedVersionException" -> "version";
            case "MalformedHeaderException" -> "header";
            case "KeyDerivationException" -> "kdf-limit";
            case "WrongKeyException" -> "no-key";
            case "AuthenticationException", "TruncatedException" -> "altered";
            default -> e.toString();
        };
        assertEquals(expected, found, e.getMessage());
        assertFalse(e.getMessage().contains("\n"));
    }
}
