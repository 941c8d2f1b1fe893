package phalanx;

import java.util.Optional;

/** What all public keys have that age files can be for: age's own, {@link AgeKind}, and those of SSH, {@link SshKind}. */
interface KeyKind {
    /** The type of its stanzas. */
    String type();

    /** The text of a public key, of which there is only one. */
    String text(byte[] publicKey);

    /** What messages call a public key: 100 characters at most. */
    String brief(byte[] publicKey);

    /** The public key of a private one. */
    byte[] publicKey(byte[] secret);

    /** A stanza with the key of an age file, encrypted for a recipient. */
    AgeStanza wrap(byte[] publicKey, byte[] key);

    /** A stanza of the same length as those for this recipient. */
    AgeStanza blank(byte[] publicKey);

    /** Whether a stanza may be for this recipient. */
    boolean isFor(byte[] publicKey, AgeStanza stanza);

    /**
     * Whether a stanza that may be for a recipient has the form that age gives it, as far as that can be seen without the private key. A
     * file with one of another form is not opened by this recipient's identity, and nobody is asked for its passphrase.
     */
    boolean hasFormOfAge(AgeStanza stanza);

    /** Whether stanzas show which key they are for. Then the first one for a key decides whether it opens a file. */
    boolean showsRecipients();

    /** The key of an age file, if it was encrypted for this recipient. */
    Optional<byte[]> unwrap(byte[] secret, byte[] publicKey, AgeStanza stanza) throws AgeFile.Malformed;
}
