package phalanx.ffi;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * An object of the library. Several threads may use it at once; changing and freeing it waits for them. It is freed once: when it is closed,
 * or when nothing can reach it any more.
 */
final class Handle {
    private static final Cleaner CLEANER = Cleaner.create();

    private final ReadWriteLock lock = new ReentrantReadWriteLock();
    private final MemorySegment object;
    private final Cleaner.Cleanable cleanable;
    private boolean closed;

    Handle(MemorySegment object, MethodHandle free) {
        this.object = object;
        // It must not refer to this, or this would always be reached.
        cleanable = CLEANER.register(this, () -> Calls.free(free, object));
    }

    /** What is done with the object. */
    @FunctionalInterface
    interface Use<T, E extends Exception> {
        T with(MemorySegment object) throws E;
    }

    /** Uses the object, which is not closed meanwhile. Throws what {@code closed} makes if it is closed already. */
    <T, E extends Exception, C extends Exception> T use(Closed<C> closed, Use<T, E> use) throws E, C {
        return with(lock.readLock(), closed, use);
    }

    /** Changes the object, which nobody uses meanwhile. */
    <T, E extends Exception, C extends Exception> T change(Closed<C> closed, Use<T, E> use) throws E, C {
        return with(lock.writeLock(), closed, use);
    }

    /** Makes the exception of what is closed. */
    @FunctionalInterface
    interface Closed<C extends Exception> {
        C make();
    }

    private <T, E extends Exception, C extends Exception> T with(Lock held, Closed<C> failure, Use<T, E> use) throws E, C {
        held.lock();
        try {
            if (closed) {
                throw failure.make();
            }
            return use.with(object);
        } finally {
            held.unlock();
            // Until here, or the cleaner could free the object under the call.
            Reference.reachabilityFence(this);
        }
    }

    boolean isClosed() {
        lock.readLock().lock();
        try {
            return closed;
        } finally {
            lock.readLock().unlock();
        }
    }

    void close() {
        lock.writeLock().lock();
        try {
            closed = true;
            cleanable.clean();
        } finally {
            lock.writeLock().unlock();
        }
    }
}
