package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import phalanx.Vectors.Vector;

/** Every vector of {@code vectors/contents} and {@code vectors/manifests} has the expected verdict. */
class TreeVectorsTest {
    @TempDir
    Path folder;

    static List<Vector> contents() {
        return Vectors.of("contents", 62);
    }

    static List<Vector> manifests() {
        return Vectors.of("manifests", 80);
    }

    @ParameterizedTest
    @MethodSource("contents")
    void contents(Vector vector) throws IOException {
        Path file = Files.write(folder.resolve("file"), stored(vector));
        if (vector.text("expect").equals("ok")) {
            Contents found = Contents.read(file);
            assertArrayEquals(vector.bytes("last"), found.last());
            assertArrayEquals(vector.bytes("root"), found.root());
            return;
        }
        PhalanxException e = assertThrows(PhalanxException.class, () -> Contents.read(file));
        Class<?> expected = switch (vector.text("expect")) {
            case "not-phalanx" -> NotPhalanxException.class;
            case "version" -> UnsupportedVersionException.class;
            case "header" -> MalformedHeaderException.class;
            case "altered" -> AuthenticationException.class;
            default -> throw new AssertionError(vector.text("expect"));
        };
        assertInstanceOf(expected, e);
    }

    /** The file of a vector: that of another one, or in parts. */
    private static byte[] stored(Vector vector) throws IOException {
        if (vector.has("format")) {
            String name = vector.text("format") + ".json";
            List<Vector> format = Vectors.of("format", 527);
            return format.stream().filter(other -> other.name().equals(name)).findFirst().orElseThrow().bytes("file");
        }
        ByteArrayOutputStream file = new ByteArrayOutputStream();
        for (JsonElement part : vector.fields().getAsJsonArray("file")) {
            boolean isNumber = part.getAsJsonPrimitive().isNumber();
            file.write(isNumber ? new byte[part.getAsInt()] : HexFormat.of().parseHex(part.getAsString()));
        }
        return file.toByteArray();
    }

    @ParameterizedTest
    @MethodSource("manifests")
    void manifests(Vector vector) throws IOException {
        byte[] bytes = vector.bytes("manifest");
        if (vector.text("expect").equals("ok")) {
            check(vector, Manifest.read(new ByteArrayInputStream(bytes)));
            assertArrayEquals(bytes, writtenAgain(bytes));
            return;
        }
        PhalanxException e = assertThrows(PhalanxException.class, () -> readToTheEnd(bytes));
        boolean isVersion = vector.text("expect").equals("version");
        assertEquals(isVersion, e instanceof UnsupportedVersionException, e.getMessage());
        assertEquals(!isVersion, e instanceof MalformedManifestException, e.getMessage());
        String rule = e.getMessage().replace("malformed manifest: ", "");
        assertEquals(vector.text("expect"), isVersion ? "version" : rule(rule));
    }

    /** The writer makes the same bytes of what the reader has found. */
    private static byte[] writtenAgain(byte[] bytes) throws IOException {
        Manifest manifest = Manifest.read(new ByteArrayInputStream(bytes));
        return TreeNode.read(manifest).manifest(manifest.head()).readAllBytes();
    }

    private static String rule(String message) {
        return switch (message) {
            case "it does not begin like one" -> "magic";
            case "it is cut short" -> "cut";
            case "its rules are too long", "its rules are not text" -> "rules";
            case "it has no root", "its first entry is not the root" -> "root";
            case "an entry is of an unknown kind" -> "kind";
            case "a name is too long", "a name is no file's name" -> "name";
            case "its names are not in order" -> "order";
            case "a mode has more than permissions" -> "mode";
            case "a time has more than a second of nanoseconds" -> "time";
            case "a file has an impossible length" -> "length";
            case "a link leads to no path" -> "target";
            case "its number of entries is wrong" -> "count";
            case "it goes on after its end" -> "extended";
            default -> throw new AssertionError(message);
        };
    }

