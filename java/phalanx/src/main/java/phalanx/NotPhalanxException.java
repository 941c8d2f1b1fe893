package phalanx;

/** The file does not begin like a Phalanx file. */
public final class NotPhalanxException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    NotPhalanxException() {
        super("not a Phalanx file");
    }
}
