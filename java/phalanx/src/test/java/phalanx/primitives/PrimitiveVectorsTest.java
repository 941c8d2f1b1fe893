package phalanx.primitives;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import phalanx.Vectors;
import phalanx.Vectors.Vector;

/** The official vectors of the primitives that this library uses. */
class PrimitiveVectorsTest {
    @Test
    void allVectors() throws GeneralSecurityException {
        Set<String> seen = new HashSet<>();
        int checked = 0;
        for (Vector vector : Vectors.of("primitives", 15)) {
            String algorithm = vector.text("algorithm");
            for (JsonElement element : vector.fields().getAsJsonArray("tests")) {
                JsonObject test = element.getAsJsonObject();
                if (check(algorithm, test)) {
                    seen.add(algorithm);
                    checked++;
                }
            }
        }
        Set<String> used = Set.of(
                "AES-128-CTR", "AES-192-CTR", "AES-256-CTR", "SHA3-256", "KMAC256", "TurboSHAKE256", "AES-KW", "Argon2id");
        assertEquals(used, seen);
        assertTrue(checked > 100, "only " + checked);
    }

    /** Whether the test is for a primitive that this library uses. */
    private static boolean check(String algorithm, JsonObject test) throws GeneralSecurityException {
        String name = algorithm + " " + test.get("name").getAsString();
        switch (algorithm) {
            case "AES-128-CTR", "AES-192-CTR", "AES-256-CTR" -> {
                Cipher cipher = Cipher.getInstance("AES/CTR/NoPadding");
                SecretKeySpec key = new SecretKeySpec(bytes(test, "key"), "AES");
                cipher.init(Cipher.ENCRYPT_MODE, key, new IvParameterSpec(bytes(test, "counter")));
                assertArrayEquals(bytes(test, "ciphertext"), cipher.doFinal(bytes(test, "plaintext")), name);
            }
            case "SHA3-256" -> assertArrayEquals(
                    bytes(test, "digest"), hash(Sponge.sha3(), bytes(test, "message"), 32), name);
            case "TurboSHAKE256" -> {
                byte[] message = test.has("message") ? bytes(test, "message") : pattern(test.get("pattern_len").getAsInt());
                byte[] output = bytes(test, "output");
                Sponge sponge = Sponge.turboShake(test.get("domain").getAsInt());
                assertArrayEquals(output, hash(sponge, message, output.length), name);
            }
            case "KMAC256" -> {
                byte[] output = bytes(test, "output");
                String customization = new String(bytes(test, "customization"), StandardCharsets.US_ASCII);
                assertArrayEquals(
                        output, Kmac.of(bytes(test, "key"), bytes(test, "message"), output.length, customization), name);
            }
            case "AES-KW" -> {
                if (bytes(test, "kek").length != 32) {
                    return false;
                }
                Optional<byte[]> key = KeyWrap.unwrap(bytes(test, "kek"), bytes(test, "wrapped"));
                assertEquals(test.has("key"), key.isPresent(), name);
                if (key.isPresent()) {
                    assertArrayEquals(bytes(test, "key"), key.get(), name);
                    assertArrayEquals(bytes(test, "wrapped"), KeyWrap.wrap(bytes(test, "kek"), key.get()), name);
                }
            }
            case "Argon2id" -> {
                if (bytes(test, "secret").length + bytes(test, "ad").length > 0
                        || bytes(test, "output").length != 32) {
                    return false;
                }
                byte[] out = Argon2id.derive(bytes(test, "password"), bytes(test, "salt"),
                        test.get("memory").getAsInt(), test.get("passes").getAsInt(), test.get("lanes").getAsInt());
                assertArrayEquals(bytes(test, "output"), out, name);
            }
            default -> {
                return false;
            }
        }
        return true;
    }

    private static byte[] bytes(JsonObject test, String field) {
        return test.has(field) ? Vectors.bytes(test, field) : new byte[0];
    }

    private static byte[] pattern(int length) {
        byte[] pattern = new byte[length];
        for (int i = 0; i < length; i++) {
            pattern[i] = (byte) (i % 251);
        }
        return pattern;
    }

    private static byte[] hash(Sponge sponge, byte[] message, int length) {
        byte[] out = new byte[length];
        sponge.hash(message, 0, message.length, out, 0, length);
        return out;
    }
}
