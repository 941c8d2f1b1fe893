package phalanx.ffi;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicReference;

/** Native memory for a call at a time. The secrets in it are wiped. One piece is kept for the next call, since new memory costs time. */
final class Scratch {
    private static final long LEAST = 64 << 10;
    private static final long MOST_KEPT = 64 << 20;
    private static final long ALIGNMENT = 64;

    private final AtomicReference<MemorySegment> spare = new AtomicReference<>();

    /** What is done with the memory. */
    @FunctionalInterface
    interface Use<T, E extends Exception> {
        T with(MemorySegment memory) throws E;
    }

    /** Uses so many bytes, all of them for secrets. What they hold at first means nothing. */
    <T, E extends Exception> T with(long bytes, Use<T, E> use) throws E {
        return with(bytes, bytes, use);
    }

    /** Uses so many bytes, of which the first ones are for secrets. */
    <T, E extends Exception> T with(long bytes, long secrets, Use<T, E> use) throws E {
        if (bytes > MOST_KEPT) {
            try (Arena arena = Arena.ofShared()) {
                return wiped(arena.allocate(bytes, ALIGNMENT), secrets, use);
            }
        }
        MemorySegment memory = spare.getAndSet(null);
        if (memory == null || memory.byteSize() < bytes) {
            // It is freed when nothing can reach it any more.
            memory = Arena.ofAuto().allocate(Math.max(LEAST, Long.highestOneBit(Math.max(1, bytes - 1)) << 1), ALIGNMENT);
        }
        try {
            return wiped(memory.asSlice(0, bytes), secrets, use);
        } finally {
            spare.set(memory);
        }
    }

    /** The memory that is kept for the next call, or null. For tests. */
    MemorySegment kept() {
        return spare.get();
    }

    private static <T, E extends Exception> T wiped(MemorySegment memory, long secrets, Use<T, E> use) throws E {
        try {
            return use.with(memory);
        } finally {
            memory.asSlice(0, secrets).fill((byte) 0);
        }
    }
}
