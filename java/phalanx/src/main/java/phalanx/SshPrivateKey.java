package phalanx;

import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.Base64;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.bouncycastle.asn1.pkcs.RSAPrivateKey;
import phalanx.primitives.BcryptPbkdf;
import phalanx.primitives.Ed25519;
import phalanx.primitives.RsaOaep;

/**
 * A private key of SSH from its text: one of OpenSSH (PROTOCOL.key in its source), with or without a passphrase, or one of RSA as PEM
 * without a passphrase.
 */
final class SshPrivateKey {
    /** The most work for a passphrase, some minutes. {@code ssh-keygen} itself takes 24 rounds. */
    private static final int MOST_ROUNDS = 10_000;

    private static final String KIND = "SSH keys of this kind cannot be identities (ssh-ed25519 and ssh-rsa can)";
    private static final String UNREADABLE = "not an SSH key that can be read";
    /** The longest text of a key, in bytes and lines: several times what a key of RSA with 16,384 bits takes. As in the program {@code phalanx}. */
    private static final int MOST_TEXT = 64 << 10;
    private static final int MOST_LINES = 1024;
    private static final String OPENSSH = "OPENSSH PRIVATE KEY";
    private static final String PEM = "RSA PRIVATE KEY";
    private static final byte[] MAGIC = SshWire.ascii("openssh-key-v1\0");
    private static final int GCM_TAG = 16;
    private static final int LONGEST_NAME = 64;

    private final SshKind kind;
    private final byte[] publicKey;
    private final byte[] secret;
    private final Locked locked;

    private SshPrivateKey(SshKind kind, byte[] publicKey, byte[] secret, Locked locked) {
        this.kind = kind;
        this.publicKey = publicKey;
        this.secret = secret;
        this.locked = locked;
    }

    /** What a passphrase opens. */
    private record Locked(SshCipher cipher, byte[] salt, int rounds, byte[] encrypted) {}

    /** The ciphers of private keys: those that the program phalanx knows. */
    private record SshCipher(String transformation, int key, int iv, boolean isAuthenticated) {}

    private static final Map<String, SshCipher> CIPHERS = Map.of(
            "aes256-cbc", new SshCipher("AES/CBC/NoPadding", 32, 16, false),
            "aes128-ctr", new SshCipher("AES/CTR/NoPadding", 16, 16, false),
            "aes192-ctr", new SshCipher("AES/CTR/NoPadding", 24, 16, false),
            "aes256-ctr", new SshCipher("AES/CTR/NoPadding", 32, 16, false),
            "aes256-gcm@openssh.com", new SshCipher("AES/GCM/NoPadding", 32, 12, true));

    /** Reads a key. The message of a failure repeats nothing of it but the name of a cipher. */
    static SshPrivateKey read(byte[] text) throws KeyException {
        if (text.length > MOST_TEXT || lines(text) > MOST_LINES) {
            throw new KeyException(UNREADABLE);
        }
        try {
            Optional<byte[]> openSsh = unarmored(text, OPENSSH);
            if (openSsh.isPresent()) {
                return ofOpenSsh(openSsh.get());
            }
            return ofPem(unarmored(text, PEM).orElseThrow(() -> new KeyException(UNREADABLE)));
        } catch (SshWire.Malformed e) {
            throw new KeyException(UNREADABLE);
        }
    }

    private static int lines(byte[] text) {
        int lines = 0;
        for (byte each : text) {
            lines += each == '\n' ? 1 : 0;
        }
        return lines;
    }

    /** What is between the first and the last line of an armored text with this title. */
    private static Optional<byte[]> unarmored(byte[] text, String title) throws KeyException {
        int at = after(text, 0, "-----BEGIN " + title + "-----");
        if (at < 0) {
            return Optional.empty();
        }
        if (title.equals(PEM) && after(text, at, "Proc-Type: 4,ENCRYPTED") > 0) {
            throw new KeyException("an old form of SSH key with a passphrase (ssh-keygen -p makes a new one of it)");
        }
        byte[] base64 = new byte[text.length];
        int length = 0;
        String end = "-----END " + title + "-----";
        while (!startsWith(text, at, end)) {
            int next = after(text, at, "");
            if (next < 0) {
                Arrays.fill(base64, (byte) 0);
                return Optional.empty();
            }
            int line = next - 1 - (text[Math.max(at, next - 2)] == '\r' ? 1 : 0) - at;
            System.arraycopy(text, at, base64, length, line);
            length += line;
            at = next;
        }
        byte[] bare = Arrays.copyOf(base64, length);
        Arrays.fill(base64, (byte) 0);
        try {
            return Optional.of(Base64.getDecoder().decode(bare));
        } catch (IllegalArgumentException e) {
            return Optional.empty();
        } finally {
            Arrays.fill(bare, (byte) 0);
        }
    }

