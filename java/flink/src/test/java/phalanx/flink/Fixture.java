package phalanx.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.stream.LongStream;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.FileSystem;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;
import phalanx.KeyProvider;
import phalanx.Keyring;
import phalanx.PhalanxKey;
import phalanx.Unprotector;

/** A folder for protected files, a keyring beside it, and Flink's file systems with its key. */
abstract class Fixture {
    static final int CHUNK = 4096;
    static final List<String> EXPECTED = LongStream.range(0, Job.LINES).mapToObj(Job::line).sorted().toList();

    @TempDir
    Path top;

    final Random random = new Random(39);
    Path folder;
    PhalanxKey key;
    FileSystem fs;

    @BeforeEach
    final void prepare() throws IOException {
        folder = Files.createDirectory(top.resolve("files"));
        key = PhalanxKey.random();
        Keyring.in(top.resolve("ring")).store("work", key);
        fs = open("work");
    }

    /** Flink's file systems are those of a JVM, so this configures them anew. */
    final FileSystem open(String keys) throws IOException {
        FileSystem.initialize(settings(keys), null);
        return FileSystem.get(URI.create("phalanx+file:///"));
    }

    final Configuration settings(String keys) {
        Configuration conf = new Configuration();
        conf.setString("phalanx.keys", keys);
        conf.setString("phalanx.keyring", top.resolve("ring").toString());
        conf.setString("phalanx.chunk.size", "4kb");
        return conf;
    }

    final org.apache.flink.core.fs.Path path(String name) {
        return new org.apache.flink.core.fs.Path("phalanx+file://" + folder + "/" + name);
    }

    final byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    final byte[] read(String name) throws IOException {
        try (FSDataInputStream in = fs.open(path(name))) {
            return in.readAllBytes();
        }
    }

    /** Opens a protected file as other programs do. */
    final byte[] unprotected(Path stored) throws IOException {
        Path again = top.resolve("again");
        new Unprotector(KeyProvider.of(key)).replacing().unprotect(stored, again);
        return Files.readAllBytes(again);
    }

    /** The names in the folder as they are. */
    final List<String> stored() throws IOException {
        try (var all = Files.list(folder)) {
            return all.map(each -> each.getFileName().toString()).sorted().toList();
        }
    }

    /** All protected files below the folder. */
    final List<Path> files() throws IOException {
        try (var all = Files.walk(folder)) {
            return all.filter(each -> each.toString().endsWith(".phx")).toList();
        }
    }

    /** Every line of a {@link Job}, in whatever file. */
    final void assertEachLineIsThereOnce() throws IOException {
        List<String> lines = new ArrayList<>();
        for (Path file : files()) {
            lines.addAll(new String(unprotected(file), StandardCharsets.UTF_8).lines().toList());
        }
        lines.sort(Comparator.naturalOrder());
        assertEquals(EXPECTED, lines);
    }

    /** What a job in a process of its own has said. */
    final String said() {
        try {
            return Files.readString(top.resolve("said"));
        } catch (IOException e) {
            return e.toString();
        }
    }
}
