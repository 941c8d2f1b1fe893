package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Files for recipients of age, and slots of age in the files of strangers. */
class AgeTest {
    private static final byte[] FILE_KEY = "the 32 bytes of a file's own key".getBytes(StandardCharsets.US_ASCII);

    @TempDir
    Path folder;

    private final Random random = new Random(37);
    private final AgeIdentity classic = AgeKeysTest.identity(AgeKind.ELLIPTIC, 1);
    private final AgeIdentity hybrid = AgeKeysTest.identity(AgeKind.POST_QUANTUM, 2);
    private final AgeIdentity stranger = AgeKeysTest.identity(AgeKind.ELLIPTIC, 3);
    private final AgeIdentity other = AgeKeysTest.identity(AgeKind.POST_QUANTUM, 4);
    private final PhalanxKey key = PhalanxKey.random();

    @Test
    void eachIdentityOpensAMixedFile() throws IOException {
        byte[] plaintext = new byte[3 << 20];
        random.nextBytes(plaintext);
        Path in = Files.write(folder.resolve("in"), plaintext);
        Path file = folder.resolve("in.phx");
        Recipients all = Recipients.of(classic.recipient()).and(hybrid.recipient()).and(key);
        new Protector(all).protect(in, file);
        int slot = 0;
        for (KeyProvider keys : List.of(KeyProvider.of(key), KeyProvider.of(classic), KeyProvider.of(hybrid))) {
            Unprotector unprotector = new Unprotector(keys).replacing();
            assertEquals(plaintext.length, unprotector.verify(file));
            unprotector.unprotect(file, folder.resolve("out"));
            assertArrayEquals(plaintext, Files.readAllBytes(folder.resolve("out")));
            try (PhalanxFile opened = PhalanxFile.open(file, keys);
                    InputStream stream = opened.inputStream()) {
                assertArrayEquals(plaintext, stream.readAllBytes());
                Header.Opened by = opened.header().open(keys);
                assertEquals(slot++, by.slot());
            }
        }
        Unprotector strangers = new Unprotector(KeyProvider.of(List.of(stranger, other)));
        WrongKeyException e = assertThrows(WrongKeyException.class, () -> strangers.verify(file));
        assertEquals("no key at hand opens it: it needs key " + key.id() + " or the identity of one of its age recipients",
                e.getMessage());
        assertFalse(e.wasTried());
        // They do not stand in the way of another one.
        KeyProvider many = KeyProvider.of(stranger).or(KeyProvider.of(List.of(other, hybrid)));
        assertEquals(plaintext.length, new Unprotector(many).verify(file));
    }

