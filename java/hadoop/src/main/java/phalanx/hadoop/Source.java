package phalanx.hadoop;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntFunction;
import java.util.stream.Stream;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import org.apache.hadoop.fs.StreamCapabilities;

/**
 * The bytes of a protected file, by requests that fit what is read.
 *
 * <p>S3A's own streams ask for all up to the end of the file as long as reads go forward. A reader of columns then cuts each of these requests, and what is
 * already on its way has been sent for nothing. Here reads are known in whole chunks, so a read at a new place asks for exactly its chunks. As long as
 * reads go on in their order from there, each request is twice as long as the one before. A file that is read from its beginning is asked for at once.
 * Other file systems have their own ways, and are only told how the file will be read.
 */
final class Source implements Closeable {
    /** What Hadoop's policies call reading from one end to the other. */
    private static final Set<String> IN_ORDER = Set.of("sequential", "whole-file", "avro", "csv", "json", "distcp");
    private static final Set<String> NOT_IN_ORDER = Set.of("random", "vector", "columnar", "parquet", "orc", "hbase");
    /** These say nothing of the order. */
    private static final Set<String> UNKNOWN = Set.of("default", "adaptive", "normal");

    /** How the caller says that it will read. */
    private enum Order {
        DECLARED,
        DENIED,
        UNKNOWN
    }

    private final FSDataInputStream in;
    /** Whether the length of requests is decided here. */
    private final boolean asks;
    private final Order order;
    /** Up to where requests go unless more is read: the last chunk is there already when a file is opened. */
    private long most;
    /** Where the reads have begun that go on in order. */
    private long begun;
    /** Where the last read in order has ended. */
    private long next;
    /** Where the request ends that this stream is reading; never before {@link #next}. */
    private long end;
    /** How long the next request is, if reads go on in order. */
    private long window;
    /** Up to where the last read in order wanted bytes. */
    private long wanted;
    /** Up to where one may read ahead from {@link #next}. */
    private volatile long readable;
    private volatile boolean hurries;

    /** Ranges that were asked for, and may be on their way. */
    private List<CompletableFuture<ByteBuffer>> vectored = List.of();

    private Source(FSDataInputStream in, boolean asks, Order order) {
        this.in = in;
        this.asks = asks;
        this.order = order;
    }

    /** Opens a file. {@code policy} is how the caller will read, in Hadoop's words, or null. Nothing is asked of S3A yet. */
    static Source open(FileSystem fs, FileStatus file, String policy) throws IOException {
        if (Stored.isStore(fs, file.getPath())) {
            FSDataInputStream in = Stored.open(fs, file, OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_RANDOM);
            if (in.hasCapability(StreamCapabilities.READAHEAD)) {
                return new Source(in, true, order(policy));
            }
            in.close();
        }
        return new Source(Stored.open(fs, file, policy), false, order(policy));
    }

    /** The first word of the list that is known decides, as in S3A. */
    private static Order order(String policy) {
        for (String word : policy == null ? new String[0] : policy.toLowerCase(Locale.ROOT).split(",")) {
            if (IN_ORDER.contains(word.trim())) {
                return Order.DECLARED;
            }
            if (NOT_IN_ORDER.contains(word.trim())) {
                return Order.DENIED;
            }
            if (UNKNOWN.contains(word.trim())) {
                break;
            }
        }
        return Order.UNKNOWN;
    }

    FSDataInputStream stream() {
        return in;
    }

    /** Says where the chunks lie that may be read in order. A read at the first asks for all of them, unless the caller has said that it reads here and there. */
    synchronized void begin(long from, long to) {
        begun = from;
        next = from;
        end = from;
        most = to;
        window = order == Order.DENIED ? 0 : to - from;
    }

    /** Reads at a place, whatever was read before. */
    void readAt(long at, byte[] into) throws IOException {
        if (asks) {
            synchronized (this) {
                stop();
                Stored.readFully(in, at, into, into.length);
            }
        } else {
            Stored.readFully(in, at, into, into.length);
        }
    }

