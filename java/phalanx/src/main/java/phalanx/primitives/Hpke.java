package phalanx.primitives;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Optional;

/**
 * HPKE (RFC 9180), once in base mode and without associated data: MLKEM768-X25519, HKDF-SHA256 and ChaCha20-Poly1305.
 */
public final class Hpke {
    /** The length of a private key. */
    public static final int SECRET_KEY = XWing.SECRET_KEY;
    /** The length of a public key. */
    public static final int PUBLIC_KEY = XWing.PUBLIC_KEY;
    /** The length of an encapsulated key. */
    public static final int ENCAPSULATION = XWing.ENCAPSULATION;

    private static final byte[] VERSION = ascii("HPKE-v1");
    /** The numbers of KEM, KDF and AEAD follow the name. */
    private static final byte[] SUITE = {'H', 'P', 'K', 'E', 0x64, 0x7a, 0, 1, 0, 3};
    private static final byte[] BASE_MODE = {0};
    private static final byte[] NONE = {};

    private Hpke() {}

    /**
     * What is sent to the owner of a public key.
     *
     * @param encapsulation the encapsulated key
     * @param ciphertext the ciphertext, 16 bytes longer than the plaintext
     */
    public record Sealed(byte[] encapsulation, byte[] ciphertext) {}

    /**
     * The public key of a private one.
     *
     * @param secretKey the private key, 32 bytes
     * @return 1216 bytes
     */
    public static byte[] publicKey(byte[] secretKey) {
        return XWing.publicKey(secretKey);
    }

    /**
     * Whether these bytes are a public key.
     *
     * @param key the bytes
     * @return false if the length is wrong, a number of ML-KEM is not reduced, or a point has low order
     */
    public static boolean isPublicKey(byte[] key) {
        return XWing.isPublicKey(key);
    }

    /**
     * Encrypts for a public key.
     *
     * @param publicKey the public key
     * @param info what the encryption is for
     * @param plaintext the plaintext
     * @return what is sent
     */
    public static Sealed seal(byte[] publicKey, byte[] info, byte[] plaintext) {
        XWing.Sent sent = XWing.encapsulate(publicKey);
        try (Keys keys = new Keys(sent.secret(), info)) {
            return new Sealed(sent.encapsulation(), ChaChaPoly.seal(keys.key, keys.nonce, plaintext));
        } finally {
            Arrays.fill(sent.secret(), (byte) 0);
        }
    }

    /**
     * The secret that an encapsulated key holds.
     *
     * @param secretKey the private key
     * @param encapsulation the encapsulated key, 1120 bytes
     * @return the secret for {@link #open}: wipe it. Nothing if a point has low order
     */
    public static Optional<byte[]> decapsulate(byte[] secretKey, byte[] encapsulation) {
        return XWing.decapsulate(secretKey, encapsulation);
    }

    /**
     * Decrypts with the secret of an encapsulated key.
     *
     * @param secret the secret
     * @param info what the encryption is for
     * @param ciphertext the ciphertext, 16 bytes or more
     * @return the plaintext, or nothing if it is not for this key
     */
    public static Optional<byte[]> open(byte[] secret, byte[] info, byte[] ciphertext) {
        try (Keys keys = new Keys(secret, info)) {
            return ChaChaPoly.open(keys.key, keys.nonce, ciphertext);
        }
    }

    /** RFC 9180, section 5.1: the key and the nonce of the first message. */
    private static final class Keys implements AutoCloseable {
        private final byte[] key;
        private final byte[] nonce;

        Keys(byte[] shared, byte[] info) {
            byte[] pskId = extract(NONE, "psk_id_hash", NONE);
            byte[] infoHash = extract(NONE, "info_hash", info);
            byte[] secret = extract(shared, "secret", NONE);
            key = expand(secret, "key", Hkdf.BYTES, pskId, infoHash);
            nonce = expand(secret, "base_nonce", ChaChaPoly.NONCE, pskId, infoHash);
            Arrays.fill(secret, (byte) 0);
        }

        private static byte[] extract(byte[] salt, String label, byte[] input) {
            return Hkdf.mac(salt, VERSION, SUITE, ascii(label), input);
        }

        private static byte[] expand(byte[] secret, String label, int length, byte[] pskId, byte[] info) {
            byte[] bytes = {0, (byte) length};
            return Hkdf.expand(secret, length, bytes, VERSION, SUITE, ascii(label), BASE_MODE, pskId, info);
        }

        @Override
        public void close() {
            Arrays.fill(key, (byte) 0);
            Arrays.fill(nonce, (byte) 0);
        }
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }
}
