package phalanx.primitives;

import java.util.Optional;
import org.bouncycastle.crypto.InvalidCipherTextException;
import org.bouncycastle.crypto.engines.AESWrapEngine;
import org.bouncycastle.crypto.params.KeyParameter;

/** AES-256 key wrap (RFC 3394), by Bouncy Castle. */
public final class KeyWrap {
    private KeyWrap() {}

    /**
     * Wraps a key.
     *
     * @param kek the key-encrypting key, 32 bytes
     * @param key the key, a multiple of 8 bytes
     * @return the wrapped key, which is 8 bytes longer
     */
    public static byte[] wrap(byte[] kek, byte[] key) {
        AESWrapEngine engine = new AESWrapEngine();
        engine.init(true, new KeyParameter(kek));
        return engine.wrap(key, 0, key.length);
    }

    /**
     * Unwraps a key.
     *
     * @param kek the key-encrypting key, 32 bytes
     * @param wrapped the wrapped key
     * @return the key, or nothing if the integrity check fails
     */
    public static Optional<byte[]> unwrap(byte[] kek, byte[] wrapped) {
        AESWrapEngine engine = new AESWrapEngine();
        engine.init(false, new KeyParameter(kek));
        try {
            return Optional.of(engine.unwrap(wrapped, 0, wrapped.length));
        } catch (InvalidCipherTextException e) {
            return Optional.empty();
        }
    }
}
