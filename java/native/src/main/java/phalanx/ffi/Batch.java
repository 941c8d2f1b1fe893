package phalanx.ffi;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntConsumer;
import java.util.stream.IntStream;
import phalanx.Message;
import phalanx.PhalanxKey;

/**
 * Messages as the library takes them, one after another in one piece of native memory: the offsets of the associated data and of the contents,
 * the keys, the associated data, the plaintexts, the sealed messages, and the verdicts. So all secrets are in its first part.
 */
final class Batch {
    /** Below it, copying by another thread does not pay. */
    private static final int GROUP = 1024;

    private final Message[] messages;
    /** Where the associated data and the content of each message begin, and where the last ones end. */
    private final long[] associatedData;
    private final long[] contents;
    private final long overhead;
    private final boolean seals;
    private final Places places;

    /** Where the parts are in the memory. */
    private record Places(
            long keys, long associatedData, long contents, long results, long verdicts, long secretsEnd, long end) {}

    Batch(Message[] messages, int overhead, boolean seals) {
        this.messages = messages;
        this.overhead = overhead;
        this.seals = seals;
        int count = messages.length;
        associatedData = new long[count + 1];
        contents = new long[count + 1];
        for (int i = 0; i < count; i++) {
            associatedData[i + 1] = associatedData[i] + messages[i].associatedData().length;
            int length = messages[i].content().length;
            contents[i + 1] = contents[i] + length;
            if (seals) {
                // The sealed message must fit into an array. This is known before the work.
                Math.addExact(length, overhead);
            }
        }
        long keys = 2L * Long.BYTES * (count + 1L);
        long ads = keys + (long) PhalanxKey.BYTES * count;
        long plain = ads + associatedData[count];
        long sealed = plain + (seals ? contents[count] : resultBytes());
        long verdicts = sealed + (seals ? resultBytes() : contents[count]);
        places = new Places(keys, ads, seals ? plain : sealed, seals ? sealed : plain, verdicts, sealed, verdicts + count);
    }

    /** How much memory it takes. */
    long bytes() {
        return places.end();
    }

    /** How much of it must be wiped. */
    long secretBytes() {
        return places.secretsEnd();
    }

    int count() {
        return messages.length;
    }

    /** How long all results are. */
    long resultBytes() {
        return contents[count()] + (seals ? overhead * count() : 0);
    }

    /** Copies the messages into the memory. */
    void write(MemorySegment memory) {
        int count = count();
        MemorySegment.copy(associatedData, 0, memory, JAVA_LONG, 0, count + 1);
        MemorySegment.copy(contents, 0, memory, JAVA_LONG, (long) Long.BYTES * (count + 1), count + 1);
        each(i -> {
            Message message = messages[i];
            byte[] key = message.key().expose();
            MemorySegment.copy(key, 0, memory, JAVA_BYTE, places.keys() + (long) PhalanxKey.BYTES * i, PhalanxKey.BYTES);
            Arrays.fill(key, (byte) 0);
            copy(message.associatedData(), memory, places.associatedData() + associatedData[i]);
            copy(message.content(), memory, places.contents() + contents[i]);
        });
    }

    private static void copy(byte[] from, MemorySegment memory, long at) {
        MemorySegment.copy(from, 0, memory, JAVA_BYTE, at, from.length);
    }

    /** The columns and places as the library's arguments. */
    MemorySegment keys(MemorySegment memory) {
        return memory.asSlice(places.keys());
    }

    MemorySegment associatedData(MemorySegment memory, Arena arena) {
        return column(memory, arena, 0, places.associatedData());
    }

    MemorySegment contents(MemorySegment memory, Arena arena) {
        return column(memory, arena, (long) Long.BYTES * (count() + 1), places.contents());
    }

    private static MemorySegment column(MemorySegment memory, Arena arena, long offsets, long bytes) {
        MemorySegment column = arena.allocate(Calls.COLUMN);
        column.set(ADDRESS, 0, memory.asSlice(bytes));
        column.set(ADDRESS, ADDRESS.byteSize(), memory.asSlice(offsets));
        return column;
    }

    MemorySegment results(MemorySegment memory) {
        return memory.asSlice(places.results());
    }

    MemorySegment verdicts(MemorySegment memory) {
        return memory.asSlice(places.verdicts());
    }

    /** Whether a message that was opened is not authentic. */
    boolean failed(MemorySegment memory, int index) {
        return memory.get(JAVA_BYTE, places.verdicts() + index) != 0;
    }

    /** Copies the results out of the memory: null for those that are not authentic. */
    byte[][] read(MemorySegment memory) {
        byte[][] out = new byte[count()][];
        each(i -> {
            if (!seals && failed(memory, i)) {
                return;
            }
            long begin = places.results() + contents[i] + (seals ? overhead * i : overhead);
            long end = places.results() + contents[i + 1] + (seals ? overhead * (i + 1) : 0);
            byte[] result = new byte[(int) (end - begin)];
            MemorySegment.copy(memory, JAVA_BYTE, begin, result, 0, result.length);
            out[i] = result;
        });
        return out;
    }

    /** Does something for each message, by several threads if there are many. All of them have ended when this returns. */
    private void each(IntConsumer step) {
        int groups = (count() + GROUP - 1) / GROUP;
        // A parallel stream that fails leaves other threads at work, and they would use the memory after it is wiped.
        AtomicReference<Throwable> failure = new AtomicReference<>();
        IntStream all = IntStream.range(0, groups);
        (groups > 1 ? all.parallel() : all).forEach(group -> {
            try {
                for (int i = group * GROUP; i < Math.min(count(), (group + 1) * GROUP); i++) {
                    step.accept(i);
                }
            } catch (RuntimeException | Error e) {
                failure.set(e);
            }
        });
        if (failure.get() instanceof Error e) {
            throw e;
        }
        if (failure.get() instanceof RuntimeException e) {
            throw e;
        }
    }
}
