package phalanx.hadoop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import phalanx.Keyring;
import phalanx.PhalanxKey;

/** Hadoop's contract of file systems, over local folders. What it says of {@code phalanx+file} is in contract/phalanx.xml. */
final class LocalContract extends AbstractFSContract {
    static final java.nio.file.Path FOLDER = folder();

    LocalContract(Configuration conf) {
        super(conf);
        addConfResource("contract/phalanx.xml");
        configure(getConf());
    }

    static void configure(Configuration conf) {
        conf.set(Keys.KEYRING, FOLDER.resolve("ring").toString());
        conf.set(Keys.KEYS, "work");
        // So that files of a few kilobytes have several chunks.
        conf.set(PhalanxFileSystem.CHUNK_SIZE, "4K");
    }

    private static java.nio.file.Path folder() {
        try {
            java.nio.file.Path folder = Files.createTempDirectory(
                    java.nio.file.Path.of("target").toAbsolutePath(), "contract",
                    PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            Keyring.in(folder.resolve("ring")).store("work", PhalanxKey.random());
            return folder;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public FileSystem getTestFileSystem() throws IOException {
        return getTestPath().getFileSystem(getConf());
    }

    @Override
    public String getScheme() {
        return "phalanx+file";
    }

    @Override
    public Path getTestPath() {
        return new Path("phalanx+file://" + FOLDER.resolve("files"));
    }
}
