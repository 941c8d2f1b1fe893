package phalanx;

import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import phalanx.primitives.ChaChaPoly;
import phalanx.primitives.Hkdf;
import phalanx.primitives.Hpke;
import phalanx.primitives.X25519;

/** The two kinds of age's own keys: <a href="https://c2sp.org/age">c2sp.org/age</a>, “Native recipient types”. */
enum AgeKind implements KeyKind {
    /** {@code age1…}: an ephemeral key and the recipient's agree on the key that encrypts. */
    ELLIPTIC("X25519", "age", "age-secret-key-", X25519.BYTES) {
        @Override
        public byte[] publicKey(byte[] secret) {
            return X25519.publicKey(secret);
        }

        @Override
        boolean isPublicKey(byte[] key) {
            byte[] one = new byte[X25519.BYTES];
            one[0] = 1;
            return key.length == X25519.BYTES && X25519.agree(one, key).isPresent();
        }

        @Override
        Sent seal(byte[] publicKey, byte[] key) {
            byte[] ephemeral = new byte[X25519.BYTES];
            RANDOM.nextBytes(ephemeral);
            byte[] share = X25519.publicKey(ephemeral);
            byte[] shared = X25519.agree(ephemeral, publicKey).orElseThrow();
            byte[] wrapping = wrapping(shared, share, publicKey);
            try {
                return new Sent(share, ChaChaPoly.seal(wrapping, ZEROS, key));
            } finally {
                wipe(ephemeral, shared, wrapping);
            }
        }

        @Override
        Optional<byte[]> open(byte[] secret, byte[] publicKey, Sent sent) throws AgeFile.Malformed {
            byte[] shared = X25519.agree(secret, sent.share).orElseThrow(AgeKind::lowOrder);
            byte[] wrapping = wrapping(shared, sent.share, publicKey);
            try {
                return ChaChaPoly.open(wrapping, ZEROS, sent.body);
            } finally {
                wipe(shared, wrapping);
            }
        }

        private byte[] wrapping(byte[] shared, byte[] share, byte[] publicKey) {
            byte[] salt = Arrays.copyOf(share, 2 * X25519.BYTES);
            System.arraycopy(publicKey, 0, salt, X25519.BYTES, X25519.BYTES);
            return Hkdf.derive(shared, salt, WRAP);
        }
    },

    /** {@code age1pq1…}: HPKE with MLKEM768-X25519. Who breaks only one of its halves learns nothing. */
    POST_QUANTUM("mlkem768x25519", "age1pq", "age-secret-key-pq-", Hpke.ENCAPSULATION) {
        @Override
        public byte[] publicKey(byte[] secret) {
            return Hpke.publicKey(secret);
        }

        @Override
        boolean isPublicKey(byte[] key) {
            return Hpke.isPublicKey(key);
        }

        @Override
        Sent seal(byte[] publicKey, byte[] key) {
            Hpke.Sealed sealed = Hpke.seal(publicKey, HPKE, key);
            return new Sent(sealed.encapsulation(), sealed.ciphertext());
        }

        @Override
        Optional<byte[]> open(byte[] secret, byte[] publicKey, Sent sent) throws AgeFile.Malformed {
            byte[] shared = Hpke.decapsulate(secret, sent.share).orElseThrow(AgeKind::lowOrder);
            try {
                return Hpke.open(shared, HPKE, sent.body);
            } finally {
                wipe(shared);
            }
        }
    };

    /** The length of both kinds of private keys. */
    static final int SECRET_KEY = 32;

    private static final int SHOWN_START = 16;
    private static final int SHOWN_END = 8;
    private static final int LONG = 100;

    private static final byte[] WRAP = "age-encryption.org/v1/X25519".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] HPKE = "age-encryption.org/mlkem768x25519".getBytes(StandardCharsets.US_ASCII);
    /** Each key encrypts once. */
    private static final byte[] ZEROS = new byte[ChaChaPoly.NONCE];
    private static final SecureRandom RANDOM = new SecureRandom();

    private final String type;
    private final String recipient;
    private final String identity;
    private final int share;

    AgeKind(String type, String recipient, String identity, int share) {
        this.type = type;
        this.recipient = recipient;
        this.identity = identity;
        this.share = share;
    }

    /** What is sent to a recipient: the stanza's only argument, and its body. */
    record Sent(byte[] share, byte[] body) {}

    @Override
    public String type() {
        return type;
    }

    @Override
    public String text(byte[] publicKey) {
        return Bech32.encode(recipient, publicKey);
    }

    @Override
    public String brief(byte[] publicKey) {
        String text = text(publicKey);
        return text.length() <= LONG
                ? text
                : text.substring(0, SHOWN_START) + "…" + text.substring(text.length() - SHOWN_END);
    }

    /** Stanzas of these kinds show nothing of their recipient. */
    @Override
    public boolean isFor(byte[] publicKey, AgeStanza stanza) {
        return stanza.type().equals(type);
    }

    @Override
    public AgeStanza wrap(byte[] publicKey, byte[] key) {
        Sent sent = seal(publicKey, key);
        return stanza(sent.share, sent.body);
    }

    @Override
    public AgeStanza blank(byte[] publicKey) {
        return stanza(new byte[share], new byte[AgeFile.BODY]);
    }

    /** Those of another form end the search when it comes to them. */
    @Override
    public boolean hasFormOfAge(AgeStanza stanza) {
        return true;
    }

    @Override
    public boolean showsRecipients() {
        return false;
    }

    private AgeStanza stanza(byte[] share, byte[] body) {
        return new AgeStanza(List.of(type, AgeFile.encoded(share)), body);
    }

    @Override
    public Optional<byte[]> unwrap(byte[] secret, byte[] publicKey, AgeStanza stanza) throws AgeFile.Malformed {
        if (stanza.arguments().size() != 2 || stanza.body().length != AgeFile.BODY) {
            throw new AgeFile.Malformed("a stanza of the wrong form");
        }
        byte[] sent = AgeFile.base64(stanza.arguments().get(1));
        if (sent.length != share) {
            throw new AgeFile.Malformed("a stanza of the wrong length");
        }
        return open(secret, publicKey, new Sent(sent, stanza.body()));
    }

    /** The part of a recipient's text before the last 1. */
    String recipient() {
        return recipient;
    }

    /** The part of an identity's text before the last 1, in small letters. */
    String identity() {
        return identity;
    }

    /** The length of a stanza's argument, decoded. */
    int share() {
        return share;
    }

    /** Whether files can be protected for it. */
    abstract boolean isPublicKey(byte[] key);

    /** Encrypts the key of an age file for a recipient. */
    abstract Sent seal(byte[] publicKey, byte[] key);

    /** The key of an age file, if it was encrypted for this recipient. The lengths are checked. */
    abstract Optional<byte[]> open(byte[] secret, byte[] publicKey, Sent sent) throws AgeFile.Malformed;

    private static AgeFile.Malformed lowOrder() {
        return new AgeFile.Malformed("a point of low order");
    }

    private static void wipe(byte[]... secrets) {
        for (byte[] secret : secrets) {
            Arrays.fill(secret, (byte) 0);
        }
    }
}
