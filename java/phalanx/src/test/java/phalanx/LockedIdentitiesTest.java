package phalanx;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import phalanx.primitives.ChaChaPoly;
import phalanx.primitives.Hkdf;
import phalanx.primitives.Scrypt;

/** Files of identities that age has encrypted with a passphrase. */
class LockedIdentitiesTest {
    private static final String PASSPHRASE = "open sesame";
    private static final byte[] CONTENT = "what is in the file".getBytes(StandardCharsets.US_ASCII);
    /** What was asked. */
    private final List<String> asked = new ArrayList<>();

    @TempDir
    Path folder;

    private AgeIdentity locked(byte[] bytes, Optional<String> answer) throws IOException {
        Path file = Files.write(folder.resolve("locked"), bytes);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
        List<AgeIdentity> found = AgeIdentity.read(file, "it", question -> {
            asked.add(question);
            return answer.map(String::toCharArray);
        });
        assertEquals(1, found.size());
        assertTrue(found.get(0).isLockedFile() && found.get(0).hasPassphrase());
        return found.get(0);
    }

    private static byte[] data(String name) throws IOException {
        return Files.readAllBytes(Vectors.root().resolve("crates/age/tests/data").resolve(name));
    }

    private static AgeRecipient recipient(String name) throws IOException {
        Path identity = Vectors.root().resolve("crates/age/tests/data").resolve(name);
        String text = Files.readString(identity).lines().filter(line -> line.startsWith("AGE-")).findFirst().orElseThrow();
        return AgeIdentity.parse(text).recipient();
    }

