package phalanx;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/**
 * A private key, which opens the files that were protected for its {@link AgeRecipient}: one of age, {@code AGE-SECRET-KEY-1…} or the
 * post-quantum {@code AGE-SECRET-KEY-PQ-1…}, or one of SSH, such as {@code ~/.ssh/id_ed25519}. Or a file of such keys with a passphrase.
 *
 * <pre>{@code
 * Unprotector unprotector = new Unprotector(KeyProvider.of(AgeIdentity.read(Path.of("key.txt"))));
 * unprotector.unprotect(Path.of("run42.h5.phx"), Path.of("run42.h5"));
 * }</pre>
 *
 * <p><b>The sender is unknown.</b> Anybody can protect a file for a public key. So that a file opens by an identity says nothing
 * about who wrote it, while a file that opens by a {@link PhalanxKey} or a {@link Password} comes from somebody who has it.
 * Give identities only where you expect files from strangers. {@link Header.Opened#slot} says which slot opened a file.
 *
 * <p>RSA is decrypted by Bouncy Castle, blinded but not in constant time. A service that opens files from strangers must not hold
 * keys of RSA.
 *
 * <p>{@link #close} overwrites the key, as far as Java allows: see {@link PhalanxKey}. The numbers of RSA stay in memory until
 * they are collected.
 */
public final class AgeIdentity implements AutoCloseable {
    private static final int LONGEST_FILE = 1 << 20;
    private static final int MOST_IN_FILE = 256;
    /** A post-quantum identity has 77 characters. */
    private static final int LONGEST = 128;
    private static final String SSH = "-----BEGIN";

    private final KeyKind kind;
    private final AgeRecipient recipient;
    private final Lock lock;
    /** The file with a passphrase that this stands for, or null. Then there is no key, and no public key. */
    private final LockedIdentities file;
    /** Null while a passphrase is missing. */
    private byte[] secret;
    private boolean closed;

    private AgeIdentity(KeyKind kind, AgeRecipient recipient, byte[] secret, Lock lock) {
        this.kind = kind;
        this.recipient = recipient;
        this.secret = secret;
        this.lock = lock;
        this.file = null;
    }

    private AgeIdentity(LockedIdentities file) {
        this.kind = null;
        this.recipient = null;
        this.lock = null;
        this.file = file;
    }

    /** Asks the user for a passphrase. */
    @FunctionalInterface
    public interface Passphrases {
        /**
         * Asks for the passphrase of an SSH key or of a file of identities. It is asked for once, and only if a file may be for
         * this key, or for one in that file.
         *
         * @param question such as {@code Passphrase of id_ed25519: }
         * @return the passphrase, which is then overwritten; or nothing if nobody can be asked
         */
        Optional<char[]> ask(String question);
    }

    /** A key whose passphrase is not known yet. */
    private static final class Lock {
        private final SshPrivateKey key;
        private final String label;
        private final Passphrases passphrases;
        /** Why it stays closed, or null. */
        private String refusal;

        Lock(SshPrivateKey key, String label, Passphrases passphrases) {
            this.key = key;
            this.label = label;
            this.passphrases = passphrases;
        }
    }

    private static AgeIdentity of(KeyKind kind, byte[] secret) {
        return new AgeIdentity(kind, AgeRecipient.of(kind, kind.publicKey(secret)), secret, null);
    }

    /**
     * Reads an identity. Spaces around it are ignored.
     *
     * @param text the identity, {@code AGE-SECRET-KEY-…}, in capital letters. A string stays in memory; what {@link
     *     java.nio.CharBuffer#wrap(char[])} returns can be wiped
     * @return the identity: close it
     * @throws IllegalArgumentException if it is none. The message does not repeat the text
     */
    public static AgeIdentity parse(CharSequence text) {
        byte[] bytes = new byte[Math.min(text.length(), LONGEST + 1)];
        try {
            for (int i = 0; i < bytes.length; i++) {
                // Characters outside of ASCII are in no identity.
                bytes[i] = (byte) (text.charAt(i) > '~' ? 0 : text.charAt(i));
            }
            byte[] bare = bare(bytes, 0, bytes.length);
            try {
                return decoded(bare).orElseThrow(() -> new IllegalArgumentException("not an identity of age's own kinds"));
            } finally {
                Arrays.fill(bare, (byte) 0);
            }
        } finally {
            Arrays.fill(bytes, (byte) 0);
        }
    }

    private static Optional<AgeIdentity> decoded(byte[] text) {
        if (text.length > LONGEST || text.length == 0 || text[0] != 'A') {
            return Optional.empty();
        }
        Optional<Bech32.Decoded> decoded = Bech32.decode(text);
        for (AgeKind kind : AgeKind.values()) {
            boolean isOfKind = decoded.isPresent() && kind.identity().equals(decoded.get().prefix());
            if (isOfKind && decoded.get().bytes().length == AgeKind.SECRET_KEY) {
                return Optional.of(of(kind, decoded.get().bytes()));
            }
        }
        return Optional.empty();
    }

