package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.statistics.IOStatistics;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory;
import org.apache.hadoop.mapreduce.task.JobContextImpl;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import phalanx.KeyProvider;
import phalanx.Keyring;
import phalanx.Unprotector;

/** What is special to S3A: uploads that nobody sees, its committers, and how many requests are made. */
class S3aTest {
    private static final int CHUNK = 4096;

    private final Random random = new Random(7);
    private Versity server;
    private Configuration conf;
    private Path folder;
    private FileSystem fs;

    @BeforeEach
    void prepare() throws Exception {
        server = Versity.get();
        conf = new Configuration();
        LocalContract.configure(conf);
        server.configure(conf);
        folder = new Path("phalanx+s3a://" + Versity.BUCKET + "/" + java.util.UUID.randomUUID());
        fs = FileSystem.newInstance(folder.toUri(), conf);
    }

    @AfterEach
    void close() throws IOException {
        if (fs != null) {
            fs.close();
        }
    }

    private byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    private java.nio.file.Path stored(String name) {
        return server.bucket().resolve(folder.getName()).resolve(name);
    }

    private byte[] read(Path path) throws IOException {
        try (FSDataInputStream in = fs.open(path)) {
            return in.readAllBytes();
        }
    }

    @Test
    void objectsAreThoseOfOtherPrograms() throws IOException {
        byte[] plaintext = bytes(6 << 20);
        Path path = new Path(folder, "a");
        FSDataOutputStream out = fs.create(path);
        // Longer than a part of an upload.
        out.write(plaintext);
        assertFalse(fs.exists(path));
        out.close();
        ByteArrayOutputStream unprotected = new ByteArrayOutputStream();
        Keyring ring = Keyring.in(LocalContract.FOLDER.resolve("ring"));
        new Unprotector(KeyProvider.of(ring.load("work"))).unprotect(stored("a.phx"), unprotected);
        assertArrayEquals(plaintext, unprotected.toByteArray());
        assertArrayEquals(plaintext, read(path));
    }

    @Test
    void anAbortedUploadLeavesNothing() throws IOException {
        Path path = new Path(folder, "a");
        FSDataOutputStream out = fs.create(path);
        out.write(bytes(6 << 20));
        out.abort();
        out.close();
        assertFalse(fs.exists(path));
        assertFalse(Files.exists(stored("a.phx")));
    }

    /** Columns of a file: the requests are those of the header, the end and the ranges, and not one for each chunk. */
    @Test
    void rangesAreReadTogether() throws Exception {
        byte[] plaintext = bytes(4 << 20);
        Path path = new Path(folder, "a");
        try (FSDataOutputStream out = fs.create(path)) {
            out.write(plaintext);
        }
        FileStatus status = fs.getFileStatus(path);
        try (FSDataInputStream in = fs.openFile(path).withFileStatus(status).opt("fs.option.openfile.read.policy", "vector")
                .build().get()) {
            List<FileRange> ranges = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                ranges.add(FileRange.createFileRange(1_000_000L * i + 7, 50 * CHUNK));
            }
            in.readVectored(ranges, ByteBuffer::allocate);
            for (FileRange range : ranges) {
                int from = (int) range.getOffset();
                assertArrayEquals(Arrays.copyOfRange(plaintext, from, from + 50 * CHUNK), range.getData().get().array());
            }
            IOStatistics statistics = in.getIOStatistics();
            assertEquals(4L, statistics.counters().get("stream_read_vectored_incoming_ranges"));
            long read = statistics.counters().get("stream_read_bytes");
            assertTrue(read < 4 * 52 * (CHUNK + 48), read + " bytes");
        }
    }

    @Test
    void itsCommittersCommit() throws IOException {
        conf.set("mapreduce.outputcommitter.factory.scheme.phalanx+s3a", PhalanxCommitterFactory.class.getName());
        // Their names would have random parts.
        conf.set("fs.s3a.committer.staging.unique-filenames", "false");
        conf.set("fs.s3a.buffer.dir", LocalContract.FOLDER.resolve("buffer").toString());
        conf.set("fs.s3a.committer.staging.tmp.path", "file://" + LocalContract.FOLDER.resolve("staging"));
        for (String name : List.of("file", "magic", "directory", "partitioned")) {
            conf.set("fs.s3a.committer.name", name);
            Path table = new Path(folder, "table-" + name);
            byte[] plaintext = bytes(3 * CHUNK + 1);
            commit(table, plaintext);
            assertArrayEquals(plaintext, read(new Path(table, "day=1/part-0")), name);
            assertEquals(0, fs.getFileStatus(new Path(table, "_SUCCESS")).getLen(), name);
            assertFalse(fs.exists(new Path(table, "day=1/part-1")), name);
            assertTrue(Files.exists(stored(table.getName()).resolve("day=1/part-0.phx")), name);
            noPlaintext(plaintext);
        }
    }

    /** One task that commits and one that aborts. */
    private void commit(Path table, byte[] plaintext) throws IOException {
        TaskAttemptID first = TaskAttemptID.forName("attempt_200707121733_0001_m_000000_0");
        TaskAttemptID second = TaskAttemptID.forName("attempt_200707121733_0001_m_000001_0");
        conf.set("mapreduce.job.application.attempt.id", "0");
        conf.set("fs.s3a.committer.uuid", java.util.UUID.randomUUID().toString());
        JobContext job = new JobContextImpl(conf, first.getJobID());
        PathOutputCommitter ofJob = PathOutputCommitterFactory.createCommitter(table, new TaskAttemptContextImpl(conf, first));
        ofJob.setupJob(job);
        for (TaskAttemptID id : List.of(first, second)) {
            TaskAttemptContext task = new TaskAttemptContextImpl(conf, id);
            PathOutputCommitter ofTask = PathOutputCommitterFactory.createCommitter(table, task);
            ofTask.setupTask(task);
            Path part = new Path(ofTask.getWorkPath(), "day=1/part-" + (id == first ? 0 : 1));
            try (FSDataOutputStream out = part.getFileSystem(conf).create(part)) {
                out.write(plaintext);
            }
            if (id == second) {
                ofTask.abortTask(task);
            } else {
                assertTrue(ofTask.needsTaskCommit(task));
                ofTask.commitTask(task);
            }
        }
        ofJob.commitJob(job);
        ofJob.abortJob(job, JobStatus.State.KILLED);
    }

    /** Neither in the store nor in the folders from which it was uploaded. */
    private void noPlaintext(byte[] plaintext) throws IOException {
        String start = new String(plaintext, 0, 16, java.nio.charset.StandardCharsets.ISO_8859_1);
        for (java.nio.file.Path top : List.of(server.bucket(), LocalContract.FOLDER)) {
            try (Stream<java.nio.file.Path> all = Files.walk(top)) {
                for (java.nio.file.Path file : all.filter(Files::isRegularFile).toList()) {
                    assertFalse(Files.readString(file, java.nio.charset.StandardCharsets.ISO_8859_1).contains(start), file.toString());
                }
            }
        }
    }
}
