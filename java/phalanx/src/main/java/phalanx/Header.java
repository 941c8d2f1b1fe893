package phalanx;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import phalanx.primitives.KeyWrap;

/**
 * The header of a protected file: what is visible without a key, and the ways in. Nothing in it is authenticated before
 * {@link #open}.
 */
public final class Header {
    static final byte[] MAGIC = "PHALANX".getBytes(StandardCharsets.US_ASCII);
    /** Everything before the slots. */
    static final int FIXED = 18;
    static final int TAG = 32;
    static final int SHORTEST = 53;
    static final int LONGEST = 65536;
    static final int MOST_SLOTS = 64;
    static final int MOST_PASSWORDS = 4;
    /** The first bytes, up to and including the header's length. */
    private static final int START = 12;

    private static final int VOLUME_SLOT = 16;
    private static final long MEMORY_LIMIT = 1L << 20;
    private static final long WORK_LIMIT = 1L << 24;

    private final byte[] bytes;
    private final Suite suite;
    private final int chunkLog2;
    private final List<Slot> slots;
    private final boolean volume;

    private Header(byte[] bytes, Suite suite, int chunkLog2, List<Slot> slots, boolean volume) {
        this.bytes = bytes;
        this.suite = suite;
        this.chunkLog2 = chunkLog2;
        this.slots = slots;
        this.volume = volume;
    }

    /** A source of bytes: a stream, or a file at offsets. */
    @FunctionalInterface
    private interface From {
        /** Reads as many bytes as are available, up to the end of the array. */
        int read(byte[] into, int offset) throws IOException;
    }

    /**
     * Reads the header at the beginning of a stream, and no further.
     *
     * @param in the stream
     * @return the header
     * @throws NotPhalanxException if the stream does not begin like a protected file
     * @throws UnsupportedVersionException if it has another version of the format
     * @throws MalformedHeaderException if the header breaks a rule of the format
     * @throws IOException if the stream cannot be read
     */
    public static Header read(InputStream in) throws IOException {
        return read((into, offset) -> in.readNBytes(into, offset, into.length - offset));
    }

    /**
     * Reads the header at the beginning of a file. The channel's position does not change.
     *
     * @param file the file
     * @return the header
     * @throws IOException as for {@link #read(InputStream)}
     */
    public static Header read(FileChannel file) throws IOException {
        return read((into, offset) -> Bytes.readAt(file, into, offset, into.length - offset, offset));
    }

    private static Header read(From from) throws IOException {
        byte[] start = new byte[START];
        int length = from.read(start, 0);
        if (length < 8 || !Arrays.equals(start, 0, MAGIC.length, MAGIC, 0, MAGIC.length)) {
            throw new NotPhalanxException();
        }
        if (start[7] != 1) {
            throw new UnsupportedVersionException(Byte.toUnsignedInt(start[7]));
        }
        if (length < START) {
            throw new MalformedHeaderException("it is cut short");
        }
        long whole = Integer.toUnsignedLong(ByteBuffer.wrap(start).order(ByteOrder.LITTLE_ENDIAN).getInt(8));
        if (whole < SHORTEST || whole > LONGEST) {
            throw new MalformedHeaderException("its length is out of range");
        }
        byte[] bytes = Arrays.copyOf(start, (int) whole);
        if (from.read(bytes, START) < bytes.length - START) {
            throw new MalformedHeaderException("it is cut short");
        }
        return parse(bytes);
    }

