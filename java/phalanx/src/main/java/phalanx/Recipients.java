package phalanx;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import phalanx.primitives.KeyWrap;

/**
 * The recipients of files: each key, each password, each key service and the identity of each recipient of age opens them.
 *
 * <pre>{@code
 * Recipients recipients = Recipients.of(key).and(password);
 * }</pre>
 *
 * <p>Public keys of all kinds can be mixed. A file is then no safer than the weakest of them: see {@link
 * AgeRecipient#isPostQuantum}.
 */
public final class Recipients {
    private static final int MEMORY = 65536;
    private static final int PASSES = 3;
    private static final int LANES = 4;

    private static final int SALT = 16;
    private static final int LEAST_PADDING = 320;
    private static final int PAGE = 4096;
    private static final int SMALL_PAGE = 1024;
    private static final int SMALL_PLAINTEXT = 16384;

    private static final SecureRandom RANDOM = new SecureRandom();

    /** A password and the parameters of its slots. All files of these recipients have one salt. */
    private record Way(Password password, byte[] salt, int memory, int passes, int lanes) {}

    private final List<PhalanxKey> keys;
    private final List<AgeRecipient> ages;
    private final List<NamedService.RunKey> services;
    private final List<Way> passwords;

    private Recipients(
            List<PhalanxKey> keys, List<AgeRecipient> ages, List<NamedService.RunKey> services, List<Way> passwords) {
        int ways = keys.size() + ages.size() + services.size() + passwords.size();
        if (ways > Header.MOST_SLOTS) {
            throw new IllegalArgumentException("a file has 1 to 64 keys, not " + ways);
        }
        if (passwords.size() > Header.MOST_PASSWORDS) {
            throw new IllegalArgumentException("a file has at most 4 passwords");
        }
        if (services.size() > KeyServices.MOST) {
            throw new IllegalArgumentException("a file has at most " + KeyServices.MOST + " key services");
        }
        int length = Header.FIXED + 3 * ways + Slots.KEY_BYTES * keys.size()
                + ages.stream().mapToInt(AgeRecipient::slotBytes).sum()
                + services.stream().mapToInt(NamedService.RunKey::slotBytes).sum()
                + Slots.PASSWORD_BYTES * passwords.size() + Header.TAG;
        if (length > Header.LONGEST) {
            throw new IllegalArgumentException(
                    "too many recipients: a header has at most 65536 bytes, and these need " + length);
        }
        this.keys = keys;
        this.ages = ages;
        this.services = services;
        this.passwords = passwords;
    }

    /**
     * One recipient with a key.
     *
     * @param key the key, which must stay open as long as files are protected
     * @return the recipients
     */
    public static Recipients of(PhalanxKey key) {
        return new Recipients(List.of(key), List.of(), List.of(), List.of());
    }

    /**
     * One recipient with a public key of age. Only its owner can then open files, and not the one who protects them.
     *
     * @param recipient the public key
     * @return the recipients
     */
    public static Recipients of(AgeRecipient recipient) {
        return new Recipients(List.of(), List.of(recipient), List.of(), List.of());
    }

    /**
     * One recipient for each key service. Each is asked to wrap a run key, unless it has wrapped one for these services before.
     *
     * @param services the services, which must stay open as long as files are protected
     * @return the recipients
     * @throws KeyException if a service does not wrap the run key
     * @throws IOException if the thread is interrupted
     */
    public static Recipients of(KeyServices services) throws IOException {
        return none().and(services);
    }

    /**
     * One recipient with a password.
     *
     * @param password the password, which must stay open as long as files are protected
     * @return the recipients
     * @throws IllegalArgumentException if it is empty
     */
    public static Recipients of(Password password) {
        return none().and(password);
    }

    /**
     * One more key.
     *
     * @param key the key
     * @return these recipients and the key
     * @throws IllegalArgumentException if there are more than 64
     */
    public Recipients and(PhalanxKey key) {
        List<PhalanxKey> more = new ArrayList<>(keys);
        more.add(key);
        return new Recipients(List.copyOf(more), ages, services, passwords);
    }

