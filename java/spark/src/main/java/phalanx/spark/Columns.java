package phalanx.spark;

import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.api.java.UDF3;
import org.apache.spark.util.TaskCompletionListener;
import phalanx.Message;
import phalanx.MessageSealer;
import phalanx.MessagesException;
import phalanx.PhalanxKey;
import phalanx.hadoop.Keys;
import scala.runtime.AbstractFunction3;

/**
 * What {@code phalanx_seal} and {@code phalanx_open} do with one row. A key is named, and each executor fetches it by its name once.
 * The user is the associated data of the message: a value that was sealed for one user does not open as that of another.
 */
abstract class Columns extends AbstractFunction3<Object, Object, Object, Object>
        implements UDF3<Object, Object, Object, byte[]>, Serializable {
    private static final long serialVersionUID = 1L;
    private static final int MOST_KEYS = 1000;
    private static final FetchedKeys KEYS = new FetchedKeys(MOST_KEYS, Columns::fetch);
    /** One for each task that has had a row and has not ended. */
    private static final Map<TaskContext, RowSealer> SEALERS = new ConcurrentHashMap<>();

    /** {@code phalanx_seal(column, key, user)}. */
    static final class Seal extends Columns {
        private static final long serialVersionUID = 1L;

        @Override
        byte[] apply(MessageSealer sealer, Message row) {
            return sealer.seal(row);
        }
    }

    /** {@code phalanx_open(column, key, user)}. */
    static final class Open extends Columns {
        private static final long serialVersionUID = 1L;

        @Override
        byte[] apply(MessageSealer sealer, Message row) throws MessagesException {
            return sealer.open(row);
        }
    }

    abstract byte[] apply(MessageSealer sealer, Message row) throws MessagesException;

    @Override
    public byte[] call(Object value, Object key, Object user) {
        if (value == null || key == null || user == null) {
            return null;
        }
        try {
            return inTask(text(key), text(user).getBytes(StandardCharsets.UTF_8), bytes(value));
        } catch (MessagesException e) {
            throw new IllegalArgumentException("phalanx_open: a value is not authentic for its key and its user", e);
        }
    }

    private byte[] inTask(String key, byte[] user, byte[] value) throws MessagesException {
        TaskContext task = TaskContext.get();
        if (task != null) {
            return sealer(task).apply(this, key, user, value);
        }
        // The driver computes what depends on no row.
        try (RowSealer sealer = new RowSealer(KEYS)) {
            return sealer.apply(this, key, user, value);
        }
    }

    /** The task's own sealer, which its end closes. */
    private static RowSealer sealer(TaskContext task) {
        RowSealer sealer = SEALERS.get(task);
        if (sealer != null) {
            return sealer;
        }
        RowSealer made = new RowSealer(KEYS);
        // A task may have several threads.
        sealer = SEALERS.putIfAbsent(task, made);
        if (sealer != null) {
            made.close();
            return sealer;
        }
        // Called at once if the task has ended already.
        task.addTaskCompletionListener((TaskCompletionListener) ended -> {
            SEALERS.remove(task);
            made.close();
        });
        return made;
    }

    /** How many sealers there are, for tests. */
    static int sealers() {
        return SEALERS.size();
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
