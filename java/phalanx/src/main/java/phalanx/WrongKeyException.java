package phalanx;

import java.util.ArrayList;
import java.util.List;

/** No key or password at hand opens the file. */
public final class WrongKeyException extends PhalanxException {
    private static final long serialVersionUID = 2L;

    /** Whether something was tried, or why there was nothing to try. */
    private enum Reason { TRIED, REFUSED, NO_KEY, NO_PASSWORD, OTHER }

    /** What was at hand when no key opened the file. */
    private final Reason reason;

    private WrongKeyException(String message, Reason reason) {
        super(message);
        this.reason = reason;
    }

    /** A key or password was tried, and does not open the file. */
    static WrongKeyException tried(List<String> refused) {
        return new WrongKeyException(
                with("wrong key or password, or the header is damaged", refused), Reason.TRIED);
    }

    /** There was nothing to try. */
    static WrongKeyException none(List<KeyId> ids, boolean age, boolean password, List<String> refused) {
        List<String> ways = new ArrayList<>();
        ids.forEach(id -> ways.add("key " + id));
        if (age) {
            ways.add("the identity of one of its age recipients");
        }
        if (password) {
            ways.add("a password");
        }
        if (ways.isEmpty()) {
            ways.add("a kind of key that this program does not know");
        }
        return new WrongKeyException(with("no key at hand opens it: it needs " + String.join(" or ", ways), refused),
                reason(ids, age, password, refused));
    }

    private static Reason reason(List<KeyId> ids, boolean age, boolean password, List<String> refused) {
        if (!refused.isEmpty()) {
            return Reason.REFUSED;
        }
        if (age) {
            return Reason.OTHER;
        }
        if (!ids.isEmpty()) {
            return Reason.NO_KEY;
        }
        return password ? Reason.NO_PASSWORD : Reason.OTHER;
    }

    private static String with(String message, List<String> refused) {
        return refused.isEmpty() ? message : message + "; " + String.join("; ", refused);
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
     * Whether only a password opens the file, and none was given.
     *
     * @return false if something was tried or refused, or if there are other ways in
     */
    public boolean lacksPassword() {
        return reason == Reason.NO_PASSWORD;
    }
}
