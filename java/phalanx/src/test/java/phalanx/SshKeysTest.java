package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;
import phalanx.primitives.ChaChaPoly;
import phalanx.primitives.Hkdf;

/** Public and private keys of SSH, and files for them. */
class SshKeysTest {
    static final String PASSPHRASE = "open sesame";
    private static final byte[] CONTENT = "0123456789abcdef0123456789ABCDEF".getBytes(StandardCharsets.US_ASCII);
    private static final List<String> OPEN = List.of("ssh-ed25519", "ssh-rsa", "ssh-rsa-pem");
    private static final List<String> LOCKED = List.of("ssh-ed25519-locked", "ssh-rsa-locked");
    private static final String UNREADABLE = "not an SSH key that can be read";
    private static final String KIND = "SSH keys of this kind cannot be identities (ssh-ed25519 and ssh-rsa can)";
    private static final String COSTLY =
            "its passphrase costs more work than 10000 rounds of bcrypt (ssh-keygen -p -a 100 changes it)";
    private static final String DAMAGED = "not a recipient: a character is wrong or missing";
    private static final String RSA_LENGTH = "an RSA key with fewer than 2048 or more than 4096 bits cannot be a recipient";

    static Path data(String name) {
        return Vectors.root().resolve("crates/age/tests/data").resolve(name);
    }

