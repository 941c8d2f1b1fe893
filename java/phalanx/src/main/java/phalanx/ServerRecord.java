package phalanx;

/**
 * A record for a {@link Server}. The arrays are not copied: they must not change during the request.
 *
 * @param key the name of the key
 * @param user the user; empty if the key needs none
 * @param associatedData data to which the ciphertext is bound, and which is not in it; empty if there is none
 * @param content the text to seal, or the ciphertext to open or to rewrap
 */
public record ServerRecord(String key, byte[] user, byte[] associatedData, byte[] content) {
    /**
     * A record without associated data.
     *
     * @param key the name of the key
     * @param user the user
     * @param content the text, or the ciphertext
     */
    public ServerRecord(String key, byte[] user, byte[] content) {
        this(key, user, new byte[0], content);
    }

    /** Shows the key and the length, and not the content. */
    @Override
    public String toString() {
        return "ServerRecord[" + key + ", " + content.length + " bytes]";
    }
}
