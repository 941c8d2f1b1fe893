package phalanx;

import java.io.NotSerializableException;
import java.io.ObjectOutputStream;
import java.util.Arrays;
import javax.crypto.SecretKey;

/** A key of AES for the JCE. Unlike a {@code SecretKeySpec} it can be overwritten, by another thread too. */
final class AesKey implements SecretKey {
    private static final long serialVersionUID = 1L;

    private final transient byte[] key;
    private transient boolean destroyed;

    /** The key is copied. */
    AesKey(byte[] key) {
        this.key = key.clone();
    }

    @Override
    public String getAlgorithm() {
        return "AES";
    }

    @Override
    public String getFormat() {
        return "RAW";
    }

    @Override
    public synchronized byte[] getEncoded() {
        if (destroyed) {
            throw new IllegalStateException("its key was overwritten");
        }
        return key.clone();
    }

    /** Overwrites the key. */
    @Override
    public synchronized void destroy() {
        destroyed = true;
        Arrays.fill(key, (byte) 0);
    }

    @Override
    public synchronized boolean isDestroyed() {
        return destroyed;
    }

    private void writeObject(ObjectOutputStream out) throws NotSerializableException {
        throw new NotSerializableException("a key of AES is not written anywhere");
    }
}
