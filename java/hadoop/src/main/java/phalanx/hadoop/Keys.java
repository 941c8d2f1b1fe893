package phalanx.hadoop;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.security.ProviderUtils;
import org.apache.hadoop.security.alias.CredentialProvider;
import org.apache.hadoop.security.alias.CredentialProviderFactory;
import phalanx.KeyFiles;
import phalanx.KeyProvider;
import phalanx.KeyService;
import phalanx.KeyServices;
import phalanx.Keyring;
import phalanx.PhalanxKey;
import phalanx.Recipients;

/**
 * The keys that a configuration names. It has their names and never the keys, since configurations are logged, shown in web pages
 * and written to files. They are fetched when they are first needed.
 */
public final class Keys implements Closeable {
    /** The setting with the names of the keys that files are protected for. */
    public static final String KEYS = "fs.phalanx.keys";
    /** The setting with the names of other keys that open files. */
    public static final String OPEN_KEYS = "fs.phalanx.open.keys";
    /** The setting with the folder of the keyring. */
    public static final String KEYRING = "fs.phalanx.keyring";

    private static final String FILE = "file:";
    private static final String CREDENTIAL = "credential:";
    private static final String SERVICE = "kms:";

    private final Configuration conf;
    private final List<PhalanxKey> keys = new ArrayList<>();
    /** How many of the keys, from the first on, files are protected for. */
    private int writers;
    private KeyServices services;
    private KeyServices openingServices;
    private KeyProvider provider;
    private Recipients recipients;
    private boolean closed;

    /**
     * The keys that a configuration names.
     *
     * @param conf the configuration
     */
    public Keys(Configuration conf) {
        this.conf = conf;
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
                throw new IOException("no key to protect files with: set " + KEYS + " to the name of one");
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
            services = fetch(KEYS);
            writers = keys.size();
            openingServices = fetch(OPEN_KEYS);
            provider = openers();
        } catch (IOException | RuntimeException e) {
            closeKeys();
            throw e;
        }
    }

    /** Fetches the keys that a setting names. Returns the key services among them, which are not asked yet, or null. */
    private KeyServices fetch(String setting) throws IOException {
        List<KeyService> asked = new ArrayList<>();
        for (String name : conf.getTrimmedStringCollection(setting)) {
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
     * One key by its name: of the keyring, {@code file:PATH} or {@code credential:ALIAS}.
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
            if (name.startsWith(CREDENTIAL)) {
                return credential(name.substring(CREDENTIAL.length()));
            }
            Keyring ring = ring();
            if (ring == null) {
                throw new IOException("there is no home folder for keys: set " + KEYRING);
            }
            return ring.load(name);
        } catch (IOException | IllegalArgumentException e) {
            // What is no name may be a secret in a form that nobody has thought of.
            boolean isName = Keyring.isName(name) || name.startsWith(FILE) || name.startsWith(CREDENTIAL);
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

    /** The key whose text one of Hadoop's credential providers has. Never one that the configuration itself has. */
    private PhalanxKey credential(String alias) throws IOException {
        // A provider in a file of this file system would need the key to read the key.
        Configuration safe = ProviderUtils.excludeIncompatibleCredentialProviders(conf, PhalanxFileSystem.class);
        for (CredentialProvider each : CredentialProviderFactory.getProviders(safe)) {
            CredentialProvider.CredentialEntry entry = each.getCredentialEntry(alias);
            if (entry != null) {
                char[] text = entry.getCredential();
                try {
                    return PhalanxKey.ofText(text);
                } finally {
                    Arrays.fill(text, '\0');
                }
            }
        }
        throw new IOException("no credential provider has it: see " + CredentialProviderFactory.CREDENTIAL_PROVIDER_PATH);
    }

    /** The keyring, or null if there is no place for one. */
    private Keyring ring() {
        String folder = conf.getTrimmed(KEYRING, "");
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
