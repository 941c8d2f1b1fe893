package phalanx.command;

import phalanx.Suite;

/** The names of {@code --cipher}, and the sizes of {@code --chunk-size}. */
public final class Ciphers {
    static final String NAMES = "aes-256, aes-192, aes-128, aes-256-turbo or aes-256-gcm";
    private static final int SMALLEST_LOG2 = 12;
    private static final int LARGEST_LOG2 = 24;

    private Ciphers() {}

    public static Suite suite(Options options) throws Failure {
        String name = options.one("--cipher").orElse("aes-256");
        return switch (name) {
            case "aes-256" -> Suite.AES_256_CTR_SHA3;
            case "aes-192" -> Suite.AES_192_CTR_SHA3;
            case "aes-128" -> Suite.AES_128_CTR_SHA3;
            case "aes-256-turbo" -> Suite.AES_256_CTR_TURBOSHAKE;
            case "aes-256-gcm" -> Suite.AES_256_GCM;
            default -> throw options.wrong("--cipher: " + NAMES + ", not " + Text.shown(name));
        };
    }

    /** The binary logarithm of {@code --chunk-size}. */
    public static int chunkLog2(Options options) throws Failure {
        String text = options.one("--chunk-size").orElse("1M");
        for (int log2 = SMALLEST_LOG2; log2 <= LARGEST_LOG2; log2++) {
            int bytes = 1 << log2;
            String kibibytes = (bytes >> 10) + "K";
            boolean isMebibytes = log2 >= 20 && text.equalsIgnoreCase((bytes >> 20) + "M");
            if (text.equals(String.valueOf(bytes)) || text.equalsIgnoreCase(kibibytes) || isMebibytes) {
                return log2;
            }
        }
        throw options.wrong("--chunk-size: a power of two from 4K to 16M, not " + Text.shown(text));
    }

    /** The number of threads. */
    static int threads(Options options) throws Failure {
        String text = options.one("--threads").orElse(null);
        if (text == null) {
            return Runtime.getRuntime().availableProcessors();
        }
        if (text.matches("[0-9]{1,4}") && Integer.parseInt(text) >= 1 && Integer.parseInt(text) <= 1024) {
            return Integer.parseInt(text);
        }
        throw options.wrong("--threads: a number from 1 to 1024, not " + Text.shown(text));
    }
}
