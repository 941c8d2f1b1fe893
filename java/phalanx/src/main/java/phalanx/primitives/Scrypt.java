package phalanx.primitives;

import org.bouncycastle.crypto.generators.SCrypt;

/** scrypt (RFC 7914) as age uses it, with blocks of 1 KiB and one lane, by Bouncy Castle. */
public final class Scrypt {
    private static final int BLOCK = 8;
    private static final int LANES = 1;

    private Scrypt() {}

    /**
     * Derives 32 bytes.
     *
     * @param password the password
     * @param salt the salt
     * @param work the logarithm of the cost: it takes 2<sup>work</sup> KiB of memory
     * @return 32 bytes
     * @throws OutOfMemoryError if the JVM has too little memory
     */
    public static byte[] derive(byte[] password, byte[] salt, int work) {
        return SCrypt.generate(password, salt, 1 << work, BLOCK, LANES, 32);
    }
}
