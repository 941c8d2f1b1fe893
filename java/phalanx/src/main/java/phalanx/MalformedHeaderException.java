package phalanx;

/** The header breaks a rule of the format, or is that of the config of a volume. */
public final class MalformedHeaderException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    /** Whether it is the header of the config of a volume. */
    private final boolean ofVolume;

    MalformedHeaderException(String why) {
        this("malformed header: " + why, false);
    }

    private MalformedHeaderException(String message, boolean ofVolume) {
        super(message);
        this.ofVolume = ofVolume;
    }

    /** As libphalanx says it. */
    static MalformedHeaderException told(String message) {
        return new MalformedHeaderException(message, false);
    }

    static MalformedHeaderException volume() {
        return new MalformedHeaderException("it is the config of a volume, not a file", true);
    }

    /**
     * Whether it is the header of the config of a volume.
     *
     * @return false if it breaks a rule of the format
     */
    public boolean isOfVolume() {
        return ofVolume;
    }
}