    private static byte[] protectedFor(AgeRecipient recipient) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        new Protector(Recipients.of(recipient)).protect(new ByteArrayInputStream(CONTENT), out);
        return out.toByteArray();
    }

    private static long open(byte[] file, AgeIdentity... identities) throws IOException {
        return new Unprotector(KeyProvider.of(List.of(identities))).unprotect(new ByteArrayInputStream(file), new ByteArrayOutputStream());
    }

    /** Why a file is not opened. */
    private static String refusal(byte[] file, AgeIdentity identity) {
        return assertThrows(PhalanxException.class, () -> open(file, identity)).getMessage();
    }

    @Test
    void filesOfAgeOpenAndAreAskedForOnce() throws IOException {
        for (String[] each : new String[][] {{"alice-locked.age", "alice.txt"}, {"bob-locked.txt", "bob.txt"}}) {
            asked.clear();
            AgeIdentity identity = locked(data(each[0]), Optional.of(PASSPHRASE));
            byte[] file = protectedFor(recipient(each[1]));
            assertEquals(List.of(), asked);
            assertEquals(CONTENT.length, open(file, identity));
            assertEquals(CONTENT.length, open(file, identity));
            assertEquals(List.of("Passphrase of it: "), asked);
            identity.close();
            assertThrows(IllegalStateException.class, () -> open(file, identity));
        }
    }

    @Test
    void nobodyIsAskedInVain() throws IOException {
        AgeIdentity identity = locked(data("alice-locked.age"), Optional.of(PASSPHRASE));
        // Another identity opens it, or only an SSH key could.
        AgeIdentity other = AgeKeysTest.identity(AgeKind.ELLIPTIC, 5);
        assertEquals(CONTENT.length, open(protectedFor(other.recipient()), identity, other));
        byte[] forSsh = protectedFor(AgeRecipient.parse(new String(data("ssh-ed25519.pub"), StandardCharsets.US_ASCII).strip()));
        assertThrows(WrongKeyException.class, () -> open(forSsh, identity));
        assertEquals(List.of(), asked);
        // For somebody else.
        assertThrows(WrongKeyException.class, () -> open(protectedFor(other.recipient()), identity));
        assertEquals(1, asked.size());
    }

    @Test
    void whatDoesNotOpenSaysWhy() throws IOException {
        byte[] file = protectedFor(recipient("alice.txt"));
        AgeIdentity wrong = locked(data("alice-locked.age"), Optional.of("x"));
        String why = refusal(file, wrong);
        assertTrue(why.contains("it: the passphrase is wrong"), why);
        assertEquals(why, refusal(file, wrong));
        assertEquals(1, asked.size());
        why = refusal(file, locked(data("alice-locked.age"), Optional.empty()));
        assertTrue(why.contains("it: nobody could be asked for its passphrase"), why);
        String one = "AGE-SECRET-KEY-PQ-1" + "Q".repeat(58);
        String[][] contents = {
            {"", "it: no identity is in it"}, {"x", "it: line 1 is no identity"}, {"# a\n" + one, "it: line 2 is no identity"},
            {"AGE-PLUGIN-X-1QQ", "it: line 1 is an identity of a plugin, which is not supported here"},
            {"-----BEGIN OPENSSH PRIVATE KEY-----", "it: line 1 is no identity"},
        };
        for (String[] each : contents) {
            why = refusal(file, locked(made(each[0].getBytes(StandardCharsets.US_ASCII), "4"), Optional.of(PASSPHRASE)));
            assertTrue(why.contains(each[1]), why);
        }
        why = refusal(file, locked(made(new byte[0], "21"), Optional.of(PASSPHRASE)));
        assertTrue(why.contains("it: its passphrase costs more work than scrypt with 1 GiB"), why);
        why = refusal(file, locked(made(new byte[0], "021"), Optional.of(PASSPHRASE)));
        assertTrue(why.contains("it: it is damaged"), why);
    }

    /** Chunks of 64 KiB, and a last one that is whole or not. */
    @Test
    void longFilesOpenAndEveryChunkIsAuthentic() throws IOException {
        String identity = new String(data("alice.txt"), StandardCharsets.US_ASCII);
        byte[] file = protectedFor(recipient("alice.txt"));
        for (int length : new int[] {65_535, 65_536, 65_537, 131_072, 200_000}) {
            String content = "#" + "x".repeat(length - identity.length() - 2) + "\n" + identity;
            byte[] made = made(content.getBytes(StandardCharsets.US_ASCII), "1");
            assertEquals(CONTENT.length, open(file, locked(made, Optional.of(PASSPHRASE))));
            int cut = length % 65_536 == 0 ? 65_536 + 16 : length % 65_536 + 16;
            List<byte[]> wrong = new ArrayList<>(List.of(Arrays.copyOf(made, made.length - 1)));
            if (length > 65_536) {
                wrong.add(Arrays.copyOf(made, made.length - cut));
            }
            byte[] altered = made.clone();
            altered[made.length - length / 2] ^= 1;
            wrong.add(altered);
            for (byte[] each : wrong) {
                String why = refusal(file, locked(each, Optional.of(PASSPHRASE)));
                assertTrue(why.contains("it: it is damaged"), why);
            }
        }
    }

    @Test
    void otherFilesOfAgeAreRefused() throws IOException {
        byte[] forAlice = AgeFile.make(recipient("alice.txt"), new byte[32]);
        assertEquals("an age file without a passphrase cannot hold identities",
                assertThrows(KeyException.class, () -> locked(forAlice, Optional.empty())).getMessage());
        byte[] cut = Arrays.copyOf(data("bob-locked.txt"), 200);
        assertEquals("no identity is in it", assertThrows(KeyException.class, () -> locked(cut, Optional.empty())).getMessage());
    }

    @Test
    void itStandsForAFileAndNotForAKey() throws IOException {
        AgeIdentity one = locked(data("alice-locked.age"), Optional.empty());
        AgeIdentity other = locked(data("alice-locked.age"), Optional.empty());
        assertThrows(IllegalStateException.class, one::recipient);
        assertEquals("AgeIdentity[a file with a passphrase]", one.toString());
        assertEquals(one, one);
        assertNotEquals(one, other);
        assertNotEquals(one, AgeKeysTest.identity(AgeKind.ELLIPTIC, 1));
        assertNotEquals(AgeKeysTest.identity(AgeKind.ELLIPTIC, 1), one);
    }

    /** A file that age would write, with another cost. One of another form is not opened, so its key does not matter. */
    private static byte[] made(byte[] content, String work) throws IOException {
        byte[] key = new byte[AgeFile.KEY];
        byte[] salt = "age-encryption.org/v1/scrypt0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
        byte[] wrap = work.length() > 1 ? new byte[32] : Scrypt.derive(PASSPHRASE.getBytes(StandardCharsets.US_ASCII), salt, Integer.parseInt(work));
        String header = "age-encryption.org/v1\n-> scrypt " + AgeFile.encoded(Arrays.copyOfRange(salt, 28, 44)) + " " + work + "\n"
                + AgeFile.encoded(ChaChaPoly.seal(wrap, new byte[12], key)) + "\n---";
        byte[] macKey = Hkdf.derive(key, new byte[0], "header".getBytes(StandardCharsets.US_ASCII));
        String mac = AgeFile.encoded(Hkdf.mac(macKey, header.getBytes(StandardCharsets.US_ASCII)));
        ByteArrayOutputStream file = new ByteArrayOutputStream();
        file.write((header + " " + mac + "\n").getBytes(StandardCharsets.US_ASCII));
        byte[] nonce = new byte[16];
        file.write(nonce);
        byte[] payloadKey = Hkdf.derive(key, nonce, "payload".getBytes(StandardCharsets.US_ASCII));
        for (int at = 0, number = 0; at == 0 || at < content.length; at += 65_536, number++) {
            byte[] chunk = Arrays.copyOfRange(content, at, Math.min(at + 65_536, content.length));
            byte[] chunkNonce = new byte[12];
            chunkNonce[10] = (byte) number;
            chunkNonce[11] = (byte) (at + 65_536 >= content.length ? 1 : 0);
            file.write(ChaChaPoly.seal(payloadKey, chunkNonce, chunk));
        }
        return file.toByteArray();
    }
}
