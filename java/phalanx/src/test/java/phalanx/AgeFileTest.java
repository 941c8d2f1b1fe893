package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Age files: the vectors of age's authors, and what may be in a slot. */
class AgeFileTest {
    private static final byte[] CONTENT = "0123456789abcdef0123456789ABCDEF".getBytes(StandardCharsets.US_ASCII);

    static List<Path> vectors() throws IOException {
        Path folder = Vectors.root().resolve("crates/age/tests/data/cctv");
        try (Stream<Path> files = Files.list(folder)) {
            List<Path> found = files.filter(path -> !path.endsWith("README.md")).sorted().toList();
            assertEquals(123, found.size());
            return found;
        }
    }

    /** The vectors of c2sp.org/CCTV/age: a text with what is expected, an empty line, and the file. */
    @ParameterizedTest
    @MethodSource("vectors")
    void vectorsHaveTheirResults(Path path) throws IOException, NoSuchAlgorithmException, AgeFile.Malformed, KeyException {
        byte[] bytes = Files.readAllBytes(path);
        String text = new String(bytes, StandardCharsets.ISO_8859_1);
        int end = text.indexOf("\n\n");
        Vector vector = new Vector(Arrays.copyOfRange(bytes, end + 2, bytes.length));
        text.substring(0, end).lines().forEach(line -> vector.add(line.split(": ", 2)));
        switch (vector.expected) {
            case "success" -> {
                byte[] hash = MessageDigest.getInstance("SHA-256").digest(vector.open().orElseThrow());
                assertEquals(vector.payload, HexFormat.of().formatHex(hash));
            }
            case "no match" -> assertTrue(vector.open().isEmpty());
            case "header failure" -> {
                if (path.endsWith("scrypt_work_factor_23")) {
                    assertThrows(KeyException.class, vector::open);
                } else {
                    assertThrows(AgeFile.Malformed.class, vector::open);
                }
            }
            case "armor failure" -> assertThrows(AgeFile.Malformed.class, () -> AgeArmor.decode(vector.file));
            case "HMAC failure" -> refused(vector, "its header is not authentic");
            case "payload failure" -> refused(vector, "its payload is not authentic", "its payload is cut");
            default -> throw new AssertionError(vector.expected);
        }
    }

    private static void refused(Vector vector, String... why) {
        String said = assertThrows(AgeFile.Malformed.class, vector::open).getMessage();
        assertTrue(List.of(why).contains(said), said);
    }

    /** A vector, and what is to come of it. */
    private static final class Vector {
        private final byte[] file;
        private final List<AgeIdentity> identities = new ArrayList<>();
        private final List<String> passphrases = new ArrayList<>();
        private String expected;
        private String payload;
        private boolean isArmored;

        Vector(byte[] file) {
            this.file = file;
        }

        void add(String[] field) {
            switch (field[0]) {
                case "identity" -> identities.add(AgeIdentity.parse(field[1]));
                case "passphrase" -> passphrases.add(field[1]);
                case "expect" -> expected = field[1];
                case "payload" -> payload = field[1];
                case "armored" -> isArmored = true;
                default -> assertTrue(List.of("file key", "comment").contains(field[0]), field[0]);
            }
        }

        Optional<byte[]> open() throws AgeFile.Malformed, KeyException {
            AgeFile parsed = AgeFile.parse(isArmored ? AgeArmor.decode(file) : file);
            for (String passphrase : parsed.isOfPassphrase() ? passphrases : List.<String>of()) {
                Optional<byte[]> content = parsed.open(passphrase.getBytes(StandardCharsets.UTF_8));
                if (content.isPresent()) {
                    return content;
                }
            }
            for (AgeIdentity identity : identities) {
                Optional<byte[]> content = parsed.open(identity);
                if (content.isPresent()) {
                    return content;
                }
            }
            return Optional.empty();
        }
    }

    @Test
    void madeFilesOpenByTheirIdentityAlone() throws AgeFile.Malformed {
        for (AgeKind kind : AgeKind.values()) {
            AgeIdentity identity = AgeKeysTest.identity(kind, 1);
            byte[] file = AgeFile.make(identity.recipient(), CONTENT);
            assertEquals(AgeFile.length(kind.blank(identity.recipient().publicKey())), file.length);
            assertArrayEquals(CONTENT, AgeFile.ofSlot(file).open(identity).orElseThrow());
            assertFalse(Arrays.equals(file, AgeFile.make(identity.recipient(), CONTENT)));
            for (AgeKind other : AgeKind.values()) {
                assertTrue(AgeFile.ofSlot(file).open(AgeKeysTest.identity(other, 2)).isEmpty());
                assertEquals(kind == other ? 1 : 0, AgeFile.ofSlot(file).stanzasFor(AgeKeysTest.identity(other, 2)));
            }
        }
    }

