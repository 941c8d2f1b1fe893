package phalanx.primitives;

/**
 * The permutation of {@link Keccak} on many states side by side, in plain Java.
 *
 * <p>Word w of state l is at {@code w · STRIDE + l} of one array, so each step is a loop over neighbouring words
 * without branches. C2 compiles such loops to vector instructions (AVX2, AVX-512, NEON). They are all in one array,
 * because C2 can then see that the lines of a loop do not overlap. Each loop is a separate method, because C2 gives up
 * on large methods.
 */
final class WideKeccak extends Lanes {
    private static final int LANES = 64;
    /** The distance between two words of a state. At 64, some would be 4 KiB apart, which CPUs take for the same place. */
    private static final int STRIDE = LANES + 8;

    /** The states after rho and pi. */
    private static final int B = 25 * STRIDE;
    /** The parities of columns. */
    private static final int C = 50 * STRIDE;

    WideKeccak() {
        super(LANES, STRIDE, 55 * STRIDE, 28);
    }

    @Override
    String title() {
        return "loops over " + LANES;
    }

    @Override
    void absorb(long[] s, byte[] data, int offset, int taken, int slice) {
        for (int l = 0; l < taken; l++) {
            int at = offset + l * slice;
            s[l] ^= (long) WORD.get(data, at);
            s[STRIDE + l] ^= (long) WORD.get(data, at + 8);
            s[2 * STRIDE + l] ^= (long) WORD.get(data, at + 16);
            s[3 * STRIDE + l] ^= (long) WORD.get(data, at + 24);
            s[4 * STRIDE + l] ^= (long) WORD.get(data, at + 32);
            s[5 * STRIDE + l] ^= (long) WORD.get(data, at + 40);
            s[6 * STRIDE + l] ^= (long) WORD.get(data, at + 48);
            s[7 * STRIDE + l] ^= (long) WORD.get(data, at + 56);
            s[8 * STRIDE + l] ^= (long) WORD.get(data, at + 64);
            s[9 * STRIDE + l] ^= (long) WORD.get(data, at + 72);
            s[10 * STRIDE + l] ^= (long) WORD.get(data, at + 80);
            s[11 * STRIDE + l] ^= (long) WORD.get(data, at + 88);
            s[12 * STRIDE + l] ^= (long) WORD.get(data, at + 96);
            s[13 * STRIDE + l] ^= (long) WORD.get(data, at + 104);
            s[14 * STRIDE + l] ^= (long) WORD.get(data, at + 112);
            s[15 * STRIDE + l] ^= (long) WORD.get(data, at + 120);
            s[16 * STRIDE + l] ^= (long) WORD.get(data, at + 128);
        }
    }

    @Override
    void permute(long[] s, int rounds) {
        for (int round = Keccak.ROUNDS - rounds; round < Keccak.ROUNDS; round++) {
            parity0(s);
            parity1(s);
            parity2(s);
            parity3(s);
            parity4(s);
            column0(s);
            column1(s);
            column2(s);
            column3(s);
            column4(s);
            row0(s, Keccak.constant(round));
            row1(s);
            row2(s);
            row3(s);
            row4(s);
        }
    }

    /** The first half of theta: the parity of one column. C2 does not vectorize a loop that writes all five. */
    private static void parity0(long[] s) {
        for (int l = 0; l < LANES; l++) {
            s[C + l] =
                    s[l] ^ s[5 * STRIDE + l] ^ s[10 * STRIDE + l] ^ s[15 * STRIDE + l] ^ s[20 * STRIDE + l];
        }
    }

    private static void parity1(long[] s) {
        for (int l = 0; l < LANES; l++) {
            s[C + STRIDE + l] =
                    s[STRIDE + l] ^ s[6 * STRIDE + l] ^ s[11 * STRIDE + l] ^ s[16 * STRIDE + l] ^ s[21 * STRIDE + l];
        }
    }

    private static void parity2(long[] s) {
        for (int l = 0; l < LANES; l++) {
            s[C + 2 * STRIDE + l] =
                    s[2 * STRIDE + l] ^ s[7 * STRIDE + l] ^ s[12 * STRIDE + l] ^ s[17 * STRIDE + l] ^ s[22 * STRIDE + l];
        }
    }

