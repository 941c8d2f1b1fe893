package phalanx.cluster;

import java.io.IOException;
import java.util.Arrays;
import java.util.concurrent.Executor;
import phalanx.SharedFile;

/**
 * The work of one rank on one file after another. Rank 0 begins each file and sends the others what they need. Each
 * rank does an equal part. Rank 0 gives the output its name when all have succeeded.
 */
final class Job {
    /** How rank 0 begins a file. */
    @FunctionalInterface
    interface Beginning {
        SharedFile begin() throws IOException;
    }

    /** The result for a file, the same on all ranks. */
    record Result(Code code, long bytes) {}

    private final World world;
    private final Executor executor;
    private final int threads;
    private final boolean syncs;
    private final Report report;
    private long workNanos;
    private long messageNanos;

    Job(World world, Executor executor, int threads, boolean syncs, Report report) {
        this.world = world;
        this.executor = executor;
        this.threads = threads;
        this.syncs = syncs;
        this.report = report;
    }

    /**
     * Does one file. All ranks call it in the same order.
     *
     * @param name its name in messages
     * @param beginning how it begins; only rank 0 uses it
     */
    Result run(String name, Beginning beginning) {
        SharedFile file = null;
        Code code = Code.DONE;
        byte[] told = new byte[0];
        if (world.rank() == 0) {
            try {
                file = beginning.begin();
                told = file.toBytes();
            } catch (IOException | RuntimeException | OutOfMemoryError e) {
                code = report.failed(name, e);
            }
        }
        told = message(told);
        // No bytes mean that rank 0 could not begin.
        if (told.length == 0) {
            return new Result(worst(code), 0);
        }
        long bytes = 0;
        try {
            long begun = System.nanoTime();
            try {
                file = file == null ? SharedFile.join(told) : file;
                bytes = file.layout().plaintextLength();
                file.work(world.rank(), world.size(), executor, threads, syncs);
            } catch (IOException | RuntimeException | Error e) {
                code = report.failed(name, e);
            }
            Arrays.fill(told, (byte) 0);
            workNanos += System.nanoTime() - begun;
            code = worst(code);
            if (code == Code.DONE && world.rank() == 0) {
                code = finish(name, file);
            }
            return new Result(worst(code), bytes);
        } finally {
            close(file);
        }
    }

    private Code finish(String name, SharedFile file) {
        try {
            file.finish(syncs);
            return Code.DONE;
        } catch (IOException | RuntimeException | Error e) {
            // The other ranks wait for the code.
            return report.failed(name, e);
        }
    }

    /** A file that cannot be removed keeps its temporary name, and its file key no longer exists. */
    private static void close(SharedFile file) {
        try {
            if (file != null) {
                file.close();
            }
        } catch (IOException e) {
            // The failure that counts has been reported.
        }
    }

    /** The worst code of all ranks. */
    Code worst(Code mine) {
        long begun = System.nanoTime();
        long worst = world.largest(mine.ordinal());
        messageNanos += System.nanoTime() - begun;
        return Code.values()[Math.toIntExact(worst)];
    }

    private byte[] message(byte[] bytes) {
        long begun = System.nanoTime();
        byte[] message = world.broadcast(bytes);
        messageNanos += System.nanoTime() - begun;
        return message;
    }

    /** Seconds of work, including reading and writing. */
    double work() {
        return workNanos / 1e9;
    }

    /** Seconds for messages, including waiting for other ranks. */
    double messages() {
        return messageNanos / 1e9;
    }
}
