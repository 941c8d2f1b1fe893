package phalanx.spark;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Function;
import phalanx.PhalanxKey;

/** The keys that were used last, by their names, so that each is fetched once. One that leaves is overwritten. Many threads may use it. */
final class FetchedKeys {
    private final int most;
    private final Function<String, PhalanxKey> fetch;
    private final Map<String, CompletableFuture<PhalanxKey>> kept = new LinkedHashMap<>(16, 0.75f, true);

    /**
     * For keys of one kind of names.
     *
     * @param most how many are kept
     * @param fetch finds a key by its name
     */
    FetchedKeys(int most, Function<String, PhalanxKey> fetch) {
        this.most = most;
        this.fetch = fetch;
    }

    /** A copy of a key, which belongs to the caller. */
    PhalanxKey copy(String name) {
        while (true) {
            PhalanxKey key = key(name);
            byte[] bytes;
            try {
                bytes = key.expose();
            } catch (IllegalStateException e) {
                // So many others were fetched meanwhile that it has left.
                continue;
            }
            try {
                return PhalanxKey.of(bytes);
            } finally {
                java.util.Arrays.fill(bytes, (byte) 0);
            }
        }
    }

    private PhalanxKey key(String name) {
        CompletableFuture<PhalanxKey> mine = new CompletableFuture<>();
        CompletableFuture<PhalanxKey> there;
        synchronized (kept) {
            there = kept.putIfAbsent(name, mine);
            // Of a LinkedHashMap in the order of access this makes it the last one.
            kept.get(name);
            for (var oldest = kept.values().iterator(); kept.size() > most;) {
                oldest.next().thenAccept(PhalanxKey::close);
                oldest.remove();
            }
        }
        if (there == null) {
            fetch(name, mine);
            there = mine;
        }
        try {
            return there.join();
        } catch (CompletionException e) {
            throw e.getCause() instanceof RuntimeException cause ? cause : e;
        }
    }

    /** Nobody waits for a key longer than the one who fetches it. A failure is not kept. */
    private void fetch(String name, CompletableFuture<PhalanxKey> into) {
        try {
            into.complete(fetch.apply(name));
        } catch (RuntimeException | Error e) {
            synchronized (kept) {
                kept.remove(name, into);
            }
            into.completeExceptionally(e);
        }
    }

    int size() {
        synchronized (kept) {
            return kept.size();
        }
    }
}
