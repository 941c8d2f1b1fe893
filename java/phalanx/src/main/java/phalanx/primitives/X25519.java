package phalanx.primitives;

import java.util.Optional;

/** X25519 (RFC 7748), by Bouncy Castle. */
public final class X25519 {
    /** The length of keys, and of what is agreed on. */
    public static final int BYTES = 32;

    private X25519() {}

    /**
     * The public key of a private one.
     *
     * @param secret the private key, 32 bytes
     * @return 32 bytes
     */
    public static byte[] publicKey(byte[] secret) {
        byte[] out = new byte[BYTES];
        org.bouncycastle.math.ec.rfc7748.X25519.generatePublicKey(secret, 0, out, 0);
        return out;
    }

    /**
     * The shared secret of a private key and somebody's public key.
     *
     * @param secret the private key, 32 bytes
     * @param other the public key, 32 bytes
     * @return 32 bytes, or nothing for a point of low order, whose secrets everybody knows
     */
    public static Optional<byte[]> agree(byte[] secret, byte[] other) {
        byte[] out = new byte[BYTES];
        boolean isSecret = org.bouncycastle.math.ec.rfc7748.X25519.calculateAgreement(secret, 0, other, 0, out, 0);
        return isSecret ? Optional.of(out) : Optional.empty();
    }
}
