package phalanx.command;

import java.io.Console;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import phalanx.AgeIdentity;
import phalanx.AgeRecipient;
import phalanx.KeyException;
import phalanx.KeyFiles;
import phalanx.KeyId;
import phalanx.KeyProvider;
import phalanx.Keyring;
import phalanx.Password;
import phalanx.PhalanxKey;
import phalanx.Recipients;

/**
 * The source of the command's keys, identities and passwords. They are never arguments, and never part of a message.
 *
 * <p>To open files: if keys or identities are named, only these are tried, and the only password is that of {@code
 * --password-file}. Otherwise the keyring is searched, and a password comes from {@code PHALANX_PASSWORD} or from a prompt.
 */
final class AtHand implements KeyProvider {
    private static final String VARIABLE = "PHALANX_PASSWORD";
    private static final int LONGEST_LIST = 1 << 20;
    /** How many files of identities are named. More are only counted. */
    private static final int MOST_NAMED = 3;

    private final List<PhalanxKey> given;
    /** The identities, and the files that they were found in. */
    private final Map<AgeIdentity, String> identities;
    /** Whether each file that an identity opens is named: keys or a password are given too, whose senders are known. */
    private final boolean tellsEach;
    private final boolean isQuiet;
    private final Set<AgeIdentity> told = new HashSet<>();
    private volatile String file;
    private final Keyring keyring;
    private final List<PhalanxKey> found = new ArrayList<>();
    private final TreeMap<String, Optional<String>> refused = new TreeMap<>();
    private Optional<Password> password;
    private boolean isPasswordKnown;

    private AtHand(
            List<PhalanxKey> given, Map<AgeIdentity, String> identities, Keyring keyring, boolean asks,
            Optional<Password> password, boolean isQuiet) {
        this.given = given;
        this.identities = identities;
        this.tellsEach = !given.isEmpty() || password.isPresent();
        this.isQuiet = isQuiet;
        this.keyring = keyring;
        this.password = password;
        this.isPasswordKnown = !asks;
    }

    /** The keys, identities and passwords that may open files. */
    static AtHand of(Options options) throws Failure {
        List<PhalanxKey> given = named(options);
        Map<AgeIdentity, String> identities = identities(options.all("--identity"));
        boolean isNoneNamed = given.isEmpty() && identities.isEmpty();
        Optional<String> file = options.one("--password-file");
        Optional<Password> password = file.isPresent() ? Optional.of(passwordFile(file.get())) : Optional.empty();
        boolean asks = isNoneNamed && file.isEmpty();
        Keyring keyring = null;
        if (isNoneNamed) {
            try {
                keyring = Keyring.usual();
            } catch (IllegalStateException e) {
                // Without a home folder there is no keyring to search.
            }
        }
        return new AtHand(given, identities, keyring, asks, password, options.has("--quiet"));
    }

    private static Map<AgeIdentity, String> identities(List<String> files) throws Failure {
        Map<AgeIdentity, String> found = new LinkedHashMap<>();
        for (String file : files) {
            try {
                AgeIdentity.read(secret(file), Text.shown(file), AtHand::passphrase)
                        .forEach(identity -> found.putIfAbsent(identity, file));
            } catch (KeyException e) {
                throw e.isPublicKey() ? Failure.at(file, e).hint(publicAdvice(file)) : Failure.at(file, e);
            } catch (IOException e) {
                throw Failure.at(file, e);
            }
        }
        return found;
    }

    /** What to do about a public key in the place of a private one. */
    private static String publicAdvice(String file) {
        String bare = file.endsWith(".pub") ? file.substring(0, file.length() - ".pub".length()) : "";
        return !bare.isEmpty() && Files.isRegularFile(Path.of(bare))
                ? "--identity needs the private one, probably " + Text.shown(bare)
                : "--identity needs the file of its private key";
    }

    /** The next file begins, so that messages can name it. */
    void begin(String name) {
        file = name;
    }

    @Override
    public List<AgeIdentity> identities() {
        return List.copyOf(identities.keySet());
    }

