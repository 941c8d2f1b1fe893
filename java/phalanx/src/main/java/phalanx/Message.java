package phalanx;

/**
 * One message of a batch, under a key of its user. The arrays are not copied: they must not change while the batch is sealed
 * or opened.
 *
 * @param key the key that seals or opens it
 * @param associatedData data that is authenticated and not stored; empty if there is none
 * @param content the plaintext of a message to be sealed, or a sealed message
 */
public record Message(PhalanxKey key, byte[] associatedData, byte[] content) {
    /**
     * A message without associated data.
     *
     * @param key the key that seals or opens it
     * @param content the plaintext, or a sealed message
     */
    public Message(PhalanxKey key, byte[] content) {
        this(key, new byte[0], content);
    }

    /** Shows the length, and not the content. */
    @Override
    public String toString() {
        return "Message[" + content.length + " bytes]";
    }
}