    /**
     * One more public key of age.
     *
     * @param recipient the public key
     * @return these recipients and the public key
     * @throws IllegalArgumentException if there are more than 64 recipients, or if their slots do not fit into a header of 65536
     *     bytes, which holds 38 post-quantum ones
     */
    public Recipients and(AgeRecipient recipient) {
        List<AgeRecipient> more = new ArrayList<>(ages);
        more.add(recipient);
        return new Recipients(keys, List.copyOf(more), services, passwords);
    }

    /**
     * Key services in addition. Each is asked to wrap a run key, unless it has wrapped one for these services before.
     *
     * @param services the services, which must stay open as long as files are protected
     * @return these recipients and the services
     * @throws KeyException if a service does not wrap the run key
     * @throws IOException if the thread is interrupted
     * @throws IllegalArgumentException if there are more than 8 services or 64 recipients, or if their slots do not fit into a header
     */
    public Recipients and(KeyServices services) throws IOException {
        List<NamedService.RunKey> more = new ArrayList<>(this.services);
        more.addAll(services.runKeys());
        return new Recipients(keys, ages, List.copyOf(more), passwords);
    }

    /**
     * One more password.
     *
     * @param password the password
     * @return these recipients and the password
     * @throws IllegalArgumentException if it is empty, or if there are more than 4 passwords or 64 recipients
     */
    public Recipients and(Password password) {
        return and(password, MEMORY, PASSES, LANES);
    }

    /** Adds a password with other parameters, for tests. */
    Recipients and(Password password, int memory, int passes, int lanes) {
        if (password.isEmpty()) {
            throw new IllegalArgumentException("an empty password protects nothing");
        }
        byte[] salt = new byte[SALT];
        RANDOM.nextBytes(salt);
        List<Way> more = new ArrayList<>(passwords);
        more.add(new Way(password, salt, memory, passes, lanes));
        return new Recipients(keys, ages, services, List.copyOf(more));
    }

    /** No recipients, as a starting point for tests. */
    static Recipients none() {
        return new Recipients(List.of(), List.of(), List.of(), List.of());
    }

    /**
     * A header with a new file key.
     *
     * @param header the header
     * @param keys the file's keys: close them
     */
    public record NewFile(Header header, FileKeys keys) implements AutoCloseable {
        /** Overwrites the keys. */
        @Override
        public void close() {
            keys.close();
        }
    }

    /**
     * Draws a new file key and makes the header of one new file. Use each for one file only.
     *
     * @param suite the suite
     * @param chunkLog2 the binary logarithm of the chunk size, 12 … 24
     * @param plaintextLength the length of the plaintext, if it is known. It only determines the padding
     * @return the header and the keys
     * @throws KeyDerivationException if there is not enough memory to derive a key from a password
     */
    public NewFile newFile(Suite suite, int chunkLog2, OptionalLong plaintextLength) throws KeyDerivationException {
        new Layout(suite, chunkLog2, Header.SHORTEST, 0);
        byte[] fileKey = new byte[PhalanxKey.BYTES];
        RANDOM.nextBytes(fileKey);
        FileKeys file = FileKeys.ofFile(fileKey, suite);
        try {
            ByteBuffer out = ByteBuffer.allocate(Header.LONGEST).order(ByteOrder.LITTLE_ENDIAN);
            out.position(Header.FIXED);
            for (PhalanxKey key : keys) {
                begin(out, 2, Slots.KEY_BYTES).put(key.id().toBytes()).put(key.wrap(fileKey));
            }
            for (AgeRecipient recipient : ages) {
                begin(out, 3, recipient.slotBytes()).put(recipient.tag(file)).put(AgeFile.make(recipient, fileKey));
            }
            for (NamedService.RunKey runKey : services) {
                begin(out, Slots.SERVICE, runKey.slotBytes());
                out.putShort((short) runKey.uri().length()).put(runKey.uri().getBytes(StandardCharsets.US_ASCII));
                out.putShort((short) runKey.wrapped().length).put(runKey.wrapped()).put(runKey.key().wrap(fileKey));
            }
            for (Way way : passwords) {
                byte[] kek = way.password.kek(way.salt, way.memory, way.passes, way.lanes);
                begin(out, 1, Slots.PASSWORD_BYTES).put(way.salt).putInt(way.memory).putInt(way.passes);
                out.put((byte) way.lanes).put(KeyWrap.wrap(kek, fileKey));
                Arrays.fill(kek, (byte) 0);
            }
            return new NewFile(finish(out, suite, chunkLog2, plaintextLength, file), file);
        } finally {
            Arrays.fill(fileKey, (byte) 0);
        }
    }

