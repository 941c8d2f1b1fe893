package phalanx.hadoop;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;
import phalanx.Keyring;
import phalanx.PhalanxKey;
import phalanx.Protector;
import phalanx.Recipients;

/** A folder with protected files, a keyring beside it, and a file system that has the key. */
abstract class Fixture {
    static final int CHUNK = 4096;

    @TempDir
    Path top;

    final Random random = new Random(39);
    Path folder;
    PhalanxKey key;
    Configuration conf;
    FileSystem fs;

    @BeforeEach
    final void prepare() throws IOException {
        folder = Files.createDirectory(top.resolve("files"));
        key = PhalanxKey.random();
        Keyring.in(top.resolve("ring")).store("work", key);
        conf = new Configuration();
        conf.set(Keys.KEYRING, top.resolve("ring").toString());
        conf.set(Keys.KEYS, "work");
        conf.set(PhalanxFileSystem.CHUNK_SIZE, "4K");
        conf.set("fs.fake.impl", FakeStore.class.getName());
        conf.set("fs.phalanx+fake.impl", PhalanxFileSystem.class.getName());
        fs = open("phalanx+file", conf);
    }

    @AfterEach
    final void close() throws IOException {
        fs.close();
    }

    static FileSystem open(String scheme, Configuration conf) throws IOException {
        return FileSystem.newInstance(java.net.URI.create(scheme + ":///"), conf);
    }

    org.apache.hadoop.fs.Path path(String name) {
        return new org.apache.hadoop.fs.Path(folder.toString(), name);
    }

    byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    /** Protects a file as other programs do. */
    void protect(String name, byte[] plaintext, int chunkLog2) throws IOException {
        new Protector(Recipients.of(key)).withChunkLog2(chunkLog2).replacing()
                .protect(new ByteArrayInputStream(plaintext), folder.resolve(name + ".phx"));
    }

    void write(String name, byte[] plaintext) throws IOException {
        try (FSDataOutputStream out = fs.create(path(name))) {
            for (int at = 0; at < plaintext.length; at += 1000) {
                out.write(plaintext, at, Math.min(1000, plaintext.length - at));
            }
        }
    }

    byte[] read(String name) throws IOException {
        try (FSDataInputStream in = fs.open(path(name))) {
            return in.readAllBytes();
        }
    }

    /** The names in the folder as they are shown. */
    List<String> shown() throws IOException {
        FileStatus[] all = fs.listStatus(path("."));
        return Arrays.stream(all).map(each -> each.getPath().getName()).sorted().toList();
    }

    /** The names in the folder as they are. */
    List<String> stored() throws IOException {
        try (var all = Files.list(folder)) {
            return all.map(each -> each.getFileName().toString()).sorted().toList();
        }
    }
}
