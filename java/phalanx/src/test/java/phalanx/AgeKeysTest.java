package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.CharBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The texts of age's keys. */
class AgeKeysTest {
    /** Of c2sp.org/age. */
    private static final String IDENTITY = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
    private static final String RECIPIENT = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";
    /** Of Bech32. */
    private static final String ALPHABET = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";

    @TempDir
    Path folder;

    /** An identity whose bytes are all the same. */
    static AgeIdentity identity(AgeKind kind, int each) {
        return AgeIdentity.parse(text(kind, each));
    }

    private static String text(AgeKind kind, int each) {
        byte[] secret = new byte[32];
        Arrays.fill(secret, (byte) each);
        return Bech32.encode(kind.identity(), secret).toUpperCase(Locale.ROOT);
    }

    /** The keys of crates/age/tests/data. */
    private static String data(String name) throws IOException {
        List<String> lines = Files.readAllLines(Vectors.root().resolve("crates/age/tests/data").resolve(name));
        return lines.get(lines.size() - 1);
    }

    @Test
    void textsAreThoseOfOtherPrograms() throws IOException {
        assertEquals(RECIPIENT, AgeIdentity.parse(IDENTITY).recipient().toString());
        assertEquals(data("pq.pub"), AgeIdentity.parse(data("pq.txt")).recipient().toString());
        for (String text : List.of(RECIPIENT, data("pq.pub"))) {
            AgeRecipient recipient = AgeRecipient.parse(text);
            assertEquals(text, recipient.toString());
            assertEquals(recipient, AgeRecipient.parse(" " + text.toUpperCase(Locale.ROOT) + "\n"));
            assertEquals(text.startsWith("age1pq1"), recipient.isPostQuantum());
        }
        assertEquals(AgeIdentity.parse(IDENTITY), AgeIdentity.parse(CharBuffer.wrap((IDENTITY + "\n").toCharArray())));
        assertNotEquals(identity(AgeKind.ELLIPTIC, 1), identity(AgeKind.ELLIPTIC, 2));
    }

