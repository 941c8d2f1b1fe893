package phalanx.spark;

import java.util.LinkedHashMap;
import java.util.Map;
import phalanx.Message;
import phalanx.MessageSealer;
import phalanx.MessagesException;
import phalanx.PhalanxKey;
import phalanx.Suite;

/** Seals and opens the rows of one task. It has the keys that the task has used last, and overwrites them at its end. */
final class RowSealer implements AutoCloseable {
    /** As many as {@link MessageSealer} keeps of what it derives. */
    static final int MOST = 256;

    private final FetchedKeys fetched;
    private final MessageSealer sealer = new MessageSealer(Suite.AES_256_CTR_SHA3);
    private final Map<String, PhalanxKey> keys = new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, PhalanxKey> eldest) {
            if (size() <= MOST) {
                return false;
            }
            eldest.getValue().close();
            return true;
        }
    };
    private boolean closed;

    RowSealer(FetchedKeys fetched) {
        this.fetched = fetched;
    }

    synchronized byte[] apply(Columns function, String key, byte[] user, byte[] value) throws MessagesException {
        if (closed) {
            throw new IllegalStateException("the task has ended");
        }
        PhalanxKey found = keys.get(key);
        if (found == null) {
            found = fetched.copy(key);
            keys.put(key, found);
        }
        return function.apply(sealer, new Message(found, user, value));
    }

    /** How many keys it has, for tests. */
    synchronized int size() {
        return keys.size();
    }

    @Override
    public synchronized void close() {
        closed = true;
        sealer.close();
        keys.values().forEach(PhalanxKey::close);
        keys.clear();
    }
}
