package phalanx;

import java.io.IOException;

/** The output could not be written. The cause says why. */
public final class OutputException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    /**
     * The output could not be written.
     *
     * @param cause why
     */
    public OutputException(IOException cause) {
        super("cannot write: " + cause.getMessage(), cause);
    }
}
