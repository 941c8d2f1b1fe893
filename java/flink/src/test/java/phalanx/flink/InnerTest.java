package phalanx.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.fs.FileSystem.WriteMode;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream;
import org.apache.flink.core.fs.RecoverableWriter.CommitRecoverable;
import org.apache.flink.core.fs.RecoverableWriter.ResumeRecoverable;
import org.apache.flink.core.fs.local.LocalFileSystem;
import org.junit.jupiter.api.Test;
import phalanx.KeyProvider;
import phalanx.NamedKeys;
import phalanx.Suite;
import phalanx.Unprotector;

/** Over inner file systems that surprise. */
class InnerTest extends Fixture {
    private final Uploads uploads = new Uploads();

    private SealedWriter writer(String scheme) {
        return writer(scheme, "aes-256");
    }

    private SealedWriter writer(String scheme, String cipher) {
        Configuration conf = settings("work");
        conf.setString("phalanx.cipher", cipher);
        Settings settings = new Settings(conf);
        return new SealedWriter(uploads, scheme, new NamedKeys(settings, Map.of()), settings);
    }

    private static Path at(String scheme, String name) {
        return new Path("phalanx+" + scheme + "://bucket/" + name);
    }

    private byte[] committed(String name) throws IOException {
        ByteArrayOutputStream plaintext = new ByteArrayOutputStream();
        new Unprotector(KeyProvider.of(key)).unprotect(new ByteArrayInputStream(uploads.objects.get(name)), plaintext);
        return plaintext.toByteArray();
    }

    /** A checkpoint that fails after the file was closed leaves it as it was at the one before. */
    @Test
    void nothingAppearsInStoresBeforeItIsCommitted() throws IOException {
        uploads.sync = uploads.objects::put;
        SealedWriter writer = writer("s3");
        RecoverableFsDataOutputStream out = writer.open(at("s3", "a"));
        byte[] first = bytes(2 * CHUNK + 9);
        out.write(first);
        ResumeRecoverable checkpoint = out.persist();
        out.write(bytes(CHUNK));
        out.sync();
        out.closeForCommit();
        assertEquals(Map.of(), uploads.objects);
        writer.recover(checkpoint).closeForCommit().commit();
        assertArrayEquals(first, committed("s3://bucket/a.phx"));
    }

    @Test
    void syncIsOnlyForFileSystemsThatHaveOne() throws IOException {
        for (String scheme : new String[] {"s3", "s3a", "gs", "oss"}) {
            uploads.sync = (path, bytes) -> {
                throw new IOException("sync is not supported");
            };
            RecoverableFsDataOutputStream out = writer(scheme).open(at(scheme, "a"));
            out.write(bytes(10));
            out.sync();
            out.closeForCommit().commit();
        }
        for (String scheme : new String[] {"file", "hdfs", "abfs", "abfss"}) {
            uploads.synced = 0;
            uploads.sync = (path, bytes) -> uploads.synced++;
            writer(scheme).open(at(scheme, "b")).closeForCommit();
            assertEquals(1, uploads.synced, scheme);
        }
    }

    @Test
    void aStreamThatCountsFromWhereItBeganIsGoneOnWith() throws IOException {
        uploads.countsFromZero = true;
        SealedWriter writer = writer("abfs");
        RecoverableFsDataOutputStream out = writer.open(at("abfs", "a"));
        byte[] plaintext = bytes(3 * CHUNK + 5);
        out.write(plaintext, 0, 2 * CHUNK + 1);
        out = writer.recover(out.persist());
        out.write(plaintext, 2 * CHUNK + 1, CHUNK);
        out = writer.recover(out.persist());
        out.write(plaintext, 3 * CHUNK + 1, 4);
        assertEquals(plaintext.length, out.getPos());
        out.closeForCommit().commit();
        assertArrayEquals(plaintext, committed("abfs://bucket/a.phx"));
    }

    @Test
    void gcmIsNotGoneOnWith() throws IOException {
        SealedWriter writer = writer("s3", "aes-256-gcm");
        RecoverableFsDataOutputStream out = writer.open(at("s3", "a"));
        out.write(bytes(10));
        assertTrue(assertThrows(IOException.class, out::persist).getMessage().contains("aes-256-gcm"));
        // A format in bulk never asks for it.
        out.closeForCommit().commit();
        assertEquals(10, committed("s3://bucket/a.phx").length);
    }

