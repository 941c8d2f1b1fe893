package phalanx;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.Optional;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

/** Whose a header is: a run that goes on with a file asks that, so that nobody else gets in, and nobody is left out. */
class IsForTest {
    private final PhalanxKey alice = PhalanxKey.random();
    private final PhalanxKey bob = PhalanxKey.random();
    private final KeyProvider atHand = KeyProvider.of(alice, bob);
    private final AgeRecipient carol = AgeKeysTest.identity(AgeKind.ELLIPTIC, 1).recipient();
    private final AgeRecipient dave = AgeKeysTest.identity(AgeKind.ELLIPTIC, 2).recipient();

    private static Header header(Recipients recipients) throws IOException {
        try (Recipients.NewFile file = recipients.newFile(Suite.AES_256_CTR_SHA3, 20, OptionalLong.empty())) {
            return file.header();
        }
    }

    @Test
    void keysHaveToBeTheSame() throws IOException {
        Recipients both = Recipients.of(alice).and(bob);
        Header header = header(both);
        assertTrue(header.isFor(both, atHand));
        assertTrue(header.isFor(Recipients.of(bob).and(alice), atHand), "the order does not matter");
        assertFalse(header.isFor(Recipients.of(alice), atHand));
        assertFalse(header.isFor(both.and(PhalanxKey.random()), atHand));
        assertFalse(header.isFor(Recipients.of(alice).and(PhalanxKey.random()), atHand));
        assertFalse(header.isFor(Recipients.of(alice).and(alice), atHand), "each has a slot of its own");
        assertTrue(header(Recipients.of(alice).and(alice)).isFor(Recipients.of(alice).and(alice), atHand));
        assertFalse(header.isFor(both, KeyProvider.of(PhalanxKey.random())), "nothing at hand opens it");
    }

    /** Whoever has one key could have put a slot there that looks like somebody else's and opens nothing. */
    @Test
    void eachSlotHasToOpen() throws IOException {
        Recipients both = Recipients.of(alice).and(bob);
        Header header = header(both);
        byte[] bytes = header.toBytes();
        bytes[Header.FIXED + 3 + KeyId.BYTES] ^= 1;
        try (FileKeys file = header.open(atHand).keys()) {
            byte[] tag = file.headerTag(bytes);
            System.arraycopy(tag, 0, bytes, bytes.length - tag.length, tag.length);
        }
        Header altered = Header.read(new ByteArrayInputStream(bytes));
        assertEquals(1, altered.open(atHand).slot(), "bob's still opens");
        assertFalse(altered.isFor(both, atHand));
    }

    @Test
    void publicKeysAreKnownByTheirTags() throws IOException {
        Recipients all = Recipients.of(alice).and(carol);
        Header header = header(all);
        assertTrue(header.isFor(all, atHand));
        assertFalse(header.isFor(Recipients.of(alice).and(dave), atHand));
        assertFalse(header.isFor(Recipients.of(alice), atHand));
        assertFalse(header.isFor(all.and(dave), atHand));
    }

    @Test
    void passwordsHaveToOpen() throws IOException {
        try (Password right = Password.of("right".getBytes()); Password wrong = Password.of("wrong".getBytes())) {
            Header header = header(Recipients.of(alice).and(right, 32, 1, 1));
            assertTrue(header.isFor(Recipients.of(alice).and(right, 32, 1, 1), atHand));
            assertFalse(header.isFor(Recipients.of(alice).and(wrong, 32, 1, 1), atHand));
            assertFalse(header.isFor(Recipients.of(alice).and(carol), atHand));
        }
    }

    private record Plain(String uri) implements KeyService {
        @Override
        public byte[] wrap(byte[] runKey) {
            return flipped(runKey);
        }

        @Override
        public byte[] unwrap(byte[] wrapped) {
            return flipped(wrapped);
        }

        private static byte[] flipped(byte[] bytes) {
            byte[] flipped = bytes.clone();
            for (int i = 0; i < flipped.length; i++) {
                flipped[i] ^= 0x5a;
            }
            return flipped;
        }
    }

    @Test
    void servicesHaveToOpenWhatEarlierRunsMade() throws IOException {
        Header header;
        try (KeyServices before = KeyServices.of(new Plain("test://one"))) {
            header = header(Recipients.of(alice).and(before));
        }
        try (KeyServices now = KeyServices.of(new Plain("test://one")); KeyServices other = KeyServices.of(new Plain("test://two"))) {
            Recipients all = Recipients.of(alice).and(now);
            assertTrue(header.isFor(all, atHand.or(now)));
            assertFalse(header.isFor(all, atHand), "nobody asks the service");
            assertFalse(header.isFor(Recipients.of(alice).and(other), atHand.or(other)));
            KeyProvider wrong = new KeyProvider() {
                @Override
                public Optional<PhalanxKey> key(KeyId id) throws IOException {
                    return atHand.key(id);
                }

                @Override
                public Optional<PhalanxKey> runKey(String uri, byte[] wrapped) {
                    return Optional.of(bob);
                }
            };
            assertFalse(header.isFor(all, wrong), "it has another run key");
        }
    }
}
