package phalanx;

import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.Arrays;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.SecretKey;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import phalanx.primitives.Sponge;

/**
 * The common part of chunks and messages of a suite: AES by the JCE, and the digests of slices. It belongs to one
 * thread.
 */
final class UnitCipher implements AutoCloseable {
    /**
     * The JCE gets pieces of this length, which stay in the first-level cache. For in-place work it would copy its
     * whole input to new memory. Also, a new JVM compiles code sooner that is called often.
     */
    private static final int PIECE = 1 << 14;

    private static final int GCM_TAG_BITS = 128;
    private static final byte DOMAIN = 0x50;

    private final Suite suite;
    private final Cipher aes;
    private final Sponge sponge;
    private final SecureRandom random = new SecureRandom();
    private final byte[] nonce;
    private final byte[] piece;
    private byte[] digests = new byte[0];
    private byte[] scratch = new byte[0];

    UnitCipher(Suite suite) {
        this.suite = suite;
        this.nonce = new byte[suite.nonceBytes()];
        this.piece = new byte[suite.isCtr() ? PIECE : 0];
        this.sponge = suite == Suite.AES_256_CTR_TURBOSHAKE ? Sponge.turboShake(DOMAIN) : Sponge.sha3();
        try {
            this.aes = Cipher.getInstance(suite.isCtr() ? "AES/CTR/NoPadding" : "AES/GCM/NoPadding");
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("this Java has no AES", e);
        }
    }

    /** Writes a new nonce to the beginning of a unit. */
    void drawNonce(byte[] unit, int offset) {
        random.nextBytes(nonce);
        System.arraycopy(nonce, 0, unit, offset, nonce.length);
    }

    /** Encrypts or decrypts in place, under the nonce that lies elsewhere in the array. */
    void ctr(SecretKey key, byte[] data, int nonceOffset, int offset, int length) {
        try {
            aes.init(Cipher.ENCRYPT_MODE, key, new IvParameterSpec(data, nonceOffset, suite.nonceBytes()));
            int done = 0;
            for (; length - done > PIECE; done += PIECE) {
                aes.update(data, offset + done, PIECE, piece, 0);
                System.arraycopy(piece, 0, data, offset + done, PIECE);
            }
            aes.doFinal(data, offset + done, length - done, piece, 0);
            System.arraycopy(piece, 0, data, offset + done, length - done);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("AES failed", e);
        } finally {
            Arrays.fill(piece, 0, Math.min(PIECE, length), (byte) 0);
        }
    }

    /** The digests of the slices of a ciphertext, in an array that the next call overwrites. Returns their length. */
    int digest(byte[] data, int offset, int length, int slice) {
        int most = (length / slice + 1) * Sponge.DIGEST;
        if (digests.length < most) {
            digests = new byte[most];
        }
        return sponge.digests(data, offset, length, slice, digests) * Sponge.DIGEST;
    }

    /** The digests that {@link #digest} has computed. */
    byte[] digests() {
        return digests;
    }

    /** Seals a unit of suite 4 in place. The plaintext lies after room for nonce and tag, and the nonce is already there. */
    void sealGcm(SecretKey key, byte[] associated, byte[] unit, int offset, int length) {
        int tag = suite.tagBytes();
        int start = offset + suite.overhead();
        byte[] out = scratch(length + tag);
        try {
            initGcm(Cipher.ENCRYPT_MODE, key, associated, unit, offset);
            int done = 0;
            int written = 0;
            for (; length - done > PIECE; done += PIECE) {
                written += aes.update(unit, start + done, PIECE, out, written);
            }
            aes.doFinal(unit, start + done, length - done, out, written);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("AES failed", e);
        }
        System.arraycopy(out, 0, unit, start, length);
        System.arraycopy(out, length, unit, offset + suite.nonceBytes(), tag);
    }

    /** Opens a unit of suite 4 in place. Returns whether it is authentic. If not, it is unchanged. */
    boolean openGcm(SecretKey key, byte[] associated, byte[] unit, int offset, int length) {
        int tag = suite.tagBytes();
        int start = offset + suite.overhead();
        byte[] in = scratch(length + tag);
        System.arraycopy(unit, start, in, 0, length);
        System.arraycopy(unit, offset + suite.nonceBytes(), in, length, tag);
        try {
            initGcm(Cipher.DECRYPT_MODE, key, associated, unit, offset);
            aes.doFinal(in, 0, length + tag, unit, start);
            return true;
        } catch (AEADBadTagException e) {
            System.arraycopy(in, 0, unit, start, length);
            return false;
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("AES failed", e);
        }
    }

    private void initGcm(int mode, SecretKey key, byte[] associated, byte[] unit, int nonceOffset)
            throws GeneralSecurityException {
        aes.init(mode, key, new GCMParameterSpec(GCM_TAG_BITS, unit, nonceOffset, suite.nonceBytes()));
        aes.updateAAD(associated);
    }

    /** Overwrites what the JCE has of the last key: it does that when it gets another one. */
    @Override
    public void close() {
        AesKey zeros = new AesKey(new byte[suite.aesKeyBytes()]);
        byte[] iv = new byte[suite.nonceBytes()];
        try {
            aes.init(Cipher.DECRYPT_MODE, zeros, suite.isCtr() ? new IvParameterSpec(iv) : new GCMParameterSpec(GCM_TAG_BITS, iv));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("AES failed", e);
        }
    }

    /** A buffer that holds only ciphertext between calls. */
    private byte[] scratch(int length) {
        if (scratch.length < length) {
            scratch = new byte[length];
        }
        return scratch;
    }
}
