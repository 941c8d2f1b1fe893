package phalanx.ffi;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import phalanx.Message;
import phalanx.Messages;
import phalanx.MessagesException;
import phalanx.PhalanxKey;
import phalanx.Suite;

/** The library and the pure one open each other's messages. */
class MessagesTest {
    private NativeLibrary library;

    @BeforeEach
    void prepare() {
        library = Needs.library();
    }

    /** Messages of many lengths, some under the key of the one before. */
    private static List<Message> batch(int count, int seed) {
        Random random = new Random(seed);
        List<Message> batch = new ArrayList<>();
        PhalanxKey key = PhalanxKey.random();
        for (int i = 0; i < count; i++) {
            byte[] text = new byte[i % 7 == 0 ? i % 3 : random.nextInt(600)];
            byte[] ad = new byte[i % 5 == 0 ? 0 : random.nextInt(40)];
            random.nextBytes(text);
            random.nextBytes(ad);
            key = i % 4 == 0 ? PhalanxKey.random() : key;
            batch.add(new Message(key, ad, text));
        }
        return batch;
    }

    private static List<Message> sealed(List<Message> batch, List<byte[]> contents) {
        List<Message> all = new ArrayList<>();
        for (int i = 0; i < batch.size(); i++) {
            all.add(new Message(batch.get(i).key(), batch.get(i).associatedData(), contents.get(i)));
        }
        return all;
    }

    private static void assertTexts(List<Message> batch, List<byte[]> opened) {
        assertEquals(batch.size(), opened.size());
        for (int i = 0; i < batch.size(); i++) {
            assertArrayEquals(batch.get(i).content(), opened.get(i), "message " + i);
        }
    }

    @Test
    void bothOpenEachOthersMessages() throws MessagesException {
        for (Suite suite : Suite.values()) {
            NativeMessages messages = new NativeMessages(library, suite);
            Messages pure = new Messages(suite);
            for (int count : new int[] {1, 3, 1024, 5000}) {
                List<Message> batch = batch(count, count);
                List<byte[]> sealed = messages.seal(batch);
                for (int i = 0; i < count; i++) {
                    assertEquals(batch.get(i).content().length + suite.overhead(), sealed.get(i).length);
                }
                assertTexts(batch, pure.open(sealed(batch, sealed)));
                assertTexts(batch, messages.open(sealed(batch, pure.seal(batch))));
            }
        }
    }

    @Test
    void anEmptyBatch() throws MessagesException {
        NativeMessages messages = new NativeMessages(library, Suite.AES_256_CTR_SHA3);
        assertEquals(List.of(), messages.seal(List.of()));
        assertEquals(List.of(), messages.open(List.of()));
        assertEquals(List.of(), messages.openEach(List.of()));
    }

    @Test
    void messagesThatAreNotAuthenticAreNamed() {
        for (Suite suite : Suite.values()) {
            NativeMessages messages = new NativeMessages(library, suite);
            List<Message> batch = batch(3000, 7);
            List<byte[]> sealed = new ArrayList<>(messages.seal(batch));
            sealed.get(4)[sealed.get(4).length - 1] ^= 1;
            sealed.set(1500, Arrays.copyOf(sealed.get(1500), suite.overhead() - 1));
            sealed.set(2001, new byte[0]);
            List<Message> all = sealed(batch, sealed);
            all.set(2999, new Message(batch.get(2999).key(), "others".getBytes(), sealed.get(2999)));
            MessagesException ours = assertThrows(MessagesException.class, () -> messages.open(all));
            MessagesException theirs = assertThrows(MessagesException.class, () -> new Messages(suite).open(all));
            assertArrayEquals(new int[] {4, 1500, 2001, 2999}, ours.failed());
            assertArrayEquals(theirs.failed(), ours.failed());
            assertEquals(theirs.getMessage(), ours.getMessage());
            List<Optional<byte[]>> each = messages.openEach(all);
            for (int i = 0; i < each.size(); i++) {
                boolean failed = Arrays.binarySearch(ours.failed(), i) >= 0;
                assertEquals(failed, each.get(i).isEmpty(), "message " + i);
                if (!failed) {
                    assertArrayEquals(batch.get(i).content(), each.get(i).orElseThrow());
                }
            }
        }
    }

