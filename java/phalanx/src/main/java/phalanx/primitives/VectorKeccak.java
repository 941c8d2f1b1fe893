package phalanx.primitives;

import static jdk.incubator.vector.VectorOperators.AND_NOT;
import static jdk.incubator.vector.VectorOperators.ROL;
import static jdk.incubator.vector.VectorOperators.XOR;

import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * The permutation of {@link Keccak} on as many states as a vector of the CPU has words, by the JDK's Vector API. The module
 * is there only if the JVM was started with {@code --add-modules jdk.incubator.vector}, so {@link Lanes} has this class by
 * name.
 *
 * <p>C2 makes one instruction of each operation on vectors of a constant shape, and joins logical ones on AVX-512. It does
 * so only in calls that it inlines. It always inlines those of the API, and not always those of our own methods: there are
 * none.
 */
final class VectorKeccak extends Lanes {
    private static final VectorSpecies<Long> SHAPE = LongVector.SPECIES_PREFERRED;
    /** A constant for C2, which a field of the superclass is not. */
    private static final int STATES = SHAPE.length();

    VectorKeccak() {
        super(STATES, STATES, Keccak.WORDS * STATES, 2);
    }

    @Override
    String title() {
        return "vectors of " + STATES;
    }

    @Override
    void absorb(long[] s, byte[] data, int offset, int taken, int slice) {
        for (int l = 0; l < taken; l++) {
            int at = offset + l * slice;
            s[l] ^= (long) WORD.get(data, at);
            s[STATES + l] ^= (long) WORD.get(data, at + 8);
            s[2 * STATES + l] ^= (long) WORD.get(data, at + 16);
            s[3 * STATES + l] ^= (long) WORD.get(data, at + 24);
            s[4 * STATES + l] ^= (long) WORD.get(data, at + 32);
            s[5 * STATES + l] ^= (long) WORD.get(data, at + 40);
            s[6 * STATES + l] ^= (long) WORD.get(data, at + 48);
            s[7 * STATES + l] ^= (long) WORD.get(data, at + 56);
            s[8 * STATES + l] ^= (long) WORD.get(data, at + 64);
            s[9 * STATES + l] ^= (long) WORD.get(data, at + 72);
            s[10 * STATES + l] ^= (long) WORD.get(data, at + 80);
            s[11 * STATES + l] ^= (long) WORD.get(data, at + 88);
            s[12 * STATES + l] ^= (long) WORD.get(data, at + 96);
            s[13 * STATES + l] ^= (long) WORD.get(data, at + 104);
            s[14 * STATES + l] ^= (long) WORD.get(data, at + 112);
            s[15 * STATES + l] ^= (long) WORD.get(data, at + 120);
            s[16 * STATES + l] ^= (long) WORD.get(data, at + 128);
        }
    }

