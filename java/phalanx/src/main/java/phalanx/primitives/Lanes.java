package phalanx.primitives;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Optional;

/**
 * The permutation of {@link Keccak} on many states side by side. Word w of state l is at {@code w · stride + l} of an array.
 */
abstract class Lanes {
    /** The words of an array of bytes. */
    static final VarHandle WORD = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    /** Shorter vectors are not faster than {@link WideKeccak}. */
    private static final int FEWEST = 4;
    /** C2 of Java 17 has no rotation of vectors, and moves twice as many words to the stack: its speed varies by half. */
    private static final int FROM_JAVA = 21;

    /** What this JVM uses: vectors if it was started with their module, plain Java otherwise. */
    static final Lanes HERE = choose();

    /** How many states there are. */
    final int states;
    final int stride;
    /** The length of the array. */
    final int words;
    /** From this number of slices on, a group with unused lanes is faster than one slice after another. */
    final int worthwhile;

    Lanes(int states, int stride, int words, int worthwhile) {
        this.states = states;
        this.stride = stride;
        this.words = words;
        this.worthwhile = worthwhile;
    }

    /**
     * Adds a block of each of the first {@code taken} slices to its state. Written out, with a constant stride, this
     * takes half of the time of a loop over the words.
     */
    abstract void absorb(long[] s, byte[] data, int offset, int taken, int slice);

    /** Applies the last {@code rounds} rounds, an even number, to all states. */
    abstract void permute(long[] s, int rounds);

    /** What it is, in a few words. */
    abstract String title();

    private static Lanes choose() {
        Optional<Lanes> vectors = Runtime.version().feature() < FROM_JAVA ? Optional.empty() : vectors();
        return vectors.filter(lanes -> lanes.states >= FEWEST).orElseGet(WideKeccak::new);
    }

    /** Vectors, if this JVM has their module. */
    static Optional<Lanes> vectors() {
        if (ModuleLayer.boot().findModule("jdk.incubator.vector").isEmpty()) {
            return Optional.empty();
        }
        try {
            Class<?> type = Class.forName("phalanx.primitives.VectorKeccak");
            Lanes lanes = (Lanes) type.getDeclaredConstructor().newInstance();
            return lanes.isRight() ? Optional.of(lanes) : Optional.empty();
        } catch (ReflectiveOperationException | LinkageError | RuntimeException e) {
            // The module is an incubator: a later JDK may have another one by this name.
            return Optional.empty();
        }
    }

    /** Whether all states of an example become those that {@link Keccak} computes. */
    private boolean isRight() {
        long[] s = new long[words];
        for (int i = 0; i < Keccak.WORDS * stride; i++) {
            s[i] = i * 0x9e3779b97f4a7c15L;
        }
        long[] before = s.clone();
        permute(s, Keccak.ROUNDS);
        for (int l = 0; l < states; l++) {
            long[] one = new long[Keccak.WORDS];
            for (int w = 0; w < one.length; w++) {
                one[w] = before[w * stride + l];
            }
            Keccak.permute(one, Keccak.ROUNDS);
            for (int w = 0; w < one.length; w++) {
                if (s[w * stride + l] != one[w]) {
                    return false;
                }
            }
        }
        return true;
    }
}
