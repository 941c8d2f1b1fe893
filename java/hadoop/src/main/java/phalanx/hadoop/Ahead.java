package phalanx.hadoop;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.fs.FileSystem;
import phalanx.Layout;

/**
 * Reads of a file in order. While the reader has one block of chunks, a thread fetches the next ones, and opens them if there is nothing to fetch. What the
 * reader needs before that thread has opened it, it opens itself. The thread only reads on where {@link Source} says that bytes are on their way or wanted
 * anyway, so it causes no request.
 *
 * <p>{@link #read} and {@link #drop} are called by one thread at a time. No plaintext is left in an array that is given up.
 */
final class Ahead {
    /** About as much as is fetched by one step. A block has one chunk at least. */
    static final int BLOCK = 1 << 20;

    private final Opened file;
    private final Source source;
    private final Layout layout;
    private final AheadThreads threads;
    private final FileSystem.Statistics statistics;
    /** How many chunks a block has. */
    private final int chunks;
    /** How many blocks there may be after the one that is read. None, if a chunk is longer than what may be fetched ahead. */
    private final int most;

    // All that follows is guarded by this object. Nobody waits for the source while holding it.
    /** Blocks that follow one another. The reader is in the first one. */
    private final Deque<Block> blocks = new ArrayDeque<>();
    /** Arrays for blocks, overwritten with zeros. */
    private final Deque<byte[]> free = new ArrayDeque<>();
    private boolean hasPlace;
    private boolean runs;
    private boolean stops;
    /** Whether the other thread has met an error of the JVM. Then the reader does all the rest itself. */
    private boolean isBroken;

    Ahead(Opened file, AheadThreads threads, FileSystem.Statistics statistics) {
        this.file = file;
        this.threads = threads;
        this.statistics = statistics;
        source = file.source();
        layout = file.layout();
        int chunkLength = 1 << layout.chunkLog2();
        chunks = (int) Math.max(1, Math.min(layout.chunks(), BLOCK / chunkLength));
        most = threads.bytes() < chunkLength ? 0 : Math.max(1, threads.bytes() / Math.max(BLOCK, chunkLength));
    }

    private enum State {
        STORED,
        BEING_OPENED,
        OPEN,
        /** The thread that reads ahead could not open it, and has left it as it was. Whoever reads it gets the error. */
        DAMAGED
    }

    /** Chunks that follow one another, in an array as in the file. */
    private final class Block {
        private final long first;
        private final byte[] bytes;
        private final int length;
        private final State[] states;
        /** How many of its chunks nobody has begun to open. */
        private int stored;
        private boolean isFetched;
        /** Whether another thread than the reader's has fetched it, and the reader has not come to it yet. */
        private boolean isUncounted;
        /** How many threads use its array. */
        private int users;
        /** Whether a chunk may be half open, since an error came between. Then all is fetched anew. */
        private boolean isSpoilt;

        Block(long first, int count, byte[] bytes) {
            this.first = first;
            this.bytes = bytes;
            length = (int) (file.end(first + count - 1) - layout.fileOffset(first));
            states = new State[count];
            Arrays.fill(states, State.STORED);
            stored = count;
        }

        long end() {
            return first + states.length;
        }

        boolean has(long chunk) {
            return chunk >= first && chunk < end();
        }

        int offset(long chunk) {
            return (int) (layout.fileOffset(chunk) - layout.fileOffset(first));
        }

        long firstStored() {
            return first + Arrays.asList(states).indexOf(State.STORED);
        }

        State state(long chunk) {
            return states[(int) (chunk - first)];
        }

        void set(long chunk, State state) {
            states[(int) (chunk - first)] = state;
        }
    }