    @Test
    void slotsAreThoseOfTheFormat() throws IOException {
        for (AgeIdentity identity : List.of(classic, hybrid)) {
            Recipients recipients = Recipients.of(identity.recipient());
            try (Recipients.NewFile file = recipients.newFile(Suite.AES_256_CTR_SHA3, 12, OptionalLong.empty())) {
                byte[] header = file.header().toBytes();
                assertEquals(4096, header.length);
                int length = identity.recipient().slotBytes();
                assertEquals(3, header[18]);
                assertEquals(length, ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN).getShort(19));
                assertArrayEquals(identity.recipient().tag(file.keys()), Arrays.copyOfRange(header, 21, 37));
                Slot.OfAge slot = (Slot.OfAge) file.header().slots().get(0);
                assertEquals(length - 16, slot.bytes());
                assertFalse(slot.toString().contains("age-encryption"));
            }
        }
    }

    @Test
    void recipientsMustFitIntoAHeader() throws IOException {
        Recipients many = Recipients.none();
        for (int i = 0; i < 38; i++) {
            many = many.and(hybrid.recipient());
        }
        try (Recipients.NewFile file = many.newFile(Suite.AES_256_GCM, 20, OptionalLong.empty())) {
            assertEquals(65536, file.header().length());
            assertEquals(0, file.header().open(KeyProvider.of(hybrid)).slot());
        }
        Recipients full = many;
        assertTrue(assertThrows(IllegalArgumentException.class, () -> full.and(hybrid.recipient()))
                .getMessage().startsWith("too many recipients: a header has at most 65536 bytes, and these need "));
        Recipients most = Recipients.none();
        for (int i = 0; i < 64; i++) {
            most = most.and(classic.recipient());
        }
        Recipients sixtyFour = most;
        assertThrows(IllegalArgumentException.class, () -> sixtyFour.and(classic.recipient()));
    }

    /** The files of {@code vectors/age}, which the program has made. */
    @Test
    void theVectorsOpenByTheirIdentities() throws IOException {
        int opened = 0;
        int refused = 0;
        for (Vectors.Vector vector : Vectors.of("age", 12)) {
            opened += opensByItsIdentities(vector);
            refused += refusesSpoiltSlots(vector);
        }
        assertEquals(13, opened);
        assertEquals(10, refused);
    }

    private static int refusesSpoiltSlots(Vectors.Vector vector) throws IOException {
        JsonArray spoilt = vector.fields().getAsJsonArray("refused");
        if (spoilt == null) {
            return 0;
        }
        for (JsonElement each : spoilt) {
            String identity = each.getAsJsonObject().get("identity").getAsString();
            Unprotector alone = new Unprotector(KeyProvider.of(AgeIdentity.parse(identity)));
            assertThrows(WrongKeyException.class, () -> alone.verify(new ByteArrayInputStream(vector.bytes("file"))),
                    vector.text("comment"));
        }
        return spoilt.size();
    }

    private int opensByItsIdentities(Vectors.Vector vector) throws IOException {
        byte[] file = vector.bytes("file");
        Header header = Header.read(new ByteArrayInputStream(file));
        int opened = 0;
        for (JsonElement each : vector.fields().getAsJsonArray("recipients")) {
            JsonObject fields = each.getAsJsonObject();
            String identity = fields.get("identity").getAsString();
            if (!identity.startsWith("AGE-SECRET-KEY-")) {
                continue;
            }
            KeyProvider keys = KeyProvider.of(AgeIdentity.parse(identity));
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            new Unprotector(keys).unprotect(new ByteArrayInputStream(file), out);
            assertArrayEquals(vector.bytes("plaintext"), out.toByteArray());
            Header.Opened by = header.open(keys);
            assertEquals(fields.get("slot").getAsInt(), by.slot());
            AgeRecipient recipient = AgeRecipient.parse(fields.get("recipient").getAsString());
            byte[] tag = recipient.tag(by.keys());
            assertTrue(indexOf(header.toBytes(), tag) > 0);
            opened++;
        }
        Unprotector strangers = new Unprotector(KeyProvider.of(List.of(stranger, other)));
        assertThrows(WrongKeyException.class, () -> strangers.verify(new ByteArrayInputStream(file)));
        return opened;
    }

    private static int indexOf(byte[] all, byte[] part) {
        return new String(all, StandardCharsets.ISO_8859_1).indexOf(new String(part, StandardCharsets.ISO_8859_1));
    }

    /** A header with these age files in its slots, and whose tag is that of {@link #FILE_KEY}. */
    private static Header header(List<byte[]> files) throws IOException {
        int length = Header.FIXED + files.stream().mapToInt(file -> 3 + 16 + file.length).sum() + Header.TAG;
        ByteBuffer out = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        out.put(Header.MAGIC).put((byte) 1).putInt(length).put((byte) 1).put((byte) 12).putShort((short) 0);
        out.putShort((short) files.size());
        for (byte[] file : files) {
            out.put((byte) 3).putShort((short) (16 + file.length)).put(new byte[16]).put(file);
        }
        byte[] header = out.array();
        byte[] tag;
        try (FileKeys keys = FileKeys.ofFile(FILE_KEY.clone(), Suite.AES_256_CTR_SHA3)) {
            tag = keys.headerTag(header);
        }
        System.arraycopy(tag, 0, header, length - Header.TAG, Header.TAG);
        return Header.read(new ByteArrayInputStream(header));
    }

    private static byte[] file(String stanzas, int payload) {
        return ("age-encryption.org/v1\n" + stanzas + "--- " + "A".repeat(43) + "\n" + "p".repeat(payload))
                .getBytes(StandardCharsets.ISO_8859_1);
    }

    private static String stanza(AgeKind kind, int share, int body, int first) {
        byte[] bytes = new byte[share];
        Arrays.fill(bytes, (byte) first);
        Base64.Encoder encoder = Base64.getEncoder().withoutPadding();
        return "-> " + kind.type() + " " + encoder.encodeToString(bytes) + "\n" + encoder.encodeToString(new byte[body]) + "\n";
    }

    /** Slots that a stranger has made in all sorts of wrong ways are passed over, and the good one behind them is found. */
    @Test
    void hostileSlotsArePassedOver() throws IOException {
        for (AgeIdentity identity : List.of(classic, hybrid)) {
            AgeKind kind = (AgeKind) identity.kind();
            byte[] good = AgeFile.make(identity.recipient(), FILE_KEY);
            byte[] long1 = new byte[16384];
            Arrays.fill(long1, (byte) '\n');
            byte[] anotherKey = AgeFile.make(identity.recipient(), new byte[32]);
            byte[] damaged = good.clone();
            damaged[damaged.length - 1] ^= 1;
            byte[] mac = good.clone();
            mac[mac.length - 70] ^= 1;
            byte[] longer = Arrays.copyOf(good, good.length + 1);
            String scrypt = "-> scrypt bBjlhJVYZeE4aqUdmtRHfw 15\n" + "A".repeat(43) + "\n";
            List<byte[]> slots = new ArrayList<>(List.of(
                    new byte[1], long1, Arrays.copyOf(good, good.length / 2), Arrays.copyOf(good, good.length - 1), longer,
                    anotherKey, damaged, mac, file(stanza(kind, kind.share(), 32, 0), 64), file(stanza(kind, kind.share(), 32, 7), 64),
                    file(stanza(kind, 31, 32, 1), 64), file(stanza(kind, kind.share(), 33, 1), 64), file(scrypt, 64),
                    file(stanza(AgeKind.ELLIPTIC, 32, 32, 9).repeat(9), 64), file("", 64), file("-> x\n", 64),
                    file("-> ssh-rsa AAAA\n" + ("A".repeat(64) + "\n").repeat(200) + "\n", 64)));
            Header hostile = header(slots);
            KeyProvider keys = KeyProvider.of(identity);
            assertThrows(WrongKeyException.class, () -> hostile.open(keys));
            slots.add(good);
            assertEquals(slots.size() - 1, header(slots).open(keys).slot());
        }
    }

    /** Random bytes and random changes never end in anything but the right key or none. */
    @Test
    void randomSlotsArePassedOver() throws IOException {
        List<AgeIdentity> identities = List.of(classic, hybrid);
        int unopened = 0;
        for (int i = 0; i < 400; i++) {
            AgeIdentity identity = identities.get(i % 2);
            byte[] file = AgeFile.make(identity.recipient(), FILE_KEY);
            int head = file.length - 64;
            for (int j = random.nextInt(3); j >= 0; j--) {
                file[random.nextInt(head)] = (byte) (random.nextBoolean() ? random.nextInt() : "\n ->A=/"
                        .charAt(random.nextInt(7)));
            }
            Header header = header(List.of(random.nextInt(4) == 0 ? Arrays.copyOf(file, 1 + random.nextInt(head)) : file));
            try {
                assertEquals(0, header.open(KeyProvider.of(identities)).slot());
            } catch (WrongKeyException e) {
                unopened++;
            }
        }
        assertTrue(unopened > 300, "only " + unopened);
    }

    @Test
    void theWorkForOneFileIsBounded() throws IOException {
        List<byte[]> slots = new ArrayList<>();
        for (int i = 0; i < 64; i++) {
            slots.add(file(stanza(AgeKind.ELLIPTIC, 32, 32, 9).repeat(8), 64));
        }
        Header header = header(slots);
        List<AgeIdentity> identities = new ArrayList<>();
        for (int i = 10; i < 18; i++) {
            identities.add(AgeKeysTest.identity(AgeKind.ELLIPTIC, i));
        }
        String none = "no key at hand opens it: it needs the identity of one of its age recipients";
        // Pairs whose types do not fit do not count.
        identities.add(hybrid);
        assertEquals(none, assertThrows(WrongKeyException.class, () -> header.open(KeyProvider.of(identities))).getMessage());
        identities.add(classic);
        assertEquals(none + "; no more than 4096 pairs of an identity and a stanza were tried",
                assertThrows(WrongKeyException.class, () -> header.open(KeyProvider.of(identities))).getMessage());
    }

    @Test
    void identitiesAreAskedForOnlyWhereTheyCanHelp() throws IOException {
        AtomicInteger asked = new AtomicInteger();
        KeyProvider identities = new KeyProvider() {
            @Override
            public Optional<PhalanxKey> key(KeyId id) {
                return Optional.empty();
            }

            @Override
            public List<AgeIdentity> identities() throws IOException {
                asked.incrementAndGet();
                throw new KeyException("a test");
            }
        };
        Password password = Password.of("correct horse".toCharArray());
        Recipients cheap = Recipients.none().and(key).and(password, 64, 1, 2);
        ByteArrayOutputStream withAge = new ByteArrayOutputStream();
        new Protector(cheap.and(classic.recipient())).protect(new ByteArrayInputStream(new byte[10]), withAge);
        ByteArrayOutputStream without = new ByteArrayOutputStream();
        new Protector(cheap).protect(new ByteArrayInputStream(new byte[10]), without);
        KeyProvider all = KeyProvider.of(key).or(identities);
        assertEquals(10, new Unprotector(all).verify(new ByteArrayInputStream(withAge.toByteArray())));
        assertThrows(WrongKeyException.class,
                () -> new Unprotector(identities).verify(new ByteArrayInputStream(without.toByteArray())));
        assertEquals(0, asked.get());
        WrongKeyException e = assertThrows(WrongKeyException.class,
                () -> new Unprotector(identities).verify(new ByteArrayInputStream(withAge.toByteArray())));
        assertTrue(e.getMessage().endsWith("; a test"), e.getMessage());
        // A refused identity leaves the other ways in.
        KeyProvider either = identities.or(KeyProvider.of(password));
        assertEquals(10, new Unprotector(either).verify(new ByteArrayInputStream(withAge.toByteArray())));
        assertEquals(2, asked.get());
        // An identity that opens the file makes the password unnecessary.
        KeyProvider asking = new KeyProvider() {
            @Override
            public Optional<PhalanxKey> key(KeyId id) {
                return Optional.empty();
            }

            @Override
            public Optional<Password> password() {
                throw new AssertionError("the password was asked for");
            }
        };
        assertEquals(10, new Unprotector(KeyProvider.of(classic).or(asking))
                .verify(new ByteArrayInputStream(withAge.toByteArray())));
    }
}
