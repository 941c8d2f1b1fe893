package phalanx;

/** The data are not what the writer wrote: a chunk or message is altered, or the file was truncated or extended. */
public sealed class AuthenticationException extends PhalanxException permits TruncatedException, MessagesException {
    private static final long serialVersionUID = 1L;

    AuthenticationException(String message) {
        super(message);
    }

    /** A chunk is not authentic. */
    static AuthenticationException chunk(long index, boolean last) {
        String where = last ? ", the last one, or truncated or extended there" : "";
        return new AuthenticationException("damaged in chunk " + index + where);
    }

    /** The file continues after its end. */
    static AuthenticationException extended(String how) {
        return new AuthenticationException("bytes after the end: " + how);
    }
}
