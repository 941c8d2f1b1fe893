package phalanx;

import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * A key of the keyring, or a file with a key or password, is missing, damaged, locked or refused. It is refused if others could
 * read or change it, or if it is not a regular file. Or a key service did not wrap or unwrap a run key; the cause says more.
 */
public final class KeyException extends PhalanxException {
    private static final long serialVersionUID = 1L;
    private static final String PUBLIC = "it is a public key";

    /** Whether the keyring has no key of this name. */
    private final boolean missing;

    /** The command that mends it, or null. */
    private final String remedy;

    KeyException(String message) {
        this(message, false, null);
    }

    private KeyException(String message, boolean missing, String remedy) {
        super(message);
        this.missing = missing;
        this.remedy = remedy;
    }

    /** As libphalanx says it. What to do is a command unless the key is missing. */
    static KeyException told(String kind, String message, String hint) {
        boolean isMissing = kind.equals("no-such-key");
        return new KeyException(message, isMissing, isMissing ? null : hint);
    }

    static KeyException missing(String name) {
        return new KeyException("no key named " + name + " in the keyring", true, null);
    }

    static KeyException locked(String name) {
        return new KeyException("the key " + name + " is locked", false, "phalanx key unlock " + name);
    }

    /** A refusal, and the command that mends it, or null. */
    static KeyException refused(String what, String why, String remedy) {
        return new KeyException(what + " is refused because " + why, false, remedy);
    }

    /** A file of public keys where a private one belongs. */
    static KeyException publicKey() {
        return new KeyException(PUBLIC);
    }

    /** One for several. */
    static KeyException of(List<KeyException> all) {
        return new KeyException(messages(all), false, remedy(all));
    }

    /** All messages in one line. */
    static String messages(List<KeyException> all) {
        return all.stream().map(KeyException::getMessage).distinct().collect(Collectors.joining("; "));
    }

    /** The first command that mends one of them, or null. */
    static String remedy(List<KeyException> all) {
        return all.stream().flatMap(each -> each.remedy().stream()).findFirst().orElse(null);
    }

    /**
     * The command that mends it, such as {@code chmod 600 PATH} or {@code phalanx key unlock NAME}.
     *
     * @return empty if no single command does
     */
    public Optional<String> remedy() {
        return Optional.ofNullable(remedy);
    }

    /**
     * Whether the keyring has no key of this name.
     *
     * @return false if it has one that is damaged, locked or refused
     */
    public boolean isMissing() {
        return missing;
    }

    /**
     * Whether a file of identities holds a public key, and not the private one that belongs to it.
     *
     * @return false if it is another failure
     */
    public boolean isPublicKey() {
        return PUBLIC.equals(getMessage());
    }
}
