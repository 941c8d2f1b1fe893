package phalanx.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import phalanx.Layout;
import phalanx.Suite;

/** Attempts at the same parts side by side, in every kind of place: here each writes its own bytes, so that one sees whose they are. */
class PlaceTest extends Fixture {
    private static final int CHUNK = 1 << 12;
    private static final Layout LAYOUT = new Layout(Suite.AES_256_CTR_SHA3, 12, 1024, 4 * CHUNK);

    private Configuration conf;

    @BeforeEach
    void conf() {
        conf = spark().hadoopConfiguration();
    }

    private Item item(Place place, Path input) throws IOException {
        Files.write(input, new byte[4 * CHUNK]);
        return new Item(0, Plan.What.UNPROTECT, "input", "file://" + input, seen(input), place, 1, 12, new byte[1], 4, false);
    }

    private Seen seen(Path input) throws IOException {
        var path = new org.apache.hadoop.fs.Path("file://" + input);
        return Seen.of(Hadoop.of(path, conf), path);
    }

    private Sink open(Item item, int part, int attempt) throws IOException {
        return item.place().open(new Piece(item, part, attempt, LAYOUT), conf);
    }

    private static void write(Sink sink, char who) throws IOException {
        byte[] bytes = new byte[CHUNK];
        java.util.Arrays.fill(bytes, (byte) who);
        sink.write(bytes, 0, CHUNK);
    }

    private Place place(String scheme) throws IOException {
        var output = new org.apache.hadoop.fs.Path(scheme + "://" + folder + "/out");
        FileSystem fs = Hadoop.of(output, conf);
        return Place.of(fs, output, new Place.Rules(false, true));
    }

    @ParameterizedTest
    @ValueSource(strings = {"file", "test", "store", "copied"})
    void attemptsThatWakeUpLateDamageNothing(String scheme) throws IOException {
        Item item = item(place(scheme), top.resolve("input"));
        item.place().begin(item, LAYOUT, null, conf);
        SortedMap<Integer, String> handles = new TreeMap<>();
        Sink late = open(item, 1, 0);
        for (int part = 0; part < 4; part++) {
            try (Sink sink = open(item, part, part == 1 ? 1 : 0)) {
                write(sink, (char) ('a' + part));
                handles.put(part, sink.finish());
            }
        }
        // The first attempt at part 1 wakes up before the driver is done, and again after it.
        write(late, 'X');
        item.place().publish(item, LAYOUT, handles, conf);
        try {
            late.finish();
        } catch (IOException e) {
            // Its file may be gone.
        }
        item.place().discard(item, handles, conf);
        byte[] expected = new byte[4 * CHUNK];
        for (int i = 0; i < expected.length; i++) {
            expected[i] = (byte) ('a' + i / CHUNK);
        }
        assertArrayEquals(expected, Files.readAllBytes(folder.resolve("out")));
        late.close();
        List<String> names = names();
        names.remove("_multipart");
        assertEquals(List.of("out"), names);
    }

    @ParameterizedTest
    @ValueSource(strings = {"file", "test", "store"})
    void anOutputThatAppearsMeanwhileStays(String scheme) throws IOException {
        Item item = item(place(scheme), top.resolve("input"));
        item.place().begin(item, LAYOUT, null, conf);
        SortedMap<Integer, String> handles = new TreeMap<>();
        for (int part = 0; part < 4; part++) {
            try (Sink sink = open(item, part, 0)) {
                write(sink, 'a');
                handles.put(part, sink.finish());
            }
        }
        Files.writeString(folder.resolve("out"), "somebody else's");
        assertThrows(IOException.class, () -> item.place().publish(item, LAYOUT, handles, conf));
        item.place().discard(item, handles, conf);
        assertEquals("somebody else's", Files.readString(folder.resolve("out")));
    }

    /** Changes the last byte of the one file that has a name of this kind. */
    private void alterEnd(String glob) throws IOException {
        try (DirectoryStream<Path> found = Files.newDirectoryStream(folder, glob);
                FileChannel file = FileChannel.open(found.iterator().next(), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            ByteBuffer last = ByteBuffer.allocate(1);
            file.read(last, file.size() - 1);
            last.put(0, (byte) ~last.get(0)).flip();
            file.write(last, file.size() - 1);
        }
    }

    /** As if somebody had put a file of his in its place for the moment in which it is opened: its number is the right one again afterwards. */
    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void aFileInPlaceOfATemporaryOneIsNotTakenForPlaintext(int attempt) throws IOException {
        Item item = item(place("file"), top.resolve("input"));
        item.place().begin(item, LAYOUT, null, conf);
        SortedMap<Integer, String> handles = new TreeMap<>();
        for (int part = 0; part < 4; part++) {
            try (Sink sink = open(item, part, part == 2 ? attempt : 0)) {
                write(sink, 'a');
                handles.put(part, sink.finish());
            }
        }
        // The common file, or that of the second attempt.
        alterEnd(attempt == 0 ? ".phalanx-*.tmp" : ".phalanx-*000201.tmp");
        IOException failure = assertThrows(IOException.class, () -> item.place().publish(item, LAYOUT, handles, conf));
        assertTrue(failure.getMessage().contains("its temporary file was replaced"), failure.toString());
        item.place().discard(item, handles, conf);
        assertEquals(List.of(), names());
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aFileThatIsNotDividedIsTheOneThatWasWritten(boolean isReplaced) throws IOException {
        Place place = place("file");
        Files.write(top.resolve("input"), new byte[CHUNK]);
        Item item = new Item(
                0, Plan.What.UNPROTECT, "input", "file://" + top.resolve("input"), seen(top.resolve("input")), place, 0, 0, null, 1, false);
        SortedMap<Integer, String> handles = new TreeMap<>();
        try (Sink sink = open(item, 0, 0)) {
            write(sink, 'a');
            handles.put(0, sink.finish());
        }
        if (isReplaced) {
            alterEnd(".phalanx-*.tmp");
            IOException failure = assertThrows(IOException.class, () -> place.publish(item, null, handles, conf));
            assertTrue(failure.getMessage().contains("its temporary file was replaced"), failure.toString());
            place.discard(item, handles, conf);
            assertEquals(List.of(), names());
            return;
        }
        place.publish(item, null, handles, conf);
        assertEquals("a".repeat(CHUNK), Files.readString(folder.resolve("out")));
        assertEquals(List.of("out"), names());
    }
}
