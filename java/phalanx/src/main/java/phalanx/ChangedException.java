package phalanx;

/** The input changed while it was read, as its length, its time of modification or its path shows. */
public final class ChangedException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    /** The input changed. */
    public ChangedException() {
        super("the input changed while it was read");
    }
}
