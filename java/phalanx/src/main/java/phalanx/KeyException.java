package phalanx;

/**
 * A key of the keyring, or a file with a key or password, is missing, damaged or refused. It is refused if others could
 * read or change it, or if it is not a regular file.
 */
public final class KeyException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    /** Whether the keyring has no key of this name. */
    private final boolean missing;

    KeyException(String message) {
        this(message, false);
    }

    private KeyException(String message, boolean missing) {
        super(message);
        this.missing = missing;
    }

    static KeyException missing(String name) {
        return new KeyException("no key named " + name + " in the keyring", true);
    }

    /**
     * Whether the keyring has no key of this name.
     *
     * @return false if it has one that is damaged or refused
     */
    public boolean isMissing() {
        return missing;
    }
}
