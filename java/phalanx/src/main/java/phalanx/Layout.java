package phalanx;

import java.io.IOException;

/**
 * The places of a file's chunks: docs/format.md, section 2.3.
 *
 * @param suite the suite
 * @param chunkLog2 the binary logarithm of the chunk size
 * @param headerLength the length of the header in bytes
 * @param plaintextLength the length of the plaintext in bytes
 */
public record Layout(Suite suite, int chunkLog2, int headerLength, long plaintextLength) {
    static final int SMALLEST_LOG2 = 12;
    static final int LARGEST_LOG2 = 24;
    private static final int SLICE = 4096;

    /**
     * The layout of a plaintext of this length.
     *
     * @param suite the suite
     * @param chunkLog2 the binary logarithm of the chunk size
     * @param headerLength the length of the header in bytes
     * @param plaintextLength the length of the plaintext in bytes
     * @throws IllegalArgumentException if the chunk size is not one of the format, or the file would be longer than 2^63 − 1
     *     bytes
     */
    public Layout {
        if (chunkLog2 < SMALLEST_LOG2 || chunkLog2 > LARGEST_LOG2) {
            throw new IllegalArgumentException("a chunk has 2^12 to 2^24 bytes, not 2^" + chunkLog2);
        }
        long chunks = Math.max(1, ceil(plaintextLength, chunkLog2));
        if (plaintextLength < 0 || plaintextLength > Long.MAX_VALUE - headerLength - chunks * suite.overhead()) {
            throw new IllegalArgumentException("no file has this length");
        }
    }

    /**
     * The layout of a file of this length.
     *
     * @param suite the suite
     * @param chunkLog2 the binary logarithm of the chunk size
     * @param headerLength the length of the header in bytes
     * @param fileLength the length of the whole file in bytes
     * @return the layout
     * @throws AuthenticationException if no plaintext gives a file of this length
     */
    public static Layout ofFile(Suite suite, int chunkLog2, int headerLength, long fileLength)
            throws AuthenticationException {
        long body = fileLength - headerLength;
        if (body <= 0) {
            throw new TruncatedException("it has no chunk");
        }
        long record = (1L << chunkLog2) + suite.overhead();
        long chunks = (body - 1) / record + 1;
        long rest = body - (chunks - 1) * record;
        boolean whole = rest > suite.overhead() || rest == suite.overhead() && chunks == 1;
        if (!whole) {
            throw new TruncatedException("its last chunk is not whole");
        }
        return new Layout(suite, chunkLog2, headerLength, body - chunks * suite.overhead());
    }

    /** Refuses a plaintext that has more chunks than may be sealed under one file key. */
    static void refuseTooLarge(Suite suite, int chunkLog2, long plaintextLength) throws IOException {
        if (ceil(plaintextLength, chunkLog2) > suite.mostChunks()) {
            throw tooLarge(suite);
        }
    }

    static IOException tooLarge(Suite suite) {
        return new IOException("too large: " + suite.title() + " seals no more than " + suite.mostChunks() + " chunks");
    }

    private static long ceil(long length, int log2) {
        return (length >>> log2) + ((length & ((1L << log2) - 1)) == 0 ? 0 : 1);
    }

    /** The length of a slice in chunks of this size. */
    static int sliceLength(int chunkLog2) {
        return Math.min(SLICE, 1 << (chunkLog2 - 3));
    }

    /**
     * The most bytes of plaintext in a chunk.
     *
     * @return 2^chunkLog2
     */
    public int chunkLength() {
        return 1 << chunkLog2;
    }

    /**
     * The length of a whole chunk in the file, with nonce and tag.
     *
     * @return the length in bytes
     */
    public int recordLength() {
        return chunkLength() + suite.overhead();
    }

    /**
     * How many chunks there are.
     *
     * @return at least 1
     */
    public long chunks() {
        return Math.max(1, ceil(plaintextLength, chunkLog2));
    }

    /**
     * Whether this is the last chunk.
     *
     * @param chunk its index
     * @return whether it is
     */
    public boolean isLast(long chunk) {
        return chunk == chunks() - 1;
    }

    /**
     * The plaintext's length in a chunk.
     *
     * @param chunk its index
     * @return the length in bytes; 0 only in an empty file
     */
    public int plaintextLength(long chunk) {
        return (int) Math.min(chunkLength(), plaintextLength - plaintextOffset(chunk));
    }

    /**
     * Where the plaintext of a chunk begins in the whole plaintext.
     *
     * @param chunk its index
     * @return the offset in bytes
     */
    public long plaintextOffset(long chunk) {
        return chunk << chunkLog2;
    }

    /**
     * Where a chunk begins in the file, with its nonce.
     *
     * @param chunk its index
     * @return the offset in bytes
     */
    public long fileOffset(long chunk) {
        return headerLength + chunk * recordLength();
    }

    /**
     * Where a part begins, if the file is divided into equal runs of chunks. The last part ends where part {@code parts} would begin.
     *
     * @param part which part, 0 … {@code parts}
     * @param parts how many there are
     * @return the index of the first chunk of the part
     */
    public long firstChunk(long part, int parts) {
        long chunks = chunks();
        return chunks / parts * part + Math.min(part, chunks % parts);
    }

    /**
     * The length of the whole file.
     *
     * @return the length in bytes
     */
    public long fileLength() {
        return headerLength + plaintextLength + chunks() * suite.overhead();
    }
}
