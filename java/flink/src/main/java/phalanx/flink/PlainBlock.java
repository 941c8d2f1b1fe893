package phalanx.flink;

import java.io.IOException;
import org.apache.flink.core.fs.BlockLocation;
import phalanx.Layout;

/**
 * Which hosts have a part of the plaintext.
 *
 * @param hosts the hosts
 * @param from where the part begins
 * @param to where it ends
 */
record PlainBlock(String[] hosts, long from, long to) implements BlockLocation {
    /** What lies in a block of the protected file. */
    static PlainBlock of(BlockLocation block, Layout layout) throws IOException {
        return new PlainBlock(block.getHosts(), plain(layout, block.getOffset()), plain(layout, block.getOffset() + block.getLength()));
    }

    /** The plaintext's offset of the chunk that lies at an offset of the protected file. */
    private static long plain(Layout layout, long stored) {
        if (stored >= layout.fileLength()) {
            return layout.plaintextLength();
        }
        long chunk = Math.max(0, stored - layout.headerLength()) / layout.recordLength();
        return Math.min(layout.plaintextLength(), chunk << layout.chunkLog2());
    }

    @Override
    public String[] getHosts() {
        return hosts;
    }

    @Override
    public long getOffset() {
        return from;
    }

    @Override
    public long getLength() {
        return to - from;
    }

    @Override
    public int compareTo(BlockLocation other) {
        return Long.compare(from, other.getOffset());
    }
}