    @Test
    void everyByteIsAuthentic() {
        for (AgeKind kind : AgeKind.values()) {
            AgeIdentity identity = AgeKeysTest.identity(kind, 1);
            byte[] file = AgeFile.make(identity.recipient(), CONTENT);
            // A long share is sampled, and all of the rest is tried.
            for (int at = 0; at < file.length; at += kind == AgeKind.POST_QUANTUM && at > 50 && at < 1500 ? 97 : 1) {
                byte[] altered = file.clone();
                altered[at] ^= 1;
                assertFalse(opens(altered, identity), kind + " " + at);
            }
            for (int length = 0; length < file.length; length++) {
                byte[] cut = Arrays.copyOf(file, length);
                assertThrows(AgeFile.Malformed.class, () -> AgeFile.ofSlot(cut), kind + " " + length);
            }
        }
    }

    private static boolean opens(byte[] file, AgeIdentity identity) {
        try {
            return AgeFile.ofSlot(file).open(identity).isPresent();
        } catch (AgeFile.Malformed e) {
            return false;
        }
    }

    private static byte[] file(String stanzas, int payload) {
        return ("age-encryption.org/v1\n" + stanzas + "--- " + "A".repeat(43) + "\n" + "p".repeat(payload))
                .getBytes(StandardCharsets.ISO_8859_1);
    }

    @Test
    void onlySomeFilesMayBeInASlot() throws AgeFile.Malformed {
        String one = "-> X25519 abc\nAAAA\n";
        AgeFile.ofSlot(file(one, 64));
        AgeFile.ofSlot(file(one.repeat(8), 64));
        AgeFile.ofSlot(file(one + "-> x-grease !~\n\n-> ssh-rsa tag\n" + "B".repeat(64) + "\n\n", 64));
        List<byte[]> wrong = new ArrayList<>();
        for (int payload : new int[] {0, 32, 63, 65, 128}) {
            wrong.add(file(one, payload));
        }
        String[] stanzas = {
            "", one.repeat(9), "-> scrypt salt 10\nAAAA\n", one + "-> scrypt salt 10\nAAAA\n", "-> \nAAAA\n",
            "->  X25519\nAAAA\n", "-> X25519 \nAAAA\n", "-> X25519  a\nAAAA\n", "-> X25519\ta\nAAAA\n", "-> X25519 \u00e4\nAAAA\n",
            "-> X25519\nAA=A\n", "-> X25519\nAA==\n", "-> X25519\nAB\n", "-> X25519\nA\n", "-> X25519\r\nAAAA\n", "-> X25519\n",
            "X25519\nAAAA\n", "-> X25519\n" + "A".repeat(65) + "\n", "-> X25519\n" + "A".repeat(64) + "\n",
        };
        for (String each : stanzas) {
            wrong.add(file(each, 64));
        }
        String good = new String(file(one, 64), StandardCharsets.ISO_8859_1);
        for (String each : new String[] {
            good.replace("v1", "v2"), good.replace("v1\n", "v1\r\n"), good.replace("--- ", "---"), good.replace("--- ", "---  "),
            good.replace("--- A", "--- "), good.replace("A\np", "B\np"), good.replace("A\np", "A \np"), " " + good, "",
            "-----BEGIN AGE ENCRYPTED FILE-----\n",
        }) {
            wrong.add(each.getBytes(StandardCharsets.ISO_8859_1));
        }
        for (byte[] each : wrong) {
            String text = new String(each, StandardCharsets.ISO_8859_1);
            assertNotEquals(good, text);
            assertThrows(AgeFile.Malformed.class, () -> AgeFile.ofSlot(each), text);
        }
    }

    /** A stanza of an identity's type that breaks the type's rules ends the search in its file, before anything is decrypted. */
    @Test
    void stanzasKeepTheRulesOfTheirTypes() throws AgeFile.Malformed {
        for (AgeKind kind : AgeKind.values()) {
            AgeIdentity identity = AgeKeysTest.identity(kind, 1);
            String share = base64(kind.share());
            String body = base64(32);
            String[] wrong = {
                stanza(kind, "", body), stanza(kind, " " + share + " x", body), stanza(kind, " " + share, base64(31)),
                stanza(kind, " " + share, base64(33)), stanza(kind, " " + share, ""), stanza(kind, " " + base64(kind.share() - 1), body),
                stanza(kind, " " + base64(kind.share() + 1), body), stanza(kind, " " + share + "=", body),
                // The share is a point of low order.
                stanza(kind, " " + share, body),
            };
            for (String each : wrong) {
                AgeFile file = AgeFile.ofSlot(file(each, 64));
                assertThrows(AgeFile.Malformed.class, () -> file.open(identity), each);
                AgeKind other = kind == AgeKind.ELLIPTIC ? AgeKind.POST_QUANTUM : AgeKind.ELLIPTIC;
                assertTrue(file.open(AgeKeysTest.identity(other, 1)).isEmpty());
            }
        }
    }

    private static String stanza(AgeKind kind, String arguments, String body) {
        return "-> " + kind.type() + arguments + "\n" + body + "\n";
    }

    private static String base64(int zeros) {
        return java.util.Base64.getEncoder().withoutPadding().encodeToString(new byte[zeros]);
    }
}
