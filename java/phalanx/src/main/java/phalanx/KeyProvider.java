package phalanx;

import java.io.IOException;
import java.util.List;
import java.util.Optional;

/**
 * The keys and the password that are at hand to open files. Several threads may use it.
 *
 * <p>It owns what it returns: a reader does not close keys or passwords.
 */
public interface KeyProvider {
    /**
     * The key with this id.
     *
     * @param id the id in a slot of a file
     * @return the key, or nothing if it is not at hand
     * @throws KeyException if it is at hand but refused. Another way in may still open the file
     * @throws IOException if it cannot be read
     */
    Optional<PhalanxKey> key(KeyId id) throws IOException;

    /**
     * The password. Asked for only if a file has a password slot, and no key opens it.
     *
     * @return the password, or nothing
     * @throws IOException if it cannot be read
     */
    default Optional<Password> password() throws IOException {
        return Optional.empty();
    }

    /**
     * Provides some keys.
     *
     * @param keys the keys
     * @return the provider
     */
    static KeyProvider of(PhalanxKey... keys) {
        List<PhalanxKey> all = List.of(keys);
        return id -> all.stream().filter(key -> key.id().equals(id)).findFirst();
    }

    /**
     * Provides a password.
     *
     * @param password the password
     * @return the provider
     */
    static KeyProvider of(Password password) {
        return new KeyProvider() {
            @Override
            public Optional<PhalanxKey> key(KeyId id) {
                return Optional.empty();
            }

            @Override
            public Optional<Password> password() {
                return Optional.of(password);
            }
        };
    }

    /**
     * Provides the keys and the password of this provider, and otherwise those of another one.
     *
     * @param other the other provider
     * @return the provider
     */
    default KeyProvider or(KeyProvider other) {
        KeyProvider first = this;
        return new KeyProvider() {
            @Override
            public Optional<PhalanxKey> key(KeyId id) throws IOException {
                Optional<PhalanxKey> key = first.key(id);
                return key.isPresent() ? key : other.key(id);
            }

            @Override
            public Optional<Password> password() throws IOException {
                Optional<Password> password = first.password();
                return password.isPresent() ? password : other.password();
            }
        };
    }
}
