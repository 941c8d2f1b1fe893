package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files, streams and ranges through the library alone. */
class LibraryTest {
    @TempDir
    Path folder;

    private final Random random = new Random(7);
    private final PhalanxKey key = PhalanxKey.random();
    private final KeyProvider keys = KeyProvider.of(key);
    private final Protector protector = new Protector(Recipients.of(key)).withChunkLog2(12).withoutSync();
    private final Unprotector unprotector = new Unprotector(keys).withoutSync();

    private byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    private byte[] sealed(byte[] plaintext) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        protector.protect(new ByteArrayInputStream(plaintext), out);
        return out.toByteArray();
    }

    private List<String> names() throws IOException {
        try (var files = Files.list(folder)) {
            return files.map(path -> path.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void aChannelReadsAnywhereAndOpensOneChunk() throws IOException {
        byte[] plaintext = bytes(10 * 4096 + 5);
        byte[] file = sealed(plaintext);
        Header header = Header.read(new ByteArrayInputStream(file));
        Layout layout = header.layout(file.length);
        // Only the chunks that are read are checked.
        file[(int) layout.fileOffset(3) + 100] ^= 1;
        Path path = Files.write(folder.resolve("f.phx"), file);
        try (PhalanxFile opened = PhalanxFile.open(path, keys);
                SeekableByteChannel channel = opened.channel()) {
            assertEquals(plaintext.length, channel.size());
            for (int i = 0; i < 200; i++) {
                int at = random.nextInt(plaintext.length + 10);
                ByteBuffer into = ByteBuffer.allocate(random.nextInt(6000));
                boolean meetsDamage = at < 4 * 4096 && at + into.capacity() > 3 * 4096 && into.hasRemaining();
                channel.position(at);
                if (meetsDamage) {
                    assertThrows(AuthenticationException.class, () -> channel.read(into));
                    continue;
                }
                int read = channel.read(into);
                if (at >= plaintext.length) {
                    assertEquals(-1, read);
                } else {
                    int end = Math.min(plaintext.length, at + into.capacity());
                    assertEquals(end - at, read);
                    assertArrayEquals(Arrays.copyOfRange(plaintext, at, end), Arrays.copyOf(into.array(), read));
                }
            }
            assertThrows(NonWritableChannelException.class, () -> channel.write(ByteBuffer.allocate(1)));
            assertThrows(NonWritableChannelException.class, () -> channel.truncate(0));
        }
    }

    @Test
    void theLengthIsAuthenticatedFirst() throws IOException {
        byte[] file = sealed(bytes(3 * 4096));
        Path path = Files.write(folder.resolve("f.phx"), Arrays.copyOf(file, file.length - 4096 - 48));
        TruncatedException e = assertThrows(TruncatedException.class, () -> PhalanxFile.open(path, keys));
        assertEquals("truncated: chunks are missing at its end", e.getMessage());
        Files.write(path, Arrays.copyOf(file, file.length + 4096 + 48));
        assertThrows(AuthenticationException.class, () -> PhalanxFile.open(path, keys));
    }

    @Test
    void anyExecutorGivesTheSameBytes() throws IOException {
        Executor never = work -> {};
        Executor refuses = work -> {
            throw new RejectedExecutionException();
        };
        byte[] plaintext = bytes(50 * 4096 + 1);
        Path in = Files.write(folder.resolve("in"), plaintext);
        int i = 0;
        for (Executor executor : List.of(Runnable::run, never, refuses, work -> new Thread(work).start())) {
            for (int threads : new int[] {1, 2, 7}) {
                Path out = folder.resolve("out" + i++);
                assertEquals(plaintext.length, protector.on(executor, threads).protect(in, out));
                ByteArrayOutputStream plain = new ByteArrayOutputStream();
                unprotector.on(executor, threads).unprotect(out, plain);
                assertArrayEquals(plaintext, plain.toByteArray());
                assertEquals(plaintext.length, unprotector.on(executor, threads).verify(out));
                ByteArrayOutputStream stream = new ByteArrayOutputStream();
                protector.on(executor, threads).protect(new ByteArrayInputStream(plaintext), stream);
                unprotector.unprotect(new ByteArrayInputStream(stream.toByteArray()), folder.resolve("plain" + i));
                assertArrayEquals(plaintext, Files.readAllBytes(folder.resolve("plain" + i)));
            }
        }
    }

    @Test
    void theFirstDamagedChunkIsNamed() throws IOException {
        byte[] file = sealed(bytes(40 * 4096));
        Layout layout = Header.read(new ByteArrayInputStream(file)).layout(file.length);
        for (int chunk : new int[] {31, 17, 25}) {
            file[(int) layout.fileOffset(chunk)] ^= 1;
        }
        Path path = Files.write(folder.resolve("f.phx"), file);
        for (int i = 0; i < 20; i++) {
            Unprotector many = unprotector.on(work -> new Thread(work).start(), 5);
            assertEquals("damaged in chunk 17",
                    assertThrows(AuthenticationException.class, () -> many.verify(path)).getMessage());
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        assertThrows(AuthenticationException.class, () -> unprotector.unprotect(path, out));
        assertEquals(17 * 4096, out.size(), "a stream gets what was checked before, and no more");
    }

    @Test
    void aFailureLeavesNothing() throws IOException {
        byte[] file = sealed(bytes(5 * 4096));
        file[file.length - 1] ^= 1;
        Path damaged = Files.write(folder.resolve("f.phx"), file);
        Path out = folder.resolve("out");
        assertThrows(AuthenticationException.class, () -> unprotector.unprotect(damaged, out));
        assertThrows(AuthenticationException.class, () -> unprotector.unprotect(new ByteArrayInputStream(file), out));
        InputStream failing = new InputStream() {
            @Override
            public int read() throws IOException {
                throw new IOException("no more");
            }
        };
        assertThrows(IOException.class, () -> protector.protect(failing, out));
        assertThrows(IOException.class, () -> protector.protect(folder.resolve("nope"), out));
        assertEquals(List.of("f.phx"), names());
    }

    @Test
    void existingFilesStayUnlessTheyAreToBeReplaced() throws IOException {
        Path in = Files.write(folder.resolve("in"), bytes(100));
        Path out = Files.write(folder.resolve("out"), bytes(3));
        assertThrows(FileAlreadyExistsException.class, () -> protector.protect(in, out));
        assertEquals(3, Files.size(out));
        assertThrows(OutputException.class, () -> protector.replacing().protect(in, in));
        protector.replacing().protect(in, out);
        assertEquals(100, unprotector.verify(out));
        assertThrows(OutputException.class, () -> protector.protect(in, folder.resolve("no/such/folder")));
        assertThrows(OutputException.class, () -> protector.replacing().protect(in, folder));
        assertEquals(List.of("in", "out"), names());
    }

    @Test
    void failuresOfOutputStreamsAreDistinguished() {
        OutputStream failing = new OutputStream() {
            @Override
            public void write(int b) throws IOException {
                throw new IOException("disk full");
            }
        };
        InputStream in = new ByteArrayInputStream(bytes(100));
        assertThrows(OutputException.class, () -> protector.protect(in, failing));
    }

    @Test
    void permissionsAreThoseOfTheCommand() throws IOException {
        Path in = Files.write(folder.resolve("in"), bytes(100));
        Files.setPosixFilePermissions(in, PosixFilePermissions.fromString("rw-r-----"));
        Path out = folder.resolve("out");
        protector.protect(in, out);
        assertEquals("rw-r-----", PosixFilePermissions.toString(Files.getPosixFilePermissions(out)));
        assertEquals(Files.getLastModifiedTime(in), Files.getLastModifiedTime(out));
        Files.setPosixFilePermissions(out, PosixFilePermissions.fromString("rw-------"));
        unprotector.unprotect(out, folder.resolve("plain"));
        assertEquals("rw-------",
                PosixFilePermissions.toString(Files.getPosixFilePermissions(folder.resolve("plain"))));
    }

    @Test
    void onlyTheRightKeyOpens() throws IOException {
        Path file = Files.write(folder.resolve("f.phx"), sealed(bytes(10)));
        Unprotector none = new Unprotector(KeyProvider.of(PhalanxKey.random()));
        WrongKeyException e = assertThrows(WrongKeyException.class, () -> none.verify(file));
        assertTrue(e.lacksKey() && !e.wasTried() && !e.lacksPassword());
        assertEquals("no key at hand opens it: it needs key " + key.id(), e.getMessage());
        // A key with the right id is tried.
        Unprotector wrong = new Unprotector(id -> java.util.Optional.of(PhalanxKey.random()));
        assertTrue(assertThrows(WrongKeyException.class, () -> wrong.verify(file)).wasTried());
    }

    @Test
    void passwordsOpen() throws IOException {
        Password password = Password.of("correct horse".toCharArray());
        Recipients cheap = Recipients.none().and(password, 64, 1, 2).and(PhalanxKey.random());
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        new Protector(cheap).protect(new ByteArrayInputStream(bytes(10)), out);
        byte[] file = out.toByteArray();
        assertEquals(10, new Unprotector(KeyProvider.of(password)).verify(new ByteArrayInputStream(file)));
        Password wrong = Password.of("wrong".toCharArray());
        assertThrows(WrongKeyException.class,
                () -> new Unprotector(KeyProvider.of(wrong)).verify(new ByteArrayInputStream(file)));
        assertThrows(IllegalArgumentException.class, () -> Recipients.of(Password.of(new byte[0])));
        password.close();
        assertThrows(IllegalStateException.class,
                () -> new Unprotector(KeyProvider.of(password)).verify(new ByteArrayInputStream(file)));
    }

    @Test
    void headersArePaddedAsTheFormatSays() throws IOException {
        int[][] cases = {{0, 1024}, {16384, 1024}, {16385, 4096}};
        for (int[] length : cases) {
            Path in = Files.write(folder.resolve("in"), bytes(length[0]));
            protector.replacing().protect(in, folder.resolve("out"));
            try (PhalanxFile file = PhalanxFile.open(folder.resolve("out"), keys)) {
                assertEquals(length[1], file.header().length());
                assertTrue(file.header().slots().get(1) instanceof Slot.Padding);
            }
        }
        Recipients many = Recipients.of(key);
        for (int i = 1; i < 64; i++) {
            many = many.and(PhalanxKey.random());
        }
        try (Recipients.NewFile file = many.newFile(Suite.AES_256_GCM, 12, java.util.OptionalLong.empty())) {
            assertEquals(18 + 64 * 59 + 32, file.header().length());
        }
        Recipients full = many;
        assertThrows(IllegalArgumentException.class, () -> full.and(PhalanxKey.random()));
    }

    /** Random changes to the header, and random bytes, end in a typed exception. */
    @Test
    void hostileHeadersAreRefused() throws IOException {
        byte[] good = sealed(bytes(5000));
        int refused = 0;
        for (int i = 0; i < 5000; i++) {
            byte[] bad = good.clone();
            for (int j = random.nextInt(3); j >= 0; j--) {
                bad[random.nextInt(80)] = (byte) random.nextInt();
            }
            if (random.nextBoolean()) {
                bad = Arrays.copyOf(bad, random.nextInt(bad.length));
            }
            try {
                unprotector.on(Runnable::run, 1).verify(new ByteArrayInputStream(bad));
            } catch (PhalanxException e) {
                refused++;
            }
        }
        assertTrue(refused > 4900, "only " + refused);
    }

    @Test
    void messagesBelongToTheirKeysAndData() throws IOException {
        for (Suite suite : Suite.values()) {
            Messages messages = new Messages(suite);
            List<Message> batch = new java.util.ArrayList<>();
            for (int i = 0; i < 300; i++) {
                batch.add(new Message(PhalanxKey.random(), bytes(random.nextInt(40)), bytes(random.nextInt(9000))));
            }
            List<byte[]> sealed = messages.seal(batch);
            List<Message> toOpen = new java.util.ArrayList<>();
            for (int i = 0; i < batch.size(); i++) {
                assertEquals(batch.get(i).content().length + suite.overhead(), sealed.get(i).length);
                toOpen.add(new Message(batch.get(i).key(), batch.get(i).associatedData(), sealed.get(i)));
            }
            List<byte[]> opened = messages.open(toOpen);
            for (int i = 0; i < batch.size(); i++) {
                assertArrayEquals(batch.get(i).content(), opened.get(i));
            }
            toOpen.set(7, new Message(PhalanxKey.random(), toOpen.get(7).associatedData(), sealed.get(7)));
            toOpen.set(120, new Message(toOpen.get(120).key(), bytes(41), sealed.get(120)));
            MessagesException e = assertThrows(MessagesException.class, () -> messages.open(toOpen));
            assertArrayEquals(new int[] {7, 120}, e.failed());
            assertTrue(messages.openEach(toOpen).get(7).isEmpty());
            assertTrue(messages.openEach(toOpen).get(8).isPresent());
        }
    }

    /** Under more keys than a sealer keeps, each used again when it is kept and when it is not. */
    @Test
    void messagesOneByOneAreThoseOfBatches() throws IOException {
        for (Suite suite : Suite.values()) {
            Messages messages = new Messages(suite);
            List<PhalanxKey> keys = java.util.stream.Stream.generate(PhalanxKey::random).limit(300).toList();
            try (MessageSealer sealer = new MessageSealer(suite)) {
                for (int i = 0; i < 900; i++) {
                    Message message = new Message(keys.get(i / 2 % 300), bytes(random.nextInt(40)), bytes(random.nextInt(500)));
                    byte[] sealed = sealer.seal(message);
                    Message toOpen = new Message(message.key(), message.associatedData(), sealed);
                    assertArrayEquals(message.content(), messages.open(List.of(toOpen)).get(0));
                    assertArrayEquals(message.content(), sealer.open(toOpen));
                    assertThrows(MessagesException.class, () -> sealer.open(new Message(PhalanxKey.random(), toOpen.associatedData(), sealed)));
                    assertThrows(MessagesException.class, () -> sealer.open(new Message(toOpen.key(), bytes(41), sealed)));
                    sealed[random.nextInt(sealed.length)] ^= 1;
                    assertThrows(MessagesException.class, () -> sealer.open(toOpen));
                }
                keys.get(0).close();
                assertThrows(IllegalStateException.class, () -> sealer.seal(new Message(keys.get(0), bytes(1))));
            }
        }
    }

    @Test
    void aClosedSealerDoesNothing() {
        MessageSealer sealer = new MessageSealer(Suite.AES_256_CTR_SHA3);
        Message message = new Message(PhalanxKey.random(), bytes(10));
        sealer.seal(message);
        sealer.close();
        assertThrows(IllegalStateException.class, () -> sealer.seal(message));
        assertThrows(IllegalStateException.class, () -> sealer.open(message));
        sealer.close();
    }

    @Test
    void keysOfMessagesAreWiped() {
        for (Suite suite : Suite.values()) {
            FileKeys inside = FileKeys.ofMessages(bytes(32), suite);
            byte[] encrypt = inside.encrypt();
            byte[] mac = inside.mac();
            new MessageKeys(inside).close();
            assertArrayEquals(new byte[encrypt.length], encrypt);
            assertArrayEquals(new byte[mac.length], mac);
        }
    }

    /** A key that is closed meanwhile is not one of zeros, which everybody has. */
    @Test
    void messagesAreSealedUnderWholeKeysOnly() throws Exception {
        Suite suite = Suite.AES_256_CTR_SHA3;
        AtomicReference<PhalanxKey> next = new AtomicReference<>();
        AtomicBoolean isOver = new AtomicBoolean();
        Thread closer = new Thread(() -> {
            for (Random random = new Random(1); !isOver.get(); ) {
                PhalanxKey key = next.getAndSet(null);
                if (key != null) {
                    long until = System.nanoTime() + random.nextInt(20_000);
                    while (System.nanoTime() < until) {
                        Thread.onSpinWait();
                    }
                    key.close();
                }
            }
        });
        closer.start();
        try {
            int sealed = 0;
            for (int i = 0; i < 30_000; i++) {
                PhalanxKey key = PhalanxKey.random();
                PhalanxKey copy = PhalanxKey.of(key.expose());
                next.set(key);
                try (MessageKeys keys = new MessageKeys(key, suite); MessageKeys whole = new MessageKeys(copy, suite);
                        MessageCipher cipher = new MessageCipher(suite)) {
                    byte[] plaintext = bytes(3);
                    byte[] data = bytes(1);
                    assertArrayEquals(plaintext, cipher.open(whole, data, cipher.seal(keys, data, plaintext)));
                    sealed++;
                } catch (IllegalStateException e) {
                    assertEquals("the key is closed", e.getMessage());
                }
            }
            assertTrue(sealed > 0);
        } finally {
            isOver.set(true);
            closer.join();
        }
    }

    @Test
    void secretsAreNotShownAndAreWiped() {
        PhalanxKey secret = PhalanxKey.of(bytes(32));
        byte[] inside = secret.open();
        secret.close();
        assertArrayEquals(new byte[32], inside);
        assertThrows(IllegalStateException.class, secret::expose);
        assertEquals("Password[…]", Password.of(bytes(5)).toString());
        assertTrue(secret.toString().contains(secret.id().toString()));
    }
}
