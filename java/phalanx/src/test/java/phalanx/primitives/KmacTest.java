package phalanx.primitives;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.bouncycastle.crypto.macs.KMAC;
import org.bouncycastle.crypto.params.KeyParameter;
import org.junit.jupiter.api.Test;

/** KMAC256 compared with Bouncy Castle's. */
class KmacTest {
    private final Random random = new Random(39);

    private byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    private static byte[] theirs(byte[] key, byte[] message, int length, String customization) {
        KMAC kmac = new KMAC(256, customization.getBytes(StandardCharsets.US_ASCII));
        kmac.init(new KeyParameter(key));
        kmac.update(message, 0, message.length);
        byte[] out = new byte[length];
        kmac.doFinal(out, 0, length);
        return out;
    }

    /** Several messages of all lengths around blocks under one key, in pieces of all kinds. */
    @Test
    void allLengthsAreThoseOfBouncyCastle() {
        for (int round = 0; round < 20; round++) {
            byte[] key = bytes(round == 0 ? 32 : 1 + random.nextInt(255));
            String customization = "c".repeat(round * 13);
            try (Kmac kmac = new Kmac(key, customization)) {
                for (int length = 0; length < 300; length++) {
                    byte[] message = bytes(length);
                    for (int at = 0; at < length; ) {
                        int piece = Math.min(length - at, random.nextInt(40));
                        kmac.update(message, at, piece);
                        at += piece;
                    }
                    int out = 1 + random.nextInt(300);
                    assertArrayEquals(theirs(key, message, out, customization), kmac.finish(out));
                }
            }
        }
    }

    /** Their lengths in bits take up to three bytes. Bouncy Castle takes no longer keys. */
    @Test
    void longMessagesAndOutputsAreThoseOfBouncyCastle() {
        for (int length : new int[] {0, 8191, 8192, 70_000}) {
            byte[] key = bytes(255);
            byte[] message = bytes(length);
            assertArrayEquals(theirs(key, message, length + 1, "long"), Kmac.of(key, message, length + 1, "long"));
        }
    }

    @Test
    void nothingIsComputedWithoutAKey() {
        Kmac kmac = new Kmac(bytes(32), "closed");
        kmac.close();
        assertThrows(IllegalStateException.class, () -> kmac.update(new byte[1], 0, 1));
        assertThrows(IllegalStateException.class, () -> kmac.finish(32));
    }

    @Test
    void otherStringsThanAsciiAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> new Kmac(new byte[32], "\u00e9"));
    }
}