    private static void parity3(long[] s) {
        for (int l = 0; l < LANES; l++) {
            s[C + 3 * STRIDE + l] =
                    s[3 * STRIDE + l] ^ s[8 * STRIDE + l] ^ s[13 * STRIDE + l] ^ s[18 * STRIDE + l] ^ s[23 * STRIDE + l];
        }
    }

    private static void parity4(long[] s) {
        for (int l = 0; l < LANES; l++) {
            s[C + 4 * STRIDE + l] =
                    s[4 * STRIDE + l] ^ s[9 * STRIDE + l] ^ s[14 * STRIDE + l] ^ s[19 * STRIDE + l] ^ s[24 * STRIDE + l];
        }
    }

    /** The second half of theta, rho and pi, for the words of one column. */
    private static void column0(long[] s) {
        for (int l = 0; l < LANES; l++) {
            long d = s[C + 4 * STRIDE + l] ^ Long.rotateLeft(s[C + STRIDE + l], 1);
            s[B + l] = s[l] ^ d;
            s[B + 16 * STRIDE + l] = Long.rotateLeft(s[5 * STRIDE + l] ^ d, 36);
            s[B + 7 * STRIDE + l] = Long.rotateLeft(s[10 * STRIDE + l] ^ d, 3);
            s[B + 23 * STRIDE + l] = Long.rotateLeft(s[15 * STRIDE + l] ^ d, 41);
            s[B + 14 * STRIDE + l] = Long.rotateLeft(s[20 * STRIDE + l] ^ d, 18);
        }
    }

    private static void column1(long[] s) {
        for (int l = 0; l < LANES; l++) {
            long d = s[C + l] ^ Long.rotateLeft(s[C + 2 * STRIDE + l], 1);
            s[B + 10 * STRIDE + l] = Long.rotateLeft(s[STRIDE + l] ^ d, 1);
            s[B + STRIDE + l] = Long.rotateLeft(s[6 * STRIDE + l] ^ d, 44);
            s[B + 17 * STRIDE + l] = Long.rotateLeft(s[11 * STRIDE + l] ^ d, 10);
            s[B + 8 * STRIDE + l] = Long.rotateLeft(s[16 * STRIDE + l] ^ d, 45);
            s[B + 24 * STRIDE + l] = Long.rotateLeft(s[21 * STRIDE + l] ^ d, 2);
        }
    }

    private static void column2(long[] s) {
        for (int l = 0; l < LANES; l++) {
            long d = s[C + STRIDE + l] ^ Long.rotateLeft(s[C + 3 * STRIDE + l], 1);
            s[B + 20 * STRIDE + l] = Long.rotateLeft(s[2 * STRIDE + l] ^ d, 62);
            s[B + 11 * STRIDE + l] = Long.rotateLeft(s[7 * STRIDE + l] ^ d, 6);
            s[B + 2 * STRIDE + l] = Long.rotateLeft(s[12 * STRIDE + l] ^ d, 43);
            s[B + 18 * STRIDE + l] = Long.rotateLeft(s[17 * STRIDE + l] ^ d, 15);
            s[B + 9 * STRIDE + l] = Long.rotateLeft(s[22 * STRIDE + l] ^ d, 61);
        }
    }

    private static void column3(long[] s) {
        for (int l = 0; l < LANES; l++) {
            long d = s[C + 2 * STRIDE + l] ^ Long.rotateLeft(s[C + 4 * STRIDE + l], 1);
            s[B + 5 * STRIDE + l] = Long.rotateLeft(s[3 * STRIDE + l] ^ d, 28);
            s[B + 21 * STRIDE + l] = Long.rotateLeft(s[8 * STRIDE + l] ^ d, 55);
            s[B + 12 * STRIDE + l] = Long.rotateLeft(s[13 * STRIDE + l] ^ d, 25);
            s[B + 3 * STRIDE + l] = Long.rotateLeft(s[18 * STRIDE + l] ^ d, 21);
            s[B + 19 * STRIDE + l] = Long.rotateLeft(s[23 * STRIDE + l] ^ d, 56);
        }
    }

