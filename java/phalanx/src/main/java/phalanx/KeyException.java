package phalanx;

/** A key of the keyring or a file with a key or password is missing, damaged, or refused because others could read or change it. */
public final class KeyException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    KeyException(String message) {
        super(message);
    }
}