    /**
     * Copies bytes of one chunk.
     *
     * @param position where they are, before the end of the file
     * @param into where they go to
     * @param last the last chunk that this read wants
     */
    int read(long position, ByteBuffer into, long last) throws IOException {
        long chunk = position >>> layout.chunkLog2();
        while (true) {
            Block block;
            long taken = chunk;
            synchronized (this) {
                block = find(chunk);
                if (block != null) {
                    count(block);
                    State state = block.state(chunk);
                    if (state == State.OPEN) {
                        go();
                        return file.copy(chunk, block.bytes, block.offset(chunk), position, into);
                    }
                    if (state == State.BEING_OPENED) {
                        // Meanwhile another one can be opened.
                        block = unopened();
                        if (block == null) {
                            await();
                            continue;
                        }
                        taken = block.firstStored();
                    }
                    take(block, taken);
                    go();
                }
            }
            if (block == null) {
                fetch(chunk, last);
                continue;
            }
            Exception failure = open(block, taken);
            if (failure != null && taken == chunk) {
                throw failed(failure);
            }
        }
    }

    /** Copies from a chunk that is open already, for reads at positions. Returns 0 if it is not. */
    synchronized int readOpen(long position, ByteBuffer into) {
        long chunk = position >>> layout.chunkLog2();
        for (Block block : blocks) {
            if (block.has(chunk) && block.isFetched && block.state(chunk) == State.OPEN) {
                return file.copy(chunk, block.bytes, block.offset(chunk), position, into);
            }
        }
        return 0;
    }

    /** The block that has a chunk, after it was fetched, or null if none has it. Those before it are given up. */
    private Block find(long chunk) throws IOException {
        boolean isNear = !blocks.isEmpty() && chunk >= blocks.getFirst().first && chunk <= blocks.getLast().end();
        if (!isNear) {
            if (!blocks.isEmpty()) {
                forget();
            }
            return null;
        }
        while (!blocks.isEmpty() && !blocks.getFirst().has(chunk)) {
            giveUpFirst();
        }
        while (!blocks.isEmpty() && !blocks.getFirst().isFetched) {
            await();
        }
        if (!blocks.isEmpty() && blocks.getFirst().isSpoilt) {
            forget();
        }
        return blocks.peekFirst();
    }

    private void giveUpFirst() throws IOException {
        Block first = blocks.getFirst();
        while (first.users > 0) {
            await();
        }
        // Its thread takes a block away that it could not fetch.
        if (blocks.peekFirst() == first) {
            blocks.removeFirst();
            giveUp(first);
        }
    }

    private void giveUp(Block block) {
        Arrays.fill(block.bytes, (byte) 0);
        if (block.bytes.length == chunks * layout.recordLength() && free.size() <= 1) {
            free.add(block.bytes);
        }
    }

    /** What has failed is tried again by the next read. */
    private synchronized IOException failed(Exception failure) {
        forget();
        if (failure instanceof RuntimeException other) {
            throw other;
        }
        return (IOException) failure;
    }

    private void take(Block block, long chunk) {
        if (block.state(chunk) == State.STORED) {
            block.stored--;
        }
        block.set(chunk, State.BEING_OPENED);
        block.users++;
    }

    /** Opens a chunk that this thread has taken. Returns why it cannot be opened, or null. */
    private Exception open(Block block, long chunk) {
        Exception failure = null;
        State state = State.DAMAGED;
        boolean isSpoilt = true;
        try {
            file.open(chunk, block.bytes, block.offset(chunk));
            state = State.OPEN;
            isSpoilt = false;
        } catch (IOException | RuntimeException e) {
            failure = e;
            isSpoilt = false;
        } finally {
            synchronized (this) {
                block.isSpoilt |= isSpoilt;
                block.set(chunk, state);
                block.users--;
                notifyAll();
            }
        }
        return failure;
    }

    /** Fetches a block by the reader's own thread: chunks that it wants, and no others. */
    private void fetch(long chunk, long last) throws IOException {
        int count = (int) Math.min(chunks, last + 1 - chunk);
        Block block;
        synchronized (this) {
            block = new Block(chunk, count, array(count));
        }
        boolean done = false;
        try {
            source.readInOrder(layout.fileOffset(chunk), block.bytes, block.length, file.end(last));
            done = true;
        } finally {
            synchronized (this) {
                if (done) {
                    block.isFetched = true;
                    blocks.add(block);
                } else {
                    giveUp(block);
                }
            }
        }
    }

