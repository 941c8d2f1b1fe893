package phalanx;

import phalanx.primitives.Kmac;

/**
 * What is derived from a key for its messages: docs/format.md, section 7. It belongs to one thread. {@link #close} overwrites it, as far as Java allows:
 * see {@link PhalanxKey}.
 */
final class MessageKeys implements AutoCloseable {
    private final FileKeys keys;
    private final AesKey aes;
    /** Nothing in suite 4, which has no such tag. */
    private final Kmac mac;

    MessageKeys(PhalanxKey key, Suite suite) {
        this(key.messageKeys(suite));
    }

    MessageKeys(FileKeys keys) {
        this.keys = keys;
        synchronized (keys) {
            aes = new AesKey(keys.encrypt());
            mac = keys.suite().isCtr() ? new Kmac(keys.mac(), "phalanx v1 message") : null;
        }
    }

    AesKey aes() {
        return aes;
    }

    Kmac mac() {
        return mac;
    }

    @Override
    public void close() {
        keys.close();
        aes.destroy();
        if (mac != null) {
            mac.close();
        }
    }
}
