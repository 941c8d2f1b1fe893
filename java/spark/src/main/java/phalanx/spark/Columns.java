package phalanx.spark;

import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.api.java.UDF3;
import phalanx.Message;
import phalanx.Messages;
import phalanx.MessagesException;
import phalanx.PhalanxKey;
import phalanx.Suite;
import phalanx.hadoop.Keys;
import scala.runtime.AbstractFunction3;

/**
 * What {@code phalanx_seal} and {@code phalanx_open} do with one row. A key is named, and each executor fetches it by its name once.
 * The user is the associated data of the message: a value that was sealed for one user does not open as that of another.
 */
abstract class Columns extends AbstractFunction3<Object, Object, Object, Object>
        implements UDF3<Object, Object, Object, byte[]>, Serializable {
    private static final long serialVersionUID = 1L;
    private static final Messages MESSAGES = new Messages(Suite.AES_256_CTR_SHA3).on(Runnable::run, 1);
    private static final Map<String, PhalanxKey> KEYS = new ConcurrentHashMap<>();

    /** {@code phalanx_seal(column, key, user)}. */
    static final class Seal extends Columns {
        private static final long serialVersionUID = 1L;

        @Override
        byte[] apply(PhalanxKey key, byte[] user, byte[] value) {
            return MESSAGES.seal(List.of(new Message(key, user, value))).get(0);
        }
    }

    /** {@code phalanx_open(column, key, user)}. */
    static final class Open extends Columns {
        private static final long serialVersionUID = 1L;

        @Override
        byte[] apply(PhalanxKey key, byte[] user, byte[] value) throws MessagesException {
            return MESSAGES.open(List.of(new Message(key, user, value))).get(0);
        }
    }

    abstract byte[] apply(PhalanxKey key, byte[] user, byte[] value) throws MessagesException;

    @Override
    public byte[] call(Object value, Object key, Object user) {
        if (value == null || key == null || user == null) {
            return null;
        }
        try {
            return apply(key(text(key)), text(user).getBytes(StandardCharsets.UTF_8), bytes(value));
        } catch (MessagesException e) {
            throw new IllegalArgumentException("phalanx_open: a value is not authentic for its key and its user", e);
        }
    }

    @Override
    public Object apply(Object value, Object key, Object user) {
        return call(value, key, user);
    }

    private static String text(Object value) {
        if (value instanceof Integer || value instanceof Long) {
            return value.toString();
        }
        if (value != null && !(value instanceof String)) {
            throw new IllegalArgumentException("phalanx_seal and phalanx_open take the name of a key as text, and a user as text or whole number");
        }
        return (String) value;
    }

    private static byte[] bytes(Object value) {
        if (value instanceof byte[] bytes) {
            return bytes;
        }
        if (value instanceof String string) {
            return string.getBytes(StandardCharsets.UTF_8);
        }
        throw new IllegalArgumentException("phalanx_seal and phalanx_open take text and binary columns: use cast");
    }

    private static PhalanxKey key(String name) {
        PhalanxKey key = KEYS.get(name);
        if (key == null) {
            key = KEYS.computeIfAbsent(name, Columns::fetch);
        }
        return key;
    }

    private static PhalanxKey fetch(String name) {
        Configuration conf = new Configuration();
        String prefix = "spark.hadoop.";
        for (var setting : SparkEnv.get().conf().getAllWithPrefix(prefix)) {
            conf.set(setting._1(), setting._2());
        }
        try (Keys keys = new Keys(conf)) {
            return keys.key("phalanx_seal and phalanx_open", name);
        } catch (IOException e) {
            throw new IllegalArgumentException(e.getMessage(), e);
        }
    }
}
