package phalanx;

/** The manifest of a tree breaks a rule of the format. */
public final class MalformedManifestException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    MalformedManifestException(String why) {
        super("malformed manifest: " + why);
    }
}
