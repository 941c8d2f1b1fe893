package phalanx;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Executor;

/**
 * Seals and opens short messages in batches, each under its own key: docs/format.md, section 7. All processors work by
 * default. One value may be used from many threads.
 *
 * <pre>{@code
 * Messages messages = new Messages(Suite.AES_256_CTR_SHA3);
 * List<byte[]> sealed = messages.seal(List.of(new Message(key, plaintext)));
 * List<byte[]> opened = messages.open(List.of(new Message(key, sealed.get(0))));
 * }</pre>
 *
 * <p>{@link MessageSealer} is for messages that come one by one.
 *
 * <p>The suite is not stored in a message: both sides know it. Messages have no order and no protection against replay.
 * A number in the associated data provides that.
 */
public final class Messages {
    /** The least number of bytes for each thread. Below it, starting another thread does not pay. */
    private static final long WORTHWHILE = 64 << 10;

    private final Suite suite;
    private final Crew crew;

    /**
     * Messages of a suite.
     *
     * @param suite the suite
     */
    public Messages(Suite suite) {
        this(suite, Crew.common());
    }

    private Messages(Suite suite, Crew crew) {
        this.suite = suite;
        this.crew = crew;
    }

    /**
     * A copy that works on other threads. The calling thread works too, and does everything if the executor has no
     * threads.
     *
     * @param executor provides the other threads
     * @param threads how many work at once on one batch, the calling one included
     * @return new messages
     */
    public Messages on(Executor executor, int threads) {
        return new Messages(suite, Crew.of(executor, threads));
    }

    /**
     * Seals messages.
     *
     * @param batch the messages, with plaintexts
     * @return the sealed messages, in the same order, each 48 bytes longer than its plaintext, or 28 in suite 4
     */
    public List<byte[]> seal(List<Message> batch) {
        byte[][] out = new byte[batch.size()][];
        run(batch, (cipher, keys, message, index) -> out[index] = cipher.seal(keys, message.associatedData(), message.content()));
        return List.of(out);
    }

    /**
     * Opens messages. Either all of them are authentic, or none is released.
     *
     * @param batch the messages, sealed
     * @return the plaintexts, in the same order
     * @throws MessagesException if some are not authentic. The exception names them
     */
    public List<byte[]> open(List<Message> batch) throws MessagesException {
        byte[][] out = openAll(batch);
        List<Integer> failed = new ArrayList<>();
        for (int i = 0; i < out.length; i++) {
            if (out[i] == null) {
                failed.add(i);
            }
        }
        if (failed.isEmpty()) {
            return List.of(out);
        }
        for (byte[] plaintext : out) {
            if (plaintext != null) {
                Arrays.fill(plaintext, (byte) 0);
            }
        }
        throw new MessagesException(failed);
    }

    /**
     * Opens those messages that are authentic.
     *
     * @param batch the messages, sealed
     * @return the plaintexts, in the same order, and nothing for each message that is not authentic
     */
    public List<Optional<byte[]>> openEach(List<Message> batch) {
        return Arrays.stream(openAll(batch)).map(Optional::ofNullable).toList();
    }

    private byte[][] openAll(List<Message> batch) {
        byte[][] out = new byte[batch.size()][];
        run(batch, (cipher, keys, message, index) -> out[index] = cipher.open(keys, message.associatedData(), message.content()));
        return out;
    }

    @FunctionalInterface
    private interface Each {
        void message(MessageCipher cipher, MessageKeys keys, Message message, int index);
    }

    /** Divides the batch evenly by bytes. */
    private void run(List<Message> batch, Each each) {
        if (batch.isEmpty()) {
            return;
        }
        // Deriving the keys of a message costs about as much as 2 KiB of content.
        long bytes = batch.stream().mapToLong(message -> message.content().length + 2048L).sum();
        int groups = (int) Math.min(Math.min(batch.size(), crew.size() * 4L), bytes / WORTHWHILE + 1);
        int size = (batch.size() + groups - 1) / groups;
        try {
            ChunkLoop.run(crew, (batch.size() + size - 1) / size, () -> new Group(suite, batch, size, each));
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private static final class Group implements ChunkLoop.Step {
        private final Suite suite;
        private final MessageCipher cipher;
        private final List<Message> batch;
        private final int size;
        private final Each each;

        Group(Suite suite, List<Message> batch, int size, Each each) {
            this.suite = suite;
            this.cipher = new MessageCipher(suite);
            this.batch = batch;
            this.size = size;
            this.each = each;
        }

        @Override
        public void chunk(long index) {
            int first = (int) index * size;
            for (int i = first; i < Math.min(batch.size(), first + size); i++) {
                Message message = batch.get(i);
                try (MessageKeys keys = new MessageKeys(message.key(), suite)) {
                    each.message(cipher, keys, message, i);
                }
            }
        }

        @Override
        public void close() {
            cipher.close();
        }
    }
}
