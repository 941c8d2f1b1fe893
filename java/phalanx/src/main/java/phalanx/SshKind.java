package phalanx;

import java.math.BigInteger;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Optional;
import org.bouncycastle.crypto.digests.SHA256Digest;
import phalanx.primitives.ChaChaPoly;
import phalanx.primitives.Ed25519;
import phalanx.primitives.Hkdf;
import phalanx.primitives.RsaOaep;
import phalanx.primitives.X25519;

/**
 * The two kinds of SSH keys that age can encrypt for. A public key is its text's Base64, decoded. Their stanzas have a tag of 32
 * bits, a hash of the public key.
 */
enum SshKind implements KeyKind {
    /** The private key is its seed. Its scalar agrees on a key, and the public key is mixed in. */
    ED25519("ssh-ed25519") {
        @Override
        boolean isWhole(SshWire fields) throws SshWire.Malformed {
            return fields.field().length == Ed25519.BYTES && fields.isAtEnd();
        }

        @Override
        boolean isUsable(byte[] blob) {
            return Ed25519.isPublicKey(point(blob));
        }

        @Override
        public byte[] publicKey(byte[] secret) {
            return SshWire.fields(SshWire.ascii(type()), Ed25519.publicKey(secret));
        }

        @Override
        public AgeStanza wrap(byte[] blob, byte[] key) {
            byte[] ephemeral = new byte[X25519.BYTES];
            RANDOM.nextBytes(ephemeral);
            byte[] share = X25519.publicKey(ephemeral);
            byte[] other = Ed25519.agreementKey(point(blob));
            byte[] wrapping = wrapping(ephemeral, other, blob, share, other).orElseThrow();
            try {
                return stanza(blob, share, ChaChaPoly.seal(wrapping, ZEROS, key));
            } finally {
                wipe(ephemeral, wrapping);
            }
        }

        @Override
        public AgeStanza blank(byte[] blob) {
            return stanza(blob, new byte[X25519.BYTES], new byte[AgeFile.BODY]);
        }

        private AgeStanza stanza(byte[] blob, byte[] share, byte[] body) {
            return new AgeStanza(List.of(type(), tag(blob), AgeFile.encoded(share)), body);
        }

        @Override
        public boolean hasFormOfAge(AgeStanza stanza) {
            try {
                // Which secret it is agreed with does not matter.
                return X25519.agree(new byte[X25519.BYTES], share(stanza)).isPresent();
            } catch (AgeFile.Malformed e) {
                return false;
            }
        }

        private static byte[] share(AgeStanza stanza) throws AgeFile.Malformed {
            if (stanza.arguments().size() != 3 || stanza.body().length != AgeFile.BODY) {
                throw new AgeFile.Malformed("a stanza of the wrong form");
            }
            byte[] share = AgeFile.base64(stanza.arguments().get(2));
            if (share.length != X25519.BYTES) {
                throw new AgeFile.Malformed("a stanza of the wrong length");
            }
            return share;
        }

        @Override
        public Optional<byte[]> unwrap(byte[] seed, byte[] blob, AgeStanza stanza) throws AgeFile.Malformed {
            byte[] share = share(stanza);
            byte[] secret = Ed25519.agreementSecret(seed);
            byte[] wrapping = null;
            try {
                wrapping = wrapping(secret, share, blob, share, X25519.publicKey(secret))
                        .orElseThrow(() -> new AgeFile.Malformed("a point of low order"));
                return ChaChaPoly.open(wrapping, ZEROS, stanza.body());
            } finally {
                wipe(secret, wrapping);
            }
        }

        private static byte[] point(byte[] blob) {
            return Arrays.copyOfRange(blob, blob.length - Ed25519.BYTES, blob.length);
        }

        /** The key that encrypts, of a secret and somebody's public key; or nothing for a point of low order. */
        private Optional<byte[]> wrapping(byte[] secret, byte[] other, byte[] blob, byte[] share, byte[] recipient) {
            byte[] tweak = Hkdf.derive(new byte[0], blob, LABELS[0]);
            Optional<byte[]> shared = X25519.agree(secret, other);
            Optional<byte[]> tweaked = shared.flatMap(point -> X25519.agree(tweak, point));
            byte[] salt = Arrays.copyOf(share, 2 * X25519.BYTES);
            System.arraycopy(recipient, 0, salt, X25519.BYTES, X25519.BYTES);
            try {
                return tweaked.map(each -> Hkdf.derive(each, salt, LABELS[0]));
            } finally {
                wipe(shared.orElse(null), tweaked.orElse(null));
            }
        }
    },

