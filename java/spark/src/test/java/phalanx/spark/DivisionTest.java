package phalanx.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import phalanx.Layout;
import phalanx.Suite;

/** How jobs are divided. */
class DivisionTest {
    @Test
    void partsOfLargeFilesFollowEachOther() {
        for (long length : new long[] {16 << 20, (16 << 20) + 1, 1L << 30, 1L << 40, 5L << 40}) {
            Layout layout = new Layout(Suite.AES_256_CTR_SHA3, 20, 4096, length);
            for (int cores : new int[] {1, 2, 31 * 8}) {
                int parts = new Division(cores).parts(length, layout.chunks(), Division.LONGEST_IN_MEMORY);
                assertTrue(parts >= 1 && parts <= 1000);
                Item item = new Item(0, Plan.What.PROTECT, "", "", new Seen(length, 0, ""), null, 1, 20, new byte[1], parts, false);
                long end = 0;
                for (int part = 0; part < parts; part++) {
                    Piece piece = new Piece(item, part, 0, layout);
                    assertEquals(end, piece.offset());
                    assertTrue(part == parts - 1 || piece.length() >= 5 << 20, "a store takes no shorter part");
                    end += piece.length();
                }
                assertEquals(layout.fileLength(), end);
            }
        }
        assertEquals(1, new Division(8).parts(Division.LARGE - 1, 16, Division.LONGEST_PART));
    }

    @Test
    void batchesHaveEveryFileOnce() {
        List<Item> small = new ArrayList<>();
        for (int i = 0; i < 5000; i++) {
            small.add(new Item(i, Plan.What.VERIFY, "", "", new Seen(i % 7 == 0 ? 15 << 20 : 100, 0, ""), null, 0, 0, null, 1, false));
        }
        List<Work.Batch> batches = new Division(2).batches(small);
        List<Integer> numbers = new ArrayList<>();
        batches.forEach(batch -> batch.items().forEach(item -> numbers.add(item.number())));
        assertEquals(small.stream().map(Item::number).toList(), numbers);
        assertTrue(batches.size() >= 8);
        assertTrue(batches.stream().allMatch(batch -> batch.items().size() <= 256));
    }
}