    private static byte[] bytes(String name) {
        try {
            return Files.readAllBytes(data(name));
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static String text(String name) {
        return new String(bytes(name), StandardCharsets.US_ASCII);
    }

    /** The type and the Base64 of a public key, without its comment. */
    private static String canonical(String name) {
        String[] words = text(name + ".pub").split("[ \n]");
        return words[0] + " " + words[1];
    }

    /** The secret of a key without a passphrase, or one whose passphrase is that of the tests. */
    private static byte[] secret(SshPrivateKey key) {
        return key.hasPassphrase() ? key.open(PASSPHRASE.getBytes(StandardCharsets.US_ASCII)).orElseThrow() : key.secret();
    }

    @Test
    void textsAreThoseOfOtherPrograms() throws KeyException {
        List<String> all = new ArrayList<>(OPEN);
        all.addAll(LOCKED);
        for (String name : all) {
            AgeRecipient recipient = AgeRecipient.parse(text(name + ".pub"));
            assertEquals(canonical(name), recipient.toString());
            assertEquals(recipient, AgeRecipient.parse("  " + canonical(name).replace(" ", " \t") + "  somebody\r\n"));
            assertFalse(recipient.isPostQuantum());
            assertEquals(canonical(name).split(" ")[0], recipient.brief());
            SshPrivateKey key = SshPrivateKey.read(bytes(name));
            assertEquals(name.endsWith("-locked"), key.hasPassphrase());
            assertEquals(canonical(name), key.kind().text(key.publicKey()));
            assertArrayEquals(key.publicKey(), key.kind().publicKey(secret(key)));
            assertArrayEquals(key.publicKey(), SshPrivateKey.read(text(name).replace("\n", "\r\n").getBytes(StandardCharsets.US_ASCII)).publicKey());
        }
    }

    @Test
    void otherPublicKeysAreRefused() {
        String ed25519 = canonical("ssh-ed25519");
        byte[] point = SshWire.base64(ed25519.split(" ")[1]).orElseThrow();
        byte[] rsa = SshWire.base64(canonical("ssh-rsa").split(" ")[1]).orElseThrow();
        byte[] one = {1};
        byte[] even = rsa.clone();
        even[even.length - 1] &= ~1;
        byte[] odd = new byte[513];
        Arrays.fill(odd, (byte) 0xff);
        odd[0] = 0;
        byte[] large = new byte[514];
        large[0] = 1;
        large[513] = 1;
        byte[] f4 = {1, 0, 1};
        byte[] type = "ssh-rsa".getBytes(StandardCharsets.US_ASCII);
        String[][] wrong = {
            {"ssh-ed25519", "not a recipient: one begins with age1, ssh-ed25519 or ssh-rsa"},
            {"rsa AAAA", "not a recipient: one begins with age1, ssh-ed25519 or ssh-rsa"},
            {ed25519.substring(0, 60), DAMAGED},
            {ed25519 + "=", DAMAGED},
            {ed25519 + "AAAA", DAMAGED},
            {ed25519.replace("ssh-ed25519", "ssh-rsa"), DAMAGED},
            {ed25519.replace("ssh-ed25519", "ssh-dss"), DAMAGED},
            {"ssh-rsa AAAA", DAMAGED},
            {"ssh-ed25519 " + base64(Arrays.copyOf(point, point.length + 1)), DAMAGED},
            {"ssh-ed25519 " + base64(SshWire.fields("ssh-ed25519".getBytes(), new byte[32])), DAMAGED},
            {"ssh-ed25519 " + base64(SshWire.fields("ssh-ed25519".getBytes(), Arrays.copyOf(one, 32))), DAMAGED},
            {"ssh-ed25519 " + base64(SshWire.fields("ssh-ed25519".getBytes(), Arrays.copyOf(new byte[] {2}, 32))), DAMAGED},
            {"ssh-rsa " + base64(even), DAMAGED},
            {"ssh-rsa " + base64(Arrays.copyOf(rsa, rsa.length - 1)), DAMAGED},
            {"ssh-rsa " + base64(SshWire.fields(type, one, Arrays.copyOfRange(rsa, 22, rsa.length))), DAMAGED},
            {"ssh-rsa " + base64(SshWire.fields(type, new byte[] {0, 1, 0, 1}, Arrays.copyOfRange(rsa, 22, rsa.length))), DAMAGED},
            {"ssh-rsa " + base64(SshWire.fields(type, new byte[0], new byte[0])), DAMAGED},
            // It has 4096 bits, but also small factors.
            {"ssh-rsa " + base64(SshWire.fields(type, f4, odd)), DAMAGED},
            {"ssh-rsa " + base64(SshWire.fields(type, f4, large)), RSA_LENGTH},
            {text("ssh-rsa-short.pub"), RSA_LENGTH},
            {text("ssh-ecdsa.pub"), "SSH keys of the type ecdsa-sha2-nistp256 cannot be recipients (ssh-ed25519 and ssh-rsa can)"},
            {text("ssh-ed25519"), "this is an identity, which is secret, and not a recipient"},
        };
        for (String[] each : wrong) {
            Exception e = assertThrows(IllegalArgumentException.class, () -> AgeRecipient.parse(each[0]), each[0]);
            assertEquals(each[1], e.getMessage(), each[0]);
        }
    }

    private static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    private static AgeIdentity identity(String name, String... typed) throws IOException {
        List<String> left = new ArrayList<>(List.of(typed));
        Path copy = Files.createTempFile("phalanx-test", ".key");
        try {
            Files.write(copy, bytes(name));
            return AgeIdentity.read(copy, name, question -> {
                assertEquals("Passphrase of " + name + ": ", question);
                return left.isEmpty() ? Optional.empty() : Optional.of(left.remove(0).toCharArray());
            }).get(0);
        } finally {
            Files.delete(copy);
        }
    }

    @Test
    void madeFilesOpenByTheirIdentityAlone() throws IOException, AgeFile.Malformed {
        for (String name : OPEN) {
            AgeIdentity identity = identity(name);
            AgeRecipient recipient = AgeRecipient.parse(text(name + ".pub"));
            assertEquals(recipient, identity.recipient());
            byte[] file = AgeFile.make(recipient, CONTENT);
            assertEquals(recipient.slotBytes(), AgeRecipient.TAG + file.length);
            assertArrayEquals(CONTENT, AgeFile.ofSlot(file).open(identity).orElseThrow());
            for (String other : OPEN) {
                assertEquals(other.equals(name) ? 1 : 0, AgeFile.ofSlot(file).stanzasFor(identity(other)), other);
            }
            for (int at = 0; at < file.length; at += name.equals("ssh-ed25519") ? 1 : 37) {
                byte[] altered = file.clone();
                altered[at] ^= 1;
                assertFalse(opens(altered, identity), name + " " + at);
            }
            assertTrue(identity.toString().length() < 40, identity.toString());
            identity.close();
            assertThrows(IllegalStateException.class, () -> AgeFile.ofSlot(file).open(identity));
        }
    }

    private static boolean opens(byte[] file, AgeIdentity identity) {
        try {
            return AgeFile.ofSlot(file).open(identity).isPresent();
        } catch (AgeFile.Malformed e) {
            return false;
        }
    }

    private static byte[] protect(String... names) throws IOException {
        Recipients recipients = Recipients.none();
        for (String name : names) {
            recipients = recipients.and(AgeRecipient.parse(text(name + ".pub")));
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        new Protector(recipients).protect(new ByteArrayInputStream(CONTENT), out);
        return out.toByteArray();
    }

    private static String refusal(byte[] file, AgeIdentity... identities) {
        WrongKeyException e = assertThrows(WrongKeyException.class,
                () -> new Unprotector(KeyProvider.of(List.of(identities))).verify(new ByteArrayInputStream(file)));
        return e.getMessage().replace("no key at hand opens it: it needs the identity of one of its age recipients", "");
    }

    @Test
    void aPassphraseIsAskedForOnceAndOnlyForItsKey() throws IOException {
        byte[] file = protect("ssh-ed25519-locked", "ssh-rsa-locked");
        for (String name : LOCKED) {
            AgeIdentity identity = identity(name, PASSPHRASE);
            for (int i = 0; i < 2; i++) {
                assertEquals(32, new Unprotector(KeyProvider.of(identity)).verify(new ByteArrayInputStream(file)));
            }
            AgeIdentity wrong = identity(name, "open, sesame");
            assertEquals("; " + name + ": the passphrase is wrong", refusal(file, wrong));
            assertEquals("; " + name + ": the passphrase is wrong", refusal(file, wrong));
            assertEquals("; " + name + ": the passphrase is wrong", refusal(file, identity(name, "")));
            assertEquals("; " + name + ": nobody could be asked for its passphrase", refusal(file, identity(name)));
            assertEquals("", refusal(protect("ssh-rsa", "ssh-ed25519"), identity(name)));
            // One without a passphrase is tried before.
            AgeIdentity asks = identity(name);
            KeyProvider both = KeyProvider.of(List.of(asks, identity("ssh-rsa")));
            assertEquals(32, new Unprotector(both).verify(new ByteArrayInputStream(protect(name, "ssh-rsa"))));
        }
    }

    /** An age file with these stanzas, as a program could write it that knows the file's own key. */
    private static byte[] file(byte[] key, AgeStanza... stanzas) {
        StringBuilder header = new StringBuilder("age-encryption.org/v1\n");
        for (AgeStanza stanza : stanzas) {
            String body = AgeFile.encoded(stanza.body()).replaceAll(".{64}", "$0\n");
            header.append("-> ").append(String.join(" ", stanza.arguments())).append('\n').append(body).append('\n');
        }
        byte[] authenticated = header.append("---").toString().getBytes(StandardCharsets.US_ASCII);
        byte[] mac = Hkdf.mac(Hkdf.derive(key, new byte[0], SshWire.ascii("header")), authenticated);
        byte[] nonce = new byte[16];
        byte[] ofLastChunk = new byte[ChaChaPoly.NONCE];
        ofLastChunk[ChaChaPoly.NONCE - 1] = 1;
        byte[] payload = ChaChaPoly.seal(Hkdf.derive(key, nonce, SshWire.ascii("payload")), ofLastChunk, CONTENT);
        return ByteBuffer.allocate(authenticated.length + 45 + nonce.length + payload.length).put(authenticated)
                .put(SshWire.ascii(" " + AgeFile.encoded(mac) + "\n")).put(nonce).put(payload).array();
    }

    private static AgeStanza with(AgeStanza stanza, int argument, String value) {
        List<String> arguments = new ArrayList<>(stanza.arguments());
        arguments.subList(argument, arguments.size()).clear();
        arguments.addAll(List.of(value.split(" ")));
        return new AgeStanza(arguments, stanza.body());
    }

    private static AgeStanza with(AgeStanza stanza, byte[] body) {
        return new AgeStanza(stanza.arguments(), body);
    }

    /** As in the program {@code phalanx}, and in age. */
    @Test
    void oneStanzaOfAnotherFormClosesItsFile() throws IOException {
        byte[] key = "the file's key!!".getBytes(StandardCharsets.US_ASCII);
        for (String name : List.of("ssh-ed25519", "ssh-rsa")) {
            AgeIdentity identity = identity(name);
            AgeStanza good = identity.recipient().wrap(key);
            AgeStanza foreign = identity(name.equals("ssh-rsa") ? "ssh-ed25519" : "ssh-rsa").recipient().wrap(key);
            assertTrue(opens(file(key, good), identity) && opens(file(key, with(foreign, 2, "x y z"), good), identity));
            List<AgeStanza> malformed = new ArrayList<>(List.of(with(good, good.arguments().size(), "more")));
            if (name.equals("ssh-ed25519")) {
                String one = AgeFile.encoded(Arrays.copyOf(new byte[] {1}, 32));
                malformed.addAll(List.of(
                        with(good, 2, AgeFile.encoded(new byte[32])), with(good, 2, one), with(good, 2, AgeFile.encoded(new byte[31])),
                        with(good, 2, good.arguments().get(2) + "="), with(good, new byte[31]), with(good, new byte[33])));
            }
            for (AgeStanza other : malformed) {
                assertFalse(opens(file(key, good, other), identity), name + " " + other.arguments());
                assertFalse(opens(file(key, other, good), identity), name + " " + other.arguments());
            }
        }
    }

    @Test
    void theFirstStanzaOfAnSshKeyDecides() throws IOException {
        byte[] key = "the file's key!!".getBytes(StandardCharsets.US_ASCII);
        for (String name : List.of("ssh-ed25519", "ssh-rsa")) {
            AgeIdentity identity = identity(name);
            AgeStanza good = identity.recipient().wrap(key);
            byte[] body = good.body().clone();
            body[body.length - 1] ^= 1;
            AgeStanza other = with(good, body);
            assertTrue(opens(file(key, good, other), identity), name);
            assertFalse(opens(file(key, other, good), identity), name);
        }
    }

    @Test
    void nobodyIsAskedForAPassphraseThatCannotHelp() throws IOException {
        byte[] key = "the file's key!!".getBytes(StandardCharsets.US_ASCII);
        for (String name : LOCKED) {
            AgeIdentity identity = identity(name);
            AgeStanza good = identity.recipient().wrap(key);
            for (boolean isMalformed : new boolean[] {false, true}) {
                AgeStanza stanza = isMalformed ? with(good, good.arguments().size(), "more") : good;
                List<KeyException> refused = new ArrayList<>();
                IdentitySearch search = new IdentitySearch(
                        new LinkedHashMap<>(Map.of(0, assertParses(file(key, stanza)))), refused, (who, file) -> Optional.empty());
                assertTrue(search.search(KeyProvider.of(identity), List.of(identity)).isEmpty());
                assertEquals(isMalformed ? 0 : 1, refused.size(), name);
            }
        }
    }

    @Test
    void theWorkForOneKeyIsBounded() throws IOException {
        AgeIdentity identity = identity("ssh-ed25519");
        byte[] good = AgeFile.make(identity.recipient(), CONTENT);
        String text = new String(good, StandardCharsets.ISO_8859_1);
        String stanza = text.substring(text.indexOf("-> "), text.indexOf("---"));
        byte[] bad = text.replace(stanza, stanza.repeat(8)).getBytes(StandardCharsets.ISO_8859_1);
        List<KeyException> refused = new ArrayList<>();
        int[] tried = {0};
        var byNumber = new LinkedHashMap<Integer, AgeFile>();
        for (int i = 0; i < 3; i++) {
            byNumber.put(i, assertParses(bad));
        }
        IdentitySearch search = new IdentitySearch(byNumber, refused, (who, file) -> {
            tried[0]++;
            return Optional.empty();
        });
        assertTrue(search.search(KeyProvider.of(identity), List.of(identity)).isEmpty());
        assertEquals(2, tried[0]);
        assertEquals("ssh-ed25519: no more than 16 stanzas for one SSH key were tried", refused.get(0).getMessage());
    }

    private static AgeFile assertParses(byte[] file) {
        try {
            return AgeFile.ofSlot(file);
        } catch (AgeFile.Malformed e) {
            throw new AssertionError(e);
        }
    }

    private static byte[] blob(String name) {
        String[] lines = text(name).split("\n");
        return Base64.getDecoder().decode(String.join("", List.of(lines).subList(1, lines.length - 1)));
    }

    private static String message(byte[] blob) {
        String lines = Base64.getMimeEncoder(70, new byte[] {'\n'}).encodeToString(blob);
        String text = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + lines + "\n-----END OPENSSH PRIVATE KEY-----\n";
        return message(text);
    }

    private static String message(String text) {
        return assertThrows(KeyException.class, () -> SshPrivateKey.read(text.getBytes(StandardCharsets.ISO_8859_1))).getMessage();
    }

    /** The blob of a private key with these fields, which is locked unless the cipher is none. */
    private static byte[] made(String cipher, String derivation, byte[] parameters, int keys, byte[] publicKey, byte[] list) {
        byte[] magic = "openssh-key-v1\0".getBytes(StandardCharsets.US_ASCII);
        byte[] first = SshWire.fields(cipher.getBytes(StandardCharsets.ISO_8859_1), derivation.getBytes(StandardCharsets.US_ASCII), parameters);
        byte[] second = SshWire.fields(publicKey, list);
        byte[] out = Arrays.copyOf(magic, magic.length + first.length + 4 + second.length);
        System.arraycopy(first, 0, out, magic.length, first.length);
        out[magic.length + first.length + 3] = (byte) keys;
        System.arraycopy(second, 0, out, out.length - second.length, second.length);
        return out;
    }

    private static byte[] bcrypt(int salt, long rounds) {
        byte[] field = SshWire.fields(new byte[salt]);
        byte[] out = Arrays.copyOf(field, field.length + 4);
        for (int i = 0; i < 4; i++) {
            out[field.length + i] = (byte) (rounds >>> 24 - 8 * i);
        }
        return out;
    }

    @Test
    void hostilePrivateKeysAreRefusedWithALine() throws KeyException {
        byte[] key = SshWire.base64(canonical("ssh-ed25519").split(" ")[1]).orElseThrow();
        byte[] none = {};
        byte[] list = new byte[64];
        assertTrue(SshPrivateKey.read(armored(made("aes256-ctr", "bcrypt", bcrypt(16, 10000), 1, key, list))).hasPassphrase());
        assertEquals(COSTLY,
                message(made("aes256-ctr", "bcrypt", bcrypt(16, 10001), 1, key, list)));
        assertEquals(COSTLY,
                message(made("aes256-ctr", "bcrypt", bcrypt(16, 0xffffffffL), 1, key, list)));
        assertEquals("an SSH key whose passphrase is for the cipher chacha20-poly1305@openssh.com, which this program does not know"
                + " (ssh-keygen -p -Z aes256-ctr changes it)",
                message(made("chacha20-poly1305@openssh.com", "bcrypt", bcrypt(16, 16), 1, key, list)));
        String shown = message(made("\u001b[31m" + "x".repeat(100), "bcrypt", bcrypt(16, 16), 1, key, list));
        assertTrue(shown.contains("the cipher [31m" + "x".repeat(60) + ", which") && shown.indexOf('\u001b') < 0, shown);
        for (byte[] each : List.of(
                made("aes256-ctr", "bcrypt", bcrypt(16, 0), 1, key, list), made("aes256-ctr", "bcrypt", bcrypt(0, 16), 1, key, list),
                made("aes256-ctr", "scrypt", bcrypt(16, 16), 1, key, list), made("aes256-ctr", "none", none, 1, key, list),
                made("none", "bcrypt", none, 1, key, list), made("aes256-ctr", "bcrypt", none, 1, key, list),
                made("none", "none", none, 2, key, list), made("none", "none", none, 0, key, list),
                made("aes256-gcm@openssh.com", "bcrypt", bcrypt(16, 16), 1, key, list), made("none", "none", none, 1, key, none),
                made("none", "none", none, 1, key, new byte[] {0, 0, 0, 1, 0, 0, 0, 2}))) {
            assertEquals(UNREADABLE, message(each));
        }
        assertEquals(KIND, message(made("aes256-ctr", "bcrypt", bcrypt(16, 16), 1, new byte[9], list)));
        byte[] type = SshWire.fields("sk-ssh-ed25519@openssh.com".getBytes(StandardCharsets.US_ASCII));
        byte[] hardware = new byte[8 + type.length];
        System.arraycopy(type, 0, hardware, 8, type.length);
        assertEquals("SSH keys in hardware cannot be identities", message(made("none", "none", none, 1, key, hardware)));
        assertEquals(KIND, message(text("ssh-ecdsa")));
        assertEquals(UNREADABLE, message(" " + text("ssh-ed25519")));
        assertEquals("an old form of SSH key with a passphrase (ssh-keygen -p makes a new one of it)",
                message("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"));
        assertEquals(UNREADABLE, message("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"));
        // Structures within structures, which are read by recursion, and texts that are longer than any key.
        byte[] nested = new byte[40_000];
        for (int i = 0; i < nested.length; i += 2) {
            nested[i] = 0x30;
            nested[i + 1] = (byte) 0x80;
        }
        assertEquals(UNREADABLE, message("-----BEGIN RSA PRIVATE KEY-----\n" + base64(nested) + "\n-----END RSA PRIVATE KEY-----\n"));
        assertEquals(UNREADABLE, message(text("ssh-ed25519") + "\n".repeat(1024)));
        assertEquals(UNREADABLE, message(text("ssh-ed25519") + " ".repeat(64 << 10)));
        // The public key of another private one.
        byte[] mixed = blob("ssh-ed25519");
        mixed[80] ^= 1;
        assertTrue(List.of(UNREADABLE, KIND).contains(message(mixed)));
    }

    private static byte[] armored(byte[] blob) {
        return ("-----BEGIN OPENSSH PRIVATE KEY-----\n" + base64(blob) + "\n-----END OPENSSH PRIVATE KEY-----\n")
                .getBytes(StandardCharsets.US_ASCII);
    }

    /** Keys that are cut or altered anywhere end in one of the lines, or are the same key. */
    @Test
    void damagedPrivateKeysAreRefusedOrHarmless() {
        Random random = new Random(5);
        for (String name : List.of("ssh-ed25519", "ssh-rsa", "ssh-ed25519-locked", "ssh-rsa-short")) {
            byte[] blob = blob(name);
            for (int length = 0; length < blob.length - 32; length += 1 + random.nextInt(9)) {
                message(Arrays.copyOf(blob, length));
            }
            for (int i = 0; i < 300; i++) {
                byte[] altered = blob.clone();
                altered[random.nextInt(blob.length)] ^= (byte) (1 << random.nextInt(8));
                reads(armored(altered));
            }
            byte[] text = bytes(name);
            for (int i = 0; i < 300; i++) {
                byte[] altered = text.clone();
                altered[random.nextInt(text.length)] = (byte) random.nextInt();
                reads(altered);
            }
        }
        byte[] pem = bytes("ssh-rsa-pem");
        for (int i = 0; i < 300; i++) {
            byte[] altered = pem.clone();
            altered[random.nextInt(pem.length)] = (byte) random.nextInt();
            reads(random.nextInt(3) == 0 ? Arrays.copyOf(altered, random.nextInt(pem.length)) : altered);
        }
    }

    private static void reads(byte[] text) {
        try {
            SshPrivateKey.read(text);
        } catch (KeyException e) {
            assertTrue(e.getMessage().length() < 200 && !e.getMessage().contains("\n"), e.getMessage());
        }
    }
}
