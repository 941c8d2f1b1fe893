package phalanx;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Optional;
import phalanx.primitives.ChaChaPoly;
import phalanx.primitives.Hkdf;

/**
 * An age file, version 1, that may be in a slot: docs/format.md, section 4, and <a href="https://c2sp.org/age">c2sp.org/age</a>.
 * Reading it takes time in proportion to its length.
 */
final class AgeFile {
    /** One stanza belongs to the recipient, but some programs add others. */
    static final int MOST_STANZAS = 8;

    /** What every version begins with. */
    static final String BEGIN = "age-encryption.org/";

    private static final String VERSION = BEGIN + "v1";
    private static final String STANZA = "-> ";
    private static final String END = "---";
    /** Characters of a stanza's whole line of Base64. */
    private static final int LINE = 64;
    /** The length of an age file's own key. */
    static final int KEY = 16;
    /** The length of a stanza's body, if a cipher with a tag has made it. */
    static final int BODY = KEY + ChaChaPoly.TAG;
    private static final int NONCE = 16;
    private static final int LONGEST_OUTLINE = 40;
    /** After the header: a nonce, the 32 bytes of the file key, and a tag. */
    private static final int PAYLOAD = NONCE + PhalanxKey.BYTES + ChaChaPoly.TAG;
    /** The length of a payload's chunks but the last one. */
    private static final int CHUNK = 64 << 10;

    private static final SecureRandom RANDOM = new SecureRandom();

    private final List<AgeStanza> stanzas;
    private final byte[] authenticated;
    private final byte[] mac;
    private final byte[] payload;

    private AgeFile(List<AgeStanza> stanzas, byte[] authenticated, byte[] mac, byte[] payload) {
        this.stanzas = stanzas;
        this.authenticated = authenticated;
        this.mac = mac;
        this.payload = payload;
    }

    /** It is not an age file that may be in a slot, or a stanza breaks the rules of its type. Slots with one are passed over. */
    static final class Malformed extends Exception {
        private static final long serialVersionUID = 1L;

        Malformed(String why) {
            super(why);
        }
    }

    /** The age file in a slot. Nothing is derived or decrypted. */
    static AgeFile ofSlot(byte[] bytes) throws Malformed {
        AgeFile file = parse(bytes);
        if (file.isOfPassphrase()) {
            throw new Malformed("a passphrase");
        }
        if (file.payload.length != PAYLOAD) {
            throw new Malformed("its payload is not a file key");
        }
        return file;
    }

    /** An age file with a payload of any length. */
    static AgeFile parse(byte[] bytes) throws Malformed {
        Lines lines = new Lines(bytes);
        if (!lines.next().equals(VERSION)) {
            throw new Malformed("not an age file of version 1");
        }
        List<AgeStanza> stanzas = new ArrayList<>();
        int end = lines.at;
        String line = lines.next();
        while (line.startsWith(STANZA)) {
            if (stanzas.size() == MOST_STANZAS) {
                throw new Malformed("too many stanzas");
            }
            stanzas.add(stanza(line, lines));
            end = lines.at;
            line = lines.next();
        }
        if (!line.startsWith(END + " ") || stanzas.isEmpty()) {
            throw new Malformed("no stanzas, or no end of the header");
        }
        if (stanzas.size() > 1 && stanzas.stream().anyMatch(AgeFile::isOfPassphrase)) {
            throw new Malformed("a passphrase beside other stanzas");
        }
        byte[] mac = base64(line.substring(END.length() + 1));
        if (mac.length != Hkdf.BYTES) {
            throw new Malformed("an authentication code of the wrong length");
        }
        byte[] authenticated = Arrays.copyOf(bytes, end + END.length());
        return new AgeFile(stanzas, authenticated, mac, Arrays.copyOfRange(bytes, lines.at, bytes.length));
    }

    private static AgeStanza stanza(String first, Lines lines) throws Malformed {
        List<String> arguments = List.of(first.substring(STANZA.length()).split(" ", -1));
        for (String argument : arguments) {
            if (argument.isEmpty() || !argument.chars().allMatch(c -> c > ' ' && c <= '~')) {
                throw new Malformed("a stanza with a character that is not allowed");
            }
        }
        StringBuilder body = new StringBuilder();
        String line;
        do {
            line = lines.next();
            if (line.length() > LINE) {
                throw new Malformed("a stanza with a long line");
            }
            body.append(line);
        } while (line.length() == LINE);
        return new AgeStanza(arguments, base64(body.toString()));
    }

