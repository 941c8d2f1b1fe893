package phalanx;

/** The header breaks a rule of the format, or is that of the config of a volume. */
public final class MalformedHeaderException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    MalformedHeaderException(String why) {
        super("malformed header: " + why);
    }

    private MalformedHeaderException(String message, boolean whole) {
        super(message);
    }

    static MalformedHeaderException volume() {
        return new MalformedHeaderException(
                "it is the config of a volume, not a file: mount the folder that it lies in", true);
    }
}
