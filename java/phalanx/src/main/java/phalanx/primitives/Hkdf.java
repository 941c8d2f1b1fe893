package phalanx.primitives;

import java.util.Arrays;
import org.bouncycastle.crypto.digests.SHA256Digest;
import org.bouncycastle.crypto.macs.HMac;
import org.bouncycastle.crypto.params.KeyParameter;

/** HMAC-SHA-256 (RFC 2104) by Bouncy Castle, and HKDF of it (RFC 5869) for outputs of up to 32 bytes. */
public final class Hkdf {
    /** The length of an HMAC. */
    public static final int BYTES = 32;

    private Hkdf() {}

    /**
     * The HMAC of a message.
     *
     * @param key the key
     * @param parts the message, in parts
     * @return 32 bytes
     */
    public static byte[] mac(byte[] key, byte[]... parts) {
        HMac mac = new HMac(new SHA256Digest());
        mac.init(new KeyParameter(key));
        for (byte[] part : parts) {
            mac.update(part, 0, part.length);
        }
        byte[] out = new byte[BYTES];
        mac.doFinal(out, 0);
        return out;
    }

    /**
     * HKDF-Expand.
     *
     * @param prk the pseudorandom key that {@link #mac} extracted, with the salt as its key
     * @param length the length of the output, at most 32
     * @param info the context, in parts
     * @return the output
     */
    public static byte[] expand(byte[] prk, int length, byte[]... info) {
        byte[][] parts = Arrays.copyOf(info, info.length + 1);
        parts[info.length] = new byte[] {1};
        byte[] whole = mac(prk, parts);
        if (length == BYTES) {
            return whole;
        }
        byte[] out = Arrays.copyOf(whole, length);
        Arrays.fill(whole, (byte) 0);
        return out;
    }

    /**
     * HKDF: HKDF-Extract, and HKDF-Expand to 32 bytes.
     *
     * @param secret the input keying material
     * @param salt the salt
     * @param info the context
     * @return 32 bytes
     */
    public static byte[] derive(byte[] secret, byte[] salt, byte[] info) {
        byte[] prk = mac(salt, secret);
        try {
            return expand(prk, BYTES, info);
        } finally {
            Arrays.fill(prk, (byte) 0);
        }
    }
}
