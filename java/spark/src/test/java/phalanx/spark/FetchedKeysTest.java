package phalanx.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import phalanx.MessagesException;
import phalanx.PhalanxKey;

/** The keys of columns: each is fetched once, not too many are kept, and those that leave are overwritten. */
class FetchedKeysTest {
    private final List<String> asked = new CopyOnWriteArrayList<>();
    private final Map<String, PhalanxKey> made = new ConcurrentHashMap<>();

    private PhalanxKey fetch(String name) {
        asked.add(name);
        byte[] bytes = new byte[32];
        System.arraycopy(name.getBytes(), 0, bytes, 0, name.length());
        PhalanxKey key = PhalanxKey.of(bytes);
        made.put(name, key);
        return key;
    }

    @Test
    void theOnesThatWereUsedLastAreKept() {
        FetchedKeys keys = new FetchedKeys(3, this::fetch);
        PhalanxKey copy = keys.copy("a");
        for (String name : List.of("b", "c", "a", "d")) {
            keys.copy(name).close();
        }
        assertEquals(3, keys.size());
        assertEquals(List.of("a", "b", "c", "d"), asked);
        // "b" has left, and is overwritten. A copy that somebody has stays.
        assertThrows(IllegalStateException.class, () -> made.get("b").expose());
        assertNotSame(made.get("a"), copy);
        assertEquals(made.get("a"), copy);
        keys.copy("b");
        keys.copy("e");
        assertThrows(IllegalStateException.class, () -> made.get("a").expose());
        assertEquals('a', copy.expose()[0]);
        assertEquals(List.of("a", "b", "c", "d", "b", "e"), asked);
    }

    @Test
    void aFailureIsNotKept() {
        boolean[] fails = {true};
        FetchedKeys keys = new FetchedKeys(3, name -> {
            if (fails[0]) {
                throw new IllegalArgumentException("no " + name);
            }
            return fetch(name);
        });
        for (int i = 0; i < 2; i++) {
            assertEquals("no a", assertThrows(IllegalArgumentException.class, () -> keys.copy("a")).getMessage());
        }
        assertEquals(0, keys.size());
        fails[0] = false;
        assertEquals(fetch("a"), keys.copy("a"));
    }

    @Test
    void oneThatIsBeingFetchedIsNotFetchedAgain() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch goesOn = new CountDownLatch(1);
        FetchedKeys keys = new FetchedKeys(3, name -> {
            if (name.equals("slow")) {
                begun.countDown();
                try {
                    goesOn.await();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }
            return fetch(name);
        });
        Thread first = new Thread(() -> keys.copy("slow").close());
        first.start();
        begun.await();
        Thread second = new Thread(() -> keys.copy("slow").close());
        second.start();
        // Others do not wait for it.
        keys.copy("a").close();
        goesOn.countDown();
        first.join();
        second.join();
        assertEquals(List.of("a", "slow"), asked);
    }

    /** Otherwise it would be fetched again and again while others come and go. */
    @Test
    void oneThatIsBeingFetchedDoesNotLeave() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch goesOn = new CountDownLatch(1);
        FetchedKeys keys = new FetchedKeys(2, name -> {
            if (name.equals("slow")) {
                begun.countDown();
                try {
                    goesOn.await();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }
            return fetch(name);
        });
        Thread first = new Thread(() -> keys.copy("slow").close());
        first.start();
        begun.await();
        for (String name : List.of("a", "b", "c")) {
            keys.copy(name).close();
        }
        goesOn.countDown();
        first.join();
        keys.copy("slow").close();
        assertEquals(List.of("a", "b", "c", "slow"), asked);
        assertEquals(2, keys.size());
    }

    @Test
    void manyThreadsAndFewPlaces() {
        FetchedKeys keys = new FetchedKeys(2, this::fetch);
        assertTrue(IntStream.range(0, 20_000).parallel().allMatch(i -> {
            String name = "key " + i % 7;
            try (PhalanxKey copy = keys.copy(name)) {
                byte[] bytes = new byte[32];
                System.arraycopy(name.getBytes(), 0, bytes, 0, name.length());
                return java.util.Arrays.equals(bytes, copy.expose());
            }
        }));
        assertTrue(keys.size() <= 2);
    }

    @Test
    void aTaskHasFewKeysAndOverwritesThem() throws MessagesException {
        FetchedKeys keys = new FetchedKeys(10, this::fetch);
        RowSealer sealer = new RowSealer(keys);
        byte[] user = {7};
        byte[] text = {1, 2, 3};
        Columns seal = new Columns.Seal();
        Columns open = new Columns.Open();
        for (int i = 0; i < RowSealer.MOST + 20; i++) {
            String name = "key " + i;
            assertArrayEquals(text, sealer.apply(open, name, user, sealer.apply(seal, name, user, text)));
        }
        assertEquals(RowSealer.MOST, sealer.size());
        byte[] sealed = sealer.apply(seal, "key 0", user, text);
        assertEquals(RowSealer.MOST + 21, asked.size());
        assertThrows(MessagesException.class, () -> sealer.apply(open, "key 1", user, sealed));
        sealer.close();
        assertEquals(0, sealer.size());
        assertThrows(IllegalStateException.class, () -> sealer.apply(open, "key 0", user, sealed));
    }
}
