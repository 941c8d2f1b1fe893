package phalanx;

import java.util.ArrayList;
import java.util.List;

/** No key or password at hand opens the file. */
public final class WrongKeyException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    /** Whether a key or password was tried. */
    private final boolean tried;

    private WrongKeyException(String message, boolean tried) {
        super(message);
        this.tried = tried;
    }

    /** A key or password was tried, and does not open the file. */
    static WrongKeyException tried(List<String> refused) {
        return new WrongKeyException(
                with("the data may be altered or decrypted with wrong password", refused), true);
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
        return new WrongKeyException(
                with("no key at hand opens it: it needs " + String.join(" or ", ways), refused), false);
    }

    private static String with(String message, List<String> refused) {
        return refused.isEmpty() ? message : message + "; " + String.join("; ", refused);
    }

    /**
     * Whether a key or password was tried. It is wrong then, or the header was altered: nobody can tell which.
     *
     * @return false if there was nothing to try
     */
    public boolean wasTried() {
        return tried;
    }
}
