package phalanx.flink;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import org.apache.flink.core.fs.Path;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream;
import org.apache.flink.core.fs.RecoverableFsDataOutputStream.Committer;
import org.apache.flink.core.fs.RecoverableWriter;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import phalanx.NamedKeys;
import phalanx.Recipients;

/**
 * Writes protected files by the recoverable writer of the inner file system: whole chunks go to it, and what is not yet a chunk to the checkpoint. So
 * Flink's recovery works as for plain files, whether the inner file system truncates a file, or goes on with an upload.
 */
final class SealedWriter implements RecoverableWriter {
    private final RecoverableWriter inner;
    private final String scheme;
    private final NamedKeys keys;
    private final Settings settings;

    SealedWriter(RecoverableWriter inner, String scheme, NamedKeys keys, Settings settings) {
        this.inner = inner;
        this.scheme = scheme;
        this.keys = keys;
        this.settings = settings;
    }

    /**
     * A point in a file from which it can go on.
     *
     * @param inner that of the inner file system
     * @param state an {@link Unfinished}, sealed
     */
    record Resume(Point inner, byte[] state) implements ResumeRecoverable {}

    /**
     * A point in a file of the inner file system. Its bytes are those of when it was made, also after an update of Flink: the state is bound to them.
     *
     * @param at the point
     * @param version the version of the serializer that made the bytes
     * @param bytes the point
     */
    record Point(ResumeRecoverable at, int version, byte[] bytes) {
        static Point of(ResumeRecoverable at, SimpleVersionedSerializer<ResumeRecoverable> serializer) throws IOException {
            return new Point(at, serializer.getVersion(), serializer.serialize(at));
        }
    }

    private SealedOutput.Place place() {
        return new SealedOutput.Place(scheme, inner.getResumeRecoverableSerializer());
    }

    @Override
    public RecoverableFsDataOutputStream open(Path path) throws IOException {
        return openStored(Names.stored(Names.withScheme(scheme, path)));
    }

    /** Begins a protected file of this name in the inner file system. */
    SealedOutput openStored(Path stored) throws IOException {
        // First, since a failure may leave an unfinished file.
        Recipients recipients = keys.recipients();
        RecoverableFsDataOutputStream out = inner.open(stored);
        try {
            return SealedOutput.begin(out, place(), recipients, settings);
        } catch (IOException | RuntimeException e) {
            out.close();
            throw e;
        }
    }

    @Override
    public RecoverableFsDataOutputStream recover(ResumeRecoverable recoverable) throws IOException {
        Resume resume = (Resume) recoverable;
        Unfinished state = Unfinished.open(resume.state(), resume.inner(), keys.provider());
        try {
            RecoverableFsDataOutputStream out = inner.recover(resume.inner().at());
            try {
                return SealedOutput.resume(out, place(), state, keys.recipients(), keys.provider());
            } catch (IOException | RuntimeException e) {
                out.close();
                throw e;
            }
        } finally {
            state.wipe();
        }
    }

    /** A file that was closed needs nothing of ours. One that was not is closed where its checkpoint was. */
    @Override
    public Committer recoverForCommit(CommitRecoverable recoverable) throws IOException {
        return recoverable instanceof Resume resume ? recover(resume).closeForCommit() : inner.recoverForCommit(recoverable);
    }

    @Override
    public boolean requiresCleanupOfRecoverableState() {
        return inner.requiresCleanupOfRecoverableState();
    }

    @Override
    public boolean cleanupRecoverableState(ResumeRecoverable recoverable) throws IOException {
        return inner.cleanupRecoverableState(((Resume) recoverable).inner().at());
    }

    @Override
    public boolean supportsResume() {
        return inner.supportsResume();
    }

    @Override
    public SimpleVersionedSerializer<CommitRecoverable> getCommitRecoverableSerializer() {
        return inner.getCommitRecoverableSerializer();
    }

    @Override
    public SimpleVersionedSerializer<ResumeRecoverable> getResumeRecoverableSerializer() {
        return new Serializer(inner.getResumeRecoverableSerializer());
    }

    private record Serializer(SimpleVersionedSerializer<ResumeRecoverable> inner) implements SimpleVersionedSerializer<ResumeRecoverable> {
        private static final int VERSION = 1;

        @Override
        public int getVersion() {
            return VERSION;
        }

        @Override
        public byte[] serialize(ResumeRecoverable recoverable) throws IOException {
            Resume resume = (Resume) recoverable;
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (DataOutputStream out = new DataOutputStream(bytes)) {
                out.writeInt(resume.inner().version());
                out.writeInt(resume.inner().bytes().length);
                out.write(resume.inner().bytes());
                out.write(resume.state());
            }
            return bytes.toByteArray();
        }

        @Override
        public Resume deserialize(int version, byte[] serialized) throws IOException {
            if (version != VERSION) {
                throw new IOException("the checkpoint's state of an unfinished file is that of another version");
            }
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(serialized));
            int innerVersion = in.readInt();
            byte[] inside = Unfinished.bytes(in);
            return new Resume(new Point(inner.deserialize(innerVersion, inside), innerVersion, inside), in.readAllBytes());
        }
    }
}
