package phalanx.primitives;

import java.lang.invoke.VarHandle;
import java.util.Arrays;

/**
 * A hash function of the Keccak family with a rate of 136 bytes, and the digests of many slices at once.
 *
 * <p>A value of this type belongs to one thread, since it holds the states.
 */
public final class Sponge {
    /** The length of a digest in bytes. */
    public static final int DIGEST = 32;

    private static final VarHandle WORD = Lanes.WORD;
    private static final int BLOCK_WORDS = Keccak.RATE / Long.BYTES;

    private final int rounds;
    private final int domain;
    private final Lanes lanes;
    private final long[] state = new long[Keccak.WORDS];
    private long[] wide;

    /** With lanes of one's own, for tests. */
    Sponge(int rounds, int domain, Lanes lanes) {
        this.rounds = rounds;
        this.domain = domain;
        this.lanes = lanes;
    }

    /**
     * How this JVM hashes many slices.
     *
     * @return for example {@code vectors of 8}, or {@code loops over 64} without the module {@code jdk.incubator.vector}
     */
    public static String engine() {
        return Lanes.HERE.title();
    }

    /**
     * SHA3-256 (FIPS 202, section 6.1).
     *
     * @return the hash function
     */
    public static Sponge sha3() {
        return new Sponge(Keccak.ROUNDS, 0x06, Lanes.HERE);
    }

    /**
     * TurboSHAKE256 (RFC 9861, section 2.2).
     *
     * @param domain the domain separation byte, 1 … 127
     * @return the hash function
     */
    public static Sponge turboShake(int domain) {
        return new Sponge(12, domain, Lanes.HERE);
    }

    /**
     * The hash of some bytes.
     *
     * @param data the array with the bytes
     * @param offset the offset of the first byte
     * @param length the number of bytes
     * @param out the array for the hash
     * @param outOffset its place there
     * @param outLength its length in bytes
     */
    public void hash(byte[] data, int offset, int length, byte[] out, int outOffset, int outLength) {
        long[] s = state;
        Arrays.fill(s, 0);
        int at = offset;
        int end = offset + length;
        for (; end - at >= Keccak.RATE; at += Keccak.RATE) {
            for (int w = 0; w < BLOCK_WORDS; w++) {
                s[w] ^= (long) WORD.get(data, at + w * Long.BYTES);
            }
            Keccak.permute(s, rounds);
        }
        for (int i = 0; i < end - at; i++) {
            s[i >> 3] ^= (data[at + i] & 0xffL) << ((i & 7) * 8);
        }
        s[(end - at) >> 3] ^= (long) domain << (((end - at) & 7) * 8);
        s[BLOCK_WORDS - 1] ^= Long.MIN_VALUE;
        Keccak.permute(s, rounds);
        for (int done = 0; done < outLength; done++) {
            int i = done % Keccak.RATE;
            if (i == 0 && done > 0) {
                Keccak.permute(s, rounds);
            }
            out[outOffset + done] = (byte) (s[i >> 3] >>> ((i & 7) * 8));
        }
    }

    /**
     * The digests of slices, one after another. The last slice may be short. Empty input has no slice.
     *
     * @param data the array with the slices, one after another
     * @param offset the first byte
     * @param length the length of all slices together
     * @param slice the length of a slice, a multiple of 8
     * @param out the array for the digests
     * @return how many digests there are
     */
    public int digests(byte[] data, int offset, int length, int slice, byte[] out) {
        int whole = length / slice;
        int done = 0;
        while (whole - done >= lanes.worthwhile) {
            int taken = Math.min(lanes.states, whole - done);
            group(data, offset + done * slice, taken, slice, out, done * DIGEST);
            done += taken;
        }
        int count = (length + slice - 1) / slice;
        for (; done < count; done++) {
            int start = done * slice;
            hash(data, offset + start, Math.min(slice, length - start), out, done * DIGEST, DIGEST);
        }
        return count;
    }

    /** The digests of a group of whole slices. The content of further lanes does not matter. */
    private void group(byte[] data, int offset, int taken, int slice, byte[] out, int outOffset) {
        if (wide == null) {
            wide = new long[lanes.words];
        }
        long[] s = wide;
        int stride = lanes.stride;
        Arrays.fill(s, 0, Keccak.WORDS * stride, 0);
        int words = slice / Long.BYTES;
        int first = 0;
        for (; words - first >= BLOCK_WORDS; first += BLOCK_WORDS) {
            lanes.absorb(s, data, offset + first * Long.BYTES, taken, slice);
            lanes.permute(s, rounds);
        }
        for (int l = 0; l < taken; l++) {
            for (int w = first; w < words; w++) {
                s[(w - first) * stride + l] ^= (long) WORD.get(data, offset + l * slice + w * Long.BYTES);
            }
            s[(words - first) * stride + l] ^= domain;
            s[(BLOCK_WORDS - 1) * stride + l] ^= Long.MIN_VALUE;
        }
        lanes.permute(s, rounds);
        for (int l = 0; l < taken; l++) {
            for (int w = 0; w < DIGEST / Long.BYTES; w++) {
                WORD.set(out, outOffset + l * DIGEST + w * Long.BYTES, s[w * stride + l]);
            }
        }
    }
}
