package phalanx.ffi;

/** libphalanx is not there, or is none that this module can use. The message says what to do. */
public final class NativeLibraryException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    NativeLibraryException(String message) {
        super(message);
    }

    NativeLibraryException(String message, Throwable cause) {
        super(message, cause);
    }
}
