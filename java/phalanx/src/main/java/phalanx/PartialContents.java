package phalanx;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.Optional;

/**
 * The {@link Contents} of a file whose chunks are sealed or opened in any order, on several threads or by several processes. Each adds
 * its chunks. What the processes have joined is short, whatever the length of the file.
 *
 * <pre>{@code
 * byte[] nonceAndTag = new byte[Suite.AES_256_CTR_SHA3.overhead()];
 * PartialContents first = new PartialContents();
 * first.add(0, nonceAndTag, nonceAndTag.length);
 * PartialContents all = new PartialContents();
 * all.join(first.toBytes());
 * Contents contents = all.whole(1).orElseThrow();
 * }</pre>
 */
public final class PartialContents {
    private final HashTree tree = new HashTree();
    private long lastIndex = -1;
    private byte[] last = new byte[Contents.LAST];

    /** No chunks yet. */
    public PartialContents() {}

    /**
     * Adds a chunk that was not added before.
     *
     * @param index its number in the file, from 0 on
     * @param chunk bytes that begin with its nonce and tag
     * @param overhead how many bytes these are: that of its suite
     */
    public synchronized void add(long index, byte[] chunk, int overhead) {
        tree.add(index, chunk, overhead);
        if (index > lastIndex) {
            lastIndex = index;
            last = Arrays.copyOf(Arrays.copyOf(chunk, overhead), Contents.LAST);
        }
    }

    /**
     * What has been added so far.
     *
     * @return bytes for {@link #join}. There is no secret in them
     */
    public synchronized byte[] toBytes() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeLong(lastIndex);
            out.write(last);
            tree.subtrees((level, index, hash) -> {
                out.writeByte(level);
                out.writeLong(index);
                out.write(hash);
            });
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        return bytes.toByteArray();
    }

    /**
     * Adds what another one has.
     *
     * @param bytes its {@link #toBytes}
     * @throws IllegalArgumentException if the bytes are something else
     */
    public synchronized void join(byte[] bytes) {
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
            long otherIndex = in.readLong();
            byte[] otherLast = new byte[Contents.LAST];
            in.readFully(otherLast);
            while (in.available() > 0) {
                int level = in.readByte();
                long index = in.readLong();
                byte[] hash = new byte[Contents.ROOT];
                in.readFully(hash);
                tree.add(level, index, hash);
            }
            if (otherIndex > lastIndex) {
                lastIndex = otherIndex;
                last = otherLast;
            }
        } catch (IOException e) {
            throw new IllegalArgumentException("these are no contents");
        }
    }

    /**
     * The contents, if all chunks of the file have been added.
     *
     * @param chunks how many the file has
     * @return the contents; nothing if chunks are missing
     */
    public synchronized Optional<Contents> whole(long chunks) {
        if (chunks <= 0 || lastIndex != chunks - 1 || !tree.isWhole(chunks)) {
            return Optional.empty();
        }
        return Optional.of(new Contents(last.clone(), tree.root(chunks)));
    }
}
