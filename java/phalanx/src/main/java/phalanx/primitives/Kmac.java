package phalanx.primitives;

import java.nio.charset.StandardCharsets;
import org.bouncycastle.crypto.macs.KMAC;
import org.bouncycastle.crypto.params.KeyParameter;

/**
 * KMAC256 (SP 800-185, section 4.3) under one key and with one customization string, by Bouncy Castle. A value of this
 * type belongs to one thread. It holds the key, which cannot be wiped there.
 */
public final class Kmac {
    private final KMAC kmac;

    /**
     * Under a key.
     *
     * @param key the key
     * @param customization the customization string, in ASCII
     */
    public Kmac(byte[] key, String customization) {
        kmac = new KMAC(256, customization.getBytes(StandardCharsets.US_ASCII));
        kmac.init(new KeyParameter(key));
    }

    /**
     * The output for one message.
     *
     * @param key the key
     * @param message the message
     * @param length the length of the output in bytes
     * @param customization the customization string, in ASCII
     * @return the output
     */
    public static byte[] of(byte[] key, byte[] message, int length, String customization) {
        Kmac kmac = new Kmac(key, customization);
        kmac.update(message, 0, message.length);
        return kmac.finish(length);
    }

    /**
     * Adds a part of the message.
     *
     * @param data the array with the part
     * @param offset its first byte
     * @param length its length
     */
    public void update(byte[] data, int offset, int length) {
        kmac.update(data, offset, length);
    }

    /**
     * Ends the message. The next one may then begin.
     *
     * @param length the length of the output in bytes, which is part of the computation
     * @return the output
     */
    public byte[] finish(int length) {
        byte[] out = new byte[length];
        kmac.doFinal(out, 0, length);
        return out;
    }
}
