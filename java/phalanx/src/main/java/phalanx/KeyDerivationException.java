package phalanx;

/** A key was not derived from a password, because it would take too much memory or time. */
public final class KeyDerivationException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    /** Whether the limit of the format is exceeded. */
    private final boolean beyondLimit;

    private KeyDerivationException(String message, boolean beyondLimit) {
        super(message);
        this.beyondLimit = beyondLimit;
    }

    /** As libphalanx says it. */
    static KeyDerivationException told(String message, boolean beyondLimit) {
        return new KeyDerivationException(message, beyondLimit);
    }

    static KeyDerivationException limit(String which) {
        String what = "its password slots ask for more key derivation than the limit allows";
        return new KeyDerivationException(what + " (" + which + ")", true);
    }

    static KeyDerivationException memory(long kibibytes) {
        return new KeyDerivationException("not enough memory: Argon2 needs " + kibibytes + " KiB", false);
    }

    /**
     * Whether the file asks for more than the limit of the format. Otherwise this JVM has too little memory.
     *
     * @return whether the limit of docs/format.md, section 4, is exceeded
     */
    public boolean isBeyondLimit() {
        return beyondLimit;
    }
}
