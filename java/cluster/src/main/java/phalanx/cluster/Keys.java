package phalanx.cluster;

import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import phalanx.KeyFiles;
import phalanx.KeyId;
import phalanx.KeyProvider;
import phalanx.Keyring;
import phalanx.Password;
import phalanx.PhalanxKey;
import phalanx.Recipients;

/**
 * The keys and the password that were named. Only rank 0 reads them. As in {@code phalanx}, only named keys are used if
 * there are any, and the password of the environment is used only if nothing is named.
 */
final class Keys implements Closeable, KeyProvider {
    private static final String VARIABLE = "PHALANX_PASSWORD";

    private final List<PhalanxKey> named = new ArrayList<>();
    private Password password;
    private final boolean asksKeyring;

    /** Reads all that a plan names. */
    Keys(Plan plan, Report report) throws IOException {
        try {
            for (String name : plan.keys) {
                named.add(Keyring.usual().load(name));
            }
            for (var file : plan.keyFiles) {
                named.add(KeyFiles.key(file));
            }
            if (plan.passwordFile != null) {
                password = KeyFiles.password(plan.passwordFile);
            } else if (named.isEmpty()) {
                password = Password.ofVariable(VARIABLE).orElse(null);
            } else if (plan.what == Plan.What.PROTECT && !System.getenv().getOrDefault(VARIABLE, "").isEmpty()) {
                report.line("warning: " + VARIABLE + " is set but not used, since a key was given (--password-file adds one)");
            }
        } catch (IOException | RuntimeException e) {
            close();
            throw e;
        }
        asksKeyring = named.isEmpty();
    }

    /** The recipients of a file: all named keys and passwords. */
    Recipients recipients() {
        Recipients all = null;
        for (PhalanxKey key : named) {
            all = all == null ? Recipients.of(key) : all.and(key);
        }
        if (password != null) {
            all = all == null ? Recipients.of(password) : all.and(password);
        }
        if (all == null) {
            throw new IllegalArgumentException("no key given: --key, --key-file or --password-file");
        }
        return all;
    }

    @Override
    public Optional<PhalanxKey> key(KeyId id) throws IOException {
        if (asksKeyring) {
            return Keyring.usual().key(id);
        }
        return named.stream().filter(key -> key.id().equals(id)).findFirst();
    }

    @Override
    public Optional<Password> password() {
        return Optional.ofNullable(password);
    }

    @Override
    public void close() {
        named.forEach(PhalanxKey::close);
        if (password != null) {
            password.close();
        }
    }
}