    /** Two rounds in each turn: with one, C2 moves more of the state between registers and the stack. */
    @Override
    void permute(long[] s, int rounds) {
        LongVector a0 = LongVector.fromArray(SHAPE, s, 0);
        LongVector a1 = LongVector.fromArray(SHAPE, s, STATES);
        LongVector a2 = LongVector.fromArray(SHAPE, s, 2 * STATES);
        LongVector a3 = LongVector.fromArray(SHAPE, s, 3 * STATES);
        LongVector a4 = LongVector.fromArray(SHAPE, s, 4 * STATES);
        LongVector a5 = LongVector.fromArray(SHAPE, s, 5 * STATES);
        LongVector a6 = LongVector.fromArray(SHAPE, s, 6 * STATES);
        LongVector a7 = LongVector.fromArray(SHAPE, s, 7 * STATES);
        LongVector a8 = LongVector.fromArray(SHAPE, s, 8 * STATES);
        LongVector a9 = LongVector.fromArray(SHAPE, s, 9 * STATES);
        LongVector a10 = LongVector.fromArray(SHAPE, s, 10 * STATES);
        LongVector a11 = LongVector.fromArray(SHAPE, s, 11 * STATES);
        LongVector a12 = LongVector.fromArray(SHAPE, s, 12 * STATES);
        LongVector a13 = LongVector.fromArray(SHAPE, s, 13 * STATES);
        LongVector a14 = LongVector.fromArray(SHAPE, s, 14 * STATES);
        LongVector a15 = LongVector.fromArray(SHAPE, s, 15 * STATES);
        LongVector a16 = LongVector.fromArray(SHAPE, s, 16 * STATES);
        LongVector a17 = LongVector.fromArray(SHAPE, s, 17 * STATES);
        LongVector a18 = LongVector.fromArray(SHAPE, s, 18 * STATES);
        LongVector a19 = LongVector.fromArray(SHAPE, s, 19 * STATES);
        LongVector a20 = LongVector.fromArray(SHAPE, s, 20 * STATES);
        LongVector a21 = LongVector.fromArray(SHAPE, s, 21 * STATES);
        LongVector a22 = LongVector.fromArray(SHAPE, s, 22 * STATES);
        LongVector a23 = LongVector.fromArray(SHAPE, s, 23 * STATES);
        LongVector a24 = LongVector.fromArray(SHAPE, s, 24 * STATES);
        for (int round = Keccak.ROUNDS - rounds; round < Keccak.ROUNDS; round += 2) {
            LongVector c0 = a0.lanewise(XOR, a5).lanewise(XOR, a10).lanewise(XOR, a15).lanewise(XOR, a20);
            LongVector c1 = a1.lanewise(XOR, a6).lanewise(XOR, a11).lanewise(XOR, a16).lanewise(XOR, a21);
            LongVector c2 = a2.lanewise(XOR, a7).lanewise(XOR, a12).lanewise(XOR, a17).lanewise(XOR, a22);
            LongVector c3 = a3.lanewise(XOR, a8).lanewise(XOR, a13).lanewise(XOR, a18).lanewise(XOR, a23);
            LongVector c4 = a4.lanewise(XOR, a9).lanewise(XOR, a14).lanewise(XOR, a19).lanewise(XOR, a24);
            LongVector d0 = c4.lanewise(XOR, c1.lanewise(ROL, 1));
            LongVector d1 = c0.lanewise(XOR, c2.lanewise(ROL, 1));
            LongVector d2 = c1.lanewise(XOR, c3.lanewise(ROL, 1));
            LongVector d3 = c2.lanewise(XOR, c4.lanewise(ROL, 1));
            LongVector d4 = c3.lanewise(XOR, c0.lanewise(ROL, 1));
            LongVector b0 = a0.lanewise(XOR, d0);
            LongVector b1 = a6.lanewise(XOR, d1).lanewise(ROL, 44);
            LongVector b2 = a12.lanewise(XOR, d2).lanewise(ROL, 43);
            LongVector b3 = a18.lanewise(XOR, d3).lanewise(ROL, 21);
            LongVector b4 = a24.lanewise(XOR, d4).lanewise(ROL, 14);
            LongVector e0 = b0.lanewise(XOR, b2.lanewise(AND_NOT, b1)).lanewise(XOR, Keccak.constant(round));
            LongVector e1 = b1.lanewise(XOR, b3.lanewise(AND_NOT, b2));
            LongVector e2 = b2.lanewise(XOR, b4.lanewise(AND_NOT, b3));
            LongVector e3 = b3.lanewise(XOR, b0.lanewise(AND_NOT, b4));
            LongVector e4 = b4.lanewise(XOR, b1.lanewise(AND_NOT, b0));
            b0 = a3.lanewise(XOR, d3).lanewise(ROL, 28);
            b1 = a9.lanewise(XOR, d4).lanewise(ROL, 20);
            b2 = a10.lanewise(XOR, d0).lanewise(ROL, 3);
            b3 = a16.lanewise(XOR, d1).lanewise(ROL, 45);
            b4 = a22.lanewise(XOR, d2).lanewise(ROL, 61);
            LongVector e5 = b0.lanewise(XOR, b2.lanewise(AND_NOT, b1));
            LongVector e6 = b1.lanewise(XOR, b3.lanewise(AND_NOT, b2));
            LongVector e7 = b2.lanewise(XOR, b4.lanewise(AND_NOT, b3));
            LongVector e8 = b3.lanewise(XOR, b0.lanewise(AND_NOT, b4));
            LongVector e9 = b4.lanewise(XOR, b1.lanewise(AND_NOT, b0));
            b0 = a1.lanewise(XOR, d1).lanewise(ROL, 1);
            b1 = a7.lanewise(XOR, d2).lanewise(ROL, 6);
            b2 = a13.lanewise(XOR, d3).lanewise(ROL, 25);
            b3 = a19.lanewise(XOR, d4).lanewise(ROL, 8);
            b4 = a20.lanewise(XOR, d0).lanewise(ROL, 18);
            LongVector e10 = b0.lanewise(XOR, b2.lanewise(AND_NOT, b1));
            LongVector e11 = b1.lanewise(XOR, b3.lanewise(AND_NOT, b2));
            LongVector e12 = b2.lanewise(XOR, b4.lanewise(AND_NOT, b3));
            LongVector e13 = b3.lanewise(XOR, b0.lanewise(AND_NOT, b4));
            LongVector e14 = b4.lanewise(XOR, b1.lanewise(AND_NOT, b0));
            b0 = a4.lanewise(XOR, d4).lanewise(ROL, 27);
            b1 = a5.lanewise(XOR, d0).lanewise(ROL, 36);
            b2 = a11.lanewise(XOR, d1).lanewise(ROL, 10);
            b3 = a17.lanewise(XOR, d2).lanewise(ROL, 15);
            b4 = a23.lanewise(XOR, d3).lanewise(ROL, 56);
            LongVector e15 = b0.lanewise(XOR, b2.lanewise(AND_NOT, b1));
            LongVector e16 = b1.lanewise(XOR, b3.lanewise(AND_NOT, b2));
            LongVector e17 = b2.lanewise(XOR, b4.lanewise(AND_NOT, b3));
            LongVector e18 = b3.lanewise(XOR, b0.lanewise(AND_NOT, b4));
            LongVector e19 = b4.lanewise(XOR, b1.lanewise(AND_NOT, b0));
            b0 = a2.lanewise(XOR, d2).lanewise(ROL, 62);
            b1 = a8.lanewise(XOR, d3).lanewise(ROL, 55);
            b2 = a14.lanewise(XOR, d4).lanewise(ROL, 39);
            b3 = a15.lanewise(XOR, d0).lanewise(ROL, 41);
            b4 = a21.lanewise(XOR, d1).lanewise(ROL, 2);
            LongVector e20 = b0.lanewise(XOR, b2.lanewise(AND_NOT, b1));
            LongVector e21 = b1.lanewise(XOR, b3.lanewise(AND_NOT, b2));
            LongVector e22 = b2.lanewise(XOR, b4.lanewise(AND_NOT, b3));
            LongVector e23 = b3.lanewise(XOR, b0.lanewise(AND_NOT, b4));
            LongVector e24 = b4.lanewise(XOR, b1.lanewise(AND_NOT, b0));

            c0 = e0.lanewise(XOR, e5).lanewise(XOR, e10).lanewise(XOR, e15).lanewise(XOR, e20);
            c1 = e1.lanewise(XOR, e6).lanewise(XOR, e11).lanewise(XOR, e16).lanewise(XOR, e21);
            c2 = e2.lanewise(XOR, e7).lanewise(XOR, e12).lanewise(XOR, e17).lanewise(XOR, e22);
            c3 = e3.lanewise(XOR, e8).lanewise(XOR, e13).lanewise(XOR, e18).lanewise(XOR, e23);
            c4 = e4.lanewise(XOR, e9).lanewise(XOR, e14).lanewise(XOR, e19).lanewise(XOR, e24);
            d0 = c4.lanewise(XOR, c1.lanewise(ROL, 1));
            d1 = c0.lanewise(XOR, c2.lanewise(ROL, 1));
            d2 = c1.lanewise(XOR, c3.lanewise(ROL, 1));
            d3 = c2.lanewise(XOR, c4.lanewise(ROL, 1));
            d4 = c3.lanewise(XOR, c0.lanewise(ROL, 1));
            b0 = e0.lanewise(XOR, d0);
            b1 = e6.lanewise(XOR, d1).lanewise(ROL, 44);
            b2 = e12.lanewise(XOR, d2).lanewise(ROL, 43);
            b3 = e18.lanewise(XOR, d3).lanewise(ROL, 21);
            b4 = e24.lanewise(XOR, d4).lanewise(ROL, 14);
            a0 = b0.lanewise(XOR, b2.lanewise(AND_NOT, b1)).lanewise(XOR, Keccak.constant(round + 1));
            a1 = b1.lanewise(XOR, b3.lanewise(AND_NOT, b2));
            a2 = b2.lanewise(XOR, b4.lanewise(AND_NOT, b3));
            a3 = b3.lanewise(XOR, b0.lanewise(AND_NOT, b4));
            a4 = b4.lanewise(XOR, b1.lanewise(AND_NOT, b0));
            b0 = e3.lanewise(XOR, d3).lanewise(ROL, 28);
            b1 = e9.lanewise(XOR, d4).lanewise(ROL, 20);
            b2 = e10.lanewise(XOR, d0).lanewise(ROL, 3);
            b3 = e16.lanewise(XOR, d1).lanewise(ROL, 45);
            b4 = e22.lanewise(XOR, d2).lanewise(ROL, 61);
            a5 = b0.lanewise(XOR, b2.lanewise(AND_NOT, b1));
            a6 = b1.lanewise(XOR, b3.lanewise(AND_NOT, b2));
            a7 = b2.lanewise(XOR, b4.lanewise(AND_NOT, b3));
            a8 = b3.lanewise(XOR, b0.lanewise(AND_NOT, b4));
            a9 = b4.lanewise(XOR, b1.lanewise(AND_NOT, b0));
            b0 = e1.lanewise(XOR, d1).lanewise(ROL, 1);
            b1 = e7.lanewise(XOR, d2).lanewise(ROL, 6);
            b2 = e13.lanewise(XOR, d3).lanewise(ROL, 25);
            b3 = e19.lanewise(XOR, d4).lanewise(ROL, 8);
            b4 = e20.lanewise(XOR, d0).lanewise(ROL, 18);
            a10 = b0.lanewise(XOR, b2.lanewise(AND_NOT, b1));
            a11 = b1.lanewise(XOR, b3.lanewise(AND_NOT, b2));
            a12 = b2.lanewise(XOR, b4.lanewise(AND_NOT, b3));
            a13 = b3.lanewise(XOR, b0.lanewise(AND_NOT, b4));
            a14 = b4.lanewise(XOR, b1.lanewise(AND_NOT, b0));
            b0 = e4.lanewise(XOR, d4).lanewise(ROL, 27);
            b1 = e5.lanewise(XOR, d0).lanewise(ROL, 36);
            b2 = e11.lanewise(XOR, d1).lanewise(ROL, 10);
            b3 = e17.lanewise(XOR, d2).lanewise(ROL, 15);
            b4 = e23.lanewise(XOR, d3).lanewise(ROL, 56);
            a15 = b0.lanewise(XOR, b2.lanewise(AND_NOT, b1));
            a16 = b1.lanewise(XOR, b3.lanewise(AND_NOT, b2));
            a17 = b2.lanewise(XOR, b4.lanewise(AND_NOT, b3));
            a18 = b3.lanewise(XOR, b0.lanewise(AND_NOT, b4));
            a19 = b4.lanewise(XOR, b1.lanewise(AND_NOT, b0));
            b0 = e2.lanewise(XOR, d2).lanewise(ROL, 62);
            b1 = e8.lanewise(XOR, d3).lanewise(ROL, 55);
            b2 = e14.lanewise(XOR, d4).lanewise(ROL, 39);
            b3 = e15.lanewise(XOR, d0).lanewise(ROL, 41);
            b4 = e21.lanewise(XOR, d1).lanewise(ROL, 2);
            a20 = b0.lanewise(XOR, b2.lanewise(AND_NOT, b1));
            a21 = b1.lanewise(XOR, b3.lanewise(AND_NOT, b2));
            a22 = b2.lanewise(XOR, b4.lanewise(AND_NOT, b3));
            a23 = b3.lanewise(XOR, b0.lanewise(AND_NOT, b4));
            a24 = b4.lanewise(XOR, b1.lanewise(AND_NOT, b0));
        }
        a0.intoArray(s, 0);
        a1.intoArray(s, STATES);
        a2.intoArray(s, 2 * STATES);
        a3.intoArray(s, 3 * STATES);
        a4.intoArray(s, 4 * STATES);
        a5.intoArray(s, 5 * STATES);
        a6.intoArray(s, 6 * STATES);
        a7.intoArray(s, 7 * STATES);
        a8.intoArray(s, 8 * STATES);
        a9.intoArray(s, 9 * STATES);
        a10.intoArray(s, 10 * STATES);
        a11.intoArray(s, 11 * STATES);
        a12.intoArray(s, 12 * STATES);
        a13.intoArray(s, 13 * STATES);
        a14.intoArray(s, 14 * STATES);
        a15.intoArray(s, 15 * STATES);
        a16.intoArray(s, 16 * STATES);
        a17.intoArray(s, 17 * STATES);
        a18.intoArray(s, 18 * STATES);
        a19.intoArray(s, 19 * STATES);
        a20.intoArray(s, 20 * STATES);
        a21.intoArray(s, 21 * STATES);
        a22.intoArray(s, 22 * STATES);
        a23.intoArray(s, 23 * STATES);
        a24.intoArray(s, 24 * STATES);
    }
}
