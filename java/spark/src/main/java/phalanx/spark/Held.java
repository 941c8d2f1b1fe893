package phalanx.spark;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import phalanx.hadoop.Keys;

/** The keys of this JVM, fetched once for each set of names. They end with the JVM. */
final class Held {
    private static final Map<List<String>, Keys> KEYS = new ConcurrentHashMap<>();

    private Held() {}

    static Keys keys(Configuration conf) {
        List<String> names = List.of(
                conf.get(Keys.KEYS, ""), conf.get(Keys.OPEN_KEYS, ""), conf.get(Keys.KEYRING, ""),
                conf.get("hadoop.security.credential.provider.path", ""));
        return KEYS.computeIfAbsent(names, key -> new Keys(conf));
    }
}