    private static ByteBuffer begin(ByteBuffer out, int type, int length) {
        return out.put((byte) type).putShort((short) length);
    }

    private Header finish(ByteBuffer out, Suite suite, int chunkLog2, OptionalLong plaintextLength, FileKeys file) {
        int slots = keys.size() + ages.size() + services.size() + passwords.size();
        boolean isSmall = plaintextLength.isPresent() && plaintextLength.getAsLong() <= SMALL_PLAINTEXT;
        int page = isSmall ? SMALL_PAGE : PAGE;
        int least = out.position() + 3 + LEAST_PADDING + Header.TAG;
        int length = (least + page - 1) / page * page;
        if (slots < Header.MOST_SLOTS && length <= Header.LONGEST) {
            begin(out, 0, length - out.position() - 3 - Header.TAG);
            slots++;
        } else {
            length = out.position() + Header.TAG;
        }
        out.put(0, Header.MAGIC).put(7, (byte) 1).putInt(8, length);
        out.put(12, (byte) suite.number()).put(13, (byte) chunkLog2).putShort(14, (short) 0);
        out.putShort(16, (short) slots);
        byte[] header = Arrays.copyOf(out.array(), length);
        System.arraycopy(file.headerTag(header), 0, header, length - Header.TAG, Header.TAG);
        return Header.ofOurs(header);
    }

    /** Whether a slot of a header is a recipient's. */
    @FunctionalInterface
    private interface Owner {
        boolean owns(Slot slot) throws IOException;
    }

    /** Whether each of these recipients has a slot of its own in an opened header, and nobody else has one. */
    boolean own(Header header, FileKeys file, KeyProvider atHand) throws IOException {
        List<Owner> left = owners(header, file, atHand);
        for (Slot slot : header.slots()) {
            if (!(slot instanceof Slot.Padding) && !removeOwner(left, slot)) {
                return false;
            }
        }
        return left.isEmpty();
    }

    private static boolean removeOwner(List<Owner> owners, Slot slot) throws IOException {
        for (Iterator<Owner> each = owners.iterator(); each.hasNext(); ) {
            if (each.next().owns(slot)) {
                each.remove();
                return true;
            }
        }
        return false;
    }

    private List<Owner> owners(Header header, FileKeys file, KeyProvider atHand) {
        List<Owner> owners = new ArrayList<>();
        for (PhalanxKey key : keys) {
            owners.add(slot -> slot instanceof Slot.OfKey of && of.id().equals(key.id()) && header.isOpened(key.kek(), of.secret()));
        }
        for (AgeRecipient recipient : ages) {
            owners.add(slot -> slot instanceof Slot.OfAge of && MessageDigest.isEqual(of.secret().salt(), recipient.tag(file)));
        }
        for (NamedService.RunKey service : services) {
            owners.add(slot -> slot instanceof Slot.OfService of && of.uri().equals(service.uri()) && opens(header, of, atHand));
        }
        for (Way way : passwords) {
            owners.add(slot -> slot instanceof Slot.OfPassword of && opens(header, of, way.password));
        }
        return owners;
    }

    /** The service is asked, since each run has a run key of its own. */
    private static boolean opens(Header header, Slot.OfService slot, KeyProvider atHand) throws IOException {
        Optional<PhalanxKey> runKey = atHand.runKey(slot.uri(), slot.secret().salt().clone());
        return runKey.isPresent() && header.isOpened(runKey.get().kek(), slot.secret());
    }

    private static boolean opens(Header header, Slot.OfPassword slot, Password password) throws KeyDerivationException {
        header.checkLimits();
        byte[] kek = password.kek(slot.secret().salt(), (int) slot.memory(), (int) slot.passes(), slot.lanes());
        return header.isOpened(kek, slot.secret());
    }
}
