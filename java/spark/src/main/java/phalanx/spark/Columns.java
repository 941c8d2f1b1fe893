package phalanx.spark;

import java.io.IOException;
import java.io.Serializable;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;
import phalanx.Message;
import phalanx.MessageSealer;
import phalanx.MessagesException;
import phalanx.PhalanxKey;
import phalanx.hadoop.Keys;
import scala.runtime.AbstractFunction4;

/**
 * What {@code phalanx_seal} and {@code phalanx_open} do with one row. A key is named, and each executor fetches it by its name once.
 * The user is the associated data of the message: a value that was sealed for one user does not open as that of another.
 */
abstract class Columns extends AbstractFunction4<Object, Object, Object, Object, Object> implements Serializable {
    private static final long serialVersionUID = 2L;
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

    /**
     * Does one row.
     *
     * @param value the bytes of the value
     * @param key the name of a key
     * @param user the bytes of the user
     * @param given the user as it was given, for its type
     */
    @Override
    public Object apply(Object value, Object key, Object user, Object given) {
        if (value == null || key == null || user == null || given == null) {
            return null;
        }
        if (!(key instanceof String name) || !(given instanceof String || given instanceof Integer || given instanceof Long)) {
            throw new IllegalArgumentException("phalanx_seal and phalanx_open take the name of a key as text, and a user as text or whole number");
        }
        try {
            return inTask(name, (byte[]) user, (byte[]) value);
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
