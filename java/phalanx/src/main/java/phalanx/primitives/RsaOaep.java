package phalanx.primitives;

import java.math.BigInteger;
import java.util.Optional;
import org.bouncycastle.crypto.AsymmetricBlockCipher;
import org.bouncycastle.crypto.CryptoException;
import org.bouncycastle.crypto.RuntimeCryptoException;
import org.bouncycastle.crypto.digests.SHA256Digest;
import org.bouncycastle.crypto.encodings.OAEPEncoding;
import org.bouncycastle.crypto.engines.RSABlindedEngine;
import org.bouncycastle.crypto.params.RSAKeyParameters;
import org.bouncycastle.crypto.params.RSAPrivateCrtKeyParameters;

/** RSA with OAEP (RFC 8017) with SHA-256, by Bouncy Castle. Decryption is blinded, but not in constant time. */
public final class RsaOaep {
    private RsaOaep() {}

    /**
     * A private key. Its numbers stay in memory until they are collected, because Java cannot overwrite them.
     *
     * @param modulus the product of the primes
     * @param exponent the public exponent
     * @param secret the private exponent
     * @param p a prime
     * @param q the other prime
     */
    public record PrivateKey(BigInteger modulus, BigInteger exponent, BigInteger secret, BigInteger p, BigInteger q) {
        /**
         * Whether the numbers belong together.
         *
         * @return whether {@link #decrypt} can use them
         */
        public boolean isConsistent() {
            BigInteger one = BigInteger.ONE;
            if (p.compareTo(one) <= 0 || q.compareTo(one) <= 0 || p.equals(q) || !p.multiply(q).equals(modulus)) {
                return false;
            }
            BigInteger product = exponent.multiply(secret).subtract(one);
            return product.mod(p.subtract(one)).signum() == 0 && product.mod(q.subtract(one)).signum() == 0;
        }

        @Override
        public String toString() {
            return "PrivateKey[" + modulus.bitLength() + " bits]";
        }
    }

    /**
     * Encrypts.
     *
     * @param modulus the modulus
     * @param exponent the public exponent
     * @param label the label
     * @param message the message, much shorter than the modulus
     * @return the ciphertext, as long as the modulus; or nothing if this is no modulus that anybody makes
     */
    public static Optional<byte[]> encrypt(BigInteger modulus, BigInteger exponent, byte[] label, byte[] message) {
        try {
            return Optional.of(run(true, new RSAKeyParameters(false, modulus, exponent), label, message));
        } catch (IllegalArgumentException | RuntimeCryptoException | CryptoException e) {
            return Optional.empty();
        }
    }

    /**
     * Decrypts.
     *
     * @param key the private key, which {@linkplain PrivateKey#isConsistent is consistent}
     * @param label the label
     * @param ciphertext as long as the modulus
     * @return the message, or nothing if the ciphertext is not for this key and label
     */
    public static Optional<byte[]> decrypt(PrivateKey key, byte[] label, byte[] ciphertext) {
        try {
            BigInteger one = BigInteger.ONE;
            RSAPrivateCrtKeyParameters parameters = new RSAPrivateCrtKeyParameters(
                    key.modulus, key.exponent, key.secret, key.p, key.q, key.secret.mod(key.p.subtract(one)),
                    key.secret.mod(key.q.subtract(one)), key.q.modInverse(key.p));
            return Optional.of(run(false, parameters, label, ciphertext));
        } catch (ArithmeticException | IllegalArgumentException | IllegalStateException | RuntimeCryptoException | CryptoException e) {
            return Optional.empty();
        }
    }

    private static byte[] run(boolean encrypts, RSAKeyParameters key, byte[] label, byte[] in) throws CryptoException {
        AsymmetricBlockCipher cipher = new OAEPEncoding(new RSABlindedEngine(), new SHA256Digest(), label);
        cipher.init(encrypts, key);
        return cipher.processBlock(in, 0, in.length);
    }
}
