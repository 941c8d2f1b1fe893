package phalanx;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/** A file of identities that is encrypted with a passphrase, which is asked for once. Several threads may use it. */
final class LockedIdentities implements AutoCloseable {
    private final AgeFile file;
    private final String label;
    private final AgeIdentity.Passphrases passphrases;
    /** What is in it, once it is open. */
    private List<AgeIdentity> identities;
    /** Why it stays closed, or null. */
    private String refusal;
    private boolean closed;

    private LockedIdentities(AgeFile file, String label, AgeIdentity.Passphrases passphrases) {
        this.file = file;
        this.label = label;
        this.passphrases = passphrases;
    }

    /** Whether a file of identities begins like one. */
    static boolean isOne(byte[] bytes, int at) {
        return AgeIdentity.startsWith(bytes, at, AgeArmor.BEGIN) || AgeIdentity.startsWith(bytes, at, AgeFile.BEGIN);
    }

    /** Reads one, armored or not. Nothing is derived or decrypted. */
    static LockedIdentities read(byte[] bytes, String label, AgeIdentity.Passphrases passphrases) throws KeyException {
        try {
            AgeFile file = AgeFile.parse(AgeIdentity.startsWith(bytes, 0, AgeFile.BEGIN) ? bytes : AgeArmor.decode(bytes));
            if (!file.isOfPassphrase()) {
                throw new KeyException("an age file without a passphrase cannot hold identities");
            }
            return new LockedIdentities(file, label, passphrases);
        } catch (AgeFile.Malformed e) {
            throw new KeyException("no identity is in it");
        }
    }

    /** What is in it. While one thread asks for the passphrase, the others wait for the answer. */
    synchronized List<AgeIdentity> open() throws KeyException {
        if (closed) {
            throw new IllegalStateException("the identity is closed");
        }
        if (identities == null && refusal == null) {
            try {
                identities = ask();
            } catch (KeyException e) {
                refusal = e.getMessage();
            }
        }
        if (refusal != null) {
            throw new KeyException(label + ": " + refusal);
        }
        return identities;
    }

    private List<AgeIdentity> ask() throws KeyException {
        byte[] passphrase = AgeIdentity.asked(passphrases, label)
                .orElseThrow(() -> new KeyException("nobody could be asked for its passphrase"));
        try {
            Optional<byte[]> content = file.open(passphrase);
            return identities(content.orElseThrow(() -> new KeyException("the passphrase is wrong")));
        } catch (AgeFile.Malformed e) {
            throw new KeyException("it is damaged");
        } finally {
            Arrays.fill(passphrase, (byte) 0);
        }
    }

    private static List<AgeIdentity> identities(byte[] content) throws KeyException {
        List<AgeIdentity> found = new ArrayList<>();
        try {
            AgeIdentity.readLines(content, found);
            return List.copyOf(found);
        } catch (KeyException e) {
            found.forEach(AgeIdentity::close);
            throw e;
        } finally {
            Arrays.fill(content, (byte) 0);
        }
    }

    @Override
    public synchronized void close() {
        closed = true;
        if (identities != null) {
            identities.forEach(AgeIdentity::close);
        }
    }
}
