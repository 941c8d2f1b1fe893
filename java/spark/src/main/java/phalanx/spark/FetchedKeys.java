package phalanx.spark;

import java.util.Arrays;
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
            CompletableFuture<PhalanxKey> mine = new CompletableFuture<>();
            CompletableFuture<PhalanxKey> there;
            synchronized (kept) {
                there = kept.putIfAbsent(name, mine);
                // Of a LinkedHashMap in the order of access this makes it the last one.
                kept.get(name);
            }
            if (there == null) {
                return fetched(name, mine);
            }
            try {
                return copy(there.join());
            } catch (CompletionException e) {
                throw e.getCause() instanceof RuntimeException cause ? cause : e;
            } catch (IllegalStateException e) {
                // So many others were fetched meanwhile that it has left.
                continue;
            }
        }
    }

    private static PhalanxKey copy(PhalanxKey key) {
        byte[] bytes = key.expose();
        try {
            return PhalanxKey.of(bytes);
        } finally {
            Arrays.fill(bytes, (byte) 0);
        }
    }

    /** Who fetches a key has its copy before the key can leave. A failure is not kept. */
    private PhalanxKey fetched(String name, CompletableFuture<PhalanxKey> into) {
        try {
            PhalanxKey key = fetch.apply(name);
            PhalanxKey copy = copy(key);
            into.complete(key);
            evict();
            return copy;
        } catch (RuntimeException | Error e) {
            synchronized (kept) {
                kept.remove(name, into);
            }
            into.completeExceptionally(e);
            throw e;
        }
    }

    /** Those that are being fetched stay: otherwise a slow one would be fetched again and again. */
    private void evict() {
        synchronized (kept) {
            for (var oldest = kept.values().iterator(); kept.size() > most && oldest.hasNext();) {
                CompletableFuture<PhalanxKey> each = oldest.next();
                if (each.isDone()) {
                    oldest.remove();
                    each.thenAccept(PhalanxKey::close);
                }
            }
        }
    }

    int size() {
        synchronized (kept) {
            return kept.size();
        }
    }
}