    /**
     * Reads a file of identities: as age writes it, one on each line, where empty lines and lines that begin with # are ignored; such a
     * file encrypted by age with a passphrase; or an SSH private key, of OpenSSH or as PEM. What has a passphrase opens nothing, because
     * nobody is asked.
     *
     * @param path the file, or a pipe
     * @return the identities: close them
     * @throws KeyException if others could read or change the file, or if it does not hold 1 to 256 identities and nothing else.
     *     Identities of plugins are not supported here
     * @throws IOException if it cannot be read
     */
    public static List<AgeIdentity> read(Path path) throws IOException {
        return read(path, path.toString(), question -> Optional.empty());
    }

    /**
     * The same, and asks for the passphrase of an SSH key or of a file of identities. For such a file one {@link #isLockedFile
     * identity} is returned, which stands for all that are in it.
     *
     * @param path the file, or a pipe
     * @param label what the file is called in questions and messages
     * @param passphrases asks the user. Several threads may open files, and one of them asks
     * @return the identities: close them
     * @throws KeyException as above
     * @throws IOException if it cannot be read
     */
    public static List<AgeIdentity> read(Path path, String label, Passphrases passphrases) throws IOException {
        try (SecretFile file = SecretFile.read(path, "it", LONGEST_FILE + 1)) {
            if (file.bytes().length > LONGEST_FILE) {
                throw new KeyException("it is too long for a file of recipients or identities");
            }
            if (isPublic(file.bytes())) {
                throw KeyException.publicKey();
            }
            file.checkPrivate();
            List<AgeIdentity> found = new ArrayList<>();
            try {
                if (isLockedFile(file.bytes())) {
                    found.add(new AgeIdentity(LockedIdentities.read(file.bytes(), label, passphrases)));
                } else if (isSsh(file.bytes())) {
                    found.add(ofSsh(SshPrivateKey.read(file.bytes()), label, passphrases));
                } else {
                    readLines(file.bytes(), found);
                }
                return List.copyOf(found);
            } catch (KeyException e) {
                found.forEach(AgeIdentity::close);
                throw e;
            }
        }
    }

    private static AgeIdentity ofSsh(SshPrivateKey key, String label, Passphrases passphrases) {
        AgeRecipient recipient = AgeRecipient.of(key.kind(), key.publicKey());
        return new AgeIdentity(key.kind(), recipient, key.secret(), new Lock(key, label, passphrases));
    }

    /** Adds what a file as age writes it holds. */
    static void readLines(byte[] file, List<AgeIdentity> found) throws KeyException {
        int number = 0;
        for (int at = 0, end; at < file.length; at = end + 1) {
            end = endOfLine(file, at);
            number++;
            byte[] line = bare(file, at, end);
            try {
                if (line.length == 0 || file[at] == '#') {
                    continue;
                }
                if (found.size() == MOST_IN_FILE) {
                    throw new KeyException("more than " + MOST_IN_FILE + " identities");
                }
                Optional<AgeIdentity> identity = decoded(line);
                if (identity.isEmpty()) {
                    throw new KeyException(why(line, number));
                }
                found.add(identity.get());
            } finally {
                Arrays.fill(line, (byte) 0);
            }
        }
        if (found.isEmpty()) {
            throw new KeyException("no identity is in it");
        }
    }

    /** Where a text begins after white space. */
    private static int start(byte[] file) {
        int at = 0;
        while (at < file.length && Character.isWhitespace(file[at])) {
            at++;
        }
        return at;
    }

    private static boolean isSsh(byte[] file) {
        return startsWith(file, start(file), SSH) && !isLockedFile(file);
    }

    private static boolean isLockedFile(byte[] file) {
        return LockedIdentities.isOne(file, start(file));
    }

    static boolean startsWith(byte[] file, int at, String start) {
        byte[] bytes = SshWire.ascii(start);
        return file.length - at >= bytes.length && Arrays.equals(file, at, at + bytes.length, bytes, 0, bytes.length);
    }

    /** Whether a file holds public keys and nothing else. Only then a string is made of it. */
    private static boolean isPublic(byte[] file) {
        return !isSsh(file) && !holdsSecret(file) && AgeRecipient.arePublic(new String(file, StandardCharsets.UTF_8));
    }

    /** Whether a line begins with the capital letters of a private key of age. */
    private static boolean holdsSecret(byte[] file) {
        for (int at = 0; at < file.length; at = endOfLine(file, at) + 1) {
            if (file[at] == 'A' && startsWith(file, at, "AGE-")) {
                return true;
            }
        }
        return false;
    }

    private static int endOfLine(byte[] text, int from) {
        int end = from;
        while (end < text.length && text[end] != '\n') {
            end++;
        }
        return end;
    }

    /** A copy without the white space around it. */
    private static byte[] bare(byte[] text, int from, int to) {
        int first = from;
        int last = to;
        while (first < last && Character.isWhitespace(text[first])) {
            first++;
        }
        while (first < last && Character.isWhitespace(text[last - 1])) {
            last--;
        }
        return Arrays.copyOfRange(text, first, last);
    }

