package phalanx.spark;

import phalanx.Layout;

/**
 * One part of a file: a run of its chunks, and the bytes that these are in the output.
 *
 * @param item the file
 * @param part which part
 * @param attempt how often it was begun before. No two attempts write to one file
 * @param layout where chunks lie
 */
record Piece(Item item, int part, int attempt, Layout layout) {
    long first() {
        return layout.firstChunk(part, item.parts());
    }

    /** The first chunk behind it. */
    long end() {
        return layout.firstChunk(part + 1L, item.parts());
    }

    /** Where it begins in the input. */
    long inputOffset() {
        return item.what() == Plan.What.PROTECT ? layout.plaintextOffset(first()) : layout.fileOffset(first());
    }

    /** Where it begins in the output. The first part of a protected file has the header, too. */
    long offset() {
        return outputOffset(layout, item, part);
    }

    /** How many bytes of the output it has. */
    long length() {
        return outputOffset(layout, item, part + 1L) - offset();
    }

    static long outputOffset(Layout layout, Item item, long part) {
        if (part == 0) {
            return 0;
        }
        long whole = item.what() == Plan.What.PROTECT ? layout.fileLength() : layout.plaintextLength();
        long chunk = layout.firstChunk(part, item.parts());
        return Math.min(whole, item.what() == Plan.What.PROTECT ? layout.fileOffset(chunk) : layout.plaintextOffset(chunk));
    }

    /** The bytes of plaintext. */
    long plaintext() {
        return Math.min(layout.plaintextLength(), layout.plaintextOffset(end())) - layout.plaintextOffset(first());
    }
}
