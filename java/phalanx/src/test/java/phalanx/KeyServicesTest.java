package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Key services: which are asked, how often, what they open, and slots of strangers. */
class KeyServicesTest {
    private static final String URI = "test://one";
    private static final String OTHER = "test://two";
    private static final byte[] FILE_KEY = "the 32 bytes of a file's own key".getBytes(StandardCharsets.US_ASCII);

    /** A service whose key exchanges bits. It counts what it is asked for. */
    private static class Flipping implements KeyService {
        private final String uri;
        final List<String> asked = Collections.synchronizedList(new ArrayList<>());
        byte[] given;
        byte[] returned;

        Flipping(String uri) {
            this.uri = uri;
        }

        static byte[] flipped(byte[] bytes) {
            byte[] flipped = bytes.clone();
            for (int i = 0; i < flipped.length; i++) {
                flipped[i] ^= 0x5a;
            }
            return flipped;
        }

        @Override
        public String uri() {
            return uri;
        }

        @Override
        public byte[] wrap(byte[] runKey) throws IOException {
            asked.add("wrap");
            given = runKey;
            return flipped(runKey);
        }

        @Override
        public byte[] unwrap(byte[] wrapped) throws IOException {
            asked.add("unwrap");
            returned = flipped(wrapped);
            return returned;
        }
    }

    /** A service that fails as it is told to, or gives an answer. */
    private static final class Failing extends Flipping {
        private IOException failure;
        private RuntimeException trouble;
        private byte[] answer;

        Failing() {
            super(URI);
        }

        @Override
        public byte[] wrap(byte[] runKey) throws IOException {
            super.wrap(runKey);
            return fail();
        }

        @Override
        public byte[] unwrap(byte[] wrapped) throws IOException {
            byte[] unwrapped = super.unwrap(wrapped);
            return failure == null && trouble == null && answer == null ? unwrapped : fail();
        }

        private byte[] fail() throws IOException {
            if (failure != null) {
                throw failure;
            }
            if (trouble != null) {
                throw trouble;
            }
            return answer;
        }
    }