    private static void readToTheEnd(byte[] bytes) throws IOException {
        Manifest manifest = Manifest.read(new ByteArrayInputStream(bytes));
        while (!manifest.isAtEnd()) {
            manifest.next();
        }
    }

    private static void check(Vector vector, Manifest manifest) throws IOException {
        Manifest.Head head = manifest.head();
        assertEquals(vector.text("tree"), head.tree().toString().replace("-", ""));
        assertEquals(vector.text("generation"), Long.toUnsignedString(head.generation()));
        assertEquals(vector.text("written"), Long.toString(head.written()));
        assertEquals(vector.text("previous"), head.previous());
        assertArrayEquals(vector.bytes("rules"), head.rules().getBytes(StandardCharsets.UTF_8));
        Iterator<JsonElement> expected = vector.fields().getAsJsonArray("entries").iterator();
        while (!manifest.isAtEnd()) {
            int depth = manifest.depth();
            Optional<TreeEntry> entry = manifest.next();
            if (entry.isPresent()) {
                check(expected.next().getAsJsonObject(), depth, entry.get());
            }
        }
        assertFalse(expected.hasNext());
        assertThrows(IllegalStateException.class, manifest::next);
    }

    private static void check(JsonObject expected, int depth, TreeEntry entry) {
        assertEquals(expected.get("depth").getAsInt(), depth);
        assertArrayEquals(Vectors.bytes(expected, "name"), entry.name().toBytes());
        TreeEntry.Attributes attributes = new TreeEntry.Attributes(
                expected.get("mode").getAsInt(),
                Long.parseLong(expected.get("seconds").getAsString()),
                expected.get("nanoseconds").getAsInt());
        assertEquals(attributes, entry.attributes());
        String kind = expected.get("kind").getAsString();
        if (entry instanceof TreeEntry.File file) {
            assertEquals("file", kind);
            assertEquals(expected.get("len").getAsString(), Long.toString(file.length()));
            assertEquals(expected.get("stored_len").getAsString(), Long.toString(file.storedLength()));
            assertEquals(expected.get("device").getAsString(), Long.toUnsignedString(file.device()));
            assertEquals(expected.get("inode").getAsString(), Long.toUnsignedString(file.inode()));
            Contents contents = new Contents(Vectors.bytes(expected, "last"), Vectors.bytes(expected, "root"));
            assertEquals(contents, file.contents());
        } else if (entry instanceof TreeEntry.Link link) {
            assertEquals("link", kind);
            assertArrayEquals(Vectors.bytes(expected, "target"), link.target().toBytes());
        } else {
            assertEquals("folder", kind);
        }
    }

    /** No vector is so deep. */
    @Test
    void foldersWithinEachOtherAreBounded() throws IOException {
        readToTheEnd(deep(65_536));
        assertThrows(MalformedManifestException.class, () -> readToTheEnd(deep(65_537)));
    }

    /** A manifest of folders within each other. */
    private static byte[] deep(int depth) {
        ByteBuffer bytes = ByteBuffer.allocate(76 + 21 * depth + 8).order(ByteOrder.LITTLE_ENDIAN);
        bytes.put("PHXTREE1".getBytes(StandardCharsets.US_ASCII)).position(76);
        for (int i = 0; i < depth; i++) {
            byte[] name = new byte[i == 0 ? 0 : 1];
            Arrays.fill(name, (byte) 'x');
            bytes.put((byte) 1).putShort((short) name.length).put(name).put(new byte[16]);
        }
        bytes.put(new byte[depth]).putLong(depth);
        return Arrays.copyOf(bytes.array(), bytes.position());
    }

    /** Times that Java cannot express are the nearest that it can. */
    @Test
    void everyTimeIsSome() {
        for (long seconds : new long[] {Long.MIN_VALUE, -1, 0, Long.MAX_VALUE}) {
            assertEquals(
                    Long.signum(seconds),
                    Long.signum(new TreeEntry.Attributes(0, seconds, 0).modified().toInstant().getEpochSecond()));
        }
    }
}
