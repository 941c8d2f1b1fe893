package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;
import org.apache.hadoop.mapreduce.task.JobContextImpl;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.junit.jupiter.api.Test;
import phalanx.Header;
import phalanx.Unprotector;

/** What is written, renamed and deleted, and what a failure leaves. */
class WritingTest extends Fixture {
    private byte[] unprotected(String name) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        new Unprotector(phalanx.KeyProvider.of(key)).unprotect(folder.resolve(name + ".phx"), out);
        return out.toByteArray();
    }

    @Test
    void chunksAreAsLongAsTheSettingSays() throws IOException {
        for (String size : new String[] {"", "4K", "16M"}) {
            conf.unset(PhalanxFileSystem.CHUNK_SIZE);
            if (!size.isEmpty()) {
                conf.set(PhalanxFileSystem.CHUNK_SIZE, size);
            }
            fs.close();
            fs = open("phalanx+file", conf);
            write("a", bytes(10));
            try (FileChannel file = FileChannel.open(folder.resolve("a.phx"))) {
                assertEquals(size.isEmpty() ? 18 : size.equals("4K") ? 12 : 24, Header.read(file).chunkLog2());
            }
        }
    }

    @Test
    void otherProgramsReadWhatIsWritten() throws IOException {
        for (String cipher : List.of("aes-256", "aes-192", "aes-128", "aes-256-gcm", "aes-256-turbo")) {
            conf.set(PhalanxFileSystem.CIPHER, cipher);
            for (String scheme : List.of("phalanx+file", "phalanx+fake")) {
                fs.close();
                fs = open(scheme, conf);
                for (int length : new int[] {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 4 * CHUNK, 4 * CHUNK + 7}) {
                    byte[] plaintext = bytes(length);
                    write("a", plaintext);
                    assertArrayEquals(plaintext, unprotected("a"));
                    assertArrayEquals(plaintext, read("a"));
                    assertEquals(List.of("a.phx"), stored());
                }
            }
        }
    }

    /** Tables count on this: of those who write the next version, one does it. */
    @Test
    void ofManyThatMakeAFileAtOnceOneDoes() throws Exception {
        int writers = 4;
        ExecutorService threads = Executors.newFixedThreadPool(writers);
        try {
            for (int round = 0; round < 200; round++) {
                String name = "version" + round;
                boolean isRenamed = round % 2 == 0;
                CyclicBarrier together = new CyclicBarrier(writers);
                List<Future<Boolean>> made = new ArrayList<>();
                for (int i = 0; i < writers; i++) {
                    byte[] own = {(byte) i};
                    Path temporary = folder.resolve(name + "-" + i);
                    made.add(threads.submit(() -> isRenamed ? isRenamed(temporary, name, own, together) : isMade(name, own, together)));
                }
                int winner = -1;
                for (int i = 0; i < writers; i++) {
                    if (made.get(i).get()) {
                        assertEquals(-1, winner, "two made " + name);
                        winner = i;
                    }
                }
                assertArrayEquals(new byte[] {(byte) winner}, read(name));
            }
        } finally {
            threads.shutdownNow();
        }
        assertTrue(stored().stream().noneMatch(each -> each.startsWith(".phalanx")));
    }

    /** Hadoop would compare the new file with it. */
    @Test
    void theChecksumOfAnEarlierFileGoes() throws Exception {
        Path checksum = folder.resolve(".made.phx.crc");
        Files.write(checksum, new byte[] {1});
        try (FSDataOutputStream out = fs.create(path("made"), false)) {
            out.write(7);
        }
        assertFalse(Files.exists(checksum));
        assertArrayEquals(new byte[] {7}, read("made"));
    }

    private boolean isMade(String name, byte[] content, CyclicBarrier together) throws Exception {
        FSDataOutputStream out = fs.create(path(name), false);
        out.write(content);
        together.await();
        try {
            out.close();
            return true;
        } catch (FileAlreadyExistsException e) {
            return false;
        }
    }

    private boolean isRenamed(Path temporary, String name, byte[] content, CyclicBarrier together) throws Exception {
        String from = temporary.getFileName().toString();
        write(from, content);
        FileContext context = FileContext.getFileContext(URI.create("phalanx+file:///"), contextual());
        together.await();
        try {
            context.rename(context.makeQualified(path(from)), context.makeQualified(path(name)), Options.Rename.NONE);
            return true;
        } catch (FileAlreadyExistsException e) {
            fs.delete(path(from), false);
            return false;
        }
    }

    private Configuration contextual() {
        Configuration other = new Configuration(conf);
        other.set("fs.AbstractFileSystem.phalanx+file.impl", PhalanxFs.class.getName());
        return other;
    }

    @Test
    void theProgramReadsWhatIsWritten() throws IOException, InterruptedException {
        Path program = Needs.phalanx();
        byte[] plaintext = bytes(3 * CHUNK + 5);
        write("a", plaintext);
        ProcessBuilder builder = new ProcessBuilder(program.toString(), "unprotect", "a.phx").directory(folder.toFile());
        builder.environment().put("PHALANX_KEYRING", top.resolve("ring").toString());
        Process process = builder.redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), said);
        assertArrayEquals(plaintext, Files.readAllBytes(folder.resolve("a")));
    }

    @Test
    void aFileAppearsWhenItIsClosed() throws IOException {
        for (String scheme : List.of("phalanx+file", "phalanx+fake")) {
            fs.close();
            fs = open(scheme, conf);
            byte[] first = bytes(5 * CHUNK);
            FSDataOutputStream out = fs.create(path("a"));
            out.write(first);
            out.flush();
            assertEquals(List.of(), shown());
            for (String capability : List.of("hflush", StreamCapabilities.HSYNC)) {
                assertFalse(out.hasCapability(capability));
            }
            // Parquet calls it.
            out.hflush();
            assertEquals(List.of(), shown());
            assertThrows(UnsupportedOperationException.class, out::hsync);
            out.close();
            assertEquals(List.of("a"), shown());
            // The old content stays until the new one is whole.
            FSDataOutputStream again = fs.create(path("a"), true);
            again.write(bytes(7 * CHUNK));
            assertArrayEquals(first, read("a"));
            again.abort();
            again.close();
            assertArrayEquals(first, read("a"));
            assertEquals(List.of("a.phx"), stored());
            assertThrows(FileAlreadyExistsException.class, () -> fs.create(path("a"), false));
            fs.delete(path("a"), false);
        }
    }

    @Test
    void oneThatMustBeNewDoesNotReplaceAnother() throws IOException {
        FSDataOutputStream first = fs.create(path("a"), false);
        FSDataOutputStream second = fs.create(path("a"), false);
        first.write(1);
        second.write(2);
        first.close();
        assertThrows(FileAlreadyExistsException.class, second::close);
        assertArrayEquals(new byte[] {1}, read("a"));
        assertEquals(List.of("a.phx"), stored());
    }

    @Test
    void afterAFailureNothingIsPublished() throws IOException {
        fs.close();
        fs = open("phalanx+fake", conf);
        byte[] old = bytes(CHUNK);
        write("a", old);
        FSDataOutputStream out = fs.create(path("a"), true);
        out.write(bytes(CHUNK));
        FakeStore.FULL.set(true);
        try {
            assertThrows(IOException.class, () -> out.write(bytes(2 * CHUNK)));
        } finally {
            FakeStore.FULL.set(false);
        }
        // The caller may not have noticed, and close as if all was well.
        assertThrows(IOException.class, () -> out.write(1));
        assertThrows(IOException.class, out::close);
        assertArrayEquals(old, read("a"));
        assertEquals(List.of("a.phx"), stored());
        FSDataOutputStream last = fs.create(path("a"), true);
        last.write(1);
        FakeStore.FULL.set(true);
        try {
            assertThrows(IOException.class, last::close);
        } finally {
            FakeStore.FULL.set(false);
        }
        assertArrayEquals(old, read("a"));
        assertEquals(List.of("a.phx"), stored());
        FakeStore.FULL.set(true);
        try {
            assertThrows(IOException.class, () -> fs.create(path("b")));
        } finally {
            FakeStore.FULL.set(false);
        }
        assertEquals(List.of("a.phx"), stored());
    }

    @Test
    void aWriterThatIsKilledLeavesNothing() throws Exception {
        for (String scheme : List.of("phalanx+file", "phalanx+fake")) {
            String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
            String classes = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
            Process process = new ProcessBuilder(java, "-cp", classes, Killed.class.getName(), scheme, path("a").toString(),
                    top.resolve("ring").toString()).redirectErrorStream(true).start();
            String said = new String(process.getInputStream().readAllBytes());
            assertEquals(Killed.CODE, process.waitFor(), said);
            assertEquals(List.of(), shown());
            assertFalse(stored().isEmpty(), "it had begun");
            assertFalse(fs.exists(path("a")));
            Files.delete(folder.resolve(stored().get(0)));
        }
    }

    /** Writes a part of a file, and ends as if it was killed. */
    static final class Killed {
        static final int CODE = 99;

        public static void main(String[] args) throws IOException {
            Configuration conf = new Configuration();
            conf.set(Keys.KEYS, "work");
            conf.set(Keys.KEYRING, args[2]);
            conf.set(PhalanxFileSystem.CHUNK_SIZE, "4K");
            conf.set("fs.fake.impl", FakeStore.class.getName());
            conf.set("fs.phalanx+fake.impl", PhalanxFileSystem.class.getName());
            FSDataOutputStream out = open(args[0], conf).create(new org.apache.hadoop.fs.Path(args[1]));
            out.write(new byte[10 * CHUNK]);
            Runtime.getRuntime().halt(CODE);
        }
    }

    @Test
    void filesAndFoldersDoNotHideEachOther() throws IOException {
        write("a", bytes(5));
        assertThrows(FileAlreadyExistsException.class, () -> fs.mkdirs(path("a")));
        assertThrows(ParentNotDirectoryException.class, () -> fs.mkdirs(path("a/b")));
        assertThrows(ParentNotDirectoryException.class, () -> fs.create(path("a/b/c")));
        fs.mkdirs(path("folder"));
        assertThrows(FileAlreadyExistsException.class, () -> fs.create(path("folder")));
        // A folder in the place of a protected file would swallow it.
        for (String name : List.of("x.phx", "x.phx/y")) {
            assertThrows(IOException.class, () -> fs.mkdirs(path(name)));
            assertThrows(IOException.class, () -> fs.create(path(name + "/z")));
        }
        assertThrows(IOException.class, () -> fs.rename(path("folder"), path("x.phx")));
        Files.createDirectory(folder.resolve("x.phx"));
        assertThrows(FileAlreadyExistsException.class, () -> fs.create(path("x")));
        assertFalse(fs.rename(path("a"), path("x")));
        assertTrue(fs.rename(path("a"), path("x.phx")));
        assertTrue(fs.rename(path("x.phx/a"), path("a")));
        Files.delete(folder.resolve("x.phx"));
        assertTrue(fs.rename(path("a"), path("folder")));
        assertTrue(fs.exists(path("folder/a")));
        // Neither takes the name of the other.
        fs.mkdirs(path("a"));
        assertFalse(fs.rename(path("a"), path("folder")));
        write("b", bytes(5));
        fs.mkdirs(path("folder/b"));
        assertFalse(fs.rename(path("b"), path("folder")));
        assertEquals(List.of("a", "b.phx", "folder"), stored());
        // A name with the ending is a name like others.
        write("c.phx", bytes(3));
        assertEquals(List.of("a", "b", "c.phx", "folder"), shown());
        assertTrue(fs.delete(path("c.phx"), false));
        assertFalse(fs.delete(path("c.phx"), false));
    }

    @Test
    void foldersWithHiddenFilesAreNotDeletedByMistake() throws IOException {
        fs.mkdirs(path("d"));
        Files.writeString(folder.resolve("d").resolve("plain"), "x");
        assertEquals(0, fs.listStatus(path("d")).length);
        assertFalse(fs.rename(path("d/plain"), path("d/other")));
        assertFalse(fs.delete(path("d/plain"), false));
        assertThrows(IOException.class, () -> fs.delete(path("d"), false));
        assertTrue(fs.rename(path("d"), path("e")));
        assertTrue(Files.exists(folder.resolve("e").resolve("plain")));
        assertTrue(fs.delete(path("e"), true));
    }

    @Test
    void aCommitterCommits() throws IOException {
        org.apache.hadoop.fs.Path output = fs.makeQualified(path("table"));
        TaskAttemptID id = TaskAttemptID.forName("attempt_200707121733_0001_m_000000_0");
        for (int version = 1; version <= 2; version++) {
            conf.setInt(FileOutputCommitter.FILEOUTPUTCOMMITTER_ALGORITHM_VERSION, version);
            JobContext job = new JobContextImpl(conf, id.getJobID());
            TaskAttemptContext task = new TaskAttemptContextImpl(conf, id);
            FileOutputCommitter committer = new FileOutputCommitter(output, task);
            committer.setupJob(job);
            committer.setupTask(task);
            byte[] plaintext = bytes(2 * CHUNK + 1);
            try (FSDataOutputStream out = fs.create(new org.apache.hadoop.fs.Path(committer.getWorkPath(), "part=1/part-0"))) {
                out.write(plaintext);
            }
            assertFalse(fs.exists(path("table/part=1/part-0")));
            assertTrue(committer.needsTaskCommit(task));
            committer.commitTask(task);
            committer.commitJob(job);
            assertArrayEquals(plaintext, read("table/part=1/part-0"));
            assertEquals(0, fs.getFileStatus(path("table/_SUCCESS")).getLen());
            assertEquals(2, fs.listStatus(path("table")).length);
            assertTrue(Files.exists(folder.resolve("table/_SUCCESS.phx")));
            fs.delete(path("table"), true);
        }
    }

    @Test
    void aFileContextDoesTheSame() throws IOException {
        conf.set("fs.AbstractFileSystem.phalanx+file.impl", PhalanxFs.class.getName());
        FileContext context = FileContext.getFileContext(java.net.URI.create("phalanx+file:///"), conf);
        write("a", new byte[] {1});
        write("b", new byte[] {2});
        assertThrows(FileAlreadyExistsException.class, () -> context.rename(path("a"), path("b")));
        context.rename(path("a"), path("b"), Options.Rename.OVERWRITE);
        assertArrayEquals(new byte[] {1}, read("b"));
        assertEquals(1, context.getFileStatus(path("b")).getLen());
        assertEquals(List.of("b.phx"), stored());
        try (FileSystem same = open("phalanx+file", conf)) {
            assertEquals("phalanx+file:/x", same.makeQualified(new org.apache.hadoop.fs.Path("/x")).toString());
        }
    }
}
