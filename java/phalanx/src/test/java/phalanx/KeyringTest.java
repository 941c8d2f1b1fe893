package phalanx;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Keys and passwords in files. */
class KeyringTest {
    @TempDir
    Path folder;

    private static void permit(Path path, String permissions) throws IOException {
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(permissions));
    }

    private static byte[] protect(Recipients recipients) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        new Protector(recipients).protect(new ByteArrayInputStream(new byte[10]), out);
        return out.toByteArray();
    }

    @Test
    void keysAreStoredAndFound() throws IOException {
        Keyring ring = Keyring.in(folder.resolve("a/ring"));
        PhalanxKey key = PhalanxKey.random();
        assertEquals(List.of(), ring.names());
        assertTrue(ring.key(key.id()).isEmpty());
        ring.store("work", key);
        ring.store("lab@home", PhalanxKey.random());
        assertEquals(List.of("lab@home", "work"), ring.names());
        assertEquals(key, ring.load("work"));
        assertEquals("work", ring.find(key.id()).orElseThrow().name());
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(ring.folder())));
        Path file = ring.folder().resolve("work.key");
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
        assertThrows(FileAlreadyExistsException.class, () -> ring.store("work", key));
        assertTrue(assertThrows(KeyException.class, () -> ring.load("other")).isMissing());
    }

    @Test
    void namesAreChecked() {
        Keyring ring = Keyring.in(folder);
        for (String name : List.of("", ".x", "-x", "a/b", "../x", "a b", "ä", "x".repeat(65))) {
            assertThrows(IllegalArgumentException.class, () -> ring.load(name), name);
        }
        assertTrue(Keyring.isName("x".repeat(64)) && Keyring.isName("a.B_c-1@d"));
    }

    @Test
    void filesOpenToOthersAreRefused() throws IOException {
        Keyring ring = Keyring.in(folder.resolve("ring"));
        PhalanxKey key = PhalanxKey.random();
        ring.store("work", key);
        Path file = ring.folder().resolve("work.key");
        permit(file, "rw-r-----");
        String why = "the key work is refused because it is open to other users";
        KeyException refused = assertThrows(KeyException.class, () -> ring.load("work"));
        assertEquals(why, refused.getMessage());
        assertEquals(Optional.of("chmod 600 " + file), refused.remedy());
        refused = assertThrows(KeyException.class, () -> ring.key(key.id()));
        assertEquals(why, refused.getMessage());
        assertEquals(Optional.of("chmod 600 " + file), refused.remedy());
        assertTrue(ring.key(PhalanxKey.random().id()).isEmpty(), "another key is not concerned");
        assertThrows(KeyException.class, () -> KeyFiles.key(file));
        assertThrows(KeyException.class, () -> KeyFiles.password(file));
        permit(file, "rw-------");
        assertEquals(key, KeyFiles.key(file));
        permit(ring.folder(), "rwxrwx---");
        assertThrows(KeyException.class, ring::names);
        assertThrows(KeyException.class, () -> ring.load("work"));
        assertThrows(KeyException.class, () -> ring.store("more", key));
    }

    @Test
    void damagedKeysAreReported() throws IOException {
        Keyring ring = Keyring.in(folder.resolve("ring"));
        ring.store("work", PhalanxKey.random());
        Path file = ring.folder().resolve("work.key");
        for (int length : new int[] {0, 31, 33}) {
            Files.write(file, new byte[length]);
            assertEquals("the key work is damaged: it does not have 32 bytes",
                    assertThrows(KeyException.class, () -> ring.load("work")).getMessage());
            assertThrows(KeyException.class, () -> KeyFiles.key(file));
        }
    }

    @Test
    void lockedKeysAreNamedAndNotUsed() throws IOException {
        Keyring ring = Keyring.in(folder.resolve("ring"));
        PhalanxKey key = PhalanxKey.random();
        ring.store("a.b", PhalanxKey.random());
        Path locked = ring.folder().resolve("work." + key.id() + ".key.phx");
        Files.write(locked, new byte[1]);
        // These are no keys.
        for (String name : List.of("x.key.phx", "x." + key.id().toString().substring(1) + ".key.phx", "x.phx",
                "x." + key.id().toString().replaceAll("[0-9a-f]", "F") + ".key.phx", ".x." + key.id() + ".key.phx")) {
            Files.write(ring.folder().resolve(name), new byte[1]);
        }
        assertEquals(List.of("a.b", "work"), ring.names());
        KeyException e = assertThrows(KeyException.class, () -> ring.load("work"));
        assertEquals("the key work is locked", e.getMessage());
        assertEquals(Optional.of("phalanx key unlock work"), e.remedy());
        assertTrue(!e.isMissing() && assertThrows(KeyException.class, () -> ring.load("x")).isMissing());
        e = assertThrows(KeyException.class, () -> ring.key(key.id()));
        assertEquals("the key work is locked", e.getMessage());
        assertTrue(ring.key(PhalanxKey.random().id()).isEmpty(), "another key is not concerned");
        assertThrows(FileAlreadyExistsException.class, () -> ring.store("work", key));
        // Another way in still opens a file, and else the message names it.
        byte[] file = protect(Recipients.of(key).and(Password.of("p".toCharArray()), 64, 1, 2));
        KeyProvider both = ring.or(KeyProvider.of(Password.of("p".toCharArray())));
        assertEquals(10, new Unprotector(both).verify(new ByteArrayInputStream(file)));
        WrongKeyException wrong = assertThrows(WrongKeyException.class,
                () -> new Unprotector(ring).verify(new ByteArrayInputStream(file)));
        assertEquals("no key at hand opens it: it needs key " + key.id() + " or a password; the key work is locked", wrong.getMessage());
        assertEquals(Optional.of("phalanx key unlock work"), wrong.remedy());
        // A run was killed that locked or unlocked it.
        Files.write(ring.folder().resolve("work.key"), key.expose());
        permit(ring.folder().resolve("work.key"), "rw-------");
        assertEquals(key, ring.load("work"));
        assertEquals(key, ring.key(key.id()).orElseThrow());
        assertEquals(List.of("a.b", "work"), ring.names());
    }

    @Test
    void whatOneProviderRefusesTheOtherMayHave() throws IOException {
        Keyring ring = Keyring.in(folder.resolve("ring"));
        PhalanxKey key = PhalanxKey.random();
        ring.store("other", PhalanxKey.random());
        Files.write(ring.folder().resolve("work." + key.id() + ".key.phx"), new byte[1]);
        byte[] file = protect(Recipients.of(key));
        for (KeyProvider both : List.of(ring.or(KeyProvider.of(key)), KeyProvider.of(key).or(ring))) {
            assertEquals(10, new Unprotector(both).verify(new ByteArrayInputStream(file)));
        }
        for (KeyProvider both : List.of(ring.or(KeyProvider.of()), KeyProvider.of().or(ring), ring.or(ring))) {
            KeyException e = assertThrows(KeyException.class, () -> both.key(key.id()));
            assertEquals("the key work is locked", e.getMessage());
            assertEquals(Optional.of("phalanx key unlock work"), e.remedy());
        }
    }

    /** A provider that refuses whatever it is asked for. */
    private record Refusing(String why) implements KeyProvider {
        @Override
        public Optional<PhalanxKey> key(KeyId id) throws KeyException {
            throw new KeyException(why);
        }

        @Override
        public List<AgeIdentity> identities() throws KeyException {
            throw new KeyException(why);
        }

        @Override
        public Optional<PhalanxKey> runKey(String uri, byte[] wrapped) throws KeyException {
            throw new KeyException(why);
        }

        @Override
        public Optional<Password> password() throws KeyException {
            throw new KeyException(why);
        }
    }

    /** A provider that has a key and an identity. */
    private record Having(PhalanxKey key, AgeIdentity identity) implements KeyProvider {
        @Override
        public Optional<PhalanxKey> key(KeyId id) {
            return Optional.of(key);
        }

        @Override
        public List<AgeIdentity> identities() {
            return List.of(identity);
        }

        @Override
        public Optional<PhalanxKey> runKey(String uri, byte[] wrapped) {
            return Optional.of(key);
        }
    }

    @Test
    void allKindsAreAskedForOfBoth() throws IOException {
        AgeIdentity identity = AgeIdentity.parse("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX");
        PhalanxKey key = PhalanxKey.random();
        KeyProvider has = new Having(key, identity).or(KeyProvider.of(Password.of("p".toCharArray())));
        KeyProvider refuses = new Refusing("first");
        for (KeyProvider both : List.of(refuses.or(has), has.or(refuses))) {
            assertEquals(Optional.of(key), both.key(key.id()));
            assertEquals(List.of(identity), both.identities());
            assertEquals(Optional.of(key), both.runKey("test://a", new byte[1]));
            assertEquals(Optional.of(Password.of("p".toCharArray())), both.password());
        }
        assertEquals(2, has.or(has).identities().size());
        KeyProvider both = refuses.or(new Refusing("other"));
        assertEquals("first; other", assertThrows(KeyException.class, () -> both.key(key.id())).getMessage());
        assertEquals("first; other", assertThrows(KeyException.class, both::identities).getMessage());
        assertEquals("first; other", assertThrows(KeyException.class, () -> both.runKey("test://a", new byte[1])).getMessage());
        assertEquals("first; other", assertThrows(KeyException.class, both::password).getMessage());
        KeyProvider none = KeyProvider.of();
        assertEquals("first", assertThrows(KeyException.class, () -> none.or(refuses).identities()).getMessage());
        assertEquals("first", assertThrows(KeyException.class, () -> refuses.or(none).identities()).getMessage());
    }

    /** As the program locks keys. */
    @Test
    void theProgramLocksAKey() throws IOException, InterruptedException {
        String program = Needs.phalanx().toString();
        Needs.run(folder, List.of(program, "key", "new", "work")).ok();
        Keyring ring = Keyring.in(folder.resolve("ring"));
        KeyId id = ring.load("work").id();
        Path password = Files.writeString(folder.resolve("password"), "correct horse battery staple");
        permit(password, "rw-------");
        Needs.run(folder, List.of(program, "key", "lock", "work", "--password-file", "password")).ok();
        assertEquals(List.of("work"), ring.names());
        assertEquals("the key work is locked", assertThrows(KeyException.class, () -> ring.load("work")).getMessage());
        assertEquals("the key work is locked", assertThrows(KeyException.class, () -> ring.key(id)).getMessage());
        Needs.run(folder, List.of(program, "key", "unlock", "work", "--password-file", "password")).ok();
        assertEquals(id, ring.load("work").id());
    }

    @Test
    void thingsOtherThanFilesAreRefusedAndNotOpened() throws IOException, InterruptedException {
        Keyring ring = Keyring.in(folder.resolve("ring"));
        PhalanxKey key = PhalanxKey.random();
        ring.store("work", key);
        Needs.run(folder, List.of("mkfifo", "-m", "600", "ring/a.key")).ok();
        Files.createDirectory(ring.folder().resolve("b.key"));
        Files.createSymbolicLink(ring.folder().resolve("c.key"), Path.of("/dev/zero"));
        Files.createSymbolicLink(ring.folder().resolve("d.key"), Path.of("a.key"));
        // Opening the pipe would wait for ever.
        assertTimeoutPreemptively(Duration.ofMinutes(2), () -> {
            for (String name : List.of("a", "b", "c", "d")) {
                assertEquals("the key " + name + " is refused because it is not a regular file",
                        assertThrows(KeyException.class, () -> ring.load(name)).getMessage());
            }
            assertEquals(key, ring.key(key.id()).orElseThrow());
            assertThrows(KeyException.class, () -> ring.key(PhalanxKey.random().id()));
        });
        // A link to a key is allowed: the user may keep the key elsewhere.
        Path elsewhere = Files.move(ring.folder().resolve("work.key"), folder.resolve("elsewhere"));
        Files.createSymbolicLink(ring.folder().resolve("work.key"), elsewhere);
        assertEquals(key, ring.load("work"));
    }

    @Test
    void aPasswordFileEndsWithOneNewlineAtMost() throws IOException {
        Path file = folder.resolve("password");
        Files.write(file, "secret\n\n".getBytes());
        permit(file, "rw-------");
        assertEquals(Password.of("secret\n".getBytes()), KeyFiles.password(file));
        Files.write(file, new byte[65537]);
        assertThrows(IllegalArgumentException.class, () -> KeyFiles.password(file));
    }
}
