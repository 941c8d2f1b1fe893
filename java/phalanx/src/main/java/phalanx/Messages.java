package phalanx;

import java.io.IOException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Executor;
import javax.crypto.spec.SecretKeySpec;
import phalanx.primitives.Kmac;
import phalanx.primitives.Sponge;

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
 * <p>The suite is not stored in a message: both sides know it. Messages have no order and no protection against replay.
 * A number in the associated data provides that.
 */
public final class Messages {
    /** The least number of bytes for each thread. Below it, starting another thread does not pay. */
    private static final long WORTHWHILE = 64 << 10;

    private static final int SLICE = 4096;
    private static final byte[] NOTHING = new byte[0];

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
        run(batch, (sealer, index) -> out[index] = sealer.seal(batch.get(index)));
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
        run(batch, (sealer, index) -> out[index] = sealer.open(batch.get(index)));
        return out;
    }

    @FunctionalInterface
    private interface Each {
        void message(Sealer sealer, int index);
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
            ChunkLoop.run(crew, (batch.size() + size - 1) / size, () -> new Group(suite, batch.size(), size, each));
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private static final class Group implements ChunkLoop.Step {
        private final Sealer sealer;
        private final int end;
        private final int size;
        private final Each each;

        Group(Suite suite, int end, int size, Each each) {
            this.sealer = new Sealer(suite);
            this.end = end;
            this.size = size;
            this.each = each;
        }

        @Override
        public void chunk(long index) {
            int first = (int) index * size;
            for (int i = first; i < Math.min(end, first + size); i++) {
                each.message(sealer, i);
            }
        }

        @Override
        public void close() {}
    }

    /** Seals and opens single messages. It belongs to one thread. */
    static final class Sealer {
        private final Suite suite;
        private final UnitCipher unit;
        private final Sponge sha3 = Sponge.sha3();

        Sealer(Suite suite) {
            this.suite = suite;
            this.unit = new UnitCipher(suite);
        }

        byte[] seal(Message message) {
            byte[] out = room(message.content().length);
            unit.drawNonce(out, 0);
            sealInto(message, out);
            return out;
        }

        /** Seals a message under a given nonce, for tests. */
        byte[] seal(Message message, byte[] nonce) {
            byte[] out = room(message.content().length);
            System.arraycopy(nonce, 0, out, 0, nonce.length);
            sealInto(message, out);
            return out;
        }

        private byte[] room(int length) {
            return new byte[Math.addExact(length, suite.overhead())];
        }

        private void sealInto(Message message, byte[] out) {
            int length = message.content().length;
            System.arraycopy(message.content(), 0, out, suite.overhead(), length);
            try (FileKeys keys = FileKeys.ofMessages(message.key().open(), suite)) {
                SecretKeySpec key = new SecretKeySpec(keys.encrypt(), "AES");
                if (!suite.isCtr()) {
                    unit.sealGcm(key, message.associatedData(), out, 0, length);
                    return;
                }
                unit.ctr(key, out, 0, suite.overhead(), length);
                byte[] tag = tag(keys, message.associatedData(), out, length);
                System.arraycopy(tag, 0, out, suite.nonceBytes(), tag.length);
            }
        }

        /** The plaintext, or null if the message is not authentic. */
        byte[] open(Message message) {
            byte[] sealed = message.content();
            int length = sealed.length - suite.overhead();
            if (length < 0) {
                return null;
            }
            byte[] unitBytes = sealed.clone();
            try (FileKeys keys = FileKeys.ofMessages(message.key().open(), suite)) {
                SecretKeySpec key = new SecretKeySpec(keys.encrypt(), "AES");
                if (!suite.isCtr()) {
                    if (!unit.openGcm(key, message.associatedData(), unitBytes, 0, length)) {
                        return null;
                    }
                } else {
                    byte[] found = Arrays.copyOfRange(sealed, suite.nonceBytes(), suite.overhead());
                    if (!MessageDigest.isEqual(tag(keys, message.associatedData(), sealed, length), found)) {
                        return null;
                    }
                    unit.ctr(key, unitBytes, 0, suite.overhead(), length);
                }
                return length == 0 ? NOTHING : Arrays.copyOfRange(unitBytes, suite.overhead(), unitBytes.length);
            } finally {
                Arrays.fill(unitBytes, (byte) 0);
            }
        }

        private byte[] tag(FileKeys keys, byte[] associatedData, byte[] unitBytes, int length) {
            byte[] associated = new byte[Sponge.DIGEST];
            sha3.hash(associatedData, 0, associatedData.length, associated, 0, associated.length);
            int digests = unit.digest(unitBytes, suite.overhead(), length, SLICE);
            try (Kmac kmac = new Kmac(keys.mac(), "phalanx v1 message")) {
                kmac.update(unitBytes, 0, suite.nonceBytes());
                kmac.update(associated, 0, associated.length);
                kmac.update(unit.digests(), 0, digests);
                return kmac.finish(suite.tagBytes());
            }
        }
    }
}
