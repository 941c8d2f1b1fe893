package phalanx.spark;

import java.util.ArrayList;
import java.util.List;

/** How a job is divided into tasks: large files into runs of chunks, small files into batches. */
final class Division {
    /** Files from here on are divided, as by the other programs. */
    static final long LARGE = 16 << 20;
    /** The longest part, and that of a place that has parts in memory. */
    static final long LONGEST_PART = 256 << 20;
    static final long LONGEST_IN_MEMORY = 64 << 20;
    /** Tasks for each core, so that all end at about the same time, whatever their speeds. */
    private static final int TASKS = 4;
    private static final int MOST_PARTS = 1000;
    private static final int MOST_FILES = 256;

    private final int cores;

    Division(int cores) {
        this.cores = Math.max(1, cores);
    }

    /**
     * How many parts a plaintext gets. A store takes no parts below 5 MiB: these have at least 8.
     *
     * @param longest the longest part that there should be. Long files have longer ones
     */
    int parts(long length, long chunks, long longest) {
        if (length < LARGE) {
            return 1;
        }
        long size = Math.min(longest, Math.max(LARGE, length / ((long) TASKS * cores)));
        return (int) Math.min(Math.min(MOST_PARTS, chunks), (length + size - 1) / size);
    }

    /** Batches of small files, in their order. */
    List<Work.Batch> batches(List<Item> small) {
        long all = small.stream().mapToLong(item -> item.seen().length()).sum();
        long bytes = Math.min(LONGEST_IN_MEMORY, all / ((long) TASKS * cores));
        int most = Math.min(MOST_FILES, (small.size() + TASKS * cores - 1) / (TASKS * cores));
        List<Work.Batch> batches = new ArrayList<>();
        ArrayList<Item> batch = new ArrayList<>();
        long has = 0;
        for (Item item : small) {
            if (!batch.isEmpty() && (batch.size() >= Math.max(1, most) || has + item.seen().length() > Math.max(LARGE, bytes))) {
                batches.add(new Work.Batch(batch, 0));
                batch = new ArrayList<>();
                has = 0;
            }
            batch.add(item);
            has += item.seen().length();
        }
        if (!batch.isEmpty()) {
            batches.add(new Work.Batch(batch, 0));
        }
        return batches;
    }
}
