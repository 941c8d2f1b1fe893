package phalanx;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import phalanx.primitives.Argon2id;
import phalanx.primitives.Kmac;

/**
 * A password, as bytes. {@link #close} overwrites it, and the keys that were derived from it, as far as Java allows: see
 * {@link PhalanxKey}.
 */
public final class Password implements AutoCloseable {
    /** The number of derived keys that are kept: files that were protected in one run often have one salt. */
    private static final int KEPT = 16;

    private record Parameters(String salt, int kibibytes, int passes, int lanes) {}

    private final byte[] bytes;
    private final Map<Parameters, byte[]> derived = new HashMap<>();
    private boolean closed;

    private Password(byte[] bytes) {
        this.bytes = bytes;
    }

    /**
     * A password of these bytes.
     *
     * @param bytes the password, which is copied: wipe yours
     * @return the password
     */
    public static Password of(byte[] bytes) {
        return new Password(bytes.clone());
    }

    /**
     * A password of these characters, in UTF-8.
     *
     * @param characters the password, which is copied: wipe yours
     * @return the password
     */
    public static Password of(char[] characters) {
        ByteBuffer encoded = StandardCharsets.UTF_8.encode(CharBuffer.wrap(characters));
        byte[] bytes = new byte[encoded.remaining()];
        encoded.get(bytes);
        Arrays.fill(encoded.array(), (byte) 0);
        return new Password(bytes);
    }

    /**
     * The password in an environment variable: its raw bytes on Linux. Elsewhere its characters, in UTF-8.
     *
     * @param name the variable's name
     * @return the password, which may be empty, or nothing if the variable is not set
     */
    public static Optional<Password> ofVariable(String name) {
        String text = System.getenv(name);
        if (text == null) {
            return Optional.empty();
        }
        try {
            byte[] all = Files.readAllBytes(Path.of("/proc/self/environ"));
            try {
                byte[] start = (name + "=").getBytes(StandardCharsets.UTF_8);
                for (int at = 0; at < all.length; ) {
                    int end = at;
                    while (end < all.length && all[end] != 0) {
                        end++;
                    }
                    if (end - at >= start.length && Arrays.equals(all, at, at + start.length, start, 0, start.length)) {
                        return Optional.of(new Password(Arrays.copyOfRange(all, at + start.length, end)));
                    }
                    at = end + 1;
                }
            } finally {
                Arrays.fill(all, (byte) 0);
            }
        } catch (IOException e) {
            // Not Linux.
        }
        return Optional.of(of(text.toCharArray()));
    }

    /**
     * Whether it has no bytes. The library refuses to protect with such a password.
     *
     * @return whether it is empty
     */
    public boolean isEmpty() {
        return bytes.length == 0;
    }

    /** Derives the key-encrypting key of a slot. The caller wipes it. */
    synchronized byte[] kek(byte[] salt, int kibibytes, int passes, int lanes) throws KeyDerivationException {
        if (closed) {
            throw new IllegalStateException("the password is closed");
        }
        Parameters parameters = new Parameters(new KeyId(salt).toString(), kibibytes, passes, lanes);
        byte[] known = derived.get(parameters);
        if (known != null) {
            return known.clone();
        }
        byte[] stretched;
        try {
            stretched = Argon2id.derive(bytes, salt, kibibytes, passes, lanes);
        } catch (OutOfMemoryError e) {
            throw KeyDerivationException.memory(kibibytes);
        }
        byte[] kek = Kmac.of(stretched, new byte[0], 32, "phalanx v1 key wrap");
        Arrays.fill(stretched, (byte) 0);
        if (derived.size() == KEPT) {
            forget();
        }
        derived.put(parameters, kek);
        return kek.clone();
    }

    private void forget() {
        derived.values().forEach(kek -> Arrays.fill(kek, (byte) 0));
        derived.clear();
    }

    /** Whether both are the same password, compared in constant time. */
    @Override
    public boolean equals(Object other) {
        return other instanceof Password password && MessageDigest.isEqual(bytes, password.bytes);
    }

    /** The same value for all passwords, so that it reveals nothing. */
    @Override
    public int hashCode() {
        return Password.class.hashCode();
    }

    /** Does not show the password. */
    @Override
    public String toString() {
        return "Password[…]";
    }

    /** Overwrites the password. It cannot be used any more. */
    @Override
    public synchronized void close() {
        closed = true;
        Arrays.fill(bytes, (byte) 0);
        forget();
    }
}
