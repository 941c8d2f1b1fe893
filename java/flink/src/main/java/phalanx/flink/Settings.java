package phalanx.flink;

import java.util.List;
import java.util.Locale;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.IllegalConfigurationException;
import org.apache.flink.configuration.MemorySize;
import phalanx.NamedKeys;
import phalanx.Suite;

/** The settings of Flink's configuration. They have names of keys and never a key. */
final class Settings implements NamedKeys.Settings {
    private static final ConfigOption<String> KEYS = text("phalanx.keys", "");
    private static final ConfigOption<String> OPEN_KEYS = text("phalanx.open.keys", "");
    private static final ConfigOption<String> KEYRING = text("phalanx.keyring", "");
    private static final ConfigOption<String> CIPHER = text("phalanx.cipher", "aes-256");
    /** A checkpoint has the chunk that is not full yet of each open file, so chunks are smaller here than elsewhere. */
    private static final ConfigOption<MemorySize> CHUNK_SIZE =
            ConfigOptions.key("phalanx.chunk.size").memoryType().defaultValue(new MemorySize(64 << 10));

    private static final List<String> CIPHERS = List.of("aes-256", "aes-192", "aes-128", "aes-256-gcm", "aes-256-turbo");

    private final Configuration conf;
    /** The suite of new files. */
    final Suite suite;
    /** The binary logarithm of the chunk size of new files. */
    final int chunkLog2;

    Settings(Configuration conf) {
        this.conf = conf;
        suite = Suite.of(CIPHERS.indexOf(conf.get(CIPHER).trim().toLowerCase(Locale.ROOT)) + 1)
                .orElseThrow(() -> new IllegalConfigurationException(CIPHER.key() + " is one of " + String.join(", ", CIPHERS)));
        long size = conf.get(CHUNK_SIZE).getBytes();
        if (Long.bitCount(size) != 1 || size < 1 << 12 || size > 1 << 24) {
            throw new IllegalConfigurationException(CHUNK_SIZE.key() + " is a power of two from 4kb to 16mb");
        }
        chunkLog2 = Long.numberOfTrailingZeros(size);
        checkMerging();
    }

    /** A checkpoint of merged files counts on parts of files that are still written. Protected files have a name and an end only when they are closed. */
    private void checkMerging() {
        String checkpoints = conf.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY);
        if (checkpoints != null && checkpoints.trim().startsWith(Names.PREFIX) && conf.get(CheckpointingOptions.FILE_MERGING_ENABLED)) {
            throw new IllegalConfigurationException(CheckpointingOptions.FILE_MERGING_ENABLED.key() + " cannot be used with protected checkpoints");
        }
    }

    private static ConfigOption<String> text(String name, String usual) {
        return ConfigOptions.key(name).stringType().defaultValue(usual);
    }

    @Override
    public String keys() {
        return KEYS.key();
    }

    @Override
    public String openKeys() {
        return OPEN_KEYS.key();
    }

    @Override
    public String keyring() {
        return KEYRING.key();
    }

    @Override
    public String value(String setting) {
        return conf.get(text(setting, ""));
    }
}
