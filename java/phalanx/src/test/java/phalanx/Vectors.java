package phalanx;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/** The test vectors of {@code vectors/}. */
public final class Vectors {
    private Vectors() {}

    /** The top of the checkout. */
    public static Path root() {
        Path folder = Path.of("").toAbsolutePath();
        while (!Files.isDirectory(folder.resolve("vectors"))) {
            folder = folder.getParent();
        }
        return folder;
    }

    /** One file of vectors. */
    public record Vector(String name, JsonObject fields) {
        /** The bytes of a field. */
        public byte[] bytes(String field) {
            return Vectors.bytes(fields, field);
        }

        /** The text of a field. */
        public String text(String field) {
            return fields.get(field).getAsString();
        }

        /** A number. */
        public int number(String field) {
            return fields.get(field).getAsInt();
        }

        /** Whether there is such a field. */
        public boolean has(String field) {
            return fields.has(field);
        }

        @Override
        public String toString() {
            return name;
        }
    }

    /** The bytes of a field. */
    public static byte[] bytes(JsonObject fields, String field) {
        return HexFormat.of().parseHex(fields.get(field).getAsString());
    }

    /** All files of a folder. There must be at least this many. */
    public static List<Vector> of(String folder, int least) {
        try (Stream<Path> files = Files.list(root().resolve("vectors").resolve(folder))) {
            List<Vector> vectors = files.filter(path -> path.toString().endsWith(".json"))
                    .sorted()
                    .map(Vectors::read)
                    .toList();
            assertTrue(vectors.size() >= least, () -> folder + " has only " + vectors.size() + " vectors");
            return vectors;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Vector read(Path path) {
        try {
            return new Vector(
                    path.getFileName().toString(), JsonParser.parseString(Files.readString(path)).getAsJsonObject());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The keys that are at hand in a vector. */
    static KeyProvider keys(Vector vector) {
        KeyProvider keys = id -> Optional.empty();
        if (vector.has("key")) {
            keys = keys.or(KeyProvider.of(PhalanxKey.of(vector.bytes("key"))));
        }
        if (vector.has("password")) {
            keys = keys.or(KeyProvider.of(Password.of(vector.bytes("password"))));
        }
        return keys;
    }
}
