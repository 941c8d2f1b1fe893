package phalanx;

/** The file has a version of the format that this library does not know. */
public final class UnsupportedVersionException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    UnsupportedVersionException(int version) {
        super("Phalanx format version " + version + " is not known to this program: a newer one may read it");
    }
}