    @Override
    public Optional<String> whyNoIdentity() {
        List<String> labels = identities.values().stream().map(Text::shown).distinct().toList();
        if (labels.isEmpty()) {
            return Optional.empty();
        }
        String named = String.join(", ", labels.subList(0, Math.min(labels.size(), MOST_NAMED)));
        int more = labels.size() - MOST_NAMED;
        return Optional.of("no identity in " + named + (more > 0 ? " and " + Text.count(more, "other file") : "") + " opens it");
    }

    @Override
    public synchronized void opened(AgeIdentity identity) {
        boolean isNew = told.add(identity);
        if (isQuiet || !isNew && !tellsEach) {
            return;
        }
        String key = identity.isLockedFile() ? "" : " (" + identity.recipient().brief() + ")";
        String line = "opened by identity " + Text.shown(identities.get(identity)) + key + "; the sender is unknown";
        Terminal.complain(tellsEach ? Text.shown(file) + ": " + line : line);
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
        for (AgeRecipient age : ages(options)) {
            recipients = recipients == null ? Recipients.of(age) : recipients.and(age);
        }
        Optional<String> file = options.one("--password-file");
        Password password = null;
        if (file.isPresent()) {
            password = refuseEmpty(passwordFile(file.get()), Text.shown(file.get()));
        } else if (options.has("--password") || recipients == null) {
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

    /** The public keys that are named, each once. */
    private static Collection<AgeRecipient> ages(Options options) throws Failure {
        Map<String, AgeRecipient> found = new TreeMap<>();
        for (String text : options.all("--recipient")) {
            try {
                AgeRecipient recipient = AgeRecipient.parse(text);
                found.put(recipient.toString(), recipient);
            } catch (IllegalArgumentException e) {
                throw Failure.usage("--recipient: " + e.getMessage());
            }
        }
        for (String file : options.all("--recipients-file")) {
            list(file).forEach(recipient -> found.put(recipient.toString(), recipient));
        }
        if (found.values().stream().map(AgeRecipient::isPostQuantum).distinct().count() > 1) {
            Terminal.complain(
                    "warning: not all public keys are post-quantum: by the others a quantum computer could open it");
        }
        return found.values();
    }

    /** Not the stream of files itself: its {@code readNBytes} asks for the position in Java 17, and a pipe has none. */
    private static InputStream standardInput() {
        return new FilterInputStream(new FileInputStream(FileDescriptor.in)) {};
    }

    /** The public keys in a file: one on each line. Empty lines and lines that begin with # are ignored. */
    private static List<AgeRecipient> list(String file) throws Failure {
        List<AgeRecipient> found = new ArrayList<>();
        int number = 0;
        try (InputStream in = file.equals("-") ? standardInput() : Files.newInputStream(secret(file))) {
            byte[] bytes = in.readNBytes(LONGEST_LIST + 1);
            if (bytes.length > LONGEST_LIST) {
                throw bad(file, "it is too long for a file of recipients or identities");
            }
            for (String line : new String(bytes, StandardCharsets.UTF_8).split("\n")) {
                number++;
                if (!line.isBlank() && !line.startsWith("#")) {
                    found.add(AgeRecipient.parse(line));
                }
            }
        } catch (IllegalArgumentException e) {
            throw bad(file, "line " + number + ": " + e.getMessage());
        } catch (IOException e) {
            throw Failure.at(file, e);
        }
        if (found.isEmpty()) {
            throw bad(file, "no recipient is in it");
        }
        return found;
    }

    private static Failure bad(String file, String why) {
        return Failure.of(Failure.Code.INPUT_OUTPUT, Text.shown(file) + ": " + why);
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
    private static Path secret(String file) throws Failure {
        return Places.path(file.equals("-") ? "/dev/stdin" : file);
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

    /** The passphrase of an SSH key, if somebody can be asked. */
    private static Optional<char[]> passphrase(String question) {
        Console console = Terminal.console();
        return console == null ? Optional.empty() : Optional.ofNullable(Typed.at(console, question));
    }

    private static Password ask(Console console, String question) {
        char[] typed = Typed.at(console, question);
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
