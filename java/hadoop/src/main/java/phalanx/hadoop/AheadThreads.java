package phalanx.hadoop;

import java.io.Closeable;
import java.io.IOException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;

/**
 * The threads that fetch and open chunks before they are read, of one file system. A stream that reads ahead has a place, and at most one thread at a time. So
 * the number of places bounds the threads and, with {@link #bytes}, the memory. A stream that gets no place works without.
 */
final class AheadThreads implements Closeable {
    static final String LENGTH = "fs.phalanx.read.ahead";
    static final String STREAMS = "fs.phalanx.read.ahead.streams";
    private static final int IDLE_SECONDS = 10;
    private static final int MOST = 1 << 30;

    private final int bytes;
    private final Semaphore places;
    private final ThreadPoolExecutor threads;

    /**
     * Starts no thread yet.
     *
     * @param bytes how much is fetched ahead for a stream; nothing, if this is 0
     * @param streams how many streams may have a place
     */
    AheadThreads(int bytes, int streams) {
        this.bytes = bytes;
        places = new Semaphore(streams);
        threads = new ThreadPoolExecutor(0, Math.max(1, streams), IDLE_SECONDS, TimeUnit.SECONDS, new SynchronousQueue<>(), work -> {
            Thread thread = new Thread(work, "phalanx-ahead");
            thread.setDaemon(true);
            return thread;
        });
    }

    /** As the settings say. */
    static AheadThreads of(Configuration conf) throws IOException {
        long bytes = conf.getLongBytes(LENGTH, 4 << 20);
        if (bytes < 0 || bytes > MOST) {
            throw new IOException(LENGTH + " is a length from 0 to 1G");
        }
        return new AheadThreads((int) bytes, Math.max(0, conf.getInt(STREAMS, 16)));
    }

    int bytes() {
        return bytes;
    }

    /** Takes a place, if one is free. */
    boolean enter() {
        return bytes > 0 && places.tryAcquire();
    }

    void leave() {
        places.release();
    }

    /** Lets a thread do some work of a stream that has a place. Returns whether one is there for it. */
    boolean start(Runnable work) {
        try {
            threads.execute(work);
            return true;
        } catch (RuntimeException | Error e) {
            // The one that has just ended its work is not yet free, the file system is closed, or the system has no more threads.
            return false;
        }
    }

    /** How many places are free, for tests. */
    int free() {
        return places.availablePermits();
    }

    /** Streams that are still open go on without threads. */
    @Override
    public void close() {
        threads.shutdown();
    }
}
