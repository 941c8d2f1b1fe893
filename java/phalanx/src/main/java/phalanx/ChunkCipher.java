package phalanx;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.util.Arrays;
import phalanx.primitives.Kmac;

/**
 * Seals and opens the chunks of one file, in place. It belongs to one thread. Programs that divide a file among processes
 * use it with a {@link Layout}; others use {@link Protector} and {@link Unprotector}.
 *
 * <p>A chunk lies in an array as it does in the file: nonce, tag, ciphertext. Before it is sealed and after it is opened,
 * the plaintext is in the ciphertext's place. {@link #close} overwrites its keys, as far as Java allows: see {@link PhalanxKey}.
 */
public final class ChunkCipher implements AutoCloseable {
    private final Suite suite;
    private final int slice;
    private final UnitCipher unit;
    private final AesKey key;
    private final Kmac kmac;
    private final byte[] binding = new byte[Long.BYTES + 1];

    /**
     * For the chunks of a file.
     *
     * @param keys the file's keys, which are copied
     * @param chunkLog2 the binary logarithm of the chunk size, 12 … 24
     * @throws IllegalStateException if the keys are closed
     */
    public ChunkCipher(FileKeys keys, int chunkLog2) {
        suite = keys.suite();
        slice = Layout.sliceLength(chunkLog2);
        unit = new UnitCipher(suite);
        // Both are of the same keys, also if another thread closes them.
        synchronized (keys) {
            key = new AesKey(keys.encrypt());
            kmac = suite.isCtr() ? new Kmac(keys.mac(), "phalanx v1 chunk") : null;
        }
    }

    /**
     * Seals a chunk under a new nonce.
     *
     * @param chunk the array: room for nonce and tag, then the plaintext
     * @param offset where the chunk begins in the array
     * @param length the length of the plaintext
     * @param index the index of the chunk in its file
     * @param last whether it is the file's last chunk
     */
    public void seal(byte[] chunk, int offset, int length, long index, boolean last) {
        unit.drawNonce(chunk, offset);
        sealUnder(chunk, offset, length, index, last);
    }

    /** Seals a chunk under the nonce that is already in its place. */
    void sealUnder(byte[] chunk, int offset, int length, long index, boolean last) {
        if (!suite.isCtr()) {
            unit.sealGcm(key, binding(index, last), chunk, offset, length);
            return;
        }
        unit.ctr(key, chunk, offset, offset + suite.overhead(), length);
        byte[] tag = tag(chunk, offset, length, index, last);
        System.arraycopy(tag, 0, chunk, offset + suite.nonceBytes(), tag.length);
    }

    /**
     * Opens a chunk.
     *
     * @param chunk the array: nonce, tag, ciphertext
     * @param offset where the chunk begins in the array
     * @param length the length of the ciphertext
     * @param index the index of the chunk in its file
     * @param last whether it is the file's last chunk
     * @throws AuthenticationException if the chunk is not authentic. It is then unchanged
     */
    public void open(byte[] chunk, int offset, int length, long index, boolean last) throws AuthenticationException {
        if (!isAuthentic(chunk, offset, length, index, last)) {
            throw AuthenticationException.chunk(index, last);
        }
        if (suite.isCtr()) {
            unit.ctr(key, chunk, offset, offset + suite.overhead(), length);
        }
    }

    /** Whether the chunk is authentic. In suite 4 it is then opened. */
    private boolean isAuthentic(byte[] chunk, int offset, int length, long index, boolean last) {
        if (!suite.isCtr()) {
            return unit.openGcm(key, binding(index, last), chunk, offset, length);
        }
        int start = offset + suite.nonceBytes();
        byte[] found = Arrays.copyOfRange(chunk, start, start + suite.tagBytes());
        return MessageDigest.isEqual(tag(chunk, offset, length, index, last), found);
    }

    private byte[] tag(byte[] chunk, int offset, int length, long index, boolean last) {
        int digests = unit.digest(chunk, offset + suite.overhead(), length, slice);
        kmac.update(chunk, offset, suite.nonceBytes());
        kmac.update(binding(index, last), 0, binding.length);
        kmac.update(unit.digests(), 0, digests);
        return kmac.finish(suite.tagBytes());
    }

    /** Overwrites the keys. It cannot be used any more. */
    @Override
    public void close() {
        key.destroy();
        if (kmac != null) {
            kmac.close();
        }
        unit.close();
    }

    private byte[] binding(long index, boolean last) {
        ByteBuffer.wrap(binding).order(ByteOrder.LITTLE_ENDIAN).putLong(index).put((byte) (last ? 1 : 0));
        return binding;
    }
}