    /** Where the line after the one begins that starts with this text, or −1. Without a text, any line will do. */
    private static int after(byte[] text, int at, String start) {
        if (!startsWith(text, at, start)) {
            return -1;
        }
        int end = at;
        while (end < text.length && text[end] != '\n') {
            end++;
        }
        return end < text.length ? end + 1 : -1;
    }

    private static boolean startsWith(byte[] text, int at, String start) {
        byte[] bytes = SshWire.ascii(start);
        return text.length - at >= bytes.length && Arrays.equals(text, at, at + bytes.length, bytes, 0, bytes.length);
    }

    private static SshPrivateKey ofPem(byte[] der) throws KeyException {
        try {
            RSAPrivateKey key = RSAPrivateKey.getInstance(der);
            byte[] secret = SshWire.fields(
                    key.getModulus().toByteArray(), key.getPublicExponent().toByteArray(), key.getPrivateExponent().toByteArray(),
                    key.getCoefficient().toByteArray(), key.getPrime1().toByteArray(), key.getPrime2().toByteArray());
            if (rsa(secret).isPresent()) {
                return opened(SshKind.RSA.publicKey(secret), new Secret(SshKind.RSA, secret));
            }
        } catch (RuntimeException | StackOverflowError e) {
            // It is no such structure. Bouncy Castle has several exceptions for that, and reads nested ones by recursion.
        } finally {
            Arrays.fill(der, (byte) 0);
        }
        throw new KeyException(UNREADABLE);
    }

    private static SshPrivateKey ofOpenSsh(byte[] bytes) throws SshWire.Malformed, KeyException {
        try {
            SshWire fields = SshWire.of(bytes);
            if (!Arrays.equals(fields.bytes(MAGIC.length), MAGIC)) {
                throw new SshWire.Malformed();
            }
            String cipher = fields.text();
            String derivation = fields.text();
            byte[] parameters = fields.field();
            if (fields.number() != 1) {
                throw new SshWire.Malformed();
            }
            byte[] publicKey = fields.field();
            if (cipher.equals("none") && derivation.equals("none") && parameters.length == 0) {
                byte[] list = fields.field();
                try {
                    return opened(publicKey, secret(list));
                } finally {
                    Arrays.fill(list, (byte) 0);
                }
            }
            if (!derivation.equals("bcrypt")) {
                throw new SshWire.Malformed();
            }
            return locked(cipher, SshWire.of(parameters), publicKey, fields);
        } finally {
            Arrays.fill(bytes, (byte) 0);
        }
    }

    private static SshPrivateKey opened(byte[] publicKey, Secret found) throws KeyException {
        boolean isPair = Arrays.equals(publicKey, found.kind.publicKey(found.bytes));
        Optional<SshKind> kind = SshKind.of(publicKey);
        if (!isPair || kind.isEmpty()) {
            Arrays.fill(found.bytes, (byte) 0);
            throw new KeyException(isPair ? KIND : UNREADABLE);
        }
        check(kind.get(), publicKey);
        return new SshPrivateKey(kind.get(), publicKey, found.bytes, null);
    }

    private static void check(SshKind kind, byte[] publicKey) throws KeyException {
        if (kind.modulusBits(publicKey) > SshKind.MOST_RSA_BITS) {
            throw new KeyException(KIND);
        }
    }

    private static SshPrivateKey locked(String name, SshWire parameters, byte[] publicKey, SshWire rest)
            throws SshWire.Malformed, KeyException {
        byte[] salt = parameters.field();
        long rounds = Integer.toUnsignedLong(parameters.number());
        SshCipher cipher = CIPHERS.get(name);
        if (salt.length == 0 || rounds == 0) {
            throw new SshWire.Malformed();
        }
        if (rounds > MOST_ROUNDS) {
            throw new KeyException("its passphrase costs more work than " + MOST_ROUNDS
                    + " rounds of bcrypt (ssh-keygen -p -a 100 changes it)");
        }
        // The length is that of the ciphertext without its tag.
        byte[] encrypted = rest.field();
        if (cipher == null) {
            throw new KeyException("an SSH key whose passphrase is for the cipher " + shown(name)
                    + ", which this program does not know (ssh-keygen -p -Z aes256-ctr changes it)");
        }
        if (cipher.isAuthenticated) {
            encrypted = Arrays.copyOf(encrypted, encrypted.length + GCM_TAG);
            System.arraycopy(rest.bytes(GCM_TAG), 0, encrypted, encrypted.length - GCM_TAG, GCM_TAG);
        }
        SshKind kind = SshKind.of(publicKey).orElseThrow(() -> new KeyException(KIND));
        check(kind, publicKey);
        return new SshPrivateKey(kind, publicKey, null, new Locked(cipher, salt, (int) rounds, encrypted));
    }

