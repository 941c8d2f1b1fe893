package phalanx;

import java.util.List;

/** One way into a file, as its header shows it without a key (docs/format.md, section 4). */
public sealed interface Slot {
    /**
     * Room for more slots.
     *
     * @param bytes the length of its body
     */
    record Padding(int bytes) implements Slot {}

    /**
     * A way in for a password.
     *
     * @param memory Argon2's memory in KiB
     * @param passes Argon2's passes
     * @param lanes Argon2's parallelism
     * @param secret salt and wrapped file key
     */
    record OfPassword(long memory, long passes, int lanes, Wrapped secret) implements Slot {}

    /**
     * A way in for a key.
     *
     * @param id the key's id
     * @param secret the wrapped file key
     */
    record OfKey(KeyId id, Wrapped secret) implements Slot {}

    /**
     * A way in for an identity of age or SSH. The slot shows for which only if it is one of SSH.
     *
     * @param bytes the length of the age file in it
     * @param secret the tag of its recipient and the age file
     */
    record OfAge(int bytes, Wrapped secret) implements Slot {
        /**
         * The types of the age file's stanzas, each with the tag of its key if that is one of SSH.
         *
         * @return empty if no identity could open it
         */
        public List<String> stanzas() {
            try {
                return AgeFile.ofSlot(secret.key()).outlines();
            } catch (AgeFile.Malformed e) {
                return List.of();
            }
        }
    }

    /**
     * A way in for those whom a key service serves.
     *
     * @param uri names the service and its key. The writer of the file chose it, and readers ask only services that their users
     *     have named
     * @param bytes the length of the run key as the service wrapped it
     * @param secret the wrapped run key and the wrapped file key
     */
    record OfService(String uri, int bytes, Wrapped secret) implements Slot {}

    /**
     * A slot of a type that this library does not know and skips, or for a key service and malformed.
     *
     * @param type its type
     * @param bytes the length of its body
     */
    record Unknown(int type, int bytes) implements Slot {}

    /** A file key under another key, and what stands before it: a password's salt, a recipient's tag or a wrapped run key. */
    final class Wrapped {
        private final byte[] salt;
        private final byte[] key;

        Wrapped(byte[] salt, byte[] key) {
            this.salt = salt;
            this.key = key;
        }

        byte[] salt() {
            return salt;
        }

        byte[] key() {
            return key;
        }

        @Override
        public String toString() {
            return "…";
        }
    }
}
