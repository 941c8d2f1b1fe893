package phalanx;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import phalanx.primitives.Kmac;

/**
 * A public key, for which files are protected: one of age, {@code age1…} or the post-quantum {@code age1pq1…}, which {@code
 * age-keygen} and {@code phalanx key new --identity} make; or one of SSH, {@code ssh-ed25519 …} or {@code ssh-rsa …}, as it stands in
 * {@code ~/.ssh/id_ed25519.pub}. An {@link AgeIdentity} opens them.
 *
 * <pre>{@code
 * AgeRecipient colleague = AgeRecipient.parse("age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj");
 * Protector protector = new Protector(Recipients.of(key).and(colleague));
 * }</pre>
 *
 * <p>Anybody can protect files for a public key, so the sender of such a file is unknown. A file that is protected for an SSH key shows
 * 32 bits of a hash of that key. The recipients of age's plugins are not supported here.
 */
public final class AgeRecipient {
    /** Those of post-quantum recipients have 1959 characters. */
    private static final int LONGEST = 16384;
    /** The length of the tag at the beginning of its slot. */
    static final int TAG = 16;
    private static final List<String> SSH_TYPES = List.of("ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-");

    private final KeyKind kind;
    private final byte[] key;
    private final String text;

    private AgeRecipient(KeyKind kind, byte[] key) {
        this.kind = kind;
        this.key = key;
        this.text = kind.text(key);
    }

    static AgeRecipient of(KeyKind kind, byte[] publicKey) {
        return new AgeRecipient(kind, publicKey);
    }

    /**
     * Reads a recipient. Spaces around it, and what follows an SSH key, are ignored.
     *
     * @param text the recipient, {@code age1…}, {@code ssh-ed25519 …} or {@code ssh-rsa …}
     * @return the recipient
     * @throws IllegalArgumentException if it is none, or one of another kind. The message does not repeat the text
     */
    public static AgeRecipient parse(String text) {
        String bare = text.strip();
        if (bare.length() > LONGEST) {
            throw damaged();
        }
        String small = bare.toLowerCase(Locale.ROOT);
        if (AgeIdentity.isSecret(small)) {
            throw new IllegalArgumentException("this is an identity, which is secret, and not a recipient");
        }
        if (small.startsWith("age1")) {
            return ofAge(bare);
        }
        String[] words = bare.split("[ \t\r\n\f]+", 3);
        if (words.length < 2 || !isSsh(words[0])) {
            throw new IllegalArgumentException("not a recipient: one begins with age1, ssh-ed25519 or ssh-rsa");
        }
        return ofSsh(words[0], words[1]);
    }

    private static AgeRecipient ofAge(String text) {
        byte[] ascii = text.getBytes(StandardCharsets.US_ASCII);
        Bech32.Decoded decoded = Bech32.decode(ascii).orElseThrow(AgeRecipient::damaged);
        for (AgeKind kind : AgeKind.values()) {
            if (kind.recipient().equals(decoded.prefix())) {
                if (!kind.isPublicKey(decoded.bytes())) {
                    throw damaged();
                }
                return new AgeRecipient(kind, decoded.bytes());
            }
        }
        throw new IllegalArgumentException("a recipient of a kind that this library does not know: it has no plugins");
    }

    private static AgeRecipient ofSsh(String type, String base64) {
        byte[] blob = SshWire.base64(base64).orElseThrow(AgeRecipient::damaged);
        Optional<SshKind> kind = SshKind.of(blob).filter(each -> each.type().equals(type));
        if (kind.isEmpty()) {
            throw isOfOtherType(type, blob)
                    ? new IllegalArgumentException(
                            "SSH keys of the type " + type + " cannot be recipients (ssh-ed25519 and ssh-rsa can)")
                    : damaged();
        }
        int bits = kind.get().modulusBits(blob);
        if (kind.get() == SshKind.RSA && (bits < SshKind.LEAST_RSA_BITS || bits > SshKind.MOST_RSA_BITS)) {
            throw new IllegalArgumentException(
                    "an RSA key with fewer than 2048 or more than 4096 bits cannot be a recipient");
        }
        if (!kind.get().encrypts(blob)) {
            throw damaged();
        }
        return new AgeRecipient(kind.get(), blob);
    }

    /** Whether it is a key of SSH of a type that cannot encrypt. */
    private static boolean isOfOtherType(String type, byte[] blob) {
        boolean isUsable = type.equals(SshKind.ED25519.type()) || type.equals(SshKind.RSA.type());
        try {
            return !isUsable && SshWire.of(blob).text().equals(type);
        } catch (SshWire.Malformed e) {
            return false;
        }
    }

    /** Whether a word begins like the type of an SSH key. */
    private static boolean isSsh(String word) {
        return SSH_TYPES.stream().anyMatch(word::startsWith);
    }

    /** Whether each line of a text begins like a public key. */
    static boolean arePublic(String text) {
        List<String> keys = text.lines().filter(line -> !line.isBlank() && !line.startsWith("#")).toList();
        return !keys.isEmpty() && keys.stream().map(String::stripLeading)
                .allMatch(line -> line.toLowerCase(Locale.ROOT).startsWith("age1") || isSsh(line));
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

    KeyKind kind() {
        return kind;
    }

    AgeStanza wrap(byte[] ageKey) {
        return kind.wrap(key, ageKey);
    }

    byte[] publicKey() {
        return key;
    }

    /** The length of its slot's body. */
    int slotBytes() {
        return TAG + AgeFile.length(kind.blank(key));
    }

    /** The tag that shows those who can open a file which slot is whose. */
    byte[] tag(FileKeys keys) {
        synchronized (keys) {
            return Kmac.of(keys.mac(), text.getBytes(StandardCharsets.US_ASCII), TAG, "phalanx v1 recipient");
        }
    }

    /**
     * Its text for messages: its beginning and end, if it is long, and only the type of an SSH key.
     *
     * @return at most 100 characters
     */
    public String brief() {
        return kind.brief(key);
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

    /** Its text, in small letters, or the type of an SSH key and its Base64 without a comment. */
    @Override
    public String toString() {
        return text;
    }
}
