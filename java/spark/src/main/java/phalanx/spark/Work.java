package phalanx.spark;

import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;
import phalanx.ChangedException;
import phalanx.ChunkCipher;
import phalanx.FileKeys;
import phalanx.Header;
import phalanx.Layout;
import phalanx.OutputException;
import phalanx.PartialContents;
import phalanx.PhalanxException;
import phalanx.Recipients;
import phalanx.Suite;
import phalanx.command.Failure;
import phalanx.hadoop.Keys;
import phalanx.hadoop.Stored;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction2;

/** The work of one task on an executor: a part of a large file, or small files one after another. It has no key in it. */
final class Work extends AbstractFunction2<TaskContext, Iterator<byte[]>, byte[]> implements Serializable {
    private static final long serialVersionUID = 1L;

    /**
     * What one task does.
     *
     * @param items the files
     * @param part which part of each
     */
    record Batch(ArrayList<Item> items, int part) implements Serializable {}

    private final Broadcast<SerializableConfiguration> settings;
    /** How often a task is begun. */
    private final int tries;

    Work(Broadcast<SerializableConfiguration> settings, int tries) {
        this.settings = settings;
        this.tries = tries;
    }

    @Override
    public byte[] apply(TaskContext context, Iterator<byte[]> bytes) {
        ArrayList<Outcome> outcomes = new ArrayList<>();
        while (bytes.hasNext()) {
            Batch batch = (Batch) Outcome.ofBytes(bytes.next());
            for (Item item : batch.items()) {
                outcomes.add(one(item, batch.part(), context));
            }
        }
        return Outcome.toBytes(outcomes);
    }

    /** Does a part. A failure that another try may mend is thrown, so that Spark does the task again. */
    private Outcome one(Item item, int part, TaskContext context) {
        try {
            return new OnePart(item, part, context, settings.value().value()).run();
        } catch (IOException e) {
            if (context.isInterrupted()) {
                throw new TaskKilledException();
            }
            boolean isTransient = !(e instanceof PhalanxException) || e instanceof OutputException output && !isFinal(output);
            boolean isLast = context.attemptNumber() >= tries - 1;
            if (isTransient && !isLast && !Hadoop.isFinal(e)) {
                throw new RuntimeException(item.name() + ": " + e.getMessage(), e);
            }
            String name = e instanceof OutputException && item.place() != null ? shown(item.place().output()) : item.name();
            return Outcome.failed(item.number(), part, Hadoop.at(name, e));
        } catch (IllegalArgumentException | OutOfMemoryError e) {
            Failure failure = e instanceof OutOfMemoryError
                    ? Failure.of(Failure.Code.OTHER, item.name() + ": not enough memory: --executor-memory gives more")
                    : Failure.of(Failure.Code.OTHER, item.name() + ": " + e.getMessage());
            return Outcome.failed(item.number(), part, failure);
        }
    }

    private static boolean isFinal(OutputException e) {
        return e.getCause() instanceof IOException cause && Hadoop.isFinal(cause);
    }

    static String shown(Path path) {
        return "file".equals(path.toUri().getScheme()) ? path.toUri().getPath() : path.toString();
    }

    /** One part of one file. */
    private static final class OnePart {
        private final Item item;
        private final int part;
        private final TaskContext context;
        private final Configuration conf;
        private final FileSystem fs;
        private final Path input;
        private final boolean seals;

        OnePart(Item item, int part, TaskContext context, Configuration conf) throws IOException {
            this.item = item;
            this.part = part;
            this.context = context;
            this.conf = conf;
            input = new Path(item.input());
            fs = Hadoop.of(input, conf);
            seals = item.what() == Plan.What.PROTECT;
        }

        Outcome run() throws IOException {
            FileStatus status = fs.getFileStatus(input);
            if (!Seen.of(fs, status).equals(item.seen())) {
                throw new ChangedException();
            }
            Keys keys = Held.keys(conf);
            try (FSDataInputStream in = Stored.open(fs, status, OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_SEQUENTIAL)) {
                if (seals && !item.isDivided()) {
                    Recipients.NewFile made = keys.recipients().newFile(
                            Suite.of(item.suite()).orElseThrow(), item.chunkLog2(),
                            java.util.OptionalLong.of(item.seen().length()));
                    return with(made.header(), made.keys(), in);
                }
                Header header = item.isDivided()
                        ? Header.read(new ByteArrayInputStream(item.header()))
                        : Stored.header(in, item.seen().length());
                return with(header, header.open(keys.provider()).keys(), in);
            }
        }

        private Outcome with(Header header, FileKeys keys, FSDataInputStream in) throws IOException {
            int attempt = context.attemptNumber() + 64 * context.stageAttemptNumber();
            try (keys) {
                Piece piece = new Piece(item, part, attempt, item.layout(header));
                try (Sink sink = item.place() == null ? null : item.place().open(piece, conf)) {
                    if (seals && part == 0) {
                        sink.write(header.toBytes(), 0, header.length());
                    }
                    PartialContents contents = item.tracks() ? new PartialContents() : null;
                    chunks(piece, keys, in, sink, contents);
                    String handle = sink == null ? "" : sink.finish();
                    Layout layout = piece.layout();
                    Outcome.Found found = new Outcome.Found(
                            layout.fileLength(), layout.chunks(), contents == null ? new byte[0] : contents.toBytes());
                    return new Outcome(item.number(), part, handle, piece.plaintext(), found, null);
                }
            }
        }

        private void chunks(Piece piece, FileKeys keys, FSDataInputStream in, Sink sink, PartialContents contents)
                throws IOException {
            Layout layout = piece.layout();
            int overhead = layout.suite().overhead();
            byte[] chunk = new byte[layout.plaintextLength(0) + overhead];
            try (ChunkCipher cipher = new ChunkCipher(keys, layout.chunkLog2())) {
                in.seek(piece.inputOffset());
                for (long index = piece.first(); index < piece.end(); index++) {
                    if (context.isInterrupted()) {
                        throw new TaskKilledException();
                    }
                    int length = layout.plaintextLength(index);
                    readFully(in, chunk, seals ? overhead : 0, seals ? length : length + overhead);
                    if (seals) {
                        cipher.seal(chunk, 0, length, index, layout.isLast(index));
                    } else {
                        cipher.open(chunk, 0, length, index, layout.isLast(index));
                    }
                    if (contents != null) {
                        contents.add(index, chunk, overhead);
                    }
                    if (sink != null) {
                        sink.write(chunk, seals ? 0 : overhead, seals ? length + overhead : length);
                    }
                }
            } finally {
                Arrays.fill(chunk, (byte) 0);
            }
        }

        private static void readFully(FSDataInputStream in, byte[] into, int offset, int length) throws IOException {
            try {
                in.readFully(into, offset, length);
            } catch (EOFException e) {
                throw new ChangedException();
            }
        }
    }

    /** For tests and the driver: what a task returned. */
    @SuppressWarnings("unchecked")
    static List<Outcome> outcomes(byte[] bytes) {
        return (List<Outcome>) Outcome.ofBytes(bytes);
    }
}
