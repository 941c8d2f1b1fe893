package phalanx;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import phalanx.primitives.Sponge;

/**
 * The hash tree over the nonces and tags of a file's chunks: docs/format.md, section 13.2. The leaves may come in any
 * order, from several threads. A complete subtree is kept as one hash.
 */
final class HashTree {
    private static final int HASH = Sponge.DIGEST;

    /** A complete subtree of 2^level leaves. */
    private record Place(int level, long index) {
        Place sibling() {
            return new Place(level, index ^ 1);
        }

        Place above() {
            return new Place(level + 1, index >>> 1);
        }

        boolean isLeft() {
            return (index & 1) == 0;
        }
    }

    private final Map<Place, byte[]> subtrees = new HashMap<>();
    private final Sponge sponge = Sponge.sha3();

    /** Adds a new leaf: the nonce and tag of a chunk, which lie at the beginning of an array. */
    synchronized void add(long index, byte[] chunk, int overhead) {
        byte[] leaf = new byte[1 + overhead];
        System.arraycopy(chunk, 0, leaf, 1, overhead);
        add(0, index, hash(leaf));
    }

    /** Adds a complete subtree, of which no leaf was added before. */
    synchronized void add(int level, long index, byte[] subtree) {
        byte[] hash = subtree;
        Place place = new Place(level, index);
        for (byte[] sibling; (sibling = subtrees.remove(place.sibling())) != null; place = place.above()) {
            hash = place.isLeft() ? node(hash, sibling) : node(sibling, hash);
        }
        subtrees.put(place, hash);
    }

    /** What takes a complete subtree. */
    interface Taker {
        void take(int level, long index, byte[] hash) throws IOException;
    }

    /** All complete subtrees that are not part of a greater one. */
    synchronized void subtrees(Taker taker) throws IOException {
        for (Map.Entry<Place, byte[]> subtree : subtrees.entrySet()) {
            taker.take(subtree.getKey().level, subtree.getKey().index, subtree.getValue());
        }
    }

    /** Whether exactly this many leaves have been added, from the first one on. */
    synchronized boolean isWhole(long leaves) {
        for (int level = 0; level < Long.SIZE; level++) {
            if ((leaves >>> level & 1) == 1 && !subtrees.containsKey(new Place(level, (leaves >>> level) - 1))) {
                return false;
            }
        }
        return subtrees.size() == Long.bitCount(leaves);
    }

    /** The root of a tree whose leaves have all been added. */
    synchronized byte[] root(long leaves) {
        byte[] root = null;
        // From the right: the smallest subtree first.
        for (int level = 0; level < Long.SIZE; level++) {
            if ((leaves >>> level & 1) == 1) {
                byte[] left = subtrees.get(new Place(level, (leaves >>> level) - 1));
                root = root == null ? left : node(left, root);
            }
        }
        return root;
    }

    private byte[] node(byte[] left, byte[] right) {
        byte[] node = new byte[1 + 2 * HASH];
        node[0] = 1;
        System.arraycopy(left, 0, node, 1, HASH);
        System.arraycopy(right, 0, node, 1 + HASH, HASH);
        return hash(node);
    }

    private byte[] hash(byte[] bytes) {
        byte[] hash = new byte[HASH];
        sponge.hash(bytes, 0, bytes.length, hash, 0, HASH);
        return hash;
    }
}
