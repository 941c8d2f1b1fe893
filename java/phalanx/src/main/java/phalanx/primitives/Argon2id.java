package phalanx.primitives;

import org.bouncycastle.crypto.generators.Argon2BytesGenerator;
import org.bouncycastle.crypto.params.Argon2Parameters;

/** Argon2id (RFC 9106), by Bouncy Castle. */
public final class Argon2id {
    private Argon2id() {}

    /**
     * Derives 32 bytes.
     *
     * @param password the password
     * @param salt the salt
     * @param kibibytes the memory in KiB, at least 8 for each lane
     * @param passes the number of passes, at least 1
     * @param lanes the parallelism, at least 1
     * @return 32 bytes
     * @throws OutOfMemoryError if the JVM has too little memory
     */
    public static byte[] derive(byte[] password, byte[] salt, int kibibytes, int passes, int lanes) {
        Argon2BytesGenerator generator = new Argon2BytesGenerator();
        generator.init(new Argon2Parameters.Builder(Argon2Parameters.ARGON2_id)
                .withVersion(Argon2Parameters.ARGON2_VERSION_13)
                .withSalt(salt)
                .withMemoryAsKB(kibibytes)
                .withIterations(passes)
                .withParallelism(lanes)
                .build());
        byte[] out = new byte[32];
        generator.generateBytes(password, out);
        return out;
    }
}
