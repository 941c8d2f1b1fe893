package phalanx.spark;

import java.io.IOException;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import phalanx.ChangedException;
import phalanx.Contents;
import phalanx.Layout;
import phalanx.OutputException;
import phalanx.PartialContents;
import phalanx.command.Failure;
import phalanx.command.Text;
import phalanx.hadoop.Keys;

/** On the driver: how far a file is. It gets its name when the last part is done. */
final class Progress {
    private final Item item;
    /** Where chunks lie, if the file is divided. */
    private final Layout layout;
    private final Configuration conf;
    private final boolean resumes;
    /** What a manifest lists, if it is to be that. */
    private final Inputs.Listed listed;
    private final SortedMap<Integer, String> done = new TreeMap<>();
    private final PartialContents contents = new PartialContents();
    private long stored;
    private long chunks;
    private int left;
    private long bytes;
    private Failure failure;
    private int failedPart = Integer.MAX_VALUE;
    private boolean isOver;
    private boolean isResumed;
    private boolean isAdvanced;
    /** Whether the record lacks something. */
    private boolean isChanged = true;

    Progress(Item item, Layout layout, Inputs.Listed listed, Configuration conf, boolean resumes) {
        this.item = item;
        this.listed = listed;
        this.layout = layout;
        this.conf = conf;
        this.resumes = resumes && item.isDivided() && item.what() == Plan.What.PROTECT;
        left = item.parts();
    }

    Item item() {
        return item;
    }

    /** Takes over what an earlier run has done. */
    synchronized void resume(Record record) {
        isResumed = true;
        stored = layout.fileLength();
        chunks = layout.chunks();
        if (item.tracks()) {
            contents.join(record.contents());
        }
        for (var part : record.done().entrySet()) {
            done.put(part.getKey(), part.getValue());
            bytes += new Piece(item, part.getKey(), 0, layout).plaintext();
            left--;
        }
    }

    synchronized boolean isDone(int part) {
        return done.containsKey(part);
    }

    synchronized boolean isWhole() {
        return left == 0;
    }

    synchronized boolean isOver() {
        return isOver;
    }

    synchronized long bytes() {
        return bytes;
    }

    /** A part is done or has failed. Returns whether nothing is left to do. The failure of the first part counts. */
    synchronized boolean take(Outcome outcome) {
        if (isOver) {
            return false;
        }
        left--;
        if (outcome.failure() != null) {
            if (outcome.part() < failedPart) {
                failedPart = outcome.part();
                failure = outcome.failure();
            }
        } else {
            done.put(outcome.part(), outcome.handle());
            bytes += outcome.bytes();
            stored = outcome.found().stored();
            chunks = outcome.found().chunks();
            if (item.tracks()) {
                contents.join(outcome.found().contents());
            }
            isChanged = true;
            isAdvanced = true;
        }
        return left == 0;
    }

    /** The length of the protected file. */
    synchronized long stored() {
        return stored;
    }

    /** What the protected file holds, when all of it was written or read. */
    synchronized Contents contents() {
        return contents.whole(chunks).orElseThrow(() -> new IllegalStateException("parts of its contents are missing"));
    }

    /** Gives the output its name, or removes what there is of it. */
    synchronized void end() throws Failure {
        isOver = true;
        if (failure == null) {
            failure = publish();
        }
        // A resumed run that got nowhere may have resumed what is gone, so the next one begins anew.
        if (failure == null || !resumes || isResumed && !isAdvanced) {
            discard();
        } else {
            write();
        }
        if (failure != null) {
            throw failure;
        }
    }

    private Failure publish() {
        try {
            Path input = new Path(item.input());
            if (!Seen.of(Hadoop.of(input, conf), input).equals(item.seen())) {
                throw new ChangedException();
            }
        } catch (IOException e) {
            return Hadoop.at(item.name(), e);
        }
        if (listed != null && listed.contents() != null) {
            boolean isListed = contents().equals(listed.contents()) && bytes == listed.length();
            if (!isListed) {
                return Failure.of(Failure.Code.NOT_AUTHENTIC, Text.shown(item.name()) + ": not the content that the manifest lists");
            }
        }
        if (item.place() == null) {
            return null;
        }
        String output = Work.shown(item.place().output());
        try {
            item.place().publish(item, layout, done, conf);
            return null;
        } catch (ChangedException e) {
            return Hadoop.at(item.name(), e);
        } catch (IOException e) {
            boolean isTold = e instanceof OutputException || e instanceof java.nio.file.FileAlreadyExistsException;
            return Hadoop.at(output, isTold ? e : new OutputException(e));
        } catch (RuntimeException | Error e) {
            // What there is of the output goes, as after any failure.
            return Job.unexpected(output, e);
        }
    }

    private void discard() {
        if (item.place() == null) {
            return;
        }
        item.place().discard(item, done, conf);
        if (resumes) {
            try {
                Record.delete(item.place().output(), conf);
            } catch (IOException e) {
                // It names an input and parts that are gone, so the next run begins anew.
            }
        }
    }

    /** Nothing more comes: the job has ended. */
    synchronized void giveUp(Failure why) throws Failure {
        if (!isOver) {
            failure = why;
            end();
        }
    }

    /** Leaves a record for a later run, if there is something new. */
    synchronized void remember() {
        if (resumes && isChanged && !isOver) {
            write();
        }
    }

    private void write() {
        try {
            SortedMap<Integer, String> later = new TreeMap<>();
            for (var part : done.entrySet()) {
                Piece piece = new Piece(item, part.getKey(), 0, layout);
                later.put(part.getKey(), item.place().later(piece, part.getValue()));
            }
            byte[] tracked = item.tracks() ? contents.toBytes() : new byte[0];
            new Record(item.input(), item.seen(), item.header(), item.parts(), item.place().state(), later, tracked)
                    .write(item.place().output(), Held.keys(conf).recipients(), conf);
            isChanged = false;
        } catch (IOException e) {
            // Without a record the next run begins anew.
        }
    }
}
