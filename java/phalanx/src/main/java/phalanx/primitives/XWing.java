package phalanx.primitives;

import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Optional;
import javax.security.auth.DestroyFailedException;
import org.bouncycastle.crypto.AsymmetricCipherKeyPair;
import org.bouncycastle.crypto.SecretWithEncapsulation;
import org.bouncycastle.crypto.prng.FixedSecureRandom;
import org.bouncycastle.pqc.crypto.xwing.XWingKEMExtractor;
import org.bouncycastle.pqc.crypto.xwing.XWingKEMGenerator;
import org.bouncycastle.pqc.crypto.xwing.XWingKeyGenerationParameters;
import org.bouncycastle.pqc.crypto.xwing.XWingKeyPairGenerator;
import org.bouncycastle.pqc.crypto.xwing.XWingPrivateKeyParameters;
import org.bouncycastle.pqc.crypto.xwing.XWingPublicKeyParameters;

/**
 * MLKEM768-X25519 of draft-ietf-hpke-pq, which is X-Wing of draft-connolly-cfrg-xwing-kem: a key encapsulation of two
 * halves, ML-KEM-768 (FIPS 203) and X25519, by Bouncy Castle.
 */
final class XWing {
    static final int SECRET_KEY = 32;
    static final int PUBLIC_KEY = 1216;
    static final int ENCAPSULATION = 1120;
    private static final int MLKEM_PUBLIC_KEY = PUBLIC_KEY - X25519.BYTES;
    private static final SecureRandom RANDOM = new SecureRandom();

    private XWing() {}

    /** A shared secret and its encapsulation. */
    record Sent(byte[] secret, byte[] encapsulation) {}

    /** The public key of a private one, which is a seed. */
    static byte[] publicKey(byte[] seed) {
        // Bouncy Castle has no other way from a seed to the public key. The generator draws nothing but the seed.
        XWingKeyPairGenerator generator = new XWingKeyPairGenerator();
        generator.init(new XWingKeyGenerationParameters(new FixedSecureRandom(seed)));
        AsymmetricCipherKeyPair pair = generator.generateKeyPair();
        return ((XWingPublicKeyParameters) pair.getPublic()).getEncoded();
    }

    /** Whether it is a public key: ML-KEM's numbers are reduced, and X25519's point is not of low order. */
    static boolean isPublicKey(byte[] key) {
        if (key.length != PUBLIC_KEY) {
            return false;
        }
        byte[] one = new byte[X25519.BYTES];
        one[0] = 1;
        byte[] point = Arrays.copyOfRange(key, MLKEM_PUBLIC_KEY, PUBLIC_KEY);
        try {
            // The constructor checks the numbers.
            return new XWingPublicKeyParameters(key).getEncoded().length == PUBLIC_KEY
                    && X25519.agree(one, point).isPresent();
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    /** A new shared secret for a public key. */
    static Sent encapsulate(byte[] publicKey) {
        SecretWithEncapsulation sent =
                new XWingKEMGenerator(RANDOM).generateEncapsulated(new XWingPublicKeyParameters(publicKey));
        try {
            return new Sent(sent.getSecret(), sent.getEncapsulation());
        } finally {
            destroy(sent);
        }
    }

    private static void destroy(SecretWithEncapsulation sent) {
        try {
            sent.destroy();
        } catch (DestroyFailedException e) {
            // Nothing else can be done about that copy.
        }
    }

    /** The shared secret in an encapsulation of the right length; nothing if its point is of low order. */
    static Optional<byte[]> decapsulate(byte[] seed, byte[] encapsulation) {
        try {
            return Optional.of(new XWingKEMExtractor(new XWingPrivateKeyParameters(seed)).extractSecret(encapsulation));
        } catch (IllegalStateException e) {
            return Optional.empty();
        }
    }
}