    /** As a checkpoint of an older version of this plugin could have it. */
    @Test
    void aCheckpointWithGcmIsRefused() throws IOException {
        NamedKeys keys = new NamedKeys(new Settings(settings("work")), Map.of());
        byte[] header;
        try (var file = keys.recipients().newFile(Suite.AES_256_GCM, 12, OptionalLong.empty())) {
            header = file.header().toBytes();
        }
        RecoverableFsDataOutputStream inner = uploads.open(new Path("s3://bucket/a.phx"));
        inner.write(header);
        SealedWriter.Point point = SealedWriter.Point.of(inner.persist(), uploads.getResumeRecoverableSerializer());
        byte[] state = new Unfinished(header, 0, new byte[3]).seal(keys.recipients(), point);
        String message = assertThrows(IOException.class, () -> writer("s3").recover(new SealedWriter.Resume(point, state))).getMessage();
        assertTrue(message.contains("aes-256-gcm"), message);
    }

    @Test
    void aFileThatCouldNotBeClosedIsNotWrittenFurther() throws IOException {
        RecoverableFsDataOutputStream out = writer("s3").open(at("s3", "a"));
        out.write(bytes(10));
        uploads.isFull = true;
        assertThrows(IOException.class, out::closeForCommit);
        assertEquals(1, uploads.closed);
        uploads.isFull = false;
        assertThrows(IOException.class, () -> out.write(1));
        assertThrows(IOException.class, out::closeForCommit);
        out.close();
        assertEquals(1, uploads.closed);
    }

    @Test
    void aFailedFileIsNotPublishedWhenItIsClosed() throws IOException {
        WholeOutput out = whole();
        out.write(bytes(10));
        uploads.isFull = true;
        assertThrows(IOException.class, () -> out.write(bytes(2 * CHUNK)));
        uploads.isFull = false;
        assertThrows(IOException.class, out::close);
        assertEquals(Map.of(), uploads.objects);
        assertEquals(1, uploads.closed);
    }

    private WholeOutput whole() throws IOException {
        Path stored = new Path("s3://bucket/a.phx");
        return new WholeOutput(writer("s3").openStored(stored), new Publication(new LocalFileSystem(), "s3", stored, true));
    }

    /** Flink closes the streams of a task that it cancels by another thread. */
    @Test
    void aFileThatIsClosedDuringAWriteHasTheWholeWrite() throws Exception {
        WholeOutput out = whole();
        byte[] plaintext = bytes(CHUNK + 100);
        Thread closing = closedDuring(out, plaintext);
        closing.join();
        assertArrayEquals(plaintext, committed("s3://bucket/a.phx"));
    }

    @Test
    void anUncommittedFileThatIsClosedDuringAWriteIsOnlyClosed() throws Exception {
        Thread closing = closedDuring(writer("s3").open(at("s3", "a")), bytes(CHUNK + 100));
        closing.join();
        assertEquals(Map.of(), uploads.objects);
        assertEquals(1, uploads.closed);
    }

    private Thread closedDuring(OutputStream out, byte[] plaintext) throws IOException {
        Thread closing = new Thread(() -> {
            try {
                out.close();
            } catch (IOException e) {
                // That the store has no name for the file afterwards is not what is tested.
            }
        });
        uploads.inWrite = () -> {
            uploads.inWrite = () -> {};
            closing.start();
            while (closing.getState() != Thread.State.BLOCKED && closing.isAlive()) {
                Thread.onSpinWait();
            }
            // It waits for this write.
            assertEquals(0, uploads.closed);
            assertTrue(closing.isAlive());
        };
        out.write(plaintext);
        return closing;
    }

