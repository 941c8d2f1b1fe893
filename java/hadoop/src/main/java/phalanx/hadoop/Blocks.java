package phalanx.hadoop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.BlockLocation;
import phalanx.Layout;

/** The places of a file's blocks, so that work goes to the data: offsets of the protected file as offsets of the plaintext. */
final class Blocks {
    private Blocks() {}

    /** Where the chunks of a range begin in the protected file. */
    static long from(Layout layout, long start) {
        return layout.fileOffset(start >>> layout.chunkLog2());
    }

    /** Where the chunks of a range end. */
    static long to(Layout layout, long start, long length) {
        long end = length > layout.plaintextLength() - start ? layout.plaintextLength() : start + length;
        return Math.min(layout.fileLength(), layout.fileOffset(((end - 1) >>> layout.chunkLog2()) + 1));
    }

    /** The blocks of the protected file, as blocks of the plaintext. Those that have only the header or a tag are left out. */
    static BlockLocation[] plain(Layout layout, BlockLocation[] stored) throws IOException {
        List<BlockLocation> all = new ArrayList<>();
        for (BlockLocation block : stored) {
            long start = plain(layout, block.getOffset());
            long length = plain(layout, block.getOffset() + block.getLength()) - start;
            if (length > 0) {
                BlockLocation copy = new BlockLocation(block);
                copy.setOffset(start);
                copy.setLength(length);
                all.add(copy);
            }
        }
        return all.toArray(BlockLocation[]::new);
    }

    /** How many bytes of plaintext lie before this offset of the protected file. */
    static long plain(Layout layout, long offset) {
        if (offset <= layout.headerLength()) {
            return 0;
        }
        if (offset >= layout.fileLength()) {
            return layout.plaintextLength();
        }
        long chunk = (offset - layout.headerLength()) / layout.recordLength();
        long inside = offset - layout.fileOffset(chunk) - layout.suite().overhead();
        return layout.plaintextOffset(chunk) + Math.max(0, inside);
    }
}
