package phalanx;

import java.io.IOException;
import java.util.List;
import java.util.Optional;

/**
 * The keys, the identities of age, the key services and the password that are at hand to open files. Several threads may use it.
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
     * The identities of age. Asked for only if a file has age slots, and no key opens it. The sender of a file that opens by an
     * identity is unknown: see {@link AgeIdentity}.
     *
     * @return the identities, or none
     * @throws KeyException if they are at hand but refused. Another way in may still open the file
     * @throws IOException if they cannot be read
     */
    default List<AgeIdentity> identities() throws IOException {
        return List.of();
    }

    /**
     * Called when one of the {@link #identities} has opened a file, so that a program can say that its sender is unknown.
     *
     * @param identity the identity
     */
    default void opened(AgeIdentity identity) {}

    /**
     * What to say if none of the {@link #identities} opens a file, and none was refused. It becomes a part of the message.
     *
     * @return such as the names of the files that they are from, or nothing
     */
    default Optional<String> whyNoIdentity() {
        return Optional.empty();
    }

    /**
     * The run key that a key service has wrapped. Asked for only if no key or identity opens a file, and for no more than 8 slots
     * of a file. Anybody can write a file that names a service, so a service must not be asked unless the user has named it, by
     * exactly this URI. {@link KeyServices} do all that.
     *
     * @param uri the URI in a slot of a file
     * @param wrapped the run key as the service is said to have wrapped it: 1 to 4096 bytes
     * @return the run key, or nothing if the user has not named the service
     * @throws KeyException if the service does not unwrap it. Another way in may still open the file
     * @throws IOException if this ends the search
     */
    default Optional<PhalanxKey> runKey(String uri, byte[] wrapped) throws IOException {
        return Optional.empty();
    }

    /**
     * The password. Asked for only if a file has a password slot, and no key, identity or key service opens it.
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
     * Provides an identity of age. The sender of a file that opens by it is unknown: see {@link AgeIdentity}.
     *
     * @param identity the identity
     * @return the provider
     */
    static KeyProvider of(AgeIdentity identity) {
        return of(List.of(identity));
    }

    /**
     * Provides identities of age, such as those of a file. The sender of a file that opens by one of them is unknown: see {@link
     * AgeIdentity}.
     *
     * @param identities the identities
     * @return the provider
     */
    static KeyProvider of(List<AgeIdentity> identities) {
        List<AgeIdentity> all = List.copyOf(identities);
        return new KeyProvider() {
            @Override
            public Optional<PhalanxKey> key(KeyId id) {
                return Optional.empty();
            }

            @Override
            public List<AgeIdentity> identities() {
                return all;
            }
        };
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
     * Provides the keys and the password of this provider, and otherwise those of another one; and the identities and key services
     * of both. If one of them refuses, the other is asked all the same.
     *
     * @param other the other provider
     * @return the provider
     */
    default KeyProvider or(KeyProvider other) {
        KeyProvider first = this;
        return new KeyProvider() {
            @Override
            public Optional<PhalanxKey> key(KeyId id) throws IOException {
                return FirstOf.both(first, other, each -> each.key(id));
            }

            @Override
            public List<AgeIdentity> identities() throws IOException {
                return FirstOf.all(first, other, KeyProvider::identities);
            }

            @Override
            public void opened(AgeIdentity identity) {
                first.opened(identity);
                other.opened(identity);
            }

            @Override
            public Optional<String> whyNoIdentity() {
                return first.whyNoIdentity().or(other::whyNoIdentity);
            }

            @Override
            public Optional<PhalanxKey> runKey(String uri, byte[] wrapped) throws IOException {
                return FirstOf.both(first, other, each -> each.runKey(uri, wrapped));
            }

            @Override
            public Optional<Password> password() throws IOException {
                return FirstOf.both(first, other, KeyProvider::password);
            }
        };
    }
}
