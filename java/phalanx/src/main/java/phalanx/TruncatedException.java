package phalanx;

/** The file ends too early. */
public final class TruncatedException extends AuthenticationException {
    private static final long serialVersionUID = 1L;

    TruncatedException(String where) {
        super("truncated: " + where);
    }
}