    private static void column4(long[] s) {
        for (int l = 0; l < LANES; l++) {
            long d = s[C + 3 * STRIDE + l] ^ Long.rotateLeft(s[C + l], 1);
            s[B + 15 * STRIDE + l] = Long.rotateLeft(s[4 * STRIDE + l] ^ d, 27);
            s[B + 6 * STRIDE + l] = Long.rotateLeft(s[9 * STRIDE + l] ^ d, 20);
            s[B + 22 * STRIDE + l] = Long.rotateLeft(s[14 * STRIDE + l] ^ d, 39);
            s[B + 13 * STRIDE + l] = Long.rotateLeft(s[19 * STRIDE + l] ^ d, 8);
            s[B + 4 * STRIDE + l] = Long.rotateLeft(s[24 * STRIDE + l] ^ d, 14);
        }
    }

    /** Chi for one row, and iota in the first. */
    private static void row0(long[] s, long constant) {
        for (int l = 0; l < LANES; l++) {
            long b0 = s[B + l];
            long b1 = s[B + STRIDE + l];
            long b2 = s[B + 2 * STRIDE + l];
            long b3 = s[B + 3 * STRIDE + l];
            long b4 = s[B + 4 * STRIDE + l];
            s[l] = b0 ^ (~b1 & b2) ^ constant;
            s[STRIDE + l] = b1 ^ (~b2 & b3);
            s[2 * STRIDE + l] = b2 ^ (~b3 & b4);
            s[3 * STRIDE + l] = b3 ^ (~b4 & b0);
            s[4 * STRIDE + l] = b4 ^ (~b0 & b1);
        }
    }

    private static void row1(long[] s) {
        for (int l = 0; l < LANES; l++) {
            long b0 = s[B + 5 * STRIDE + l];
            long b1 = s[B + 6 * STRIDE + l];
            long b2 = s[B + 7 * STRIDE + l];
            long b3 = s[B + 8 * STRIDE + l];
            long b4 = s[B + 9 * STRIDE + l];
            s[5 * STRIDE + l] = b0 ^ (~b1 & b2);
            s[6 * STRIDE + l] = b1 ^ (~b2 & b3);
            s[7 * STRIDE + l] = b2 ^ (~b3 & b4);
            s[8 * STRIDE + l] = b3 ^ (~b4 & b0);
            s[9 * STRIDE + l] = b4 ^ (~b0 & b1);
        }
    }

    private static void row2(long[] s) {
        for (int l = 0; l < LANES; l++) {
            long b0 = s[B + 10 * STRIDE + l];
            long b1 = s[B + 11 * STRIDE + l];
            long b2 = s[B + 12 * STRIDE + l];
            long b3 = s[B + 13 * STRIDE + l];
            long b4 = s[B + 14 * STRIDE + l];
            s[10 * STRIDE + l] = b0 ^ (~b1 & b2);
            s[11 * STRIDE + l] = b1 ^ (~b2 & b3);
            s[12 * STRIDE + l] = b2 ^ (~b3 & b4);
            s[13 * STRIDE + l] = b3 ^ (~b4 & b0);
            s[14 * STRIDE + l] = b4 ^ (~b0 & b1);
        }
    }

    private static void row3(long[] s) {
        for (int l = 0; l < LANES; l++) {
            long b0 = s[B + 15 * STRIDE + l];
            long b1 = s[B + 16 * STRIDE + l];
            long b2 = s[B + 17 * STRIDE + l];
            long b3 = s[B + 18 * STRIDE + l];
            long b4 = s[B + 19 * STRIDE + l];
            s[15 * STRIDE + l] = b0 ^ (~b1 & b2);
            s[16 * STRIDE + l] = b1 ^ (~b2 & b3);
            s[17 * STRIDE + l] = b2 ^ (~b3 & b4);
            s[18 * STRIDE + l] = b3 ^ (~b4 & b0);
            s[19 * STRIDE + l] = b4 ^ (~b0 & b1);
        }
    }

    private static void row4(long[] s) {
        for (int l = 0; l < LANES; l++) {
            long b0 = s[B + 20 * STRIDE + l];
            long b1 = s[B + 21 * STRIDE + l];
            long b2 = s[B + 22 * STRIDE + l];
            long b3 = s[B + 23 * STRIDE + l];
            long b4 = s[B + 24 * STRIDE + l];
            s[20 * STRIDE + l] = b0 ^ (~b1 & b2);
            s[21 * STRIDE + l] = b1 ^ (~b2 & b3);
            s[22 * STRIDE + l] = b2 ^ (~b3 & b4);
            s[23 * STRIDE + l] = b3 ^ (~b4 & b0);
            s[24 * STRIDE + l] = b4 ^ (~b0 & b1);
        }
    }
}