    /** Decodes Base64 that has no padding and no other form. */
    static byte[] base64(String text) throws Malformed {
        try {
            byte[] bytes = Base64.getDecoder().decode(text);
            if (encoded(bytes).equals(text)) {
                return bytes;
            }
        } catch (IllegalArgumentException e) {
            // The same failure as for another form.
        }
        throw new Malformed("Base64 that is not canonical");
    }

    /** Base64 without padding. */
    static String encoded(byte[] bytes) {
        return Base64.getEncoder().withoutPadding().encodeToString(bytes);
    }

    /** The lines of a header. */
    private static final class Lines {
        private final byte[] bytes;
        private int at;

        Lines(byte[] bytes) {
            this.bytes = bytes;
        }

        /** The next line, without its end. */
        String next() throws Malformed {
            for (int end = at; end < bytes.length; end++) {
                if (bytes[end] == '\n') {
                    String line = new String(bytes, at, end - at, StandardCharsets.ISO_8859_1);
                    at = end + 1;
                    return line;
                }
            }
            throw new Malformed("its header is cut");
        }
    }

    private static boolean isOfPassphrase(AgeStanza stanza) {
        return stanza.type().equals(AgePassphrase.TYPE);
    }

    /** Whether a passphrase opens it. Then nothing else does. */
    boolean isOfPassphrase() {
        return isOfPassphrase(stanzas.get(0));
    }

    /** Whether all its stanzas are for SSH keys, or for nobody. */
    boolean isOnlyForSsh() {
        return stanzas.stream().allMatch(stanza -> stanza.type().startsWith("ssh-") || isForNobody(stanza));
    }

    private static boolean isForNobody(AgeStanza stanza) {
        return stanza.type().endsWith("-grease");
    }

    /** How many of its stanzas may be for this identity: none if one of them does not have the form that age gives it. */
    int stanzasFor(AgeIdentity identity) {
        List<AgeStanza> own = stanzas.stream().filter(identity::isNamedBy).toList();
        return own.stream().allMatch(identity.kind()::hasFormOfAge) ? own.size() : 0;
    }

    /** The types of its stanzas, with the tags of SSH keys. */
    List<String> outlines() {
        return stanzas.stream().filter(stanza -> !isForNobody(stanza)).map(AgeFile::outline).toList();
    }

    private static String outline(AgeStanza stanza) {
        boolean hasTag = stanza.arguments().size() > 1
                && (stanza.type().equals(SshKind.ED25519.type()) || stanza.type().equals(SshKind.RSA.type()));
        String outline = hasTag ? stanza.type() + " " + stanza.arguments().get(1) : stanza.type();
        return outline.substring(0, Math.min(outline.length(), LONGEST_OUTLINE));
    }

    /** The content, if this identity opens the file. Wipe it. */
    Optional<byte[]> open(AgeIdentity identity) throws Malformed {
        if (stanzasFor(identity) == 0) {
            return Optional.empty();
        }
        for (AgeStanza stanza : stanzas) {
            if (!identity.isNamedBy(stanza)) {
                continue;
            }
            Optional<byte[]> key = identity.unwrap(stanza);
            if (key.isPresent()) {
                return Optional.of(content(key.get()));
            }
            if (identity.kind().showsRecipients()) {
                break;
            }
        }
        return Optional.empty();
    }

    /**
     * The content of a file {@link #isOfPassphrase of a passphrase}, if this is it. Wipe it.
     *
     * @throws KeyException if it costs too much work or memory
     */
    Optional<byte[]> open(byte[] passphrase) throws Malformed, KeyException {
        Optional<byte[]> key = AgePassphrase.unwrap(stanzas.get(0), passphrase);
        return key.isPresent() ? Optional.of(content(key.get())) : Optional.empty();
    }

    /** The content, by the key of the file, which is overwritten. */
    private byte[] content(byte[] key) throws Malformed {
        byte[] payloadKey = new byte[0];
        try {
            if (!MessageDigest.isEqual(mac(key, authenticated), mac)) {
                throw new Malformed("its header is not authentic");
            }
            if (payload.length < NONCE) {
                throw new Malformed("its payload is cut");
            }
            payloadKey = Hkdf.derive(key, Arrays.copyOf(payload, NONCE), "payload".getBytes(StandardCharsets.US_ASCII));
            return opened(payloadKey);
        } finally {
            Arrays.fill(key, (byte) 0);
            Arrays.fill(payloadKey, (byte) 0);
        }
    }

