package phalanx;

/** The input changed its length while it was read. */
public final class ChangedException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    ChangedException() {
        super("the input changed while it was read");
    }
}
