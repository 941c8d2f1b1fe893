package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.NotSerializableException;
import java.io.ObjectOutputStream;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** The keys of one thread's chunks. */
class ChunkCipherTest {
    @Test
    void afterItIsClosedNothingIsSealedOrOpened() throws Exception {
        for (Suite suite : Suite.values()) {
            byte[] fileKey = new byte[32];
            new Random(1).nextBytes(fileKey);
            try (FileKeys keys = FileKeys.ofFile(fileKey, suite)) {
                ChunkCipher cipher = new ChunkCipher(keys, 12);
                byte[] chunk = new byte[suite.overhead() + 100];
                Arrays.fill(chunk, (byte) 9);
                byte[] plain = Arrays.copyOfRange(chunk, suite.overhead(), chunk.length);
                cipher.seal(chunk, 0, 100, 3, false);
                byte[] sealed = chunk.clone();
                cipher.close();
                cipher.close();
                assertThrows(IllegalStateException.class, () -> cipher.seal(chunk, 0, 100, 3, false), suite::title);
                assertThrows(IllegalStateException.class, () -> cipher.open(sealed.clone(), 0, 100, 3, false), suite::title);
                // Others have the keys of the file still.
                try (ChunkCipher other = new ChunkCipher(keys, 12)) {
                    other.open(sealed, 0, 100, 3, false);
                }
                assertArrayEquals(plain, Arrays.copyOfRange(sealed, suite.overhead(), sealed.length));
            }
        }
    }

    /** Everybody has the keys that closed ones have become. */
    @Test
    void nothingIsMadeOfClosedKeys() {
        for (Suite suite : Suite.values()) {
            byte[] fileKey = new byte[32];
            new Random(1).nextBytes(fileKey);
            FileKeys keys = FileKeys.ofFile(fileKey, suite);
            keys.close();
            keys.close();
            assertThrows(IllegalStateException.class, () -> new ChunkCipher(keys, 12), suite::title);
            assertThrows(IllegalStateException.class, () -> new MessageKeys(keys), suite::title);
            assertThrows(IllegalStateException.class, keys::expose);
            assertThrows(IllegalStateException.class, () -> keys.headerTag(new byte[100]));
        }
    }

    @Test
    void aKeyIsCopiedAndOverwritten() throws Exception {
        byte[] bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
        AesKey key = new AesKey(bytes);
        bytes[0] = 99;
        byte[] encoded = key.getEncoded();
        assertEquals(1, encoded[0]);
        Arrays.fill(encoded, (byte) 0);
        assertEquals(1, key.getEncoded()[0]);
        key.destroy();
        assertTrue(key.isDestroyed());
        assertThrows(IllegalStateException.class, key::getEncoded);
        assertArrayEquals(new byte[bytes.length], array(key));
    }

    private static byte[] array(AesKey key) throws ReflectiveOperationException {
        Field field = AesKey.class.getDeclaredField("key");
        field.setAccessible(true);
        return (byte[]) field.get(key);
    }

    @Test
    void aClosedCipherHasOverwrittenItsKey() throws Exception {
        for (Suite suite : Suite.values()) {
            byte[] fileKey = new byte[32];
            new Random(1).nextBytes(fileKey);
            try (FileKeys keys = FileKeys.ofFile(fileKey, suite)) {
                ChunkCipher cipher = new ChunkCipher(keys, 12);
                Field field = ChunkCipher.class.getDeclaredField("key");
                field.setAccessible(true);
                byte[] key = array((AesKey) field.get(cipher));
                assertArrayEquals(keys.encrypt(), key);
                cipher.close();
                assertArrayEquals(new byte[suite.aesKeyBytes()], key);
            }
        }
    }

    @Test
    void aKeyIsNotWrittenElsewhere() {
        AesKey key = new AesKey(new byte[16]);
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        assertThrows(NotSerializableException.class, () -> new ObjectOutputStream(written).writeObject(key));
    }
}
