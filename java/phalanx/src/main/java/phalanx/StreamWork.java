package phalanx;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The chunks of a stream. The calling thread reads and writes in order, and a crew seals or opens in parallel. While it
 * waits, the calling thread works too. One chunk for each thread of the crew is in memory, and two more if there are
 * several.
 */
final class StreamWork {
    private final Crew crew;
    private final boolean seals;
    private final FileKeys keys;
    private final int chunkLog2;
    /** The length of a chunk as it is read, and where it begins in its buffer. */
    private final int inLength;
    private final int inOffset;

    private final List<Piece> pieces = new ArrayList<>();
    private final Deque<Piece> free = new ArrayDeque<>();
    private final Deque<Piece> pending = new ArrayDeque<>();
    /** How many tasks are queued in the executor. A busy one also keeps tasks that other threads have done. */
    private final AtomicInteger queued = new AtomicInteger();
    private final long mostChunks;
    private long plaintext;

    private StreamWork(Crew crew, boolean seals, FileKeys keys, int chunkLog2, long mostChunks) {
        int overhead = keys.suite().overhead();
        this.crew = crew;
        this.seals = seals;
        this.keys = keys;
        this.chunkLog2 = chunkLog2;
        this.mostChunks = mostChunks;
        this.inOffset = seals ? overhead : 0;
        this.inLength = (1 << chunkLog2) + overhead - inOffset;
    }

    /** Seals all that a stream has. Returns the length of the plaintext. */
    static long seal(Crew crew, FileKeys keys, int chunkLog2, InputStream in, OutputStream out) throws IOException {
        return seal(crew, keys, chunkLog2, keys.suite().mostChunks(), in, out);
    }

    /** Seals with another limit, for tests. */
    static long seal(Crew crew, FileKeys keys, int chunkLog2, long mostChunks, InputStream in, OutputStream out)
            throws IOException {
        return new StreamWork(crew, true, keys, chunkLog2, mostChunks).run(in, out);
    }

    /** Opens all chunks after a header. Returns the length of the plaintext. Writes nothing if {@code out} is null. */
    static long open(Crew crew, FileKeys keys, int chunkLog2, InputStream in, OutputStream out) throws IOException {
        return new StreamWork(crew, false, keys, chunkLog2, Long.MAX_VALUE).run(in, out);
    }

    private long run(InputStream in, OutputStream out) throws IOException {
        try {
            Piece piece = read(in, take(out));
            for (long index = 0; ; index++) {
                if (index >= mostChunks) {
                    throw Layout.tooLarge(keys.suite());
                }
                // A chunk is the last one exactly if the stream ends after it.
                Piece following = piece.length == inLength ? read(in, take(out)) : null;
                boolean last = following == null || following.length == 0;
                piece.prepare(index, last);
                pending.add(piece);
                offer(piece.task);
                if (last) {
                    break;
                }
                piece = following;
            }
            while (!pending.isEmpty()) {
                write(out);
            }
            return plaintext;
        } finally {
            pending.forEach(Piece::abandon);
            pieces.forEach(Piece::wipe);
        }
    }

    /** A piece that is not in use. Pieces are made when they are needed, so that a short stream takes little memory. */
    private Piece take(OutputStream out) throws IOException {
        long most = crew.size() == 1 ? 2 : crew.size() + 2L;
        if (free.isEmpty() && pieces.size() >= most) {
            write(out);
        }
        if (free.isEmpty()) {
            Piece piece = new Piece();
            pieces.add(piece);
            return piece;
        }
        return free.remove();
    }

    private Piece read(InputStream in, Piece piece) throws IOException {
        piece.length = in.readNBytes(piece.bytes, inOffset, inLength);
        return piece;
    }

    /** Offers a chunk to the executor. If the executor does not take it, the calling thread does the chunk, in {@link #write}. */
    private void offer(FutureTask<Void> task) {
        if (crew.size() == 1 || queued.get() >= 2L * crew.size()) {
            return;
        }
        // A task in a busy executor refers to nothing else, so it keeps neither chunks nor keys.
        AtomicInteger count = queued;
        count.incrementAndGet();
        try {
            crew.executor().execute(() -> {
                count.decrementAndGet();
                task.run();
            });
        } catch (RejectedExecutionException e) {
            count.decrementAndGet();
        } catch (OutOfMemoryError e) {
            // There is no thread. The executor may still have kept the task, so it counts.
        }
    }

    /** Writes the oldest chunk. */
    private void write(OutputStream out) throws IOException {
        Piece piece = pending.element();
        for (Piece next : pending) {
            if (piece.task.isDone()) {
                break;
            }
            // Does nothing if another thread has begun it.
            next.task.run();
        }
        piece.await();
        int overhead = keys.suite().overhead();
        int length = seals ? piece.length : piece.length - overhead;
        plaintext += length;
        if (out != null) {
            try {
                out.write(piece.bytes, seals ? 0 : overhead, seals ? length + overhead : length);
            } catch (IOException e) {
                throw new OutputException(e);
            }
        }
        free.add(pending.remove());
    }

    private final class Piece {
        private final byte[] bytes = new byte[(1 << chunkLog2) + keys.suite().overhead()];
        private final ChunkCipher cipher = new ChunkCipher(keys, chunkLog2);
        private int length;
        private FutureTask<Void> task;

        void prepare(long index, boolean last) {
            Callable<Void> work = () -> {
                if (seals) {
                    cipher.seal(bytes, 0, length, index, last);
                } else {
                    open(index, last);
                }
                return null;
            };
            task = new FutureTask<>(work);
        }

        private void open(long index, boolean last) throws AuthenticationException {
            int ciphertext = length - keys.suite().overhead();
            if (length == 0) {
                throw new TruncatedException("it has no chunk");
            }
            if (ciphertext < 0 || ciphertext == 0 && index > 0) {
                throw new TruncatedException("its last chunk is not whole");
            }
            cipher.open(bytes, 0, ciphertext, index, last);
        }

        /** Does the work if no thread has begun it, and waits until it is done. */
        void await() throws IOException {
            task.run();
            boolean interrupted = false;
            try {
                while (true) {
                    try {
                        task.get();
                        return;
                    } catch (InterruptedException e) {
                        interrupted = true;
                    }
                }
            } catch (ExecutionException e) {
                Failures.rethrow(e.getCause());
            } finally {
                if (interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }

        /** Waits until no thread works on it any more, whatever the result. */
        void abandon() {
            try {
                await();
            } catch (IOException | RuntimeException | Error e) {
                // Another failure ended the work.
            }
        }

        void wipe() {
            cipher.close();
            Arrays.fill(bytes, (byte) 0);
        }
    }
}
