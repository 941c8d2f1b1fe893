package phalanx;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** No key or password at hand opens the file. */
public final class WrongKeyException extends PhalanxException {
    private static final long serialVersionUID = 2L;

    /** Whether something was tried, or why there was nothing to try. */
    private enum Reason { TRIED, REFUSED, NO_KEY, NO_IDENTITY, NO_PASSWORD, OTHER }

    /** What was at hand when no key opened the file. */
    private final Reason reason;

    /** The command that mends the first refused key for which there is one, or null. */
    private final String remedy;

    private WrongKeyException(String message, Reason reason, String remedy) {
        super(message);
        this.reason = reason;
        this.remedy = remedy;
    }

    /** As libphalanx says it. What to do is a command only if a key was refused. */
    static WrongKeyException told(String kind, String message, String hint) {
        return switch (kind) {
            case "wrong-key" -> new WrongKeyException(message, Reason.TRIED, null);
            case "keys-refused" -> new WrongKeyException(message, Reason.REFUSED, hint);
            case "no-key" -> new WrongKeyException(message, Reason.NO_KEY, null);
            case "no-password" -> new WrongKeyException(message, Reason.NO_PASSWORD, null);
            default -> new WrongKeyException(message, Reason.OTHER, null);
        };
    }

    /** A key or password was tried, and does not open the file. */
    static WrongKeyException tried(List<KeyException> refused) {
        String message = with("wrong key or password, or the header is damaged", refused);
        return new WrongKeyException(message, Reason.TRIED, KeyException.remedy(refused));
    }

    /** There was nothing to try. */
    static WrongKeyException none(
            List<KeyId> ids, boolean age, Set<String> services, boolean password, List<KeyException> refused) {
        List<String> ways = new ArrayList<>();
        ids.forEach(id -> ways.add("key " + id));
        if (age) {
            ways.add("the identity of one of its age recipients");
        }
        services.forEach(uri -> ways.add("the key service " + Slots.brief(uri)));
        if (password) {
            ways.add("a password");
        }
        if (ways.isEmpty()) {
            ways.add("a kind of key that this program does not know");
        }
        return new WrongKeyException(with("no key at hand opens it: it needs " + String.join(" or ", ways), refused),
                reason(ids, age, !services.isEmpty(), password, refused), KeyException.remedy(refused));
    }

    private static Reason reason(
            List<KeyId> ids, boolean age, boolean service, boolean password, List<KeyException> refused) {
        if (!refused.isEmpty()) {
            return Reason.REFUSED;
        }
        if (service || age && (!ids.isEmpty() || password)) {
            return Reason.OTHER;
        }
        if (age) {
            return Reason.NO_IDENTITY;
        }
        if (!ids.isEmpty()) {
            return Reason.NO_KEY;
        }
        return password ? Reason.NO_PASSWORD : Reason.OTHER;
    }

    private static String with(String message, List<KeyException> refused) {
        return refused.isEmpty() ? message : message + "; " + KeyException.messages(refused);
    }

    /**
     * The command that mends a refused key, which may be the right one, such as {@code chmod 600 PATH}.
     *
     * @return empty if none was refused, or no single command mends it
     */
    public Optional<String> remedy() {
        return Optional.ofNullable(remedy);
    }

    /**
     * Whether a key or password was tried. Either it is wrong, or the header was altered. These cannot be
     * distinguished.
     *
     * @return false if there was nothing to try
     */
    public boolean wasTried() {
        return reason == Reason.TRIED;
    }

    /**
     * Whether the file needs a key that is not at hand, and none was refused. The message has its id.
     *
     * @return false if something was tried or refused, or if only other ways in are left
     */
    public boolean lacksKey() {
        return reason == Reason.NO_KEY;
    }

    /**
     * Whether only an identity of age opens the file, and none that was given does.
     *
     * @return false if a key was refused, or if there are other ways in
     */
    public boolean lacksIdentity() {
        return reason == Reason.NO_IDENTITY;
    }

    /**
     * Whether only a password opens the file, and none was given.
     *
     * @return false if something was tried or refused, or if there are other ways in
     */
    public boolean lacksPassword() {
        return reason == Reason.NO_PASSWORD;
    }
}
