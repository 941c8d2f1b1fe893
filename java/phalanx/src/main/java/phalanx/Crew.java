package phalanx;

import java.io.IOException;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RejectedExecutionException;

/**
 * The threads that do the work: the calling thread, and some threads of an executor. The calling thread does all of it
 * if the executor is busy, so no executor can make it wait for ever.
 */
final class Crew {
    private final Executor executor;
    private final int size;

    private Crew(Executor executor, int size) {
        this.executor = executor;
        this.size = size;
    }

    /** The calling thread alone. */
    static Crew alone() {
        return new Crew(Runnable::run, 1);
    }

    /** All processors, by the JVM's common pool. */
    static Crew common() {
        return new Crew(ForkJoinPool.commonPool(), Runtime.getRuntime().availableProcessors());
    }

    /** This many threads: the calling one, and others of the executor. */
    static Crew of(Executor executor, int size) {
        if (size < 1) {
            throw new IllegalArgumentException("at least one thread is needed, not " + size);
        }
        return new Crew(executor, size);
    }

    /** How many threads work at once. */
    int size() {
        return size;
    }

    Executor executor() {
        return executor;
    }

    /** The work of each thread. */
    @FunctionalInterface
    interface Work {
        void run() throws IOException;
    }

    /**
     * Does the work on at most {@code most} threads at once, and returns when all that have begun have ended. The work
     * of each thread must end when there is nothing more to do, or when that of another has failed.
     */
    void run(long most, Work work) throws IOException {
        Shift shift = new Shift(work);
        try {
            for (int i = 1; i < Math.min(size, most); i++) {
                try {
                    executor.execute(shift);
                } catch (RejectedExecutionException | OutOfMemoryError e) {
                    // The executor or the system has no more threads. Those that have begun are enough.
                    break;
                }
            }
            shift.run();
        } finally {
            shift.end();
        }
    }

    private static final class Shift implements Runnable {
        private Work work;
        private int working;
        private boolean over;
        private Throwable failure;

        Shift(Work work) {
            this.work = work;
        }

        @Override
        public void run() {
            Work mine;
            synchronized (this) {
                if (over) {
                    return;
                }
                working++;
                mine = work;
            }
            Throwable failed = null;
            try {
                mine.run();
            } catch (Throwable e) {
                failed = e;
            }
            synchronized (this) {
                if (failure == null) {
                    failure = failed;
                }
                working--;
                notifyAll();
            }
        }

        /** Waits for the threads that have begun. No others begin. A busy executor may keep the shift, but not its work. */
        synchronized void end() throws IOException {
            over = true;
            work = null;
            boolean interrupted = false;
            while (working > 0) {
                try {
                    wait();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
            Failures.rethrow(failure);
        }
    }
}
