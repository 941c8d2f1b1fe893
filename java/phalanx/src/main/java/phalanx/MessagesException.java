package phalanx;

import java.util.List;

/** Messages of a batch are not authentic. None of the batch is released. */
public final class MessagesException extends AuthenticationException {
    private static final long serialVersionUID = 1L;

    /** The indices of the messages that are not authentic. */
    private final int[] failed;

    MessagesException(List<Integer> failed) {
        super("not authentic: " + failed.size() + " of the messages (the first is message " + failed.get(0) + ")");
        this.failed = failed.stream().mapToInt(Integer::intValue).toArray();
    }

    /**
     * The messages that are not authentic.
     *
     * @return their indices in the batch, in ascending order
     */
    public int[] failed() {
        return failed.clone();
    }
}
