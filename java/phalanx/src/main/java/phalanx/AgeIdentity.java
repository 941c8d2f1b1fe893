package phalanx;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * A private key of age, which opens the files that were protected for its {@link AgeRecipient}: {@code AGE-SECRET-KEY-1…}, or the
 * post-quantum {@code AGE-SECRET-KEY-PQ-1…}.
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
 * <p>{@link #close} overwrites the key, as far as Java allows: see {@link PhalanxKey}.
 */
public final class AgeIdentity implements AutoCloseable {
    private static final int LONGEST_FILE = 1 << 20;
    private static final int MOST_IN_FILE = 256;
    /** A post-quantum identity has 77 characters. */
    private static final int LONGEST = 128;

    private final AgeKind kind;
    private final byte[] secret;
    private final AgeRecipient recipient;
    private boolean closed;

    private AgeIdentity(AgeKind kind, byte[] secret) {
        this.kind = kind;
        this.secret = secret;
        this.recipient = AgeRecipient.of(kind, kind.publicKey(secret));
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
                return Optional.of(new AgeIdentity(kind, decoded.get().bytes()));
            }
        }
        return Optional.empty();
    }

    /**
     * Reads a file of identities as age writes it: one on each line. Empty lines and lines that begin with # are ignored.
     *
     * @param path the file, or a pipe
     * @return the identities: close them
     * @throws KeyException if others could read or change the file, or if it does not hold 1 to 256 identities and nothing else.
     *     SSH keys, identities of plugins and files with a passphrase are not supported here
     * @throws IOException if it cannot be read
     */
    public static List<AgeIdentity> read(Path path) throws IOException {
        try (SecretFile file = SecretFile.read(path, "it", LONGEST_FILE + 1)) {
            if (file.bytes().length > LONGEST_FILE) {
                throw new KeyException("a file of identities has at most " + LONGEST_FILE + " bytes");
            }
            List<AgeIdentity> found = new ArrayList<>();
            try {
                readLines(file.bytes(), found);
                file.checkPrivate();
                return List.copyOf(found);
            } catch (KeyException e) {
                found.forEach(AgeIdentity::close);
                throw e;
            }
        }
    }

    private static void readLines(byte[] file, List<AgeIdentity> found) throws KeyException {
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
        if (start.startsWith("-----BEGIN ") || start.startsWith("age-encrypt")) {
            return "SSH keys and files with a passphrase are not supported here";
        }
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
     */
    public AgeRecipient recipient() {
        return recipient;
    }

    AgeKind kind() {
        return kind;
    }

    /** The key of an age file, if it is for this identity. Wipe it. */
    Optional<byte[]> unwrap(AgeKind.Sent sent) throws AgeFile.Malformed {
        byte[] copy = copy();
        try {
            return kind.unwrap(copy, recipient.publicKey(), sent);
        } finally {
            Arrays.fill(copy, (byte) 0);
        }
    }

    private byte[] copy() {
        synchronized (secret) {
            if (closed) {
                throw new IllegalStateException("the identity is closed");
            }
            return secret.clone();
        }
    }

    /** Whether both are the same key. */
    @Override
    public boolean equals(Object other) {
        return other instanceof AgeIdentity identity && recipient.equals(identity.recipient);
    }

    @Override
    public int hashCode() {
        return recipient.hashCode();
    }

    /** Shows the recipient, and not the key. */
    @Override
    public String toString() {
        return "AgeIdentity[" + recipient.brief() + "]";
    }

    /** Overwrites the key. It cannot be used any more. */
    @Override
    public void close() {
        synchronized (secret) {
            closed = true;
            Arrays.fill(secret, (byte) 0);
        }
    }
}
