package phalanx;

import java.util.Arrays;
import javax.crypto.SecretKey;

/** A key of AES for the JCE. Unlike a {@code SecretKeySpec} it can be overwritten. */
final class AesKey implements SecretKey {
    private static final long serialVersionUID = 1L;

    /** Never written elsewhere. */
    private final transient byte[] key;
    private volatile boolean destroyed;

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
    public byte[] getEncoded() {
        if (destroyed) {
            throw new IllegalStateException("its key was overwritten");
        }
        return key.clone();
    }

    /** Overwrites the key. */
    @Override
    public void destroy() {
        destroyed = true;
        Arrays.fill(key, (byte) 0);
    }

    @Override
    public boolean isDestroyed() {
        return destroyed;
    }
}