    /** A header that this library has made. */
    static Header ofOurs(byte[] bytes) {
        try {
            return parse(bytes);
        } catch (MalformedHeaderException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Parses these bytes, whose first twelve are known to be right. */
    private static Header parse(byte[] bytes) throws MalformedHeaderException {
        ByteBuffer fields = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        Optional<Suite> suite = Suite.of(Byte.toUnsignedInt(bytes[12]));
        if (suite.isEmpty()) {
            throw new MalformedHeaderException("unknown suite");
        }
        int chunkLog2 = Byte.toUnsignedInt(bytes[13]);
        if (chunkLog2 < Layout.SMALLEST_LOG2 || chunkLog2 > Layout.LARGEST_LOG2) {
            throw new MalformedHeaderException("chunk size out of range");
        }
        if (fields.getShort(14) != 0) {
            throw new MalformedHeaderException("unknown flags");
        }
        int count = Short.toUnsignedInt(fields.getShort(16));
        if (count < 1 || count > MOST_SLOTS) {
            throw new MalformedHeaderException("number of slots out of range");
        }
        int end = bytes.length - TAG;
        int at = FIXED;
        int passwords = 0;
        boolean isVolume = false;
        List<Slot> slots = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            if (end - at < 3) {
                throw new MalformedHeaderException("a slot runs over the end");
            }
            int type = Byte.toUnsignedInt(bytes[at]);
            int length = Short.toUnsignedInt(fields.getShort(at + 1));
            at += 3;
            if (end - at < length) {
                throw new MalformedHeaderException("a slot runs over the end");
            }
            Slot slot = Slots.parse(type, Arrays.copyOfRange(bytes, at, at + length));
            at += length;
            slots.add(slot);
            isVolume |= type == VOLUME_SLOT;
            passwords += slot instanceof Slot.OfPassword ? 1 : 0;
        }
        if (at != end) {
            throw new MalformedHeaderException("bytes behind the last slot");
        }
        if (passwords > MOST_PASSWORDS) {
            throw new MalformedHeaderException("more than 4 password slots");
        }
        return new Header(bytes, suite.get(), chunkLog2, List.copyOf(slots), isVolume);
    }

    /**
     * Finds a key, an identity of age, a key service or a password that opens the file: docs/format.md, section 5, step 4.
     *
     * @param keys the keys, the identities, the services and the password at hand
     * @return the file's keys: close them
     * @throws WrongKeyException if nothing at hand opens the file
     * @throws KeyDerivationException if a password is needed and its derivation would take too much
     * @throws MalformedHeaderException if it is the header of a volume's config
     * @throws IOException if a key cannot be read
     */
    public Opened open(KeyProvider keys) throws IOException {
        if (volume) {
            throw MalformedHeaderException.volume();
        }
        List<KeyId> unknown = new ArrayList<>();
        List<KeyException> refused = new ArrayList<>();
        Optional<Opened> opened = byKey(keys, unknown, refused);
        if (opened.isEmpty()) {
            opened = byIdentity(keys, refused);
        }
        Set<String> services = new LinkedHashSet<>();
        boolean triedService = false;
        if (opened.isEmpty()) {
            ByService byService = byService(keys, services, refused);
            opened = byService.opened();
            triedService = byService.tried();
        }
        if (opened.isPresent()) {
            return opened.get();
        }
        boolean hasPassword = slots.stream().anyMatch(slot -> slot instanceof Slot.OfPassword);
        Optional<Password> password = hasPassword ? keys.password() : Optional.empty();
        if (password.isPresent()) {
            opened = byPassword(password.get());
            if (opened.isPresent()) {
                return opened.get();
            }
        }
        long keySlots = slots.stream().filter(slot -> slot instanceof Slot.OfKey).count();
        if (password.isPresent() || triedService || keySlots > unknown.size()) {
            throw WrongKeyException.tried(refused);
        }
        boolean hasAge = slots.stream().anyMatch(slot -> slot instanceof Slot.OfAge);
        throw WrongKeyException.none(unknown, hasAge, services, hasPassword, refused);
    }

    /**
     * Whether it gives access to exactly these recipients: each has a slot of its own, and there is no other but padding. A slot has to
     * open with what is at hand. One of age cannot be tried, and shows whose it is.
     *
     * @param recipients the recipients
     * @param keys what opens the header. Key services among the recipients are asked through it
     * @return whether it is theirs: not if nothing at hand opens it
     * @throws IOException if a key cannot be read
     */
    public boolean isFor(Recipients recipients, KeyProvider keys) throws IOException {
        try (FileKeys file = open(keys).keys()) {
            return recipients.own(this, file, keys);
        } catch (PhalanxException e) {
            return false;
        }
    }

    /** Whether a slot holds the file key under this key. Overwrites the key. */
    boolean isOpened(byte[] kek, Slot.Wrapped secret) {
        Optional<FileKeys> opened = unwrap(kek, secret);
        opened.ifPresent(FileKeys::close);
        return opened.isPresent();
    }

    private Optional<Opened> byKey(KeyProvider keys, List<KeyId> unknown, List<KeyException> refused) throws IOException {
        for (int i = 0; i < slots.size(); i++) {
            if (!(slots.get(i) instanceof Slot.OfKey slot)) {
                continue;
            }
            Optional<PhalanxKey> key;
            try {
                key = keys.key(slot.id());
            } catch (KeyException e) {
                refused.add(e);
                key = Optional.empty();
            }
            if (key.isEmpty()) {
                unknown.add(slot.id());
                continue;
            }
            Optional<FileKeys> opened = unwrap(key.get().kek(), slot.secret());
            if (opened.isPresent()) {
                return Optional.of(new Opened(opened.get(), i));
            }
        }
        return Optional.empty();
    }

    private Optional<Opened> byPassword(Password password) throws KeyDerivationException {
        checkLimits();
        for (int i = 0; i < slots.size(); i++) {
            if (slots.get(i) instanceof Slot.OfPassword slot) {
                int memory = (int) slot.memory();
                byte[] kek = password.kek(slot.secret().salt(), memory, (int) slot.passes(), slot.lanes());
                Optional<FileKeys> opened = unwrap(kek, slot.secret());
                if (opened.isPresent()) {
                    return Optional.of(new Opened(opened.get(), i));
                }
            }
        }
        return Optional.empty();
    }

    private Optional<Opened> byIdentity(KeyProvider keys, List<KeyException> refused) throws IOException {
        List<AgeIdentity> identities = List.of();
        try {
            if (slots.stream().anyMatch(slot -> slot instanceof Slot.OfAge)) {
                identities = keys.identities();
            }
        } catch (KeyException e) {
            refused.add(e);
        }
        if (identities.isEmpty()) {
            return Optional.empty();
        }
        return new IdentitySearch(ageFiles(), refused, this::unwrap).search(keys, identities);
    }

    /** What came of the key services, and whether one has unwrapped a run key. */
    private record ByService(Optional<Opened> opened, boolean tried) {}

    private ByService byService(KeyProvider keys, Set<String> unopened, List<KeyException> refused) throws IOException {
        int named = 0;
        boolean tried = false;
        for (int i = 0; i < slots.size(); i++) {
            if (!(slots.get(i) instanceof Slot.OfService slot)) {
                continue;
            }
            Optional<PhalanxKey> runKey = Optional.empty();
            try {
                if (named < KeyServices.MOST) {
                    runKey = keys.runKey(slot.uri(), slot.secret().salt().clone());
                    named += runKey.isPresent() ? 1 : 0;
                }
            } catch (KeyException e) {
                named++;
                refused.add(e);
            }
            if (runKey.isEmpty()) {
                unopened.add(slot.uri());
                continue;
            }
            tried = true;
            Optional<FileKeys> opened = unwrap(runKey.get().kek(), slot.secret());
            if (opened.isPresent()) {
                return new ByService(Optional.of(new Opened(opened.get(), i)), true);
            }
        }
        return new ByService(Optional.empty(), tried);
    }

    /** The age files that may hold the file key, by their slots. */
    private Map<Integer, AgeFile> ageFiles() {
        Map<Integer, AgeFile> files = new LinkedHashMap<>();
        for (int i = 0; i < slots.size(); i++) {
            if (slots.get(i) instanceof Slot.OfAge slot) {
                try {
                    files.put(i, AgeFile.ofSlot(slot.secret().key()));
                } catch (AgeFile.Malformed e) {
                    // It is passed over.
                }
            }
        }
        return files;
    }

    private Optional<FileKeys> unwrap(AgeIdentity identity, AgeFile file) {
        try {
            return file.open(identity).flatMap(this::authentic);
        } catch (AgeFile.Malformed e) {
            // It is passed over.
            return Optional.empty();
        }
    }

    /** The file's keys in a slot. Overwrites the key-encrypting key. */
    private Optional<FileKeys> unwrap(byte[] kek, Slot.Wrapped secret) {
        try {
            return KeyWrap.unwrap(kek, secret.key()).flatMap(this::authentic);
        } finally {
            Arrays.fill(kek, (byte) 0);
        }
    }

    /** The file's keys from the file key, if the header's tag confirms it. Overwrites the file key. */
    private Optional<FileKeys> authentic(byte[] fileKey) {
        FileKeys keys = FileKeys.ofFile(fileKey, suite);
        Arrays.fill(fileKey, (byte) 0);
        if (keys.isTagOf(bytes)) {
            return Optional.of(keys);
        }
        keys.close();
        return Optional.empty();
    }

    void checkLimits() throws KeyDerivationException {
        long work = 0;
        for (Slot slot : slots) {
            if (slot instanceof Slot.OfPassword password && password.memory() > MEMORY_LIMIT) {
                throw KeyDerivationException.limit("too much memory");
            }
        }
        for (Slot slot : slots) {
            if (slot instanceof Slot.OfPassword password) {
                work += password.memory() * password.passes();
            }
        }
        if (work > WORK_LIMIT) {
            throw KeyDerivationException.limit("too much memory × passes");
        }
    }

    /**
     * The keys of an opened file.
     *
     * @param keys the keys: close them
     * @param slot the slot that gave them, counted from 0
     */
    public record Opened(FileKeys keys, int slot) {}

    /**
     * The whole header.
     *
     * @return a copy of its bytes
     */
    public byte[] toBytes() {
        return bytes.clone();
    }

    /**
     * Its length.
     *
     * @return 53 … 65536 bytes
     */
    public int length() {
        return bytes.length;
    }

    /**
     * The suite.
     *
     * @return the suite
     */
    public Suite suite() {
        return suite;
    }

    /**
     * The binary logarithm of the chunk size.
     *
     * @return 12 … 24
     */
    public int chunkLog2() {
        return chunkLog2;
    }

    /**
     * The slots in their order.
     *
     * @return 1 … 64 slots
     */
    public List<Slot> slots() {
        return slots;
    }

    /**
     * Whether it is the header of the config of a volume, which is no file.
     *
     * @return whether it has a slot of type 16
     */
    public boolean isOfVolume() {
        return volume;
    }

    /**
     * Where the chunks of a file with this header lie.
     *
     * @param fileLength the length of the whole file in bytes
     * @return the layout
     * @throws AuthenticationException if no plaintext gives a file of this length
     */
    public Layout layout(long fileLength) throws AuthenticationException {
        return Layout.ofFile(suite, chunkLog2, bytes.length, fileLength);
    }
}