    /** The private key is its numbers n, e, d, q⁻¹ mod p, p and q, as fields of SSH. */
    RSA("ssh-rsa") {
        @Override
        boolean isWhole(SshWire fields) throws SshWire.Malformed {
            return fields.positive().signum() > 0 && fields.positive().signum() > 0 && fields.isAtEnd();
        }

        @Override
        boolean isUsable(byte[] blob) {
            BigInteger exponent = numbers(blob)[0];
            BigInteger modulus = numbers(blob)[1];
            return exponent.testBit(0) && modulus.testBit(0) && exponent.bitLength() > 1
                    && exponent.bitLength() <= MOST_EXPONENT_BITS && exponent.compareTo(modulus) < 0;
        }

        @Override
        public byte[] publicKey(byte[] secret) {
            RsaOaep.PrivateKey key = SshPrivateKey.rsa(secret).orElseThrow();
            return SshWire.fields(SshWire.ascii(type()), key.exponent().toByteArray(), key.modulus().toByteArray());
        }

        @Override
        public AgeStanza wrap(byte[] blob, byte[] key) {
            BigInteger[] numbers = numbers(blob);
            Optional<byte[]> body = RsaOaep.encrypt(numbers[1], numbers[0], LABELS[1], key);
            return stanza(blob, body.orElseThrow(() -> new IllegalArgumentException("an RSA key that cannot encrypt")));
        }

        @Override
        public AgeStanza blank(byte[] blob) {
            return stanza(blob, new byte[bytes(blob)]);
        }

        private AgeStanza stanza(byte[] blob, byte[] body) {
            return new AgeStanza(List.of(type(), tag(blob)), body);
        }

        @Override
        public boolean hasFormOfAge(AgeStanza stanza) {
            return stanza.arguments().size() == 2;
        }

        @Override
        public Optional<byte[]> unwrap(byte[] secret, byte[] blob, AgeStanza stanza) throws AgeFile.Malformed {
            if (!hasFormOfAge(stanza) || stanza.body().length != bytes(blob)) {
                throw new AgeFile.Malformed("a stanza of the wrong form");
            }
            RsaOaep.PrivateKey key = SshPrivateKey.rsa(secret).orElseThrow();
            return RsaOaep.decrypt(key, LABELS[1], stanza.body()).filter(each -> each.length == AgeFile.KEY);
        }

        private static int bytes(byte[] blob) {
            return (numbers(blob)[1].bitLength() + 7) / 8;
        }
    };

    static final int LEAST_RSA_BITS = 2048;
    static final int MOST_RSA_BITS = 4096;
    private static final int MOST_EXPONENT_BITS = 33;
    private static final int TAG = 4;
    private static final byte[][] LABELS = {
        SshWire.ascii("age-encryption.org/v1/ssh-ed25519"), SshWire.ascii("age-encryption.org/v1/ssh-rsa"),
    };
    /** Each key encrypts once. */
    private static final byte[] ZEROS = new byte[ChaChaPoly.NONCE];
    private static final SecureRandom RANDOM = new SecureRandom();

    private final String type;

    SshKind(String type) {
        this.type = type;
    }

    /** The kind of a public key, if it has the fields of its kind, and no others. */
    static Optional<SshKind> of(byte[] blob) {
        for (SshKind kind : values()) {
            try {
                SshWire fields = SshWire.of(blob);
                boolean isOfKind = Arrays.equals(fields.field(), SshWire.ascii(kind.type));
                if (isOfKind && kind.isWhole(fields) && kind.isUsable(blob)) {
                    return Optional.of(kind);
                }
            } catch (SshWire.Malformed e) {
                // It is of no kind.
            }
        }
        return Optional.empty();
    }

    /** The number of bits of a key's modulus, if it is one of RSA. */
    int modulusBits(byte[] blob) {
        return this == RSA ? numbers(blob)[1].bitLength() : 0;
    }

    /** Whether the library can encrypt for a key, which it refuses for numbers that nobody makes. */
    boolean encrypts(byte[] blob) {
        return this == ED25519 || RsaOaep.encrypt(numbers(blob)[1], numbers(blob)[0], LABELS[1], new byte[AgeFile.KEY]).isPresent();
    }

    /** Whether the fields after the type are those of this kind. */
    abstract boolean isWhole(SshWire fields) throws SshWire.Malformed;

    /** Whether a key with the right fields can encrypt. */
    abstract boolean isUsable(byte[] blob);

    @Override
    public String type() {
        return type;
    }

    @Override
    public String text(byte[] blob) {
        return type + " " + Base64.getEncoder().encodeToString(blob);
    }

    @Override
    public String brief(byte[] blob) {
        return type;
    }

    @Override
    public boolean isFor(byte[] blob, AgeStanza stanza) {
        return stanza.type().equals(type) && stanza.arguments().size() > 1 && stanza.arguments().get(1).equals(tag(blob));
    }

    @Override
    public boolean showsRecipients() {
        return true;
    }

    /** The exponent and the modulus of a key of RSA. */
    private static BigInteger[] numbers(byte[] blob) {
        try {
            SshWire fields = SshWire.of(blob);
            fields.field();
            return new BigInteger[] {fields.positive(), fields.positive()};
        } catch (SshWire.Malformed e) {
            throw new IllegalStateException("the fields were checked before", e);
        }
    }

    private static String tag(byte[] blob) {
        SHA256Digest digest = new SHA256Digest();
        digest.update(blob, 0, blob.length);
        byte[] hash = new byte[digest.getDigestSize()];
        digest.doFinal(hash, 0);
        return AgeFile.encoded(Arrays.copyOf(hash, TAG));
    }

    private static void wipe(byte[]... secrets) {
        for (byte[] secret : secrets) {
            if (secret != null) {
                Arrays.fill(secret, (byte) 0);
            }
        }
    }
}
