package phalanx.hadoop;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.IntFunction;
import org.apache.hadoop.fs.FileRange;
import phalanx.Layout;

/**
 * Reads of many ranges at once. The chunks of each range are one range of the protected file; those of near ranges are one together.
 * The inner stream reads them all at once, and each is opened where it arrives.
 */
final class Ranges {
    /** Ranges are read together up to this length, and longer ones chunk by chunk. */
    static final int MOST_AT_ONCE = 8 << 20;

    private final Opened file;
    private final Layout layout;

    Ranges(Opened file) {
        this.file = file;
        layout = file.layout();
    }

    /** Ranges whose chunks follow each other. */
    private static final class Run {
        private final List<FileRange> ranges = new ArrayList<>();
        private final long first;
        private long last;

        Run(long first) {
            this.first = first;
        }
    }

    /** Sets the data of each range. What fails here fails for all; what fails later, for those that it concerns. */
    void read(List<? extends FileRange> ranges, IntFunction<ByteBuffer> allocate) throws IOException {
        List<FileRange> sorted = sorted(ranges);
        List<Run> runs = new ArrayList<>();
        List<FileRange> alone = new ArrayList<>();
        for (FileRange range : sorted) {
            range.setData(new CompletableFuture<>());
            if (range.getLength() > MOST_AT_ONCE || range.getLength() == 0 || isKept(range, allocate)) {
                alone.add(range);
            } else {
                add(runs, range);
            }
        }
        // A run may begin in the chunk in which the one before ends, and the ranges of one call must not overlap.
        for (int parity = 0; parity < 2; parity++) {
            List<Run> apart = new ArrayList<>();
            for (int i = parity; i < runs.size(); i += 2) {
                apart.add(runs.get(i));
            }
            fetch(apart, allocate);
        }
        alone.stream().filter(range -> !range.getData().isDone()).forEach(range -> readAlone(range, allocate));
    }

    private void fetch(List<Run> runs, IntFunction<ByteBuffer> allocate) throws IOException {
        if (runs.isEmpty()) {
            return;
        }
        List<FileRange> stored = new ArrayList<>();
        for (Run run : runs) {
            long from = layout.fileOffset(run.first);
            long to = Math.min(layout.fileLength(), layout.fileOffset(run.last + 1));
            stored.add(FileRange.createFileRange(from, Math.toIntExact(to - from)));
        }
        file.source().readVectored(stored, ByteBuffer::allocate);
        for (int i = 0; i < runs.size(); i++) {
            Run run = runs.get(i);
            stored.get(i).getData().whenComplete((bytes, failure) -> finish(run, bytes, failure, allocate));
        }
    }

    private List<FileRange> sorted(List<? extends FileRange> ranges) throws IOException {
        List<FileRange> sorted = new ArrayList<>(ranges);
        sorted.sort(Comparator.comparingLong(FileRange::getOffset).thenComparingInt(FileRange::getLength));
        long end = 0;
        for (FileRange range : sorted) {
            if (range.getLength() < 0) {
                throw new IllegalArgumentException("a range has a negative length: " + range);
            }
            if (range.getOffset() < 0) {
                throw new EOFException("a range begins at a negative position: " + range);
            }
            if (range.getOffset() < end) {
                throw new IllegalArgumentException("ranges overlap: " + range);
            }
            end = range.getOffset() + range.getLength();
            if (end > layout.plaintextLength()) {
                throw new EOFException("a range ends behind the end of the file: " + range);
            }
        }
        return sorted;
    }

    private void add(List<Run> runs, FileRange range) {
        long first = range.getOffset() >>> layout.chunkLog2();
        long last = range.getOffset() + range.getLength() - 1 >>> layout.chunkLog2();
        Run run = runs.isEmpty() ? null : runs.get(runs.size() - 1);
        boolean isNear = run != null && first <= run.last + 1;
        boolean fits = isNear && (last <= run.last || (last + 1 - run.first) * layout.recordLength() <= MOST_AT_ONCE);
        if (!fits) {
            run = new Run(first);
            runs.add(run);
        }
        run.last = last;
        run.ranges.add(range);
    }

    /** Whether the range lies in a chunk that is open already. Then it is done. */
    private boolean isKept(FileRange range, IntFunction<ByteBuffer> allocate) {
        boolean isInOne = range.getOffset() >>> layout.chunkLog2()
                == range.getOffset() + range.getLength() - 1 >>> layout.chunkLog2();
        ByteBuffer probe = ByteBuffer.allocate(isInOne ? range.getLength() : 0);
        if (!isInOne || file.readKept(range.getOffset(), probe) == 0) {
            return false;
        }
        ByteBuffer into = allocate.apply(range.getLength());
        into.put(probe.flip());
        range.getData().complete(into.flip());
        return true;
    }

    private void readAlone(FileRange range, IntFunction<ByteBuffer> allocate) {
        try {
            ByteBuffer into = allocate.apply(range.getLength());
            long position = range.getOffset();
            while (into.position() < range.getLength()) {
                position += file.read(position, into, false);
            }
            range.getData().complete(into.flip());
        } catch (IOException | RuntimeException e) {
            range.getData().completeExceptionally(e);
        }
    }

    private void finish(Run run, ByteBuffer bytes, Throwable failure, IntFunction<ByteBuffer> allocate) {
        if (failure != null) {
            Throwable cause = failure instanceof CompletionException ? failure.getCause() : failure;
            run.ranges.forEach(range -> range.getData().completeExceptionally(cause));
            return;
        }
        try {
            open(run, bytes, allocate);
        } catch (IOException | RuntimeException e) {
            Exception named = e instanceof IOException ? file.named(e) : e;
            run.ranges.forEach(range -> range.getData().completeExceptionally(named));
        } finally {
            if (bytes.hasArray()) {
                Arrays.fill(bytes.array(), (byte) 0);
            }
        }
    }

    private void open(Run run, ByteBuffer bytes, IntFunction<ByteBuffer> allocate) throws IOException {
        byte[] array = bytes.array();
        int start = bytes.arrayOffset() + bytes.position();
        for (long chunk = run.first; chunk <= run.last; chunk++) {
            file.open(chunk, array, start + (int) (chunk - run.first) * layout.recordLength());
        }
        for (FileRange range : run.ranges) {
            ByteBuffer into = allocate.apply(range.getLength());
            long position = range.getOffset();
            long end = position + range.getLength();
            while (position < end) {
                long chunk = position >>> layout.chunkLog2();
                int at = (int) (position - layout.plaintextOffset(chunk));
                int count = (int) Math.min(end - position, layout.plaintextLength(chunk) - at);
                int record = start + (int) (chunk - run.first) * layout.recordLength();
                into.put(array, record + layout.suite().overhead() + at, count);
                position += count;
            }
            range.getData().complete(into.flip());
        }
    }
}
