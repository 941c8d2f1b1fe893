package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Keys that ssh-keygen makes, and files of {@code phalanx} and {@code age} for them. */
class SshCrossTest {
    private static final byte[] CONTENT = "0123456789abcdef0123456789ABCDEF".getBytes();
    /** Kinds of keys, their options, and the ciphers of their passphrases. */
    private static final String[][] KEYS = {
        {"ed25519", "-t ed25519"}, {"rsa", "-t rsa -b 2048"}, {"rsa3072", "-t rsa -b 3072"}, {"rsa4096", "-t rsa -b 4096"},
        {"pem", "-t rsa -b 2048 -m PEM"}, {"cbc", "-t ed25519 -Z aes256-cbc", "x"}, {"ctr128", "-t ed25519 -Z aes128-ctr", "x"},
        {"ctr192", "-t ed25519 -Z aes192-ctr", "x"}, {"ctr256", "-t rsa -b 2048 -Z aes256-ctr -a 7", "x"},
        {"gcm", "-t ed25519 -Z aes256-gcm@openssh.com", "x"},
    };

    @TempDir
    Path folder;

    private boolean has(String program) {
        return Arrays.stream(System.getenv("PATH").split(":")).anyMatch(dir -> Files.isExecutable(Path.of(dir, program)));
    }

    private Needs.Ran run(String... command) throws IOException, InterruptedException {
        return Needs.run(folder, List.of(command));
    }

    private void makeKeys() throws IOException, InterruptedException {
        Needs.require("ssh-keygen", has("ssh-keygen"));
        for (String[] key : KEYS) {
            List<String> command = new ArrayList<>(List.of("ssh-keygen", "-q", "-C", "a test", "-f", key[0]));
            command.addAll(List.of(key[1].split(" ")));
            command.addAll(List.of("-N", key.length > 2 ? SshKeysTest.PASSPHRASE : ""));
            Needs.run(folder, command).ok();
        }
        Files.write(folder.resolve("f"), CONTENT);
    }

    private AgeIdentity identity(String[] key) throws IOException {
        boolean isLocked = key.length > 2;
        AgeIdentity identity = AgeIdentity.read(folder.resolve(key[0]), key[0],
                question -> isLocked ? Optional.of(SshKeysTest.PASSPHRASE.toCharArray()) : Optional.empty()).get(0);
        assertEquals(isLocked, identity.hasPassphrase());
        return identity;
    }

    private AgeRecipient recipient(String[] key) throws IOException {
        return AgeRecipient.parse(Files.readString(folder.resolve(key[0] + ".pub")));
    }

    @Test
    void phalanxAndJavaOpenWhatTheOtherProtects() throws IOException, InterruptedException {
        String phalanx = Needs.phalanx().toString();
        makeKeys();
        Recipients all = Recipients.none();
        List<String> command = new ArrayList<>(List.of(phalanx, "protect", "f", "-o", "theirs.phx"));
        for (String[] key : KEYS) {
            all = all.and(recipient(key));
            command.addAll(List.of("--recipients-file", key[0] + ".pub"));
        }
        Needs.run(folder, command).ok();
        new Protector(all).protect(folder.resolve("f"), folder.resolve("ours.phx"));
        for (String[] key : KEYS) {
            AgeIdentity identity = identity(key);
            assertEquals(recipient(key), identity.recipient());
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            new Unprotector(KeyProvider.of(identity)).unprotect(folder.resolve("theirs.phx"), out);
            assertArrayEquals(CONTENT, out.toByteArray(), key[0]);
            // The program would ask for a passphrase at a terminal, so it gets a key without one.
            if (key.length > 2) {
                run("ssh-keygen", "-q", "-p", "-P", SshKeysTest.PASSPHRASE, "-N", "", "-f", key[0]).ok();
            }
            run(phalanx, "unprotect", "ours.phx", "--identity", key[0], "-o", key[0] + ".out").ok();
            assertArrayEquals(CONTENT, Files.readAllBytes(folder.resolve(key[0] + ".out")), key[0]);
            // A change of the recipients finds the slot of another one by its tag.
            String[] other = key == KEYS[0] ? KEYS[1] : KEYS[0];
            Files.copy(folder.resolve("ours.phx"), folder.resolve(key[0] + ".phx"));
            run(phalanx, "rekey", key[0] + ".phx", "--identity", key[0], "--remove-recipient", recipient(other).toString()).ok();
            assertEquals(3, run(phalanx, "verify", key[0] + ".phx", "--identity", other[0]).code());
        }
    }

    @Test
    void ageAndJavaOpenWhatTheOtherEncrypts() throws IOException, InterruptedException, AgeFile.Malformed {
        Needs.require("age", has("age"));
        makeKeys();
        for (String[] key : KEYS) {
            run("age", "-R", key[0] + ".pub", "-o", key[0] + ".age", "f").ok();
            AgeIdentity identity = identity(key);
            identity.unlock();
            byte[] theirs = Files.readAllBytes(folder.resolve(key[0] + ".age"));
            assertArrayEquals(CONTENT, AgeFile.ofSlot(theirs).open(identity).orElseThrow(), key[0]);
            Files.write(folder.resolve("ours.age"), AgeFile.make(identity.recipient(), CONTENT));
            if (key.length > 2) {
                run("ssh-keygen", "-q", "-p", "-P", SshKeysTest.PASSPHRASE, "-N", "", "-f", key[0]).ok();
            }
            assertEquals(new String(CONTENT), run("age", "-d", "-i", key[0], "ours.age").ok().out(), key[0]);
        }
    }
}
