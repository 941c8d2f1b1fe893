package phalanx;

import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Optional;
import phalanx.primitives.Kmac;

/**
 * A public key of age, for which files are protected: {@code age1…}, or the post-quantum {@code age1pq1…}. An
 * {@link AgeIdentity} opens them. The programs {@code age-keygen} and {@code phalanx key new --identity} make both.
 *
 * <pre>{@code
 * AgeRecipient colleague = AgeRecipient.parse("age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj");
 * Protector protector = new Protector(Recipients.of(key).and(colleague));
 * }</pre>
 *
 * <p>Anybody can protect files for a public key, so the sender of such a file is unknown. SSH keys and the recipients of age's
 * plugins are not supported here.
 */
public final class AgeRecipient {
    /** Those of post-quantum recipients have 1959 characters. */
    private static final int LONGEST = 16384;
    /** The length of the tag at the beginning of its slot. */
    static final int TAG = 16;
    private static final int SHOWN_START = 16;
    private static final int SHOWN_END = 8;
    private static final int LONG = 100;

    private final AgeKind kind;
    private final byte[] key;
    private final String text;

    private AgeRecipient(AgeKind kind, byte[] key) {
        this.kind = kind;
        this.key = key;
        this.text = Bech32.encode(kind.recipient(), key);
    }

    static AgeRecipient of(AgeKind kind, byte[] publicKey) {
        return new AgeRecipient(kind, publicKey);
    }

    /**
     * Reads a recipient. Spaces around it are ignored.
     *
     * @param text the recipient, {@code age1…}
     * @return the recipient
     * @throws IllegalArgumentException if it is none, or one of another kind. The message does not repeat the text
     */
    public static AgeRecipient parse(String text) {
        String bare = text.strip();
        String small = bare.toLowerCase(Locale.ROOT);
        if (AgeIdentity.isSecret(small)) {
            throw new IllegalArgumentException("this is an identity, which is secret, and not a recipient");
        }
        if (!small.startsWith("age1")) {
            throw new IllegalArgumentException("not a recipient: one begins with age1");
        }
        Optional<Bech32.Decoded> decoded = bare.length() > LONGEST
                ? Optional.empty()
                : Bech32.decode(bare.getBytes(StandardCharsets.US_ASCII));
        byte[] key = decoded.orElseThrow(AgeRecipient::damaged).bytes();
        for (AgeKind kind : AgeKind.values()) {
            if (kind.recipient().equals(decoded.get().prefix())) {
                if (!kind.isPublicKey(key)) {
                    throw damaged();
                }
                return new AgeRecipient(kind, key);
            }
        }
        throw new IllegalArgumentException("a recipient of a kind that this library does not know: it has no plugins");
    }

    private static IllegalArgumentException damaged() {
        return new IllegalArgumentException("not a recipient: a character is wrong or missing");
    }

    /**
     * Whether no quantum computer is known to break it. A file is no safer than the weakest of its recipients; passwords and
     * {@linkplain PhalanxKey keys} are safe from such computers.
     *
     * @return whether it begins with {@code age1pq1}
     */
    public boolean isPostQuantum() {
        return kind == AgeKind.POST_QUANTUM;
    }

    AgeKind kind() {
        return kind;
    }

    AgeKind.Sent wrap(byte[] ageKey) {
        return kind.wrap(key, ageKey);
    }

    byte[] publicKey() {
        return key;
    }

    /** The length of its slot's body. */
    int slotBytes() {
        return TAG + AgeFile.length(kind);
    }

    /** The tag that shows those who can open a file which slot is whose. */
    byte[] tag(FileKeys keys) {
        return Kmac.of(keys.mac(), text.getBytes(StandardCharsets.US_ASCII), TAG, "phalanx v1 recipient");
    }

    /**
     * Its text for messages: its beginning and end, if it is long.
     *
     * @return at most 100 characters
     */
    public String brief() {
        return text.length() <= LONG
                ? text
                : text.substring(0, SHOWN_START) + "…" + text.substring(text.length() - SHOWN_END);
    }

    /** Whether both are the same recipient. */
    @Override
    public boolean equals(Object other) {
        return other instanceof AgeRecipient recipient && text.equals(recipient.text);
    }

    @Override
    public int hashCode() {
        return text.hashCode();
    }

    /** Its text, in small letters. */
    @Override
    public String toString() {
        return text;
    }
}