    private static String shown(String name) {
        String graphic = name.chars().filter(c -> c > ' ' && c <= '~')
                .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append).toString();
        return graphic.substring(0, Math.min(graphic.length(), LONGEST_NAME));
    }

    /** A private key as {@link SshKind} takes it. */
    private record Secret(SshKind kind, byte[] bytes) {}

    /** The key in a decrypted list of keys, which has one. */
    private static Secret secret(byte[] list) throws SshWire.Malformed, KeyException {
        SshWire fields = SshWire.of(list);
        // It is there twice, so that a wrong passphrase shows.
        if (fields.number() != fields.number()) {
            throw new SshWire.Malformed();
        }
        String type = fields.text();
        Optional<Secret> found = Optional.empty();
        try {
            if (type.equals(SshKind.ED25519.type())) {
                found = ed25519(fields);
            } else if (type.equals(SshKind.RSA.type())) {
                found = rsa(fields);
            }
        } catch (SshWire.Malformed e) {
            // The type is known, but not what follows it.
        }
        if (found.isPresent() && hasEnd(fields)) {
            return found.get();
        }
        throw new KeyException(type.toLowerCase(Locale.ROOT).startsWith("sk-ssh-") ? "SSH keys in hardware cannot be identities" : KIND);
    }

    /** Whether a comment and the padding 1, 2, 3 … follow. */
    private static boolean hasEnd(SshWire fields) {
        try {
            fields.field();
        } catch (SshWire.Malformed e) {
            return false;
        }
        byte[] padding = fields.rest();
        for (int i = 0; i < padding.length; i++) {
            if (padding[i] != (byte) (i + 1)) {
                return false;
            }
        }
        return true;
    }

    private static Optional<Secret> ed25519(SshWire fields) throws SshWire.Malformed {
        byte[] point = fields.field();
        byte[] both = fields.field();
        try {
            boolean isPair = both.length == 2 * Ed25519.BYTES
                    && Arrays.equals(point, Arrays.copyOfRange(both, Ed25519.BYTES, both.length));
            return isPair ? Optional.of(new Secret(SshKind.ED25519, Arrays.copyOf(both, Ed25519.BYTES))) : Optional.empty();
        } finally {
            Arrays.fill(both, (byte) 0);
        }
    }

    private static Optional<Secret> rsa(SshWire fields) throws SshWire.Malformed {
        byte[][] numbers = new byte[6][];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = fields.field();
        }
        byte[] secret = SshWire.fields(numbers);
        Arrays.stream(numbers).forEach(each -> Arrays.fill(each, (byte) 0));
        return rsa(secret).map(key -> new Secret(SshKind.RSA, secret));
    }

    /** The key of six numbers, if they belong together: n, e, d, q⁻¹ mod p, p and q. */
    static Optional<RsaOaep.PrivateKey> rsa(byte[] secret) {
        try {
            SshWire fields = SshWire.of(secret);
            BigInteger[] numbers = new BigInteger[6];
            for (int i = 0; i < numbers.length; i++) {
                numbers[i] = fields.positive();
            }
            RsaOaep.PrivateKey key = new RsaOaep.PrivateKey(numbers[0], numbers[1], numbers[2], numbers[4], numbers[5]);
            boolean isShort = numbers[0].bitLength() <= SshKind.MOST_RSA_BITS;
            return isShort && key.isConsistent() ? Optional.of(key) : Optional.empty();
        } catch (SshWire.Malformed e) {
            return Optional.empty();
        }
    }

    SshKind kind() {
        return kind;
    }

    byte[] publicKey() {
        return publicKey;
    }

    boolean hasPassphrase() {
        return locked != null;
    }

    /** The private key, if it has no passphrase. */
    byte[] secret() {
        return secret;
    }

    /** The private key, if this is the passphrase. */
    Optional<byte[]> open(byte[] passphrase) {
        if (passphrase.length == 0) {
            return Optional.empty();
        }
        SshCipher cipher = locked.cipher;
        byte[] derived = BcryptPbkdf.derive(passphrase, locked.salt, locked.rounds, cipher.key + cipher.iv);
        byte[] list = new byte[0];
        try {
            list = decrypt(cipher, derived, locked.encrypted);
            Secret found = secret(list);
            if (Arrays.equals(publicKey, found.kind.publicKey(found.bytes))) {
                return Optional.of(found.bytes);
            }
            Arrays.fill(found.bytes, (byte) 0);
            return Optional.empty();
        } catch (GeneralSecurityException | SshWire.Malformed | KeyException e) {
            return Optional.empty();
        } finally {
            Arrays.fill(derived, (byte) 0);
            Arrays.fill(list, (byte) 0);
        }
    }

    private static byte[] decrypt(SshCipher cipher, byte[] derived, byte[] encrypted) throws GeneralSecurityException {
        SecretKeySpec key = new SecretKeySpec(derived, 0, cipher.key, "AES");
        var iv = cipher.isAuthenticated
                ? new GCMParameterSpec(8 * GCM_TAG, derived, cipher.key, cipher.iv)
                : new IvParameterSpec(derived, cipher.key, cipher.iv);
        Cipher aes = Cipher.getInstance(cipher.transformation);
        aes.init(Cipher.DECRYPT_MODE, key, iv);
        return aes.doFinal(encrypted);
    }
}