    /** Why a line is not an identity. */
    private static String why(byte[] line, int number) {
        // A wrong identity is not made a string of.
        String start = new String(line, 0, Math.min(line.length, 11), StandardCharsets.US_ASCII);
        if (start.startsWith("AGE-PLUGIN-")) {
            return "line " + number + " is an identity of a plugin, which is not supported here";
        }
        if (start.startsWith("age1") || start.startsWith("ssh-")) {
            return "line " + number + " is a recipient: the identity is the secret that belongs to it";
        }
        return "line " + number + " is no identity";
    }

    /** Whether a text, in small letters, begins like a private key. */
    static boolean isSecret(String small) {
        return small.startsWith("age-secret-key-") || small.startsWith("age-plugin-") || small.startsWith("-----begin");
    }

    /**
     * Its public key.
     *
     * @return the recipient that it opens the files of
     * @throws IllegalStateException if it stands for a {@link #isLockedFile file with a passphrase}
     */
    public AgeRecipient recipient() {
        if (recipient == null) {
            throw new IllegalStateException("it is a file with a passphrase, whose public keys are not known");
        }
        return recipient;
    }

    /**
     * Whether it stands for a file of identities with a passphrase, instead of one key. Its passphrase is asked for once, if a file
     * may be for one of them and no other identity opens it.
     *
     * @return whether it does
     */
    public boolean isLockedFile() {
        return file != null;
    }

    /** Those in the file that it {@link #isLockedFile stands for}, once its passphrase was asked for. */
    List<AgeIdentity> inside() throws KeyException {
        return file.open();
    }

    KeyKind kind() {
        return kind;
    }

    /** Whether it is a key or a file with a passphrase, which may have been given since. */
    boolean hasPassphrase() {
        return isLockedFile() || lock != null && lock.key.hasPassphrase();
    }

    /** Whether a stanza may be for this identity. */
    boolean isNamedBy(AgeStanza stanza) {
        return kind.isFor(recipient.publicKey(), stanza);
    }

    /** The name of the file of an SSH key, for messages. */
    String label() {
        return lock.label;
    }

    /** Asks for the passphrase, unless that was done before. While one thread asks, the others wait. */
    void unlock() throws KeyException {
        synchronized (recipient) {
            if (lock == null || secret != null || closed) {
                return;
            }
            if (lock.refusal == null) {
                lock.refusal = ask();
            }
            if (lock.refusal != null) {
                throw new KeyException(lock.label + ": " + lock.refusal);
            }
        }
    }

    /** Why the key stays closed, or null. */
    private String ask() {
        Optional<byte[]> passphrase = asked(lock.passphrases, lock.label);
        if (passphrase.isEmpty()) {
            return "nobody could be asked for its passphrase";
        }
        try {
            secret = lock.key.open(passphrase.get()).orElse(null);
            return secret == null ? "the passphrase is wrong" : null;
        } finally {
            Arrays.fill(passphrase.get(), (byte) 0);
        }
    }

    /** The passphrase of what has this label, in UTF-8, if the user gives one. Wipe it. */
    static Optional<byte[]> asked(Passphrases passphrases, String label) {
        Optional<char[]> typed = passphrases.ask("Passphrase of " + label + ": ");
        return typed.map(characters -> {
            ByteBuffer encoded = StandardCharsets.UTF_8.encode(CharBuffer.wrap(characters));
            try {
                return Arrays.copyOf(encoded.array(), encoded.limit());
            } finally {
                Arrays.fill(characters, '\0');
                Arrays.fill(encoded.array(), (byte) 0);
            }
        });
    }

    /** The key of an age file, if the stanza, which names this identity, is for it. Wipe it. */
    Optional<byte[]> unwrap(AgeStanza stanza) throws AgeFile.Malformed {
        byte[] copy = copy();
        try {
            return kind.unwrap(copy, recipient.publicKey(), stanza);
        } finally {
            Arrays.fill(copy, (byte) 0);
        }
    }

    private byte[] copy() {
        synchronized (recipient) {
            if (closed || secret == null) {
                throw new IllegalStateException(closed ? "the identity is closed" : "its passphrase is missing");
            }
            return secret.clone();
        }
    }

    /** Whether both are the same key. One that stands for a file is equal to itself only. */
    @Override
    public boolean equals(Object other) {
        return this == other || other instanceof AgeIdentity identity && recipient != null && recipient.equals(identity.recipient);
    }

    @Override
    public int hashCode() {
        return Objects.hashCode(recipient);
    }

    /** Shows the recipient, and not the key. */
    @Override
    public String toString() {
        return "AgeIdentity[" + (isLockedFile() ? "a file with a passphrase" : recipient.brief()) + "]";
    }

    /** Overwrites the key. It cannot be used any more. */
    @Override
    public void close() {
        if (isLockedFile()) {
            file.close();
            return;
        }
        synchronized (recipient) {
            closed = true;
            if (secret != null) {
                Arrays.fill(secret, (byte) 0);
            }
        }
    }
}
