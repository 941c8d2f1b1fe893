package phalanx;

import java.util.Optional;

/**
 * The ciphers of the format, by their number in a header (docs/format.md, section 2.2).
 */
public enum Suite {
    /** AES-256 in counter mode with SHA-3: the default. */
    AES_256_CTR_SHA3(1, "AES-256-CTR + SHA-3", 32),
    /** AES-192 in counter mode with SHA-3. */
    AES_192_CTR_SHA3(2, "AES-192-CTR + SHA-3", 24),
    /** AES-128 in counter mode with SHA-3. */
    AES_128_CTR_SHA3(3, "AES-128-CTR + SHA-3", 16),
    /** AES-256-GCM. Its tags have 128 bits and do not commit to the key. */
    AES_256_GCM(4, "AES-256-GCM", 32),
    /** Like {@link #AES_256_CTR_SHA3}, with TurboSHAKE256 for the digests of slices. */
    AES_256_CTR_TURBOSHAKE(5, "AES-256-CTR + TurboSHAKE", 32);

    private final int number;
    private final String title;
    private final int aesKeyBytes;

    Suite(int number, String title, int aesKeyBytes) {
        this.number = number;
        this.title = title;
        this.aesKeyBytes = aesKeyBytes;
    }

    /**
     * The suite with this number.
     *
     * @param number a number, usually from a header
     * @return the suite, or nothing if there is none with this number
     */
    public static Optional<Suite> of(int number) {
        for (Suite suite : values()) {
            if (suite.number == number) {
                return Optional.of(suite);
            }
        }
        return Optional.empty();
    }

    /**
     * Its number in headers.
     *
     * @return 1 … 5
     */
    public int number() {
        return number;
    }

    /**
     * Its name, as {@code inspect} shows it.
     *
     * @return for example {@code AES-256-CTR + SHA-3}
     */
    public String title() {
        return title;
    }

    /**
     * The length of its AES keys.
     *
     * @return 16, 24 or 32 bytes
     */
    public int aesKeyBytes() {
        return aesKeyBytes;
    }

    /**
     * The length of the nonce of a chunk or message.
     *
     * @return 12 or 16 bytes
     */
    public int nonceBytes() {
        return this == AES_256_GCM ? 12 : 16;
    }

    /**
     * The length of the tag of a chunk or message.
     *
     * @return 16 or 32 bytes
     */
    public int tagBytes() {
        return this == AES_256_GCM ? 16 : 32;
    }

    /**
     * The bytes of a chunk or message beyond its ciphertext: nonce and tag.
     *
     * @return 28 or 48 bytes
     */
    public int overhead() {
        return nonceBytes() + tagBytes();
    }

    /**
     * The most chunks that may be sealed under one file key (docs/format.md, section 6).
     *
     * @return 2^32 in suite 4, whose nonces are short; no limit in the others
     */
    public long mostChunks() {
        return this == AES_256_GCM ? 1L << 32 : Long.MAX_VALUE;
    }

    /**
     * Whether it is one of the CTR suites, which are all except GCM.
     *
     * @return true for suites 1, 2, 3 and 5
     */
    public boolean isCtr() {
        return this != AES_256_GCM;
    }
}