    /**
     * Reads at a place from which on more may be read.
     *
     * @param at the place
     * @param into where the bytes go to
     * @param length their number
     * @param to up to where the same read goes on
     */
    synchronized void readInOrder(long at, byte[] into, int length, long to) throws IOException {
        boolean goesOn = at == next;
        if (!goesOn) {
            if (asks && at > next && at < end && !isRangeOnItsWay()) {
                // S3A would read on up to there, however much that is. But ranges that are on their way would end, too.
                in.unbuffer();
            }
            begun = at;
            end = at;
        }
        // What goes on begins in the request that is read, and so nothing is left of that when another one follows.
        boolean asksForMore = at + length > end;
        if (asksForMore) {
            boolean isSameRead = at < wanted;
            long ahead = !goesOn ? to : order == Order.DECLARED ? most : isSameRead ? to : Math.max(to, at + window);
            end = Math.max(Math.min(most, ahead), at + length);
        }
        wanted = to;
        fetch(at, into, length, false);
        if (asksForMore) {
            window = 2 * (end - at);
        }
        long limit = asks ? end : most;
        // A read that goes on says that more will follow, and the first one says nothing.
        boolean isInOrder = order == Order.DECLARED || order == Order.UNKNOWN && at > begun;
        readable = isInOrder ? limit : Math.min(to, limit);
    }

    /** Up to where {@link #readAhead} would read, from where the last read has ended. */
    long readable() {
        return readable;
    }

    /**
     * Reads on before anybody wants the bytes, without another request.
     *
     * @return whether they were read. If not, something else was read meanwhile
     */
    synchronized boolean readAhead(long at, byte[] into, int length) throws IOException {
        if (at != next || at + length > readable) {
            return false;
        }
        fetch(at, into, length, true);
        return true;
    }

    private void fetch(long at, byte[] into, int length, boolean isAhead) throws IOException {
        boolean isThere = false;
        try {
            if (asks) {
                // S3A asks for so much, also when it asks anew because the connection was lost in the middle.
                in.setReadahead(Math.max(end - at, Stored.USUAL_HEADER));
            }
            if (in.getPos() != at) {
                in.seek(at);
            }
            for (int done = 0; done < length;) {
                if (isAhead && hurries) {
                    throw new IOException("nobody waits for this any more");
                }
                int count = in.read(into, done, length - done);
                if (count < 0) {
                    throw new EOFException("it became shorter while it was read");
                }
                done += count;
            }
            next = at + length;
            isThere = true;
        } finally {
            if (!isThere) {
                // Nothing is known of the request any more.
                end = next;
                readable = next;
            }
            if (asks) {
                // S3A reads a request to its end instead of cutting it if no more than this is left.
                in.setReadahead((long) Stored.USUAL_HEADER);
            }
        }
    }

    /** Whether reading ahead is to end soon. */
    void hurry(boolean hurries) {
        this.hurries = hurries;
    }

    /** Reads ranges side by side. */
    void readVectored(List<FileRange> ranges, IntFunction<ByteBuffer> allocate) throws IOException {
        synchronized (this) {
            stop();
            in.readVectored(ranges, allocate);
            vectored = Stream.concat(vectored.stream().filter(each -> !each.isDone()), ranges.stream().map(FileRange::getData)).toList();
        }
    }

    private boolean isRangeOnItsWay() {
        return vectored.stream().anyMatch(each -> !each.isDone());
    }

    synchronized void unbuffer() {
        stop();
        in.unbuffer();
    }

    /** The stream goes elsewhere. If this cuts a request, the next one is short. */
    private void stop() {
        if (end > next) {
            window = 0;
        }
        end = next;
        readable = next;
    }

    @Override
    public void close() throws IOException {
        in.close();
    }
}