    private static byte[] file(Recipients recipients) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        new Protector(recipients).protect(new ByteArrayInputStream(new byte[10]), out);
        return out.toByteArray();
    }

    private static Header header(byte[] file) throws IOException {
        return Header.read(new ByteArrayInputStream(file));
    }

    private static long verify(byte[] file, KeyProvider keys) throws IOException {
        return new Unprotector(keys).verify(new ByteArrayInputStream(file));
    }

    @Test
    void oneCallProtectsAllFilesAndOneOpensThem() throws IOException {
        Flipping service = new Flipping(URI);
        List<byte[]> files = new ArrayList<>();
        try (KeyServices services = KeyServices.of(service)) {
            assertTrue(service.asked.isEmpty());
            for (int i = 0; i < 3; i++) {
                files.add(file(Recipients.of(services)));
                files.add(file(Recipients.of(PhalanxKey.random()).and(services)));
            }
            // A run opens what it has protected, and asks for nothing.
            assertEquals(10, verify(files.get(0), services));
        }
        assertEquals(List.of("wrap"), service.asked);
        assertArrayEquals(new byte[32], service.given, "the run key is overwritten");
        try (KeyServices services = KeyServices.of(service)) {
            for (byte[] file : files) {
                assertEquals(10, verify(file, services));
            }
            assertEquals(List.of("wrap", "unwrap"), service.asked);
            assertArrayEquals(new byte[32], service.returned, "what was unwrapped is overwritten");
            // Another run has another run key.
            file(Recipients.of(services));
            assertFalse(Arrays.equals(wrapped(files.get(0)), wrapped(file(Recipients.of(services)))));
        }
    }

    private static byte[] wrapped(byte[] file) throws IOException {
        return ((Slot.OfService) header(file).slots().get(0)).secret().salt();
    }

    @Test
    void onlyNamedServicesAreAsked() throws IOException {
        Flipping other = new Flipping(OTHER);
        byte[] file = file(Recipients.of(KeyServices.of(new Flipping(URI))));
        Unprotector wrong = new Unprotector(KeyServices.of(other, new Flipping(URI + "/"), new Flipping("TEST://one")));
        WrongKeyException e = assertThrows(WrongKeyException.class, () -> wrong.verify(new ByteArrayInputStream(file)));
        assertEquals("no key at hand opens it: it needs the key service test://one", e.getMessage());
        assertFalse(e.wasTried() || e.lacksKey() || e.lacksPassword());
        assertTrue(other.asked.isEmpty());
        // Keys come first, and the password last.
        PhalanxKey key = PhalanxKey.random();
        Flipping service = new Flipping(URI);
        KeyServices services = KeyServices.of(service);
        byte[] mixed = file(Recipients.of(key).and(services).and(Password.of("p".toCharArray()), 64, 1, 2));
        service.asked.clear();
        Flipping again = new Flipping(URI);
        KeyProvider both = KeyServices.of(again).or(KeyProvider.of(key));
        assertEquals(0, header(mixed).open(both).slot());
        assertTrue(again.asked.isEmpty());
        KeyProvider asking = new KeyProvider() {
            @Override
            public Optional<PhalanxKey> key(KeyId id) {
                return Optional.empty();
            }

            @Override
            public Optional<Password> password() {
                throw new AssertionError("the password was asked for");
            }
        };
        assertEquals(1, header(mixed).open(asking.or(KeyServices.of(again))).slot());
        // Services of several providers are all at hand.
        assertEquals(10, verify(file, KeyServices.of(other).or(KeyServices.of(again))));
    }

    @Test
    void whatFailsIsToldAndAskedForAgainLater() throws IOException {
        byte[] file = file(Recipients.of(KeyServices.of(new Flipping(URI))));
        Failing service = new Failing();
        AtomicLong clock = new AtomicLong(Long.MAX_VALUE - 5);
        try (KeyServices services = KeyServices.of(List.of(service), clock::get)) {
            service.trouble = new IllegalStateException("denied\n\u001b[2J" + "x".repeat(400));
            String needs = "no key at hand opens it: it needs the key service test://one; the key service test://one: ";
            for (int i = 0; i < 3; i++) {
                WrongKeyException e = assertThrows(WrongKeyException.class, () -> verify(file, services));
                assertEquals(needs + "denied\ufffd\ufffd[2J" + "x".repeat(300 - 11), e.getMessage());
            }
            KeyException e = assertThrows(KeyException.class, () -> services.runKey(URI, wrapped(file)));
            assertSame(service.trouble, e.getCause());
            assertEquals(1, service.asked.size());
            service.trouble = null;
            assertThrows(WrongKeyException.class, () -> verify(file, services));
            clock.addAndGet(NamedService.RETRY);
            assertEquals(10, verify(file, services));
            assertEquals(2, service.asked.size());
            // One that did not answer in time is not asked at all for a while.
            service.failure = new SocketTimeoutException("timed out");
            assertThrows(KeyException.class, () -> services.runKey(URI, new byte[1]));
            service.failure = null;
            clock.addAndGet(NamedService.BROKEN - 1);
            assertThrows(KeyException.class, () -> services.runKey(URI, new byte[32]));
            assertThrows(KeyException.class, () -> Recipients.of(services));
            assertEquals(3, service.asked.size());
            assertEquals(10, verify(file, services), "what is known stays");
            clock.addAndGet(NamedService.RETRY);
            assertTrue(services.runKey(URI, new byte[32]).isPresent());
        }
    }

    @Test
    void threadsAskOnce() throws IOException {
        Flipping service = new Flipping(URI);
        byte[] file = file(Recipients.of(KeyServices.of(service)));
        KeyServices services = KeyServices.of(service);
        service.asked.clear();
        IntStream.range(0, 16).parallel().forEach(i -> {
            try {
                assertEquals(10, verify(i % 2 == 0 ? file : file(Recipients.of(services)), services));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
        assertEquals(List.of("unwrap", "wrap"), service.asked.stream().sorted().toList());
    }

    /** A service that gives the same answer for each run key. It opens nothing of an earlier run, and keeps no key open. */
    @Test
    void aServiceMayAnswerTheSameTwice() throws IOException {
        Failing service = new Failing();
        service.answer = new byte[32];
        KeyServices services = KeyServices.of(service);
        services.runKey(URI, new byte[32]);
        byte[] file = file(Recipients.of(services));
        assertThrows(WrongKeyException.class, () -> verify(file, services));
        PhalanxKey ours = services.runKeys().get(0).key();
        services.close();
        assertThrows(IllegalStateException.class, ours::expose);
    }

    @Test
    void answersOfOtherLengthsAreRefused() throws IOException {
        Failing service = new Failing();
        for (int length : new int[] {0, 31, 33, 4096}) {
            service.answer = new byte[length];
            KeyServices services = KeyServices.of(service);
            assertEquals("the key service test://one: it unwrapped " + length + " bytes, and a run key has 32",
                    assertThrows(KeyException.class, () -> services.runKey(URI, new byte[5])).getMessage());
        }
        KeyServices services = KeyServices.of(service);
        service.answer = new byte[0];
        assertThrows(KeyException.class, () -> Recipients.of(services));
        service.answer = new byte[4097];
        assertThrows(KeyException.class, () -> Recipients.of(services));
        service.answer = null;
        assertEquals("the key service test://one: it gave no answer",
                assertThrows(KeyException.class, () -> Recipients.of(services)).getMessage());
        service.answer = new byte[4096];
        assertEquals(10, verify(file(Recipients.of(services)), services));
    }

    @Test
    void aServiceThatWrapsNothingIsRefused() {
        for (int before : new int[] {0, 1, 100}) {
            KeyServices services = KeyServices.of(new Flipping(URI) {
                @Override
                public byte[] wrap(byte[] runKey) {
                    byte[] answer = new byte[before + 32 + before];
                    System.arraycopy(runKey, 0, answer, before, 32);
                    // That it wipes the run key changes nothing.
                    Arrays.fill(runKey, (byte) 0);
                    return answer;
                }
            });
            assertEquals("the key service test://one: it has wrapped nothing: its answer contains the run key",
                    assertThrows(KeyException.class, () -> Recipients.of(services)).getMessage());
        }
    }

    @Test
    void anInterruptedThreadSaysNothingAboutTheService() throws IOException {
        byte[] file = file(Recipients.of(KeyServices.of(new Flipping(URI))));
        Failing service = new Failing();
        service.trouble = new IllegalStateException("aborted");
        KeyServices services = KeyServices.of(service);
        Thread.currentThread().interrupt();
        assertThrows(InterruptedIOException.class, () -> services.runKey(URI, wrapped(file)));
        assertTrue(Thread.interrupted());
        service.trouble = null;
        assertEquals(10, verify(file, services));
    }

    @Test
    void closedServicesDoNothingMore() throws IOException {
        KeyServices services = KeyServices.of(new Flipping(URI));
        Recipients recipients = Recipients.of(services);
        byte[] file = file(recipients);
        PhalanxKey runKey = services.runKey(URI, wrapped(file)).orElseThrow();
        String hex = HexFormat.of().formatHex(runKey.expose());
        for (Object shown : List.of(services, recipients, services.runKeys(), header(file).slots(), runKey)) {
            assertFalse(shown.toString().toLowerCase().contains(hex.substring(0, 8)), shown.toString());
        }
        assertEquals("KeyServices[test://one]", services.toString());
        services.close();
        assertThrows(IllegalStateException.class, runKey::expose);
        assertThrows(IllegalStateException.class, () -> file(recipients));
        assertThrows(IllegalStateException.class, () -> Recipients.of(services));
        assertThrows(IllegalStateException.class, () -> verify(file, services));
    }

    @Test
    void namesAreChecked() throws IOException {
        for (String uri : new String[] {"", "a b", "tést://", "a\n", "x".repeat(1025), null}) {
            assertThrows(IllegalArgumentException.class, () -> KeyServices.of(new Flipping(uri)), uri);
        }
        assertThrows(IllegalArgumentException.class, () -> KeyServices.of());
        assertThrows(IllegalArgumentException.class, () -> KeyServices.of(new Flipping(URI), new Flipping(URI)));
        List<KeyService> many = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            many.add(new Flipping("test://" + i + "x".repeat(1016)));
        }
        KeyServices eight = KeyServices.of(many);
        byte[] file = file(Recipients.of(eight));
        assertEquals(8, header(file).slots().stream().filter(slot -> slot instanceof Slot.OfService).count());
        WrongKeyException e = assertThrows(WrongKeyException.class, () -> verify(file, KeyServices.of(new Flipping(URI))));
        assertTrue(e.getMessage().contains("the key service test://7" + "x".repeat(56) + "…"), e.getMessage());
        assertThrows(IllegalArgumentException.class, () -> Recipients.of(eight).and(KeyServices.of(new Flipping(URI))));
        many.add(new Flipping(URI));
        assertThrows(IllegalArgumentException.class, () -> KeyServices.of(many));
    }

    @Test
    void slotsAreThoseOfTheFormat() throws IOException {
        try (KeyServices services = KeyServices.of(new Flipping(URI))) {
            Recipients recipients = Recipients.of(services);
            try (Recipients.NewFile file = recipients.newFile(Suite.AES_256_CTR_SHA3, 12, OptionalLong.empty())) {
                byte[] header = file.header().toBytes();
                ByteBuffer fields = ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN);
                assertEquals(4, header[18]);
                assertEquals(2 + 10 + 2 + 32 + 40, fields.getShort(19));
                assertEquals(10, fields.getShort(21));
                assertEquals(URI, new String(header, 23, 10, StandardCharsets.US_ASCII));
                assertEquals(32, fields.getShort(33));
                assertEquals(new Slot.OfService(URI, 32, null).toString(),
                        file.header().slots().get(0).toString().replace("…", "null"));
            }
        }
    }

    /** A header with these slots of type 4, and whose tag is that of {@link #FILE_KEY}. */
    private static Header header(List<byte[]> bodies) throws IOException {
        int length = Header.FIXED + bodies.stream().mapToInt(body -> 3 + body.length).sum() + Header.TAG;
        ByteBuffer out = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        out.put(Header.MAGIC).put((byte) 1).putInt(length).put((byte) 1).put((byte) 12).putShort((short) 0);
        out.putShort((short) bodies.size());
        bodies.forEach(body -> out.put((byte) 4).putShort((short) body.length).put(body));
        byte[] header = out.array();
        try (FileKeys keys = FileKeys.ofFile(FILE_KEY.clone(), Suite.AES_256_CTR_SHA3)) {
            System.arraycopy(keys.headerTag(header), 0, header, length - Header.TAG, Header.TAG);
        }
        return Header.read(new ByteArrayInputStream(header));
    }

    private static byte[] body(String uri, byte[] runKey, byte[] wrapped) {
        ByteBuffer out = ByteBuffer.allocate(4 + uri.length() + runKey.length + wrapped.length).order(ByteOrder.LITTLE_ENDIAN);
        out.putShort((short) uri.length()).put(uri.getBytes(StandardCharsets.ISO_8859_1));
        return out.putShort((short) runKey.length).put(runKey).put(wrapped).array();
    }

    /** A slot that opens, whose run key has this byte 32 times. */
    private static byte[] good(int runKey) {
        byte[] bytes = new byte[32];
        Arrays.fill(bytes, (byte) runKey);
        return body(URI, Flipping.flipped(bytes), PhalanxKey.of(bytes).wrap(FILE_KEY));
    }

    @Test
    void malformedSlotsAreUnknownOnes() throws IOException {
        byte[] good = good(1);
        List<byte[]> bad = new ArrayList<>();
        for (String uri : List.of("", "x".repeat(1025), "a b", "a\u007f", "\u00ff")) {
            bad.add(body(uri, new byte[3], new byte[40]));
        }
        for (int runKey : new int[] {0, 4097}) {
            bad.add(body(URI, new byte[runKey], new byte[40]));
        }
        for (int wrapped : new int[] {0, 39, 41}) {
            bad.add(body(URI, new byte[3], new byte[wrapped]));
        }
        for (int length = 0; length < good.length; length++) {
            bad.add(Arrays.copyOf(good, length));
        }
        for (byte[] body : bad) {
            Flipping service = new Flipping(URI);
            KeyServices services = KeyServices.of(service);
            assertEquals(1, header(List.of(body, good)).open(services).slot());
            assertEquals(1, service.asked.size());
            Header alone = header(List.of(body));
            assertEquals(List.of(new Slot.Unknown(4, body.length)), alone.slots());
            WrongKeyException e = assertThrows(WrongKeyException.class, () -> alone.open(services));
            assertEquals("no key at hand opens it: it needs a kind of key that this program does not know", e.getMessage());
        }
    }

    @Test
    void atMostEightSlotsAreTried() throws IOException {
        for (int bad : new int[] {7, 8, 40}) {
            // The slots of services that are not named do not count.
            List<byte[]> slots = new ArrayList<>(Collections.nCopies(20, body(OTHER, new byte[1], new byte[40])));
            for (int i = 0; i < bad; i++) {
                byte[] runKey = new byte[i % 2 == 0 ? 32 : 7];
                runKey[0] = (byte) i;
                slots.add(body(URI, runKey, new byte[40]));
            }
            slots.add(good(1));
            Flipping service = new Flipping(URI);
            Header header = header(slots);
            if (bad == 7) {
                assertEquals(27, header.open(KeyServices.of(service)).slot());
            } else {
                String message = assertThrows(WrongKeyException.class, () -> header.open(KeyServices.of(service))).getMessage();
                // The same refusal of four slots is told once.
                String refused = "; the key service test://one: it unwrapped 7 bytes, and a run key has 32";
                assertEquals("wrong key or password, or the header is damaged" + refused, message);
            }
            assertEquals(8, service.asked.size());
        }
    }
}
