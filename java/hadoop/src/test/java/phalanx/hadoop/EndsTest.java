package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;

/** What is remembered of files, and for how long. */
class EndsTest {
    private static final class Tagged extends FileStatus implements EtagSource {
        private static final long serialVersionUID = 1L;

        Tagged(int number) {
            super(1, false, 1, 1, 0, new Path("/" + number));
        }

        @Override
        public String getEtag() {
            return "tag";
        }

        @Override
        public boolean equals(Object other) {
            return super.equals(other);
        }

        @Override
        public int hashCode() {
            return super.hashCode();
        }
    }

    @Test
    void theHeaderStaysIfTheLastChunkIsTooLong() {
        Ends ends = new Ends();
        byte[] header = {1, 2, 3};
        ends.keep(new Tagged(0), header, new byte[Ends.MOST_BYTES / 4]);
        Ends.Known known = ends.find(new Tagged(0)).orElseThrow();
        assertArrayEquals(header, known.header());
        assertNull(known.last());
    }

    @Test
    void shortEntriesAreFewEnough() {
        Ends ends = new Ends();
        int most = Ends.MOST_BYTES / (Ends.ENTRY + 1);
        for (int i = 0; i < most; i++) {
            ends.keep(new Tagged(i), new byte[1], null);
        }
        // This one was used last.
        assertTrue(ends.find(new Tagged(0)).isPresent());
        ends.keep(new Tagged(most), new byte[1], null);
        assertTrue(ends.find(new Tagged(0)).isPresent());
        assertTrue(ends.find(new Tagged(1)).isEmpty());
        assertEquals(1, ends.find(new Tagged(most)).orElseThrow().header().length);
    }
}
