package phalanx;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Seals and opens short messages one by one, for programs that get them so: the same bytes as {@link Messages}, which is for batches. What is derived
 * from the last 256 keys is kept until {@link #close} overwrites it, as far as Java allows: see {@link PhalanxKey}. One value may be used from many threads, which then wait for
 * one another.
 *
 * <pre>{@code
 * try (MessageSealer sealer = new MessageSealer(Suite.AES_256_CTR_SHA3)) {
 *     byte[] sealed = sealer.seal(new Message(key, plaintext));
 *     byte[] opened = sealer.open(new Message(key, sealed));
 * }
 * }</pre>
 */
public final class MessageSealer implements AutoCloseable {
    /** Some hundred bytes each. */
    private static final int MOST = 256;

    private final Suite suite;
    private final MessageCipher cipher;
    private final Map<PhalanxKey, MessageKeys> kept = new Latest();
    private boolean closed;

    /**
     * For messages of a suite.
     *
     * @param suite the suite
     */
    public MessageSealer(Suite suite) {
        this.suite = suite;
        this.cipher = new MessageCipher(suite);
    }

    /** The keys that were used last. */
    private static final class Latest extends LinkedHashMap<PhalanxKey, MessageKeys> {
        private static final long serialVersionUID = 1L;

        Latest() {
            super(16, 0.75f, true);
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<PhalanxKey, MessageKeys> eldest) {
            if (size() <= MOST) {
                return false;
            }
            eldest.getValue().close();
            return true;
        }
    }

    /**
     * Seals a message.
     *
     * @param message the message, with its plaintext
     * @return the sealed message, 48 bytes longer than its plaintext, or 28 in suite 4
     */
    public synchronized byte[] seal(Message message) {
        MessageKeys keys = keys(message.key());
        boolean done = false;
        try {
            byte[] sealed = cipher.seal(keys, message.associatedData(), message.content());
            done = true;
            return sealed;
        } finally {
            if (!done) {
                forget(message.key());
            }
        }
    }

    /**
     * Opens a message.
     *
     * @param message the message, sealed
     * @return the plaintext
     * @throws MessagesException if it is not authentic
     */
    public synchronized byte[] open(Message message) throws MessagesException {
        MessageKeys keys = keys(message.key());
        boolean done = false;
        try {
            byte[] opened = cipher.open(keys, message.associatedData(), message.content());
            done = true;
            if (opened == null) {
                throw new MessagesException(List.of(0));
            }
            return opened;
        } finally {
            if (!done) {
                forget(message.key());
            }
        }
    }

    private MessageKeys keys(PhalanxKey key) {
        if (closed) {
            throw new IllegalStateException("the sealer is closed");
        }
        // A key that is closed is used no more.
        key.open();
        MessageKeys keys = kept.get(key);
        if (keys == null) {
            keys = new MessageKeys(key, suite);
            kept.put(key, keys);
        }
        return keys;
    }

    /** A failure in the middle, such as too little memory, may leave half of a message in the state of the MAC. */
    private void forget(PhalanxKey key) {
        MessageKeys keys = kept.remove(key);
        if (keys != null) {
            keys.close();
        }
    }

    /** Overwrites the keys that are kept. It cannot be used any more. */
    @Override
    public synchronized void close() {
        closed = true;
        kept.values().forEach(MessageKeys::close);
        kept.clear();
        cipher.close();
    }
}
