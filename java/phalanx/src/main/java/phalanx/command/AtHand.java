package phalanx.command;

import java.io.Console;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import phalanx.KeyException;
import phalanx.KeyFiles;
import phalanx.KeyId;
import phalanx.KeyProvider;
import phalanx.Keyring;
import phalanx.Password;
import phalanx.PhalanxKey;
import phalanx.Recipients;

/**
 * The source of the command's keys and passwords. They are never arguments, and never part of a message.
 *
 * <p>To open files: if keys are named, only these are tried, and the only password is that of {@code --password-file}.
 * Otherwise the keyring is searched, and a password comes from {@code PHALANX_PASSWORD} or from a prompt.
 */
final class AtHand implements KeyProvider {
    private static final String VARIABLE = "PHALANX_PASSWORD";

    private final List<PhalanxKey> given;
    private final Keyring keyring;
    private final List<PhalanxKey> found = new ArrayList<>();
    private final TreeMap<String, Optional<String>> refused = new TreeMap<>();
    private Optional<Password> password;
    private boolean isPasswordKnown;

    private AtHand(List<PhalanxKey> given, Keyring keyring, boolean asks, Optional<Password> password) {
        this.given = given;
        this.keyring = keyring;
        this.password = password;
        this.isPasswordKnown = !asks;
    }

    /** The keys and passwords that may open files. */
    static AtHand of(Options options) throws Failure {
        List<PhalanxKey> given = named(options);
        Optional<String> file = options.one("--password-file");
        Optional<Password> password = file.isPresent() ? Optional.of(passwordFile(file.get())) : Optional.empty();
        boolean asks = given.isEmpty() && file.isEmpty();
        Keyring keyring = null;
        if (given.isEmpty()) {
            try {
                keyring = Keyring.usual();
            } catch (IllegalStateException e) {
                // Without a home folder there is no keyring to search.
            }
        }
        return new AtHand(given, keyring, asks, password);
    }

    @Override
    public synchronized Optional<PhalanxKey> key(KeyId id) throws IOException {
        for (List<PhalanxKey> keys : List.of(given, found)) {
            for (PhalanxKey key : keys) {
                if (key.id().equals(id)) {
                    return Optional.of(key);
                }
            }
        }
        if (keyring == null) {
            return Optional.empty();
        }
        try {
            Optional<PhalanxKey> key = keyring.key(id);
            key.ifPresent(found::add);
            return key;
        } catch (KeyException e) {
            refused.put(e.getMessage(), e.remedy());
            throw e;
        }
    }

    @Override
    public synchronized Optional<Password> password() {
        if (!isPasswordKnown) {
            isPasswordKnown = true;
            password = find();
        }
        return password;
    }

    private Optional<Password> find() {
        Optional<Password> variable = Password.ofVariable(VARIABLE);
        Console console = Terminal.console();
        if (variable.isPresent() || console == null) {
            return variable;
        }
        // A user who is asked for a password would wonder why the key did not work.
        refused.forEach((key, remedy) -> Terminal.complain("warning: " + key, remedy.orElse(null)));
        return Optional.ofNullable(ask(console, "Password: "));
    }

    /** The recipients of files. */
    static Recipients recipients(Options options) throws Failure {
        List<PhalanxKey> keys = named(options);
        Recipients recipients = null;
        TreeSet<KeyId> seen = new TreeSet<>();
        for (PhalanxKey key : keys) {
            if (seen.add(key.id())) {
                recipients = recipients == null ? Recipients.of(key) : recipients.and(key);
            }
        }
        Optional<String> file = options.one("--password-file");
        Password password = null;
        if (file.isPresent()) {
            password = refuseEmpty(passwordFile(file.get()), Text.shown(file.get()));
        } else if (options.has("--password") || keys.isEmpty()) {
            password = newPassword();
        } else if (Password.ofVariable(VARIABLE).filter(value -> !value.isEmpty()).isPresent()) {
            Terminal.complain(
                    "warning: " + VARIABLE + " is set but not used, since a key was given", "--password adds it");
        }
        if (password == null) {
            return recipients;
        }
        return recipients == null ? Recipients.of(password) : recipients.and(password);
    }

    private static List<PhalanxKey> named(Options options) throws Failure {
        List<PhalanxKey> keys = new ArrayList<>();
        try {
            for (String name : options.all("--key")) {
                keys.add(Keyring.usual().load(name));
            }
        } catch (IllegalStateException e) {
            throw Failure.usage(e.getMessage());
        } catch (IOException | IllegalArgumentException e) {
            throw Failure.of(e);
        }
        for (String file : options.all("--key-file")) {
            try {
                keys.add(KeyFiles.key(secret(file)));
            } catch (IOException e) {
                throw Failure.at(file, e);
            }
        }
        return keys;
    }

    private static Password passwordFile(String file) throws Failure {
        try {
            return KeyFiles.password(secret(file));
        } catch (IOException | IllegalArgumentException e) {
            throw Failure.at(file, e);
        }
    }

    /** The path of a file with a secret; {@code -} is standard input. */
    private static Path secret(String file) {
        return Path.of(file.equals("-") ? "/dev/stdin" : file);
    }

    private static Password newPassword() throws Failure {
        Optional<Password> variable = Password.ofVariable(VARIABLE);
        if (variable.isPresent()) {
            return refuseEmpty(variable.get(), VARIABLE);
        }
        Console console = Terminal.console();
        if (console == null) {
            throw Failure.usage("a password is needed, and none could be read from a terminal")
                    .hint("give --password-file, " + VARIABLE + ", --key or --key-file");
        }
        Password password = ask(console, "Password: ");
        refuseEmpty(password == null ? Password.of(new byte[0]) : password, "the prompt");
        if (!password.equals(ask(console, "The same again: "))) {
            throw Failure.usage("the two passwords differ");
        }
        return password;
    }

    private static Password ask(Console console, String question) {
        char[] typed = console.readPassword("%s", question);
        if (typed == null) {
            return null;
        }
        try {
            return Password.of(typed);
        } finally {
            Arrays.fill(typed, '\0');
        }
    }

    private static Password refuseEmpty(Password password, String source) throws Failure {
        if (password.isEmpty()) {
            throw Failure.usage(source + ": an empty password protects nothing");
        }
        return password;
    }
}
