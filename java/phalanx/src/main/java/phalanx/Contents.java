package phalanx;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;

/**
 * What a protected file holds, in a form that needs no key: docs/format.md, section 13.2. It changes whenever the file
 * is written, and does not when its keys are changed.
 *
 * <p>Two files that open and have equal contents have equal plaintexts, unless somebody who knows the file key made one
 * of them in suite 4.
 */
public final class Contents {
    static final int LAST = 48;
    static final int ROOT = 32;

    private final byte[] last;
    private final byte[] root;

    Contents(byte[] last, byte[] root) {
        this.last = last;
        this.root = root;
    }

    /**
     * Contents that were noted somewhere.
     *
     * @param last the 48 bytes of {@link #last}
     * @param root the 32 bytes of {@link #root}
     * @return the contents
     * @throws IllegalArgumentException if the lengths are others
     */
    public static Contents of(byte[] last, byte[] root) {
        if (last.length != LAST || root.length != ROOT) {
            throw new IllegalArgumentException("contents have 48 and 32 bytes");
        }
        return new Contents(last.clone(), root.clone());
    }

    /**
     * Reads them from a protected file. Of its chunks, only nonces and tags are read, and nothing is checked.
     *
     * @param file the protected file
     * @return its contents
     * @throws NotPhalanxException if it does not begin like a protected file
     * @throws UnsupportedVersionException if it has another version of the format
     * @throws MalformedHeaderException if its header breaks a rule of the format
     * @throws AuthenticationException if no plaintext gives a file of this length
     * @throws IOException if it cannot be read
     */
    public static Contents read(Path file) throws IOException {
        try (Input in = Input.open(file)) {
            return read(in.channel());
        }
    }

    /**
     * Reads them from an opened file. The channel's position does not change.
     *
     * @param file the protected file
     * @return its contents
     * @throws IOException as for {@link #read(Path)}
     */
    public static Contents read(FileChannel file) throws IOException {
        Layout layout = Header.read(file).layout(file.size());
        HashTree tree = new HashTree();
        byte[] head = new byte[layout.suite().overhead()];
        for (long chunk = 0; chunk < layout.chunks(); chunk++) {
            readHead(file, layout, chunk, head);
            tree.add(chunk, head, head.length);
        }
        return new Contents(Arrays.copyOf(head, LAST), tree.root(layout.chunks()));
    }

    /** Nonce and tag of the last chunk, with zeros up to 48 bytes. */
    static byte[] readLast(FileChannel file, Layout layout) throws IOException {
        byte[] head = new byte[layout.suite().overhead()];
        readHead(file, layout, layout.chunks() - 1, head);
        return Arrays.copyOf(head, LAST);
    }

    private static void readHead(FileChannel file, Layout layout, long chunk, byte[] head) throws IOException {
        if (Bytes.readAt(file, head, 0, head.length, layout.fileOffset(chunk)) < head.length) {
            throw new ChangedException();
        }
    }

    /**
     * Nonce and tag of the last chunk, in suite 4 followed by 20 zero bytes.
     *
     * @return a copy of 48 bytes
     */
    public byte[] last() {
        return last.clone();
    }

    /**
     * The root of the hash tree over the nonces and tags of all chunks.
     *
     * @return a copy of 32 bytes
     */
    public byte[] root() {
        return root.clone();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Contents contents
                && Arrays.equals(last, contents.last)
                && Arrays.equals(root, contents.root);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(root);
    }

    /** The root in 64 hexadecimal digits. */
    @Override
    public String toString() {
        return HexFormat.of().formatHex(root);
    }
}