    @Test
    void otherTextsAreRefused() throws IOException {
        String pq = data("pq.pub");
        String prefix = "age1";
        String[] recipients = {
            "", "age1", "ssh-ed25519 AAAA", IDENTITY, IDENTITY.toLowerCase(Locale.ROOT), data("pq.txt"), "AGE-PLUGIN-X-1QQQ",
            "-----BEGIN OPENSSH PRIVATE KEY-----", RECIPIENT.substring(0, 61), RECIPIENT + "q", RECIPIENT.replace('v', 'V'),
            RECIPIENT.replace("zv", "vz"), RECIPIENT.replace("zv", "zb"), RECIPIENT.replace("zv", "z\u00e4"), RECIPIENT + " x",
            pq.substring(1), pq.replace("age1pq1", "age1"), "age1pq1" + RECIPIENT.substring(5), prefix.repeat(5000),
            Bech32.encode("age", new byte[31]), Bech32.encode("age", new byte[33]), Bech32.encode("age1pq", new byte[1215]),
            Bech32.encode("age1pq", new byte[1217]), Bech32.encode("age1tag", new byte[33]), Bech32.encode("age1yubikey", new byte[33]),
            Bech32.encode("bc", new byte[32]), Bech32.encode("age", new byte[0]),
        };
        for (String text : recipients) {
            IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> AgeRecipient.parse(text), text);
            assertTrue(text.length() < 5 || !e.getMessage().contains(text), e.getMessage());
        }
        String[] identities = {
            "", "A", "AGE-SECRET-KEY-1", RECIPIENT, IDENTITY.toLowerCase(Locale.ROOT), IDENTITY.substring(1), IDENTITY + "Q",
            IDENTITY.replace("KEY-1", "KEY-PQ-1"), IDENTITY.replace("GFP", "GFQ"), IDENTITY.replace("Y", "\u0159"),
            IDENTITY + "\n" + IDENTITY, "A".repeat(100_000),
            Bech32.encode("age-secret-key-", new byte[31]).toUpperCase(Locale.ROOT),
            Bech32.encode("age-secret-key-pq-", new byte[33]).toUpperCase(Locale.ROOT),
            Bech32.encode("age-plugin-yubikey-", new byte[32]).toUpperCase(Locale.ROOT),
        };
        for (String text : identities) {
            IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> AgeIdentity.parse(text), text);
            assertEquals("not an identity of age's own kinds", e.getMessage());
        }
    }

    /** Points of low order: RFC 7748, section 6.1, and numbers beyond the modulus; and numbers of ML-KEM that are not reduced. */
    @Test
    void uselessPublicKeysAreRefused() {
        byte[] whole = identity(AgeKind.POST_QUANTUM, 1).recipient().publicKey();
        for (String point : List.of(
                "00".repeat(32), "01" + "00".repeat(31), "ec" + "ff".repeat(30) + "7f", "ed" + "ff".repeat(30) + "7f",
                "ee" + "ff".repeat(30) + "7f", "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
                "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157")) {
            byte[] bytes = HexFormat.of().parseHex(point);
            String classic = Bech32.encode("age", bytes);
            assertThrows(IllegalArgumentException.class, () -> AgeRecipient.parse(classic), point);
            byte[] both = whole.clone();
            System.arraycopy(bytes, 0, both, both.length - 32, 32);
            String hybrid = Bech32.encode("age1pq", both);
            assertThrows(IllegalArgumentException.class, () -> AgeRecipient.parse(hybrid), point);
        }
        AgeRecipient.parse(Bech32.encode("age1pq", whole));
        byte[] large = whole.clone();
        large[0] = (byte) 0xff;
        large[1] |= 0x0f;
        assertThrows(IllegalArgumentException.class, () -> AgeRecipient.parse(Bech32.encode("age1pq", large)));
    }

    /** The vectors of BIP 173 that do not end by its limit of length. */
    @Test
    void bech32IsThatOfTheStandard() {
        for (String good : List.of(
                "A12UEL5L", "an83characterlonghumanreadablepartthatcontainsthenumber1andtheexcludedcharactersbio1tt5tgs",
                "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw", "?1ezyfcl", withChecksum("A1QQ"),
                "11qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqc8247j")) {
            Bech32.Decoded decoded = Bech32.decode(good.getBytes(StandardCharsets.US_ASCII)).orElseThrow();
            assertEquals(good.toLowerCase(Locale.ROOT), Bech32.encode(decoded.prefix(), decoded.bytes()));
        }
        assertEquals("00443214c74254b635cf84653a56d7c675be77df",
                HexFormat.of().formatHex(Bech32.decode("abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw".getBytes()).orElseThrow().bytes()));
        for (String bad : List.of(
                " 1nwldj5", "\u007f1axkwrx", "\u00801eym55h", "pzry9x0s0muk", "1pzry9x0s0muk", "x1b4n0q5v", "li1dgmt3", "A1G7SGD8",
                "10a06t8", "1qzzfhee", "", "1", "a12UEL5L", "A12UEL5l",
                // A value that adds no byte.
                withChecksum("A1Q"))) {
            assertTrue(Bech32.decode(bad.getBytes(StandardCharsets.ISO_8859_1)).isEmpty(), bad);
        }
    }

    /** Of all last characters, only those are accepted whose bits beyond the key are zero. */
    @Test
    void aKeyHasOneText() {
        String text = text(AgeKind.POST_QUANTUM, 7);
        String data = text.substring(0, text.length() - 7);
        long accepted = ALPHABET.chars()
                .mapToObj(last -> withChecksum(data + (char) last))
                .filter(each -> Bech32.decode(each.getBytes(StandardCharsets.US_ASCII)).isPresent())
                .count();
        assertEquals(2, accepted);
    }

    /** A text in capital letters, with the six characters that BIP 173 adds, computed from its definition. */
    private static String withChecksum(String text) {
        int split = text.lastIndexOf('1');
        StringBuilder values = new StringBuilder();
        String prefix = text.substring(0, split).toLowerCase(Locale.ROOT);
        prefix.chars().forEach(each -> values.append((char) (each >> 5)));
        values.append((char) 0);
        prefix.chars().forEach(each -> values.append((char) (each & 31)));
        text.substring(split + 1).chars().forEach(each -> values.append((char) ALPHABET.indexOf(each)));
        values.append("\0".repeat(6));
        int[] generators = {0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3};
        int sum = 1;
        for (char value : values.toString().toCharArray()) {
            int top = sum >>> 25;
            sum = (sum & 0x1ffffff) << 5 ^ value;
            for (int i = 0; i < 5; i++) {
                sum ^= (top >> i & 1) * generators[i];
            }
        }
        StringBuilder whole = new StringBuilder(text);
        for (int i = 5; i >= 0; i--) {
            whole.append(ALPHABET.charAt((sum ^ 1) >> 5 * i & 31));
        }
        return whole.toString();
    }

    private Path write(String text, String permissions) throws IOException {
        Path file = Files.writeString(folder.resolve("keys.txt"), text);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
        return file;
    }

    @Test
    void filesOfIdentitiesAreRead() throws IOException {
        String pq = text(AgeKind.POST_QUANTUM, 3);
        Path file = write("# created: now\n\n  \r\n" + IDENTITY + "\r\n# another\n " + pq, "rw-------");
        assertEquals(List.of(AgeIdentity.parse(IDENTITY), AgeIdentity.parse(pq)), AgeIdentity.read(file));
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r-----"));
        KeyException refused = assertThrows(KeyException.class, () -> AgeIdentity.read(file));
        assertEquals(Optional.of("chmod 600 " + file), refused.remedy());
        assertThrows(IOException.class, () -> AgeIdentity.read(folder.resolve("nope")));
    }

    @Test
    void otherFilesAreRefused() throws IOException {
        String[][] wrong = {
            {"", "no identity is in it"},
            {"# nothing\n", "no identity is in it"},
            {IDENTITY + "\nx\n", "line 2 is no identity"},
            {"#\n\n" + IDENTITY.substring(1), "line 3 is no identity"},
            {RECIPIENT, "it is a public key"},
            {IDENTITY + "\n" + RECIPIENT, "line 2 is a recipient: the identity is the secret that belongs to it"},
            {"AGE-PLUGIN-YUBIKEY-1QQ", "line 1 is an identity of a plugin, which is not supported here"},
            {"-----BEGIN OPENSSH PRIVATE KEY-----\nb3\n", "not an SSH key that can be read"},
            {"-----BEGIN AGE ENCRYPTED FILE-----\nb3\n", "no identity is in it"},
            {"age-encryption.org/v1\n-> scrypt", "no identity is in it"},
            {(IDENTITY + "\n").repeat(257), "more than 256 identities"},
            {"#".repeat(1 << 20) + "#", "it is too long for a file of recipients or identities"},
        };
        for (String[] each : wrong) {
            Path file = write(each[0], "rw-------");
            assertEquals(each[1], assertThrows(KeyException.class, () -> AgeIdentity.read(file)).getMessage());
        }
        assertEquals(256, AgeIdentity.read(write((IDENTITY + "\n").repeat(256), "rw-------")).size());
    }

    @Test
    void privateKeysAreNotShownAndAreWiped() throws AgeFile.Malformed {
        for (AgeKind kind : AgeKind.values()) {
            AgeIdentity identity = identity(kind, 1);
            byte[] made = AgeFile.make(identity.recipient(), new byte[32]);
            AgeFile file = AgeFile.ofSlot(made);
            assertArrayEquals(new byte[32], file.open(identity).orElseThrow());
            assertTrue(identity.toString().startsWith("AgeIdentity[age1") && identity.toString().length() < 80);
            assertFalse(identity.toString().toUpperCase(Locale.ROOT).contains("SECRET"));
            identity.close();
            assertThrows(IllegalStateException.class, () -> file.open(identity));
        }
    }
}
