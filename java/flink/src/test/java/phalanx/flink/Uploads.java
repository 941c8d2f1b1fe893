package phalanx.flink;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream.Committer;
import org.apache.flink.core.fs.RecoverableWriter;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** An inner file system in memory, with what surprises in Flink's own ones. */
final class Uploads implements RecoverableWriter {
    /** What is committed. */
    final Map<String, byte[]> objects = new TreeMap<>();
    /** What {@code sync} does, as in S3 (it makes the object) or OSS (it fails). */
    Sync sync = (path, bytes) -> {};
    /** Whether a recovered stream counts from where it began, as in Azure. */
    boolean countsFromZero;
    /** Whether the next write fails. */
    boolean isFull;
    /** Runs in each write. */
    Runnable inWrite = () -> {};
    int synced;
    int closed;

    @FunctionalInterface
    interface Sync {
        void of(String path, byte[] bytes) throws IOException;
    }

    private record Upload(String path, byte[] bytes) implements ResumeRecoverable {}

    private final class Stream extends RecoverableFsDataOutputStream {
        private final String path;
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private final int from;

        Stream(Upload at) {
            path = at.path;
            bytes.writeBytes(at.bytes);
            from = countsFromZero ? at.bytes.length : 0;
        }

        @Override
        public void write(int value) throws IOException {
            write(new byte[] {(byte) value}, 0, 1);
        }

        @Override
        public void write(byte[] of, int offset, int length) throws IOException {
            inWrite.run();
            if (isFull) {
                throw new IOException("no space is left");
            }
            bytes.write(of, offset, length);
        }

        @Override
        public long getPos() {
            return bytes.size() - from;
        }

        @Override
        public void flush() {}

        @Override
        public void sync() throws IOException {
            sync.of(path, bytes.toByteArray());
        }

        @Override
        public ResumeRecoverable persist() {
            return new Upload(path, bytes.toByteArray());
        }

        @Override
        public Committer closeForCommit() {
            return recoverForCommit(persist());
        }

        @Override
        public void close() {
            closed++;
        }
    }

    @Override
    public RecoverableFsDataOutputStream open(Path path) {
        return new Stream(new Upload(path.toString(), new byte[0]));
    }

    @Override
    public RecoverableFsDataOutputStream recover(ResumeRecoverable at) throws IOException {
        Upload upload = (Upload) at;
        if (objects.containsKey(upload.path)) {
            throw new IOException("there is no such upload");
        }
        return new Stream(upload);
    }

    @Override
    public Committer recoverForCommit(CommitRecoverable at) {
        Upload upload = (Upload) at;
        return new Committer() {
            @Override
            public void commit() {
                objects.put(upload.path, upload.bytes);
            }

            @Override
            public void commitAfterRecovery() {
                commit();
            }

            @Override
            public CommitRecoverable getRecoverable() {
                return upload;
            }
        };
    }

    @Override
    public boolean requiresCleanupOfRecoverableState() {
        return false;
    }

    @Override
    public boolean cleanupRecoverableState(ResumeRecoverable at) {
        return false;
    }

    @Override
    public boolean supportsResume() {
        return true;
    }

    private abstract static class Serializer<T> implements SimpleVersionedSerializer<T> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(T at) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeUTF(((Upload) at).path);
            out.write(((Upload) at).bytes);
            return bytes.toByteArray();
        }

        Upload upload(byte[] serialized) throws IOException {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(serialized));
            return new Upload(in.readUTF(), in.readAllBytes());
        }
    }

    @Override
    public SimpleVersionedSerializer<CommitRecoverable> getCommitRecoverableSerializer() {
        return new Serializer<>() {
            @Override
            public CommitRecoverable deserialize(int version, byte[] serialized) throws IOException {
                return upload(serialized);
            }
        };
    }

    @Override
    public SimpleVersionedSerializer<ResumeRecoverable> getResumeRecoverableSerializer() {
        return new Serializer<>() {
            @Override
            public ResumeRecoverable deserialize(int version, byte[] serialized) throws IOException {
                return upload(serialized);
            }
        };
    }
}
