package phalanx.primitives;

import java.util.Optional;
import org.bouncycastle.crypto.InvalidCipherTextException;
import org.bouncycastle.crypto.modes.ChaCha20Poly1305;
import org.bouncycastle.crypto.params.KeyParameter;
import org.bouncycastle.crypto.params.ParametersWithIV;

/** ChaCha20-Poly1305 (RFC 8439) without associated data, by Bouncy Castle, which compares tags in constant time. */
public final class ChaChaPoly {
    /** The length of a nonce. */
    public static final int NONCE = 12;
    /** How much longer a ciphertext is than its plaintext. */
    public static final int TAG = 16;

    private ChaChaPoly() {}

    /**
     * Encrypts.
     *
     * @param key the key, 32 bytes
     * @param nonce the nonce, 12 bytes
     * @param plaintext the plaintext
     * @return the ciphertext with the tag at its end
     */
    public static byte[] seal(byte[] key, byte[] nonce, byte[] plaintext) {
        try {
            return run(true, key, nonce, plaintext, plaintext.length + TAG);
        } catch (InvalidCipherTextException e) {
            throw new IllegalStateException(e);
        }
    }

    /**
     * Decrypts.
     *
     * @param key the key, 32 bytes
     * @param nonce the nonce, 12 bytes
     * @param ciphertext the ciphertext with the tag at its end, 16 bytes or more
     * @return the plaintext, or nothing if the tag is wrong
     */
    public static Optional<byte[]> open(byte[] key, byte[] nonce, byte[] ciphertext) {
        try {
            return Optional.of(run(false, key, nonce, ciphertext, ciphertext.length - TAG));
        } catch (InvalidCipherTextException e) {
            return Optional.empty();
        }
    }

    private static byte[] run(boolean seals, byte[] key, byte[] nonce, byte[] from, int length)
            throws InvalidCipherTextException {
        ChaCha20Poly1305 cipher = new ChaCha20Poly1305();
        cipher.init(seals, new ParametersWithIV(new KeyParameter(key), nonce));
        byte[] out = new byte[length];
        int done = cipher.processBytes(from, 0, from.length, out, 0);
        cipher.doFinal(out, done);
        return out;
    }
}