    @Test
    void damagedStatesAreRefused() throws IOException {
        SealedWriter writer = writer("s3");
        RecoverableFsDataOutputStream out = writer.open(at("s3", "a"));
        var serializer = writer.getResumeRecoverableSerializer();
        byte[] kept = serializer.serialize(out.persist());
        for (int first : new int[] {0x80, 0x7f}) {
            byte[] damaged = kept.clone();
            // The length after the version.
            damaged[4] = (byte) first;
            assertThrows(IOException.class, () -> serializer.deserialize(serializer.getVersion(), damaged));
        }
        for (int length = 0; length < 8; length++) {
            byte[] damaged = Arrays.copyOf(kept, length);
            assertThrows(IOException.class, () -> serializer.deserialize(serializer.getVersion(), damaged));
        }
    }

    /** Between the look for another file and the link, another writer makes one. */
    @Test
    void aNewLocalFileReplacesNone() throws IOException {
        Path stored = new Path("file://" + folder + "/a.phx");
        Publication publication = new Publication(new LocalFileSystem(), "file", stored, false);
        byte[] theirs = bytes(7);
        assertThrows(IOException.class, () -> publication.publish(commit(() -> {
            Files.write(java.nio.file.Path.of(publication.written().getPath()), bytes(7));
            Files.write(folder.resolve("a.phx"), theirs);
        }), 7, new byte[0]));
        assertArrayEquals(theirs, Files.readAllBytes(folder.resolve("a.phx")));
        assertEquals(List.of("a.phx"), stored());
    }

    /** A commit on HDFS that renamed nothing says nothing. */
    @Test
    void aFileOfAnotherWriterIsNotTakenForOurs() throws IOException {
        Path stored = new Path("file://" + folder + "/a.phx");
        for (boolean isReplacing : new boolean[] {false, true}) {
            Publication publication = new Publication(new LocalFileSystem(), "hdfs", stored, isReplacing);
            assertThrows(IOException.class, () -> publication.publish(commit(() -> {}), 7, new byte[] {1}));
            assertThrows(IOException.class, () -> publication.publish(commit(() -> theirs(7, 2)), 7, new byte[] {1}));
            Files.delete(folder.resolve("a.phx"));
            assertThrows(IOException.class, () -> publication.publish(commit(() -> theirs(6, 1)), 7, new byte[] {1}));
            Files.delete(folder.resolve("a.phx"));
            publication.publish(commit(() -> theirs(7, 1)), 7, new byte[] {1});
            Files.delete(folder.resolve("a.phx"));
        }
    }

    private void theirs(int length, int first) throws IOException {
        byte[] bytes = new byte[length];
        bytes[0] = (byte) first;
        Files.write(folder.resolve("a.phx"), bytes);
    }

    @FunctionalInterface
    private interface Commit {
        void run() throws IOException;
    }

    private static RecoverableFsDataOutputStream.Committer commit(Commit what) {
        return new RecoverableFsDataOutputStream.Committer() {
            @Override
            public void commit() throws IOException {
                what.run();
            }

            @Override
            public void commitAfterRecovery() throws IOException {
                commit();
            }

            @Override
            public CommitRecoverable getRecoverable() {
                return null;
            }
        };
    }

    @Test
    void ofTwoNewFilesOneIsMade() throws IOException {
        var one = fs.create(path("a"), WriteMode.NO_OVERWRITE);
        var two = fs.create(path("a"), WriteMode.NO_OVERWRITE);
        one.write(bytes(10));
        one.close();
        byte[] kept = read("a");
        two.write(bytes(20));
        assertThrows(IOException.class, two::close);
        assertArrayEquals(kept, read("a"));
        assertEquals(List.of("a.phx"), stored(), "the one that lost leaves nothing");
    }

    /** That of another writer is not touched. */
    @Test
    void whatIsLeftOfANewLocalFileIsRemoved() throws IOException {
        Publication ours = new Publication(new LocalFileSystem(), "file", new Path("file://" + folder + "/a.phx"), false);
        Publication theirs = new Publication(new LocalFileSystem(), "file", new Path("file://" + folder + "/a.phx"), false);
        String left = "." + theirs.written().getName() + ".inprogress.1";
        Files.write(folder.resolve(left), bytes(1));
        Files.write(folder.resolve("." + ours.written().getName() + ".inprogress.1"), bytes(1));
        ours.discard();
        assertEquals(List.of(left), stored());
        new Publication(new LocalFileSystem(), "hdfs", new Path("file://" + folder + "/a.phx"), false).discard();
        assertEquals(List.of(left), stored());
    }
}
