package phalanx;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * The keys that the settings of an engine name, such as those of Hadoop or Flink. Settings have the names and never the keys, since engines log
 * them, show them in web pages and write them to files. Keys are fetched when they are first needed.
 *
 * <p>A name is that of a key in the keyring, or {@code file:PATH}, or {@code kms:URI} for a key service, or one of another kind that the engine has.
 */
public final class NamedKeys implements Closeable {
    private static final String FILE = "file:";
    private static final String SERVICE = "kms:";

    private final Settings settings;
    private final Map<String, Kind> kinds;
    private final List<PhalanxKey> keys = new ArrayList<>();
    /** How many of the keys, from the first on, files are protected for. */
    private int writers;
    private KeyServices services;
    private KeyServices openingServices;
    private KeyProvider provider;
    private Recipients recipients;
    private boolean closed;

    /** Where the names are. */
    public interface Settings {
        /** {@return the setting with the names of the keys that files are protected for} */
        String keys();

        /** {@return the setting with the names of other keys that open files} */
        String openKeys();

        /** {@return the setting with the folder of the keyring} */
        String keyring();

        /**
         * The value of a setting.
         *
         * @param setting its name
         * @return the value, or an empty text
         */
        String value(String setting);
    }

    /** A kind of keys that an engine has. */
    @FunctionalInterface
    public interface Kind {
        /**
         * Fetches a key.
         *
         * @param name its name, without the prefix
         * @return the key
         * @throws IOException if there is none of that name
         */
        PhalanxKey key(String name) throws IOException;
    }

    /**
     * The keys that settings name.
     *
     * @param settings the settings
     * @param kinds other kinds of keys by the prefix of their names, such as {@code credential:}
     */
    public NamedKeys(Settings settings, Map<String, Kind> kinds) {
        this.settings = settings;
        this.kinds = Map.copyOf(kinds);
    }

    /**
     * What opens files: all keys that are named, or if there are none, those of the keyring.
     *
     * @return the keys, which are overwritten when this is closed
     * @throws IOException if one of them cannot be had
     */
    public synchronized KeyProvider provider() throws IOException {
        fetch();
        return provider;
    }

    /**
     * For whom files are protected: all keys that are named.
     *
     * @return the recipients
     * @throws IOException if one of them cannot be had, or none is named
     */
    public synchronized Recipients recipients() throws IOException {
        fetch();
        if (recipients == null) {
            Recipients all = null;
            for (PhalanxKey key : keys.subList(0, writers)) {
                all = all == null ? Recipients.of(key) : all.and(key);
            }
            if (services != null) {
                all = all == null ? Recipients.of(services) : all.and(services);
            }
            if (all == null) {
                throw new IOException("no key to protect files with: set " + settings.keys() + " to the name of one");
            }
            recipients = all;
        }
        return recipients;
    }

    private void fetch() throws IOException {
        if (closed) {
            throw new IOException("the file system is closed");
        }
        if (provider != null) {
            return;
        }
        try {
            services = fetch(settings.keys());
            writers = keys.size();
            openingServices = fetch(settings.openKeys());
            provider = openers();
        } catch (IOException | RuntimeException e) {
            closeKeys();
            throw e;
        }
    }

    /** Fetches the keys that a setting names. Returns the key services among them, which are not asked yet, or null. */
    private KeyServices fetch(String setting) throws IOException {
        List<KeyService> asked = new ArrayList<>();
        for (String each : settings.value(setting).split(",")) {
            String name = each.trim();
            if (name.isEmpty()) {
                continue;
            }
            if (name.startsWith(SERVICE)) {
                asked.add(service(setting, name.substring(SERVICE.length())));
            } else {
                keys.add(key(setting, name));
            }
        }
        return asked.isEmpty() ? null : KeyServices.of(asked);
    }

    /** Whoever names keys wants files that these open, and not those of anybody who shares a key of the keyring. */
    private KeyProvider openers() {
        KeyProvider all = KeyProvider.of(keys.toArray(PhalanxKey[]::new));
        for (KeyServices each : new KeyServices[] {services, openingServices}) {
            all = each == null ? all : all.or(each);
        }
        boolean isNamed = !keys.isEmpty() || services != null || openingServices != null;
        Keyring ring = isNamed ? null : ring();
        return ring == null ? all : ring;
    }

    private static KeyService service(String setting, String uri) throws IOException {
        try {
            return KeyService.program(uri);
        } catch (IllegalArgumentException e) {
            throw new IOException(setting + ": " + e.getMessage());
        }
    }

    /**
     * One key by its name, but for those of key services.
     *
     * @param setting what has the name, for messages
     * @param name the name
     * @return the key: close it
     * @throws IOException if there is none of that name
     */
    public PhalanxKey key(String setting, String name) throws IOException {
        refuseSecret(setting, name);
        try {
            if (name.startsWith(FILE)) {
                return KeyFiles.key(Path.of(name.substring(FILE.length())));
            }
            for (Map.Entry<String, Kind> kind : kinds.entrySet()) {
                if (name.startsWith(kind.getKey())) {
                    return kind.getValue().key(name.substring(kind.getKey().length()));
                }
            }
            Keyring ring = ring();
            if (ring == null) {
                throw new IOException("there is no home folder for keys: set " + settings.keyring());
            }
            return ring.load(name);
        } catch (IOException | IllegalArgumentException e) {
            // What is no name may be a secret in a form that nobody has thought of.
            boolean isName = Keyring.isName(name) || name.startsWith(FILE) || kinds.keySet().stream().anyMatch(name::startsWith);
            throw new IOException(setting + ": " + (isName ? "the key " + name + ": " + e.getMessage() : "one of them is no name"));
        }
    }

    /** Refuses a key itself, which has no place in a configuration, without repeating it. */
    private static void refuseSecret(String setting, String name) throws IOException {
        String bare = name.replaceAll("[-\\s]", "").toLowerCase(Locale.ROOT);
        boolean isHex = bare.length() >= 64 && bare.matches("[0-9a-f]*");
        if (bare.startsWith("phalanxkey1") || bare.startsWith("agesecretkey") || isHex) {
            throw new IOException(setting + " has a key itself, which everybody sees who sees the configuration: name the key instead");
        }
    }

    /** The keyring, or null if there is no place for one. */
    private Keyring ring() {
        String folder = settings.value(settings.keyring()).trim();
        if (!folder.isEmpty()) {
            return Keyring.in(Path.of(folder));
        }
        try {
            return Keyring.usual();
        } catch (IllegalStateException e) {
            return null;
        }
    }

    private void closeKeys() {
        keys.forEach(PhalanxKey::close);
        keys.clear();
        for (KeyServices each : new KeyServices[] {services, openingServices}) {
            if (each != null) {
                each.close();
            }
        }
        services = null;
        openingServices = null;
    }

    /** Overwrites the keys. */
    @Override
    public synchronized void close() {
        closed = true;
        provider = null;
        recipients = null;
        closeKeys();
    }
}
