package phalanx;

import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A folder of named keys, each in a file {@code NAME.key} of 32 raw bytes. The command {@code phalanx key} manages it. A key that
 * it has locked is in a protected file {@code NAME.ID.key.phx} instead, and cannot be used here before it is unlocked.
 * A folder or key that anybody but its user and root could read or change is refused.
 */
public final class Keyring implements KeyProvider {
    private static final String VARIABLE = "PHALANX_KEYRING";
    private static final String EXTENSION = ".key";
    private static final Pattern LOCKED = Pattern.compile("(.+)\\.([0-9a-f]{32})\\.key\\.phx", Pattern.DOTALL);
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._@-]{0,63}");
    private static final int LONGEST_NAME = 64;

    private final Path folder;

    private Keyring(Path folder) {
        this.folder = folder;
    }

    /**
     * The keyring in a folder. The folder need not exist before the first key is stored.
     *
     * @param folder the folder
     * @return the keyring
     */
    public static Keyring in(Path folder) {
        return new Keyring(folder);
    }

    /**
     * The user's keyring: the folder that the environment variable {@code PHALANX_KEYRING} names, or else {@code phalanx/keys}
     * in the user's configuration folder.
     *
     * @return the keyring
     * @throws IllegalStateException if the user has no home folder, or if it cannot be a path in this locale
     */
    public static Keyring usual() {
        try {
            return in(usualFolder());
        } catch (InvalidPathException e) {
            throw new IllegalStateException(
                    "the folder for keys cannot be a path here (" + e.getReason() + "): LC_ALL=C.UTF-8 has all characters", e);
        }
    }

    private static Path usualFolder() {
        String named = System.getenv(VARIABLE);
        if (named != null && !named.isEmpty()) {
            return Path.of(named);
        }
        String home = System.getenv("HOME") != null ? System.getenv("HOME") : System.getProperty("user.home");
        String config = System.getenv("XDG_CONFIG_HOME");
        boolean isNamed = config != null && Path.of(config).isAbsolute();
        if (!isNamed && (home == null || home.isEmpty())) {
            throw new IllegalStateException("there is no home folder for keys: set " + VARIABLE + " to a folder");
        }
        Path base = isNamed ? Path.of(config) : Path.of(home, ".config");
        return base.resolve("phalanx").resolve("keys");
    }

    /**
     * Its folder.
     *
     * @return the folder, which may not exist
     */
    public Path folder() {
        return folder;
    }

    /**
     * Whether a key may have this name.
     *
     * @param name the name
     * @return whether it has 1 to 64 letters, digits, {@code . _ - @}, the first a letter or digit
     */
    public static boolean isName(String name) {
        return NAME.matcher(name).matches();
    }

    /**
     * The names of all keys, in order. Those of locked keys are among them.
     *
     * @return the names
     * @throws KeyException if others could change the keyring
     * @throws IOException if it cannot be read
     */
    public List<String> names() throws IOException {
        if (!exists()) {
            return List.of();
        }
        return entries().stream().map(Entry::name).distinct().toList();
    }

    /** The name of a key, and its id as text if it is locked, or else null. */
    private record Entry(String name, String locked) {}

    /** After a run was killed a key may be there both locked and not. */
    private List<Entry> entries() throws IOException {
        List<Entry> found = new ArrayList<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder)) {
            for (Path entry : entries) {
                String file = entry.getFileName().toString();
                Matcher locked = LOCKED.matcher(file);
                if (locked.matches() && isName(locked.group(1))) {
                    found.add(new Entry(locked.group(1), locked.group(2)));
                } else if (file.endsWith(EXTENSION) && isName(file.substring(0, file.length() - EXTENSION.length()))) {
                    found.add(new Entry(file.substring(0, file.length() - EXTENSION.length()), null));
                }
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        found.sort(Comparator.comparing(Entry::name));
        return found;
    }

    /**
     * The key of a name.
     *
     * @param name the name
     * @return the key: close it
     * @throws KeyException if there is none, if it is locked, damaged or not a regular file, or if others could read or change it
     * @throws IllegalArgumentException if no key may have this name
     * @throws IOException if it cannot be read
     */
    public PhalanxKey load(String name) throws IOException {
        Path file = file(name);
        if (!exists()) {
            throw KeyException.missing(name);
        }
        SecretFile secret;
        try {
            secret = SecretFile.readRegular(file, "the key " + name, PhalanxKey.BYTES + 1);
        } catch (NoSuchFileException e) {
            throw isLocked(name) ? KeyException.locked(name) : KeyException.missing(name);
        }
        try (secret) {
            secret.checkPrivate();
            return key(name, secret);
        }
    }

    private boolean isLocked(String name) throws IOException {
        return entries().stream().anyMatch(entry -> entry.locked() != null && entry.name().equals(name));
    }

    private static PhalanxKey key(String name, SecretFile secret) throws KeyException {
        if (secret.bytes().length != PhalanxKey.BYTES) {
            throw new KeyException("the key " + name + " is damaged: it does not have 32 bytes");
        }
        return PhalanxKey.of(secret.bytes());
    }

    /**
     * The key with this id. Keys that cannot be used are skipped.
     *
     * @throws KeyException if it is not there, but it is locked, or a refused or damaged key may be the right one
     */
    @Override
    public Optional<PhalanxKey> key(KeyId id) throws IOException {
        return find(id).map(Named::key);
    }

    /**
     * A key and its name.
     *
     * @param name the name
     * @param key the key: close it
     */
    public record Named(String name, PhalanxKey key) {}

    /**
     * The key with this id, and its name.
     *
     * @param id the id
     * @return the key, or nothing if it is not there
     * @throws KeyException if it is not there, but it is locked, or a refused or damaged key may be the right one
     * @throws IOException if the keyring cannot be read
     */
    public Optional<Named> find(KeyId id) throws IOException {
        List<KeyException> unusable = new ArrayList<>();
        for (Entry entry : exists() ? entries() : List.<Entry>of()) {
            String name = entry.name();
            if (entry.locked() != null) {
                if (entry.locked().equals(id.toString())) {
                    unusable.add(KeyException.locked(name));
                }
                continue;
            }
            try (SecretFile secret = SecretFile.readRegular(file(name), "the key " + name, PhalanxKey.BYTES + 1)) {
                PhalanxKey key = key(name, secret);
                if (key.id().equals(id)) {
                    secret.checkPrivate();
                    return Optional.of(new Named(name, key));
                }
                key.close();
            } catch (NoSuchFileException e) {
                // It was deleted meanwhile.
            } catch (KeyException e) {
                unusable.add(e);
            } catch (IOException e) {
                unusable.add(new KeyException(e.getMessage()));
            }
        }
        if (unusable.isEmpty()) {
            return Optional.empty();
        }
        throw KeyException.of(unusable);
    }

    /**
     * Stores a key under a new name. The key is then on the disk.
     *
     * @param name the name
     * @param key the key
     * @throws FileAlreadyExistsException if the name is in use
     * @throws KeyException if others could change the keyring
     * @throws IllegalArgumentException if no key may have this name
     * @throws IOException if the key cannot be written
     */
    public void store(String name, PhalanxKey key) throws IOException {
        Path file = file(name);
        if (folder.getFileSystem().supportedFileAttributeViews().contains("posix")) {
            FileAttribute<?> mine = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));
            Files.createDirectories(folder, mine);
        } else {
            Files.createDirectories(folder);
        }
        SecretFile.checkFolder(folder, "the keyring " + folder);
        if (isLocked(name)) {
            throw new FileAlreadyExistsException(file.toString());
        }
        byte[] bytes = key.expose();
        try (Output output = Output.create(file, false)) {
            Bytes.writeAt(output.channel(), bytes, 0, bytes.length, 0);
            output.commit(true);
        } finally {
            Arrays.fill(bytes, (byte) 0);
        }
    }

    private Path file(String name) {
        if (!isName(name)) {
            // A longer one may be something else, such as a key's text.
            String told = name.length() > LONGEST_NAME ? "" : " (" + name + ")";
            throw new IllegalArgumentException("not a name for a key" + told
                    + ": it has 1 to 64 letters, digits, '.', '_', '-' and '@', the first a letter or digit");
        }
        return folder.resolve(name + EXTENSION);
    }

    /** Whether the folder exists. If so, it belongs to the user alone. */
    private boolean exists() throws IOException {
        if (!Files.exists(folder)) {
            return false;
        }
        SecretFile.checkFolder(folder, "the keyring " + folder);
        return true;
    }
}
