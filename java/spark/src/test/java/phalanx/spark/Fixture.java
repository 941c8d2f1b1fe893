package phalanx.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;
import phalanx.Header;
import phalanx.KeyId;
import phalanx.Keyring;
import phalanx.PhalanxKey;
import phalanx.Protector;
import phalanx.Recipients;
import phalanx.Slot;
import phalanx.Unprotector;
import phalanx.command.Failure;
import phalanx.command.Terminal;

/** A folder with files, a keyring beside it, and a Spark of two threads that serves all tests of a JVM. */
abstract class Fixture {
    @TempDir
    Path top;

    final Random random = new Random(39);
    Path folder;
    PhalanxKey key;
    /** What the last run has written to standard error and standard output. */
    String said;

    static SparkSession session() {
        return SparkSession.builder().master("local[2,3]").appName("tests")
                .config("spark.ui.enabled", "false")
                .config("spark.sql.shuffle.partitions", "2")
                .config("spark.sql.extensions", PhalanxExtensions.class.getName())
                .config("spark.hadoop.fs.test.impl", TestFs.class.getName())
                .config("spark.hadoop.fs.store.impl", TestFs.Store.class.getName())
                .config("spark.hadoop.fs.copied.impl", TestFs.NoConcat.class.getName())
                .getOrCreate();
    }

    static SparkContext spark() {
        return session().sparkContext();
    }

    @BeforeEach
    final void prepare() throws IOException {
        folder = Files.createDirectory(top.resolve("files"));
        key = PhalanxKey.random();
        Keyring.in(top.resolve("ring")).store("work", key);
        spark().hadoopConfiguration().set("fs.phalanx.keyring", top.resolve("ring").toString());
        TestFs.begin();
    }

    byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    Path write(String name, byte[] bytes) throws IOException {
        return Files.write(folder.resolve(name), bytes);
    }

    /** Runs a job, and returns its exit code. */
    int run(String... args) {
        PrintStream err = System.err;
        PrintStream out = System.out;
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(bytes, true, StandardCharsets.UTF_8);
        System.setErr(both);
        System.setOut(both);
        try {
            Terminal.begin(Plan.NAME);
            Main.run(Plan.of(List.of(args)), spark());
            return 0;
        } catch (Failure e) {
            e.report();
            return e.code().number();
        } finally {
            System.setErr(err);
            System.setOut(out);
            said = bytes.toString(StandardCharsets.UTF_8);
        }
    }

    void succeed(String... args) {
        assertEquals(0, run(args), () -> said);
    }

    void fail(int code, String line, String... args) {
        assertEquals(code, run(args), () -> said);
        assertEquals(true, said.contains(line), () -> said);
    }

    /** Opens a protected file as other programs do. */
    void assertOpens(byte[] plaintext, Path stored) throws IOException {
        Path again = top.resolve("again");
        new Unprotector(phalanx.KeyProvider.of(key)).replacing().unprotect(stored, again);
        assertArrayEquals(plaintext, Files.readAllBytes(again));
    }

    /** Protects a file as other programs do. */
    Path protect(Path plain) throws IOException {
        Path stored = plain.resolveSibling(plain.getFileName() + ".phx");
        new Protector(Recipients.of(key)).protect(plain, stored);
        return stored;
    }

    static Header header(Path stored) throws IOException {
        try (InputStream in = Files.newInputStream(stored)) {
            return Header.read(in);
        }
    }

    /** The keys that open a file. It has no other ways in. */
    static List<KeyId> keys(Header header) {
        return header.slots().stream().filter(slot -> !(slot instanceof Slot.Padding)).map(slot -> ((Slot.OfKey) slot).id()).toList();
    }

    List<String> names() throws IOException {
        return names(folder);
    }

    static List<String> names(Path folder) throws IOException {
        try (var all = Files.list(folder)) {
            return new ArrayList<>(all.map(each -> each.getFileName().toString()).sorted().toList());
        }
    }
}