    private byte[] array(int count) {
        byte[] array = count == chunks ? free.poll() : null;
        return array != null ? array : new byte[count * layout.recordLength()];
    }

    /** Engines count what a task has read by its thread, and so a block counts for the one that reads it. */
    private void count(Block block) {
        if (block.isUncounted) {
            block.isUncounted = false;
            statistics.incrementBytesRead(block.length);
        }
    }

    // What the other thread does.

    /** Lets it work if there is something to do. */
    private void go() {
        if (!runs && !isBroken && (nextCount() > 0 || unopened() != null) && (hasPlace || (hasPlace = threads.enter()))) {
            // The thread begins with waiting for this object, and so ends later than this.
            runs = threads.start(this::work);
        }
    }

    /** How many chunks can be fetched behind those that are there. */
    private int nextCount() {
        Block last = blocks.peekLast();
        if (stops || last == null || !last.isFetched || blocks.size() > most) {
            return 0;
        }
        long readable = source.readable();
        int count = 0;
        while (count < chunks && last.end() + count < layout.chunks() && file.end(last.end() + count) <= readable) {
            count++;
        }
        return count;
    }

    /** The first block that has a chunk which nobody has begun to open, or null. */
    private Block unopened() {
        for (Block block : blocks) {
            if (block.isFetched && block.stored > 0 && !stops) {
                return block;
            }
        }
        return null;
    }

    /** Not even an {@code Error} leaves this: local file systems throw one if a disk fails, and one that nobody catches ends an executor of Spark. */
    private void work() {
        boolean done = false;
        try {
            while (true) {
                Block block;
                long chunk = -1;
                synchronized (this) {
                    int count = nextCount();
                    block = count > 0 ? new Block(blocks.getLast().end(), count, array(count)) : unopened();
                    if (block == null) {
                        end(false);
                        done = true;
                        return;
                    }
                    if (count > 0) {
                        block.users++;
                        block.isUncounted = true;
                        blocks.add(block);
                    } else {
                        chunk = block.firstStored();
                        take(block, chunk);
                    }
                }
                if (chunk < 0) {
                    fetch(block);
                } else {
                    open(block, chunk);
                }
            }
        } catch (Throwable e) {
            // The reader does this work again if it comes here, and gets the error if there still is one.
        } finally {
            if (!done) {
                end(true);
            }
        }
    }

    private synchronized void end(boolean breaks) {
        runs = false;
        isBroken |= breaks;
        notifyAll();
    }

    private void fetch(Block block) {
        boolean isThere = false;
        try {
            isThere = source.readAhead(layout.fileOffset(block.first), block.bytes, block.length);
        } catch (IOException | RuntimeException e) {
            // Nobody has asked for this. The reader tries it again if it comes here.
        } finally {
            synchronized (this) {
                block.users--;
                block.isFetched = isThere;
                if (!isThere) {
                    // Nothing follows this block, since it was not fetched.
                    blocks.remove(block);
                    giveUp(block);
                }
                notifyAll();
            }
        }
    }

    private void await() throws InterruptedIOException {
        try {
            wait();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException();
        }
    }

    // The end.

    /** Waits until no other thread works for this, and gives up all that was fetched. */
    private void forget() {
        stops = true;
        source.hurry(true);
        boolean isInterrupted = false;
        while (runs) {
            try {
                wait();
            } catch (InterruptedException e) {
                isInterrupted = true;
            }
        }
        source.hurry(false);
        stops = false;
        blocks.forEach(this::giveUp);
        blocks.clear();
        if (hasPlace) {
            // Places bound the memory.
            free.clear();
            threads.leave();
            hasPlace = false;
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** The arrays, for tests. */
    synchronized List<byte[]> arrays() {
        return Stream.concat(blocks.stream().map(block -> block.bytes), free.stream()).toList();
    }

    /** Waits until all is fetched and open that can be, for tests. */
    synchronized void awaitIdle() throws InterruptedIOException {
        while (runs) {
            await();
        }
    }

    /** Gives up all that was fetched, and the arrays. */
    synchronized void drop() {
        forget();
        free.clear();
    }
}