    /** Also where several threads copy. */
    @Test
    void aClosedKeyFails() {
        NativeMessages messages = new NativeMessages(library, Suite.AES_256_CTR_SHA3);
        List<Message> batch = batch(5000, 3);
        batch.get(4321).key().close();
        IllegalStateException e = assertThrows(IllegalStateException.class, () -> messages.seal(batch));
        assertEquals("the key is closed", e.getMessage());
        List<Message> missing = new ArrayList<>(batch);
        missing.set(0, null);
        assertThrows(NullPointerException.class, () -> messages.seal(missing));
    }

    /** More than the memory that is kept. */
    @Test
    void aLongBatch() throws MessagesException {
        NativeMessages messages = new NativeMessages(library, Suite.AES_256_CTR_TURBOSHAKE);
        PhalanxKey key = PhalanxKey.random();
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            byte[] text = new byte[16 << 20];
            Arrays.fill(text, (byte) i);
            batch.add(new Message(key, text));
        }
        assertTexts(batch, messages.open(sealed(batch, messages.seal(batch))));
    }

    /** What is done with a batch. */
    private interface Work {
        void with(NativeMessages messages) throws MessagesException;
    }

    /** Does something, and checks that the memory that is kept has this sealed message, and neither the key nor the text. */
    private void assertWiped(byte[] secret, byte[] text, byte[] sealed, Work work) throws MessagesException {
        NativeMessages messages = new NativeMessages(library, Suite.AES_256_CTR_SHA3);
        work.with(messages);
        String kept = latin(messages.kept().toArray(ValueLayout.JAVA_BYTE));
        assertTrue(sealed == null || kept.contains(latin(sealed)), "this is not the memory of the batch");
        assertFalse(kept.contains(latin(secret)), "a key is left");
        assertFalse(kept.contains(latin(text)), "a text is left");
    }

    private static String latin(byte[] bytes) {
        return new String(bytes, ISO_8859_1);
    }

    @Test
    void noSecretIsLeftInTheMemoryThatIsKept() throws MessagesException {
        byte[] secret = new byte[PhalanxKey.BYTES];
        byte[] text = new byte[500];
        new Random(5).nextBytes(secret);
        new Random(6).nextBytes(text);
        PhalanxKey key = PhalanxKey.of(secret);
        List<Message> batch = List.of(new Message(key, new byte[3], text), new Message(key, text));
        List<byte[]> sealed = new ArrayList<>();
        assertWiped(secret, text, null, messages -> {
            sealed.addAll(messages.seal(batch));
            assertTrue(latin(messages.kept().toArray(ValueLayout.JAVA_BYTE)).contains(latin(sealed.get(0))));
        });
        List<Message> all = sealed(batch, sealed);
        assertWiped(secret, text, sealed.get(0), messages -> assertTexts(batch, messages.open(all)));
        assertWiped(secret, text, sealed.get(0), messages -> assertEquals(2, messages.openEach(all).size()));
        // The text of the first one is not released, and was decrypted all the same.
        List<Message> wrong = List.of(all.get(0), new Message(key, new byte[100]));
        assertWiped(secret, text, sealed.get(0), messages -> assertThrows(MessagesException.class, () -> messages.open(wrong)));
        assertWiped(secret, text, sealed.get(0), messages -> assertEquals(2, messages.openEach(wrong).size()));
    }

    @Test
    void manyThreadsUseOneValue() throws Exception {
        NativeMessages messages = new NativeMessages(library, Suite.AES_256_CTR_SHA3);
        try (ExecutorService threads = Executors.newFixedThreadPool(16)) {
            List<Future<Boolean>> all = new ArrayList<>();
            for (int thread = 0; thread < 16; thread++) {
                List<Message> batch = batch(100 + 200 * thread, thread);
                all.add(threads.submit(() -> {
                    for (int i = 0; i < 5; i++) {
                        assertTexts(batch, messages.open(sealed(batch, messages.seal(batch))));
                    }
                    return true;
                }));
            }
            for (Future<Boolean> each : all) {
                assertTrue(each.get());
            }
        }
    }
}
