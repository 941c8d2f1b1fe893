package phalanx.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import phalanx.Contents;
import phalanx.KeyProvider;
import phalanx.KeyService;
import phalanx.KeyServices;
import phalanx.Keyring;
import phalanx.PhalanxKey;
import phalanx.PhalanxTree;
import phalanx.RawName;
import phalanx.Recipients;
import phalanx.TreeEntry;

/** Records and journals count if a run has made them, and not because a key at hand opens them. */
class KeptTest extends Fixture {
    private static final int LARGE = (17 << 20) + 5;

    private final Configuration conf = new Configuration();

    private static org.apache.hadoop.fs.Path hadoop(Path path) {
        return new org.apache.hadoop.fs.Path("file:" + path);
    }

    /** A file that somebody has sent, and that was protected like all others, gets another name. */
    private void plant(byte[] plain, Path as) throws IOException {
        Files.move(protect(write("sent", plain)), as);
        Files.delete(folder.resolve("sent"));
    }

    /** The record of a run that has done all of the output, in a file that somebody else has made. */
    @ParameterizedTest
    @ValueSource(strings = {"phalanx-spark 2", "phalanx-spark 3"})
    void aSentFileIsNoRecord(String format) throws IOException {
        byte[] large = bytes(LARGE);
        Path input = write("large", large);
        Path other = protect(write("other", bytes(LARGE)));
        Path junk = write("junk", bytes((int) Files.size(other)));
        org.apache.hadoop.fs.Path output = hadoop(folder.resolve("large.phx"));
        FileSystem fs = Hadoop.of(output, conf);
        FileStatus status = fs.getFileStatus(hadoop(input));
        Seen seen = Seen.of(fs, status);
        byte[] header = header(other).toBytes();
        ByteArrayOutputStream plain = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(plain)) {
            for (String text : List.of(format, output.toString(), status.getPath().toString())) {
                out.writeUTF(text);
            }
            out.writeLong(seen.length());
            out.writeLong(seen.modifiedNanos());
            out.writeUTF(seen.tag());
            out.writeInt(header.length);
            out.write(header);
            out.writeInt(1);
            out.writeUTF("nothing/nothing");
            out.writeInt(1);
            out.writeInt(0);
            out.writeUTF(Files.getAttribute(junk, "unix:ino") + ":0:junk");
            out.writeInt(0);
        }
        plant(plain.toByteArray(), folder.resolve(Record.path(output).getName()));
        succeed("protect", "--resume", "-k", "work", input.toString());
        assertOpens(large, folder.resolve("large.phx"));
    }

    /** It says that an older version of a file is the one that was written last. */
    @ParameterizedTest
    @ValueSource(strings = {"phalanx-spark tree 2", "phalanx-spark tree 3"})
    void aSentFileIsNoJournal(String format) throws IOException {
        Path source = Files.createDirectory(folder.resolve("source"));
        Path mirror = folder.resolve("mirror");
        Path file = Files.writeString(source.resolve("file"), "version 1");
        String[] line = {"mirror", "-k", "work", source.toString(), mirror.toString()};
        succeed(line);
        Path old = Files.copy(mirror.resolve("file.phx"), top.resolve("old.phx"));
        Files.writeString(file, "version 2");
        succeed(line);
        Files.copy(old, mirror.resolve("file.phx"), java.nio.file.StandardCopyOption.REPLACE_EXISTING);
        Path journal = mirror.resolve(Place.record(hadoop(mirror.resolve("phalanx.tree"))));
        var time = Files.getLastModifiedTime(file).toInstant();
        Contents contents = Contents.read(old);
        ByteArrayOutputStream plain = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(plain)) {
            out.writeUTF(format);
            out.writeUTF(hadoop(journal).toString());
            for (int i = 0; i < 2; i++) {
                out.writeInt(1);
                out.writeInt(4);
                out.writeBytes("file");
            }
            out.writeInt(0644);
            out.writeLong(time.getEpochSecond());
            out.writeInt(time.getNano());
            for (long number : new long[] {9, Files.size(old), 0, 0}) {
                out.writeLong(number);
            }
            out.write(contents.last());
            out.write(contents.root());
        }
        plant(plain.toByteArray(), journal);
        succeed(line);
        assertEquals(List.of(), new PhalanxTree(KeyProvider.of(key)).verify(mirror).findings());
        assertOpens("version 2".getBytes(), mirror.resolve("file.phx"));
        assertFalse(Files.exists(journal));
    }

    private static final class Wrapping implements KeyService {
        @Override
        public String uri() {
            return "test://one";
        }

        @Override
        public byte[] wrap(byte[] runKey) {
            byte[] flipped = runKey.clone();
            for (int i = 0; i < flipped.length; i++) {
                flipped[i] ^= 0x5a;
            }
            return flipped;
        }

        @Override
        public byte[] unwrap(byte[] wrapped) {
            return wrap(wrapped);
        }
    }

    private Kept.Maker maker(org.apache.hadoop.fs.Path output, Recipients recipients, KeyProvider keys) throws IOException {
        AtomicReference<Kept.Maker> maker = new AtomicReference<>();
        Record.read(output, recipients, keys, conf, maker::set);
        return maker.get();
    }

    /** Whoever may let a service wrap can make a file that it opens, under a key of her own. */
    @Test
    void aKeyHasToShowThatARunHasMadeIt() throws IOException {
        org.apache.hadoop.fs.Path output = hadoop(folder.resolve("out.phx"));
        Record record = new Record("in", new Seen(1, 1, ""), new byte[9], 1, "state", new TreeMap<>(), new byte[0]);
        try (KeyServices service = KeyServices.of(new Wrapping())) {
            PhalanxKey bob = PhalanxKey.random();
            KeyProvider all = KeyProvider.of(key, bob).or(service);
            Recipients alone = Recipients.of(service);
            Recipients both = Recipients.of(key).and(service);
            record.write(output, alone, conf);
            assertEquals(Kept.Maker.ANY_OF_SERVICE, maker(output, alone, all));
            assertEquals(Kept.Maker.ANY_OF_SERVICE, maker(output, both, all));
            record.write(output, both, conf);
            assertEquals(Kept.Maker.OURS, maker(output, both, all));
            assertEquals(Kept.Maker.OTHERS, maker(output, Recipients.of(key), all));
            assertEquals(Kept.Maker.OTHERS, maker(output, Recipients.of(bob), all));
            assertNull(maker(output, both, KeyProvider.of(bob)));
        }
    }

    @Test
    void aJournalOfAServiceAloneGivesDoubtsOnly() throws IOException {
        TreeRoot root = TreeRoot.of(hadoop(folder), conf);
        Path stored = protect(write("x", bytes(5)));
        TreeEntry.File file = new TreeEntry.File(
                RawName.of("x"), new TreeEntry.Attributes(0, 0, 0), 5, Files.size(stored), 0, 0, Contents.read(stored));
        try (KeyServices service = KeyServices.of(new Wrapping())) {
            KeyProvider all = KeyProvider.of(key).or(service);
            Recipients alone = Recipients.of(service);
            Recipients both = Recipients.of(key).and(service);
            for (Recipients recipients : List.of(alone, both)) {
                Journal noted = Journal.of(root, recipients, all, conf);
                noted.note("x", file);
                noted.begin(List.of("x"), recipients);
                Journal read = Journal.of(root, recipients, all, conf);
                assertTrue(read.isInDoubt("x"));
                assertEquals(recipients == both ? file : null, read.written("x"));
                noted.end();
            }
        }
    }

    @Test
    void othersMayGoOnWithIt() throws IOException {
        Path record = folder.resolve("record");
        Kept.write(bytes(5), hadoop(record), Recipients.of(key), conf);
        Path usual = write("new", bytes(5));
        assertEquals(Files.getPosixFilePermissions(usual), Files.getPosixFilePermissions(record));
    }

    /** Somebody who has a key at hand has made a record that no run writes. */
    @Test
    void aMalformedRecordOfOthersIsNone() throws IOException {
        Path input = write("small", bytes(10));
        org.apache.hadoop.fs.Path output = hadoop(folder.resolve("small.phx"));
        PhalanxKey bob = PhalanxKey.random();
        Keyring.in(top.resolve("ring")).store("bob", bob);
        ByteArrayOutputStream plain = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(plain)) {
            for (String text : List.of("phalanx-spark 3", output.toString(), "input")) {
                out.writeUTF(text);
            }
            out.writeLong(1);
            out.writeLong(1);
            out.writeUTF("");
            out.writeInt(-1);
        }
        KeyProvider all = KeyProvider.of(key, bob);
        for (int length : new int[] {plain.size(), plain.size() - 6}) {
            Kept.write(Arrays.copyOf(plain.toByteArray(), length), Record.path(output), Recipients.of(bob), conf);
            assertEquals(Kept.Maker.OTHERS, maker(output, Recipients.of(key), all));
            assertThrows(Exception.class, () -> maker(output, Recipients.of(bob), all));
        }
        succeed("protect", "--resume", "-k", "work", input.toString());
        assertOpens(Files.readAllBytes(input), folder.resolve("small.phx"));
    }

    @Test
    void whatIsTooLongIsNotRead() throws IOException {
        Path input = write("small", bytes(10));
        org.apache.hadoop.fs.Path output = hadoop(folder.resolve("small.phx"));
        Path planted = folder.resolve(Record.path(output).getName());
        try (RandomAccessFile file = new RandomAccessFile(planted.toFile(), "rw")) {
            file.setLength(65 << 20);
        }
        assertThrows(Kept.TooLong.class, () -> Kept.read(hadoop(planted), 64 << 20, Recipients.of(key), KeyProvider.of(key), conf));
        assertNull(maker(output, Recipients.of(key), KeyProvider.of(key)));
        succeed("protect", "--resume", "-k", "work", input.toString());
        assertNotEquals(0, Files.size(folder.resolve("small.phx")));
    }
}
