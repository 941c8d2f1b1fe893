package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonObject;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import phalanx.Vectors.Vector;

/** Every vector of {@code vectors/services} has the expected verdict. */
class ServiceVectorsTest {
    static List<Vector> services() {
        return Vectors.of("services", 50);
    }

    /** A service that answers as a vector says. */
    private record Told(String uri, Vector vector) implements KeyService {
        @Override
        public byte[] wrap(byte[] runKey) {
            throw new AssertionError("nothing is protected");
        }

        @Override
        public byte[] unwrap(byte[] wrapped) throws IOException {
            for (JsonObject each : answers(vector)) {
                boolean isIt = each.get("uri").getAsString().equals(uri) && Arrays.equals(wrapped, Vectors.bytes(each, "wrapped_run_key"));
                if (isIt && each.has("run_key")) {
                    return Vectors.bytes(each, "run_key");
                }
            }
            throw new IOException("says no");
        }
    }

    private static List<JsonObject> answers(Vector vector) {
        return vector.fields().getAsJsonArray("services").asList().stream().map(each -> each.getAsJsonObject()).toList();
    }

    /** The services that the user can have named: no other URI is in a slot. */
    private static KeyProvider named(Vector vector) {
        Map<String, KeyService> all = new LinkedHashMap<>();
        for (JsonObject each : answers(vector)) {
            String uri = each.get("uri").getAsString();
            if (Slots.isServiceUri(uri)) {
                all.put(uri, new Told(uri, vector));
            }
        }
        return all.isEmpty() ? id -> Optional.empty() : KeyServices.of(List.copyOf(all.values()));
    }

    @ParameterizedTest
    @MethodSource("services")
    void byNamedServices(Vector vector) throws IOException {
        check(vector, Vectors.keys(vector).or(named(vector)));
    }

    /** A provider of somebody else's, which may name anything. */
    @ParameterizedTest
    @MethodSource("services")
    void byAnotherProvider(Vector vector) throws IOException {
        check(vector, Vectors.keys(vector).or(new KeyProvider() {
            @Override
            public Optional<PhalanxKey> key(KeyId id) {
                return Optional.empty();
            }

            @Override
            public Optional<PhalanxKey> runKey(String uri, byte[] wrapped) throws IOException {
                if (answers(vector).stream().noneMatch(each -> each.get("uri").getAsString().equals(uri))) {
                    return Optional.empty();
                }
                try {
                    return Optional.of(PhalanxKey.of(new Told(uri, vector).unwrap(wrapped)));
                } catch (IOException e) {
                    throw new KeyException(e.getMessage());
                }
            }
        }));
    }

    @ParameterizedTest
    @MethodSource("services")
    void withoutServicesOnlyKeysOpen(Vector vector) throws IOException {
        if (vector.has("key")) {
            check(vector, Vectors.keys(vector));
        } else {
            Unprotector unprotector = new Unprotector(Vectors.keys(vector));
            assertThrows(WrongKeyException.class, () -> unprotector.verify(new ByteArrayInputStream(vector.bytes("file"))));
        }
    }

    private static void check(Vector vector, KeyProvider keys) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Unprotector unprotector = new Unprotector(keys).on(Runnable::run, 1);
        if (vector.text("expect").equals("ok")) {
            unprotector.unprotect(new ByteArrayInputStream(vector.bytes("file")), out);
            assertArrayEquals(vector.bytes("plaintext"), out.toByteArray());
            Header header = Header.read(new ByteArrayInputStream(vector.bytes("file")));
            assertEquals(vector.number("suite"), header.suite().number());
        } else {
            assertEquals("no-key", vector.text("expect"));
            assertThrows(WrongKeyException.class,
                    () -> unprotector.unprotect(new ByteArrayInputStream(vector.bytes("file")), out));
            assertEquals(0, out.size());
        }
    }
}
