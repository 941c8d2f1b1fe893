package phalanx.hadoop;

import java.io.Closeable;
import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.security.ProviderUtils;
import org.apache.hadoop.security.alias.CredentialProvider;
import org.apache.hadoop.security.alias.CredentialProviderFactory;
import phalanx.KeyProvider;
import phalanx.NamedKeys;
import phalanx.PhalanxKey;
import phalanx.Recipients;

/**
 * The keys that a configuration names, those of Hadoop's credential providers included. They are fetched when they are first needed.
 */
public final class Keys implements Closeable {
    /** The setting with the names of the keys that files are protected for. */
    public static final String KEYS = "fs.phalanx.keys";
    /** The setting with the names of other keys that open files. */
    public static final String OPEN_KEYS = "fs.phalanx.open.keys";
    /** The setting with the folder of the keyring. */
    public static final String KEYRING = "fs.phalanx.keyring";

    private static final String CREDENTIAL = "credential:";

    private final Configuration conf;
    private final NamedKeys named;

    /**
     * The keys that a configuration names.
     *
     * @param conf the configuration
     */
    public Keys(Configuration conf) {
        this.conf = conf;
        named = new NamedKeys(new Settings(conf), Map.of(CREDENTIAL, this::credential));
    }

    private record Settings(Configuration conf) implements NamedKeys.Settings {
        @Override
        public String keys() {
            return KEYS;
        }

        @Override
        public String openKeys() {
            return OPEN_KEYS;
        }

        @Override
        public String keyring() {
            return KEYRING;
        }

        @Override
        public String value(String setting) {
            return conf.getTrimmed(setting, "");
        }
    }

    /**
     * What opens files: all keys that are named, or if there are none, those of the keyring.
     *
     * @return the keys, which are overwritten when this is closed
     * @throws IOException if one of them cannot be had
     */
    public KeyProvider provider() throws IOException {
        return named.provider();
    }

    /**
     * For whom files are protected: all keys that are named.
     *
     * @return the recipients
     * @throws IOException if one of them cannot be had, or none is named
     */
    public Recipients recipients() throws IOException {
        return named.recipients();
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
        return named.key(setting, name);
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

    /** Overwrites the keys. */
    @Override
    public void close() {
        named.close();
    }
}
