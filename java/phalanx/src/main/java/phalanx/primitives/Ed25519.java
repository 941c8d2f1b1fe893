package phalanx.primitives;

import java.math.BigInteger;
import java.util.Arrays;
import org.bouncycastle.crypto.digests.SHA512Digest;

/** The keys of Ed25519 (RFC 8032), and the keys of X25519 that belong to them. */
public final class Ed25519 {
    /** The length of private and of public keys. */
    public static final int BYTES = 32;

    private static final BigInteger PRIME = BigInteger.ONE.shiftLeft(255).subtract(BigInteger.valueOf(19));

    private Ed25519() {}

    /**
     * The public key of a private one.
     *
     * @param seed the private key, 32 bytes
     * @return 32 bytes
     */
    public static byte[] publicKey(byte[] seed) {
        byte[] out = new byte[BYTES];
        org.bouncycastle.math.ec.rfc8032.Ed25519.generatePublicKey(seed, 0, out, 0);
        return out;
    }

    /**
     * Whether it is a point of the curve, and not one of the few whose secrets everybody knows.
     *
     * @param key 32 bytes
     * @return whether it can be a public key
     */
    public static boolean isPublicKey(byte[] key) {
        return key.length == BYTES && org.bouncycastle.math.ec.rfc8032.Ed25519.validatePublicKeyPartial(key, 0);
    }

    /**
     * The private key of X25519: the half of a hash that is the scalar of Ed25519, too.
     *
     * @param seed the private key of Ed25519
     * @return 32 bytes
     */
    public static byte[] agreementSecret(byte[] seed) {
        SHA512Digest digest = new SHA512Digest();
        digest.update(seed, 0, seed.length);
        byte[] hash = new byte[digest.getDigestSize()];
        digest.doFinal(hash, 0);
        byte[] secret = Arrays.copyOf(hash, X25519.BYTES);
        Arrays.fill(hash, (byte) 0);
        return secret;
    }

    /**
     * The public key of X25519: the same point on the other form of the curve (RFC 7748, section 4.1).
     *
     * @param key the public key of Ed25519
     * @return 32 bytes
     */
    public static byte[] agreementKey(byte[] key) {
        // Without the sign of the other coordinate.
        BigInteger y = number(key).clearBit(255);
        BigInteger u = BigInteger.ONE.add(y).multiply(BigInteger.ONE.subtract(y).modInverse(PRIME)).mod(PRIME);
        byte[] large = u.toByteArray();
        byte[] out = new byte[X25519.BYTES];
        for (int i = 0; i < large.length && i < out.length; i++) {
            out[i] = large[large.length - 1 - i];
        }
        return out;
    }

    private static BigInteger number(byte[] little) {
        byte[] large = new byte[little.length];
        for (int i = 0; i < large.length; i++) {
            large[i] = little[little.length - 1 - i];
        }
        return new BigInteger(1, large);
    }
}
