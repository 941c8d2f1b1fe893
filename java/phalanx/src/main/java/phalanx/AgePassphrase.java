package phalanx;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Optional;
import java.util.regex.Pattern;
import phalanx.primitives.ChaChaPoly;
import phalanx.primitives.Scrypt;

/** The stanza of a passphrase: <a href="https://c2sp.org/age">c2sp.org/age</a>, section "The scrypt recipient type". */
final class AgePassphrase {
    static final String TYPE = "scrypt";
    /** The most work: scrypt with 1 GiB. Age itself writes 18. As in the program {@code phalanx}. */
    private static final int MOST_WORK = 20;
    private static final Pattern WORK = Pattern.compile("[1-9][0-9]{0,8}");
    private static final byte[] LABEL = "age-encryption.org/v1/scrypt".getBytes(StandardCharsets.US_ASCII);
    private static final int SALT = 16;

    private AgePassphrase() {}

    /**
     * The key of the age file, if this is its passphrase. Wipe it.
     *
     * @throws KeyException if it costs too much work or memory
     */
    static Optional<byte[]> unwrap(AgeStanza stanza, byte[] passphrase) throws AgeFile.Malformed, KeyException {
        boolean hasForm = stanza.arguments().size() == 3 && WORK.matcher(stanza.arguments().get(2)).matches();
        byte[] salt = hasForm ? AgeFile.base64(stanza.arguments().get(1)) : new byte[0];
        if (salt.length != SALT || stanza.body().length != AgeFile.BODY) {
            throw new AgeFile.Malformed("a stanza of a passphrase with another form");
        }
        int work = Integer.parseInt(stanza.arguments().get(2));
        if (work > MOST_WORK) {
            throw new KeyException("its passphrase costs more work than scrypt with 1 GiB");
        }
        byte[] labelled = Arrays.copyOf(LABEL, LABEL.length + SALT);
        System.arraycopy(salt, 0, labelled, LABEL.length, SALT);
        byte[] wrap;
        try {
            wrap = Scrypt.derive(passphrase, labelled, work);
        } catch (OutOfMemoryError e) {
            throw new KeyException("its passphrase needs " + (1 << work) + " KiB of memory, which Java does not have");
        }
        try {
            return ChaChaPoly.open(wrap, new byte[ChaChaPoly.NONCE], stanza.body());
        } finally {
            Arrays.fill(wrap, (byte) 0);
        }
    }
}
