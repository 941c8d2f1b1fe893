package phalanx.primitives;

import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * KMAC256 (SP 800-185, section 4.3) under one key and with one customization string. A value of this type belongs to one thread. {@link #close}
 * overwrites what it has of the key.
 */
public final class Kmac implements AutoCloseable {
    private static final int RATE = Keccak.RATE;
    private static final int DOMAIN = 0x04;
    private static final VarHandle WORD = Lanes.WORD;

    /** The states after the first block, which depends on the customization string alone. The format has a few of these. */
    private static final Map<String, long[]> BEGUN = new ConcurrentHashMap<>();
    private static final int MOST_BEGUN = 64;

    /** The state after the key. */
    private final long[] keyed;
    private final long[] s;
    /** How many bytes of a block are in the state. */
    private int at;
    private boolean closed;

    /** The state after some first blocks. */
    private Kmac(long[] begun) {
        s = begun.clone();
        keyed = new long[Keccak.WORDS];
    }

    /**
     * Under a key.
     *
     * @param key the key
     * @param customization the customization string
     * @throws IllegalArgumentException if the customization string is not in ASCII
     */
    public Kmac(byte[] key, String customization) {
        this(begun(customization));
        leftEncode(RATE);
        encode(key);
        pad();
        System.arraycopy(s, 0, keyed, 0, s.length);
    }

    private static long[] begun(String customization) {
        long[] begun = BEGUN.get(customization);
        if (begun == null) {
            begun = begin(customization);
            if (BEGUN.size() < MOST_BEGUN) {
                BEGUN.put(customization, begun);
            }
        }
        return begun;
    }

    private static long[] begin(String customization) {
        if (!StandardCharsets.US_ASCII.newEncoder().canEncode(customization)) {
            throw new IllegalArgumentException("the customization string is not in ASCII");
        }
        Kmac first = new Kmac(new long[Keccak.WORDS]);
        first.leftEncode(RATE);
        first.encode("KMAC".getBytes(StandardCharsets.US_ASCII));
        first.encode(customization.getBytes(StandardCharsets.US_ASCII));
        first.pad();
        return first.s;
    }

    /**
     * The output for one message.
     *
     * @param key the key
     * @param message the message
     * @param length the length of the output in bytes
     * @param customization the customization string, in ASCII
     * @return the output
     */
    public static byte[] of(byte[] key, byte[] message, int length, String customization) {
        try (Kmac kmac = new Kmac(key, customization)) {
            kmac.update(message, 0, message.length);
            return kmac.finish(length);
        }
    }

    /**
     * Adds a part of the message.
     *
     * @param data the array with the part
     * @param offset its first byte
     * @param length its length
     * @throws IllegalStateException after {@link #close}
     */
    public void update(byte[] data, int offset, int length) {
        requireOpen();
        int from = offset;
        int end = offset + length;
        while (from < end) {
            if ((at & 7) == 0 && end - from >= Long.BYTES) {
                s[at >> 3] ^= (long) WORD.get(data, from);
                at += Long.BYTES;
                from += Long.BYTES;
            } else {
                s[at >> 3] ^= (data[from] & 0xffL) << ((at & 7) * 8);
                at++;
                from++;
            }
            if (at == RATE) {
                pad();
            }
        }
    }

    /** Fills the block with zeros, and goes on with the next one. */
    private void pad() {
        if (at > 0) {
            Keccak.permute(s, Keccak.ROUNDS);
            at = 0;
        }
    }

    /** A text, with its length in bits before it. */
    private void encode(byte[] text) {
        leftEncode(text.length * 8L);
        update(text, 0, text.length);
    }

    private void leftEncode(long value) {
        byte[] encoded = new byte[9];
        int count = bytes(value, encoded, 1);
        encoded[0] = (byte) count;
        update(encoded, 0, count + 1);
    }

    private void rightEncode(long value) {
        byte[] encoded = new byte[9];
        int count = bytes(value, encoded, 0);
        encoded[count] = (byte) count;
        update(encoded, 0, count + 1);
    }

    /** The bytes of a number, the highest one that is not 0 first, and at least one. Returns their count. */
    private static int bytes(long value, byte[] into, int offset) {
        int count = Math.max(1, (Long.SIZE - Long.numberOfLeadingZeros(value) + 7) / 8);
        for (int i = 0; i < count; i++) {
            into[offset + i] = (byte) (value >>> (8 * (count - 1 - i)));
        }
        return count;
    }

    /**
     * Ends the message. The next one may then begin.
     *
     * @param length the length of the output in bytes, which is part of the computation
     * @return the output
     * @throws IllegalStateException after {@link #close}
     */
    public byte[] finish(int length) {
        requireOpen();
        rightEncode(length * 8L);
        s[at >> 3] ^= (long) DOMAIN << ((at & 7) * 8);
        s[RATE / Long.BYTES - 1] ^= Long.MIN_VALUE;
        Keccak.permute(s, Keccak.ROUNDS);
        byte[] out = new byte[length];
        for (int done = 0; done < length; done++) {
            int i = done % RATE;
            if (i == 0 && done > 0) {
                Keccak.permute(s, Keccak.ROUNDS);
            }
            out[done] = (byte) (s[i >> 3] >>> ((i & 7) * 8));
        }
        System.arraycopy(keyed, 0, s, 0, s.length);
        at = 0;
        return out;
    }

    private void requireOpen() {
        if (closed) {
            throw new IllegalStateException("its key was overwritten");
        }
    }

    /** Overwrites what is left of the key. */
    @Override
    public void close() {
        closed = true;
        Arrays.fill(keyed, 0);
        Arrays.fill(s, 0);
    }
}
