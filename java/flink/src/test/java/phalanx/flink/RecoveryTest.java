package phalanx.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream.Committer;
import org.apache.flink.core.fs.RecoverableWriter;
import org.apache.flink.core.fs.RecoverableWriter.CommitRecoverable;
import org.apache.flink.core.fs.RecoverableWriter.ResumeRecoverable;
import org.junit.jupiter.api.Test;
import phalanx.Keyring;
import phalanx.PhalanxKey;

/** What a sink needs of its file system to write everything exactly once. */
class RecoveryTest extends Fixture {
    /** What a checkpoint stores. */
    private static byte[] serialized(RecoverableWriter writer, ResumeRecoverable at) throws IOException {
        return writer.getResumeRecoverableSerializer().serialize(at);
    }

    private static ResumeRecoverable deserialized(RecoverableWriter writer, byte[] stored) throws IOException {
        var serializer = writer.getResumeRecoverableSerializer();
        return serializer.deserialize(serializer.getVersion(), stored);
    }

    /** A random history of writes, checkpoints and returns to the last one, as another process makes them. */
    private byte[] history(String name) throws IOException {
        RecoverableWriter writer = fs.createRecoverableWriter();
        RecoverableFsDataOutputStream out = writer.open(path(name));
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        byte[] checkpoint = serialized(writer, out.persist());
        byte[] then = {};
        for (int step = 0; step < 30; step++) {
            switch (random.nextInt(4)) {
                case 0 -> {
                    checkpoint = serialized(writer, out.persist());
                    then = written.toByteArray();
                }
                case 1 -> {
                    out.close();
                    writer = open("work").createRecoverableWriter();
                    out = writer.recover(deserialized(writer, checkpoint));
                    written.reset();
                    written.write(then);
                }
                default -> {
                    byte[] more = bytes(random.nextInt(5) == 0 ? CHUNK : random.nextInt(3 * CHUNK));
                    out.write(more);
                    written.write(more);
                }
            }
            assertEquals(written.size(), out.getPos());
            assertTrue(stored().stream().noneMatch(each -> each.equals(name + ".phx")));
        }
        Committer committer = out.closeForCommit();
        if (random.nextBoolean()) {
            committer.commit();
        } else {
            var serializer = writer.getCommitRecoverableSerializer();
            CommitRecoverable pending = serializer.deserialize(serializer.getVersion(), serializer.serialize(committer.getRecoverable()));
            RecoverableWriter later = open("work").createRecoverableWriter();
            later.recoverForCommit(pending).commitAfterRecovery();
            // Flink commits again what it does not know to be committed.
            later.recoverForCommit(pending).commitAfterRecovery();
        }
        return written.toByteArray();
    }

    @Test
    void filesAreThoseOfTheLastCheckpointAndWhatFollowed() throws IOException {
        for (int i = 0; i < 40; i++) {
            byte[] expected = history("part-" + i);
            assertArrayEquals(expected, unprotected(folder.resolve("part-" + i + ".phx")));
            assertArrayEquals(expected, read("part-" + i));
        }
        assertEquals(40, stored().stream().filter(each -> each.endsWith(".phx")).count());
    }

    @Test
    void anUnfinishedFileCanBeCommittedWhereItsCheckpointWas() throws IOException {
        RecoverableWriter writer = fs.createRecoverableWriter();
        byte[] plaintext = bytes(2 * CHUNK + 7);
        try (RecoverableFsDataOutputStream out = writer.open(path("a"))) {
            out.write(plaintext);
            ResumeRecoverable at = out.persist();
            out.write(bytes(CHUNK));
            writer.recoverForCommit(at).commit();
        }
        assertArrayEquals(plaintext, read("a"));
    }

    @Test
    void nothingOfTheTextIsInTheCheckpointOrInFiles() throws IOException {
        String text = "the text that nobody may read";
        RecoverableWriter writer = fs.createRecoverableWriter();
        try (RecoverableFsDataOutputStream out = writer.open(path("a"))) {
            for (int i = 0; i < 1000; i++) {
                out.write(text.getBytes(StandardCharsets.UTF_8));
            }
            String kept = new String(serialized(writer, out.persist()), StandardCharsets.ISO_8859_1);
            assertTrue(!kept.contains("nobody"));
            for (String name : stored()) {
                assertTrue(!new String(Files.readAllBytes(folder.resolve(name)), StandardCharsets.ISO_8859_1).contains("nobody"));
            }
        }
    }

    @Test
    void aCheckpointThatIsAlteredOrOfAnotherKeyIsRefused() throws IOException {
        RecoverableWriter writer = fs.createRecoverableWriter();
        byte[] kept;
        try (RecoverableFsDataOutputStream out = writer.open(path("a"))) {
            out.write(bytes(CHUNK + 100));
            kept = serialized(writer, out.persist());
        }
        byte[] altered = kept.clone();
        altered[altered.length - 1] ^= 1;
        assertThrows(IOException.class, () -> writer.recover(deserialized(writer, altered)));
        Keyring.in(top.resolve("ring")).store("other", PhalanxKey.random());
        RecoverableWriter other = open("other").createRecoverableWriter();
        String message = assertThrows(IOException.class, () -> other.recover(deserialized(other, kept))).getMessage();
        assertTrue(message.contains("unfinished file"), message);
    }

    /** The state of one file with the place of another. */
    @Test
    void aCheckpointOfAnotherFileIsRefused() throws IOException {
        RecoverableWriter writer = fs.createRecoverableWriter();
        try (RecoverableFsDataOutputStream one = writer.open(path("a")); RecoverableFsDataOutputStream two = writer.open(path("b"))) {
            one.write(bytes(CHUNK * 3));
            two.write(bytes(CHUNK * 3));
            SealedWriter.Resume of = (SealedWriter.Resume) one.persist();
            SealedWriter.Resume and = (SealedWriter.Resume) two.persist();
            String message = assertThrows(IOException.class, () -> writer.recover(new SealedWriter.Resume(of.inner(), and.state()))).getMessage();
            assertTrue(message.contains("that of another file"), message);
        }
    }

    @Test
    void whatIsNotCommittedIsNotThere() throws IOException {
        try (RecoverableFsDataOutputStream out = fs.createRecoverableWriter().open(path("a"))) {
            out.write(bytes(CHUNK * 3));
        }
        assertEquals(0, fs.listStatus(path("")).length);
        assertEquals(List.of(), stored().stream().filter(each -> each.endsWith(".phx")).toList());
        assertEquals(0, Arrays.stream(fs.listStatus(new org.apache.flink.core.fs.Path("phalanx+file://" + top))).filter(each -> !each.isDir()).count());
        assertTrue(Files.isDirectory(Path.of(folder.toString())));
    }
}
