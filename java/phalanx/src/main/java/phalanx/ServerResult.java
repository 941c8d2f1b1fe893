package phalanx;

/**
 * What became of a record.
 *
 * @param status 0 if it was done, and otherwise the status of HTTP that the refusal has: 403 without the right, 400 if a
 *     ciphertext is not authentic
 * @param content the ciphertext or the text; empty if it was refused
 * @param reason a line that says why it was refused; empty if it was done
 */
public record ServerResult(int status, byte[] content, String reason) {
    /**
     * Whether it was done.
     *
     * @return false if it was refused
     */
    public boolean isDone() {
        return status == 0;
    }

    /** Shows the status and the length, and not the content. */
    @Override
    public String toString() {
        return isDone() ? "ServerResult[" + content.length + " bytes]" : "ServerResult[" + status + ": " + reason + "]";
    }
}
