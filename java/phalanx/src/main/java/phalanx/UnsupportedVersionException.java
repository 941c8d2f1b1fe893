package phalanx;

/** The file, or the manifest in it, has a version of the format that this library does not know. */
public final class UnsupportedVersionException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    UnsupportedVersionException(int version) {
        super("Phalanx format version " + version + " is not known to this program: a newer one may read it");
    }

    private UnsupportedVersionException(String message) {
        super(message);
    }

    /** As libphalanx says it. */
    static UnsupportedVersionException told(String message) {
        return new UnsupportedVersionException(message);
    }

    static UnsupportedVersionException manifest() {
        return new UnsupportedVersionException(
                "the manifest has a version that this program does not know: a newer one may read it");
    }
}