    /** What is in the chunks. The last one is empty only if it is the first. */
    private byte[] opened(byte[] payloadKey) throws Malformed {
        int stored = payload.length - NONCE;
        int chunks = Math.max(1, (stored + CHUNK + ChaChaPoly.TAG - 1) / (CHUNK + ChaChaPoly.TAG));
        int last = stored - (chunks - 1) * (CHUNK + ChaChaPoly.TAG) - ChaChaPoly.TAG;
        if (last < 0 || last == 0 && chunks > 1) {
            throw new Malformed("its payload is cut");
        }
        byte[] content = new byte[(chunks - 1) * CHUNK + last];
        for (int i = 0; i < chunks; i++) {
            int from = NONCE + i * (CHUNK + ChaChaPoly.TAG);
            boolean isLast = i == chunks - 1;
            byte[] chunk = Arrays.copyOfRange(payload, from, from + (isLast ? last : CHUNK) + ChaChaPoly.TAG);
            Optional<byte[]> opened = ChaChaPoly.open(payloadKey, chunkNonce(i, isLast), chunk);
            if (opened.isEmpty()) {
                Arrays.fill(content, (byte) 0);
                throw new Malformed("its payload is not authentic");
            }
            System.arraycopy(opened.get(), 0, content, i * CHUNK, opened.get().length);
            Arrays.fill(opened.get(), (byte) 0);
        }
        return content;
    }

    /** A chunk's number, and whether it is the last one. */
    private static byte[] chunkNonce(int number, boolean isLast) {
        return ByteBuffer.allocate(ChaChaPoly.NONCE).putInt(7, number).put(11, (byte) (isLast ? 1 : 0)).array();
    }

    private static byte[] mac(byte[] key, byte[] authenticated) {
        byte[] macKey = Hkdf.derive(key, new byte[0], "header".getBytes(StandardCharsets.US_ASCII));
        try {
            return Hkdf.mac(macKey, authenticated);
        } finally {
            Arrays.fill(macKey, (byte) 0);
        }
    }

    /** A new age file for one recipient, with a file key as its content. */
    static byte[] make(AgeRecipient recipient, byte[] fileKey) {
        byte[] key = random(KEY);
        byte[] nonce = random(NONCE);
        byte[] payloadKey = Hkdf.derive(key, nonce, "payload".getBytes(StandardCharsets.US_ASCII));
        try {
            byte[] header = header(recipient.wrap(key)).getBytes(StandardCharsets.US_ASCII);
            byte[] end = (" " + encoded(mac(key, header)) + "\n").getBytes(StandardCharsets.US_ASCII);
            byte[] file = Arrays.copyOf(header, header.length + end.length + PAYLOAD);
            System.arraycopy(end, 0, file, header.length, end.length);
            System.arraycopy(nonce, 0, file, file.length - PAYLOAD, NONCE);
            byte[] chunk = ChaChaPoly.seal(payloadKey, chunkNonce(0, true), fileKey);
            System.arraycopy(chunk, 0, file, file.length - chunk.length, chunk.length);
            return file;
        } finally {
            Arrays.fill(key, (byte) 0);
            Arrays.fill(payloadKey, (byte) 0);
        }
    }

    /** The header up to its authentication code. The last line of a body is shorter than the others, or empty. */
    private static String header(AgeStanza stanza) {
        StringBuilder header = new StringBuilder(VERSION + "\n" + STANZA + String.join(" ", stanza.arguments()) + "\n");
        String body = encoded(stanza.body());
        int whole = body.length() / LINE * LINE;
        for (int at = 0; at < whole; at += LINE) {
            header.append(body, at, at + LINE).append('\n');
        }
        return header.append(body, whole, body.length()).append('\n').append(END).toString();
    }

    /** The length of a file that {@link #make} makes with a stanza like this one. */
    static int length(AgeStanza stanza) {
        int end = 1 + encoded(new byte[Hkdf.BYTES]).length() + 1;
        return header(stanza).length() + end + PAYLOAD;
    }

    private static byte[] random(int length) {
        byte[] bytes = new byte[length];
        RANDOM.nextBytes(bytes);
        return bytes;
    }
}
