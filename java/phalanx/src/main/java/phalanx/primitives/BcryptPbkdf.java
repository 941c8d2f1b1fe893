package phalanx.primitives;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.bouncycastle.crypto.digests.SHA512Digest;

/**
 * The function bcrypt_pbkdf of OpenBSD, by which OpenSSH derives the key of a private key from its passphrase. Bouncy Castle has
 * bcrypt, but only for hashes of passwords.
 *
 * <p>Like every bcrypt, it looks up tables by secrets.
 */
public final class BcryptPbkdf {
    private static final int HASH = 32;
    private static final int WORDS = HASH / 4;
    private static final int COST = 64;
    private static final byte[] TEXT = "OxychromaticBlowfishSwatDynamite".getBytes(StandardCharsets.US_ASCII);

    private BcryptPbkdf() {}

    /**
     * Derives a key.
     *
     * @param passphrase the passphrase
     * @param salt the salt
     * @param rounds the number of rounds, 1 or more: one takes about as long as bcrypt at cost 7
     * @param length the length of the key, 1 to 1024
     * @return the key
     */
    public static byte[] derive(byte[] passphrase, byte[] salt, int rounds, int length) {
        byte[] hashed = sha512(passphrase);
        int stride = (length + HASH - 1) / HASH;
        byte[] key = new byte[length];
        try {
            for (int block = 0; block < stride; block++) {
                byte[] sum = block(hashed, salt, rounds, block + 1);
                // The bytes of all blocks take turns.
                for (int i = 0; i * stride + block < length; i++) {
                    key[i * stride + block] = sum[i];
                }
                Arrays.fill(sum, (byte) 0);
            }
            return key;
        } finally {
            Arrays.fill(hashed, (byte) 0);
        }
    }

    /** A block of PBKDF2, whose pseudorandom function is the hash. */
    private static byte[] block(byte[] passphrase, byte[] salt, int rounds, int number) {
        byte[] first = ByteBuffer.allocate(salt.length + 4).put(salt).putInt(number).array();
        byte[] last = hash(passphrase, sha512(first));
        byte[] sum = last.clone();
        for (int round = 1; round < rounds; round++) {
            last = hash(passphrase, sha512(last));
            for (int i = 0; i < HASH; i++) {
                sum[i] ^= last[i];
            }
        }
        Arrays.fill(last, (byte) 0);
        return sum;
    }

    private static byte[] hash(byte[] passphrase, byte[] salt) {
        Blowfish blowfish = new Blowfish();
        int[] key = words(passphrase);
        int[] second = words(salt);
        blowfish.expand(key, second);
        int[] none = {0};
        for (int i = 0; i < COST; i++) {
            blowfish.expand(second, none);
            blowfish.expand(key, none);
        }
        int[] text = words(TEXT);
        for (int i = 0; i < COST; i++) {
            for (int j = 0; j < WORDS; j += 2) {
                blowfish.encrypt(text, j);
            }
        }
        ByteBuffer out = ByteBuffer.allocate(HASH).order(ByteOrder.LITTLE_ENDIAN);
        out.asIntBuffer().put(text);
        blowfish.wipe();
        Arrays.fill(key, 0);
        return out.array();
    }

    private static int[] words(byte[] bytes) {
        int[] words = new int[bytes.length / 4];
        ByteBuffer.wrap(bytes).asIntBuffer().get(words);
        return words;
    }

    private static byte[] sha512(byte[] message) {
        SHA512Digest digest = new SHA512Digest();
        digest.update(message, 0, message.length);
        byte[] out = new byte[digest.getDigestSize()];
        digest.doFinal(out, 0);
        return out;
    }

    /** Blowfish with the key schedule of bcrypt. */
    private static final class Blowfish {
        private static final int ROUNDS = 16;
        private static final int BOX = 256;
        private static final int STATE = ROUNDS + 2 + 4 * BOX;
        /** The first binary digits of π after the point, with which every state begins. */
        private static final int[] PI = pi();

        /** The keys of the rounds, and then the four tables. */
        private final int[] state = PI.clone();

        /** Mixes a key into the state, and a salt. */
        void expand(int[] key, int[] salt) {
            for (int i = 0; i < ROUNDS + 2; i++) {
                state[i] ^= key[i % key.length];
            }
            int[] pair = new int[2];
            for (int i = 0; i < STATE; i += 2) {
                pair[0] ^= salt[i % salt.length];
                pair[1] ^= salt[(i + 1) % salt.length];
                encrypt(pair, 0);
                state[i] = pair[0];
                state[i + 1] = pair[1];
            }
        }

        /** Encrypts two words in place. */
        void encrypt(int[] words, int at) {
            int left = words[at];
            int right = words[at + 1];
            for (int i = 0; i < ROUNDS; i += 2) {
                left ^= state[i];
                right ^= mixed(left) ^ state[i + 1];
                left ^= mixed(right);
            }
            words[at] = right ^ state[ROUNDS + 1];
            words[at + 1] = left ^ state[ROUNDS];
        }

        private int mixed(int word) {
            int boxes = ROUNDS + 2;
            int sum = state[boxes + (word >>> 24)] + state[boxes + BOX + (word >>> 16 & 255)];
            return (sum ^ state[boxes + 2 * BOX + (word >>> 8 & 255)]) + state[boxes + 3 * BOX + (word & 255)];
        }

        void wipe() {
            Arrays.fill(state, 0);
        }

        /** By Machin's formula: π = 16 arctan(1/5) − 4 arctan(1/239). */
        private static int[] pi() {
            int spare = 64;
            int digits = 32 * STATE + spare;
            BigInteger four = arctan(5, digits).shiftLeft(2).subtract(arctan(239, digits));
            BigInteger fraction = four.shiftLeft(2).subtract(BigInteger.valueOf(3).shiftLeft(digits));
            BigInteger rest = fraction.shiftRight(spare);
            int[] words = new int[STATE];
            for (int i = STATE - 1; i >= 0; i--) {
                words[i] = rest.intValue();
                rest = rest.shiftRight(32);
            }
            return words;
        }

        private static BigInteger arctan(int inverse, int digits) {
            BigInteger square = BigInteger.valueOf((long) inverse * inverse);
            BigInteger power = BigInteger.ONE.shiftLeft(digits).divide(BigInteger.valueOf(inverse));
            BigInteger sum = power;
            for (int odd = 3; power.signum() != 0; odd += 2) {
                power = power.divide(square).negate();
                sum = sum.add(power.divide(BigInteger.valueOf(odd)));
            }
            return sum;
        }
    }
}
