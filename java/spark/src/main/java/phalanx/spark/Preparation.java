package phalanx.spark;

import java.io.ByteArrayInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import phalanx.Header;
import phalanx.Layout;
import phalanx.NotPhalanxException;
import phalanx.OutputException;
import phalanx.PhalanxException;
import phalanx.Suite;
import phalanx.command.Failure;
import phalanx.command.Spared;
import phalanx.command.Terminal;
import phalanx.command.Text;
import phalanx.hadoop.Keys;
import phalanx.hadoop.Stored;

/** On the driver: what is to be done with each file, before executors begin. */
final class Preparation {
    private final Plan plan;
    private final Configuration conf;
    private final Division division;
    private final Map<Integer, Progress> running;
    private final boolean seals;

    /** Files that are prepared are put into {@code running}. */
    Preparation(Plan plan, Configuration conf, Division division, Map<Integer, Progress> running) {
        this.plan = plan;
        this.conf = conf;
        this.division = division;
        this.running = running;
        seals = plan.what == Plan.What.PROTECT;
    }

    /** Decides how a file is divided. The header of a large one is made or opened here, so that a wrong key is found early. */
    void prepare(int number, Inputs.Place place) throws Failure {
        try {
            FileStatus status = place.status();
            FileSystem fs = Hadoop.of(status.getPath(), conf);
            Seen seen = Seen.of(fs, status);
            if (seals && place.listed() == null) {
                refuseProtected(place, fs);
            }
            // A tree that is written replaces what its last manifest and this run's comparison say.
            boolean replaces = seals && place.listed() != null || plan.replaces();
            if (place.output() != null && !(seals && place.listed() != null) && isDone(place, fs, seen)) {
                if (plan.isVerbose()) {
                    Terminal.complain(Text.shown(place.name()) + ": done by an earlier run");
                }
                return;
            }
            Record record = seals && plan.resumes() && !isWrittenOnce() ? record(place, seen) : null;
            try {
                begin(number, place, fs, seen, record, replaces);
            } catch (IOException e) {
                if (record == null) {
                    throw e;
                }
                Terminal.complain(Text.shown(place.name()) + ": what the run that was interrupted has left is gone, so it begins anew");
                begin(number, place, fs, seen, null, replaces);
            }
        } catch (IOException e) {
            throw Hadoop.at(place.name(), e);
        } catch (RuntimeException | Error e) {
            throw Job.unexpected(place.name(), e);
        }
    }

    /** A pattern easily matches outputs of an earlier run. What is in a folder belongs to it, and is protected once more. */
    private void refuseProtected(Inputs.Place place, FileSystem fs) throws IOException, Failure {
        if (!place.status().getPath().getName().endsWith(".phx")) {
            return;
        }
        try (FSDataInputStream in = open(fs, place.status())) {
            Stored.header(in, place.status().getLen());
        } catch (NotPhalanxException e) {
            return;
        } catch (PhalanxException e) {
            // It begins like a protected file.
        }
        throw Failure.of(Failure.Code.INPUT_OUTPUT, Text.shown(place.name()) + ": protected already");
    }

    private static FSDataInputStream open(FileSystem fs, FileStatus status) throws IOException {
        return Stored.open(fs, status, OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_RANDOM);
    }

    private static Header header(FileSystem fs, FileStatus status) throws IOException {
        try (FSDataInputStream in = open(fs, status)) {
            return Stored.header(in, status.getLen());
        }
    }

    /** Whether an earlier run has made the output. Its content is not read. */
    private boolean isDone(Inputs.Place place, FileSystem fs, Seen seen) throws IOException, Failure {
        FileSystem to = Hadoop.of(place.output(), conf);
        FileStatus there;
        try {
            there = to.getFileStatus(place.output());
        } catch (FileNotFoundException e) {
            return false;
        }
        if (there.isDirectory()) {
            throw Failure.at(Work.shown(place.output()), new OutputException(new IOException("it is a folder")));
        }
        if (plan.resumes() && there.isFile() && isOf(place, fs, seen, to, there)) {
            return true;
        }
        String name = Work.shown(place.output());
        if (Hadoop.isLocal(to)) {
            Spared.check(name, Hadoop.local(place.output()), plan.keyFiles());
        }
        if (!plan.replaces()) {
            throw Failure.at(name, new java.nio.file.FileAlreadyExistsException(name));
        }
        return false;
    }

    /** Whether length and time are those that the input gives, and keys at hand open the header. */
    private boolean isOf(Inputs.Place place, FileSystem fs, Seen seen, FileSystem to, FileStatus there) throws IOException {
        try {
            Header header = seals ? header(to, there) : header(fs, place.status());
            header.open(Held.keys(conf).provider()).keys().close();
            long stored = seals ? there.getLen() : seen.length();
            long plain = seals ? seen.length() : there.getLen();
            if (header.layout(stored).plaintextLength() != plain) {
                return false;
            }
        } catch (PhalanxException e) {
            return false;
        }
        boolean isStore = to.hasPathCapability(place.output(), CommonPathCapabilities.ABORTABLE_STREAM);
        long time = TimeUnit.NANOSECONDS.toMillis(seen.modifiedNanos());
        return isStore ? there.getModificationTime() >= time : there.getModificationTime() == time;
    }

    /**
     * Whether each chunk may be sealed only once under a file key (docs/format.md, section 5). Tasks are done again if they fail, and side
     * by side. So such a file is not divided: each attempt does the whole of it under a file key of its own.
     */
    private boolean isWrittenOnce() {
        return seals && plan.suite == Suite.AES_256_GCM;
    }

    private void begin(int number, Inputs.Place place, FileSystem fs, Seen seen, Record record, boolean replaces)
            throws IOException {
        Place output = place.output() == null ? null : Place.of(
                Hadoop.of(place.output(), conf), place.output(), new Place.Rules(replaces, plan.syncs()));
        byte[] header = null;
        Layout layout = null;
        int parts = 1;
        if (isWrittenOnce() && output != null && seen.length() > output.mostBytes()) {
            throw new IOException("too large: an object with the cipher aes-256-gcm has at most 1 GiB here");
        }
        if (seen.length() >= Division.LARGE && !isWrittenOnce()) {
            Header whole = record != null ? Header.read(new ByteArrayInputStream(record.header())) : newHeader(fs, place, seen);
            layout = seals ? new Layout(whole.suite(), whole.chunkLog2(), whole.length(), seen.length()) : whole.layout(seen.length());
            long longest = output == null ? Division.LONGEST_PART : output.longest();
            parts = record != null ? record.parts() : division.parts(layout.plaintextLength(), layout.chunks(), longest);
            header = whole.toBytes();
            if (output != null && layout.plaintextLength() / parts > output.mostBytes()) {
                throw new IOException("too large: an object has at most 1000 parts of 1 GiB here");
            }
        }
        Item item = new Item(number, plan.what, place.name(), place.status().getPath().toString(), seen, output,
                seals ? (layout == null ? plan.suite : layout.suite()).number() : 0,
                seals ? (layout == null ? plan.chunkLog2 : layout.chunkLog2()) : 0, header, parts, place.listed() != null);
        Progress progress = new Progress(item, layout, place.listed(), conf, plan.resumes());
        if (item.isDivided() && output != null) {
            Place.Earlier earlier = record == null ? null : new Place.Earlier(record.state(), record.done());
            output.begin(item, layout, earlier, conf);
            if (record != null) {
                progress.resume(record);
            }
        }
        running.put(number, progress);
    }

    private Header newHeader(FileSystem fs, Inputs.Place place, Seen seen) throws IOException {
        Keys keys = Held.keys(conf);
        if (seals) {
            try (var made = keys.recipients().newFile(plan.suite, plan.chunkLog2, OptionalLong.of(seen.length()))) {
                return made.header();
            }
        }
        Header header = header(fs, place.status());
        header.open(keys.provider()).keys().close();
        return header;
    }

    /** What an earlier run has left of a file, if it goes with this one. */
    private Record record(Inputs.Place place, Seen seen) throws IOException {
        Keys keys = Held.keys(conf);
        AtomicReference<Kept.Maker> maker = new AtomicReference<>();
        Record record = Record.read(place.output(), keys.recipients(), keys.provider(), conf, maker::set);
        if (record == null) {
            return null;
        }
        String name = Text.shown(place.name());
        if (maker.get() == Kept.Maker.ANY_OF_SERVICE) {
            Terminal.complain(name + ": what the run that was interrupted has left is for a key service alone, "
                    + "so anybody can have made it, and it begins anew");
            return null;
        }
        if (!record.input().equals(place.status().getPath().toString()) || !record.seen().equals(seen)) {
            Terminal.complain(name + ": it changed since the run that was interrupted, so it begins anew");
            return null;
        }
        try {
            Header header = Header.read(new ByteArrayInputStream(record.header()));
            if (maker.get() != Kept.Maker.OURS || !isAsAskedFor(header)) {
                Terminal.complain(name + ": what the run that was interrupted has left is for other keys, "
                        + "or another cipher or chunk size, so it begins anew");
                return null;
            }
            Layout layout = new Layout(header.suite(), header.chunkLog2(), header.length(), seen.length());
            boolean isSound = record.parts() >= 1 && record.parts() <= layout.chunks()
                    && record.done().keySet().stream().allMatch(part -> part >= 0 && part < record.parts());
            // A run of single files has noted no contents.
            boolean hasContents = place.listed() == null || record.contents().length > 0;
            return isSound && hasContents ? record : null;
        } catch (PhalanxException e) {
            return null;
        }
    }

    /** Whether a header is what this run would make: otherwise a key that was taken away would still open the file. */
    private boolean isAsAskedFor(Header header) throws IOException {
        Keys keys = Held.keys(conf);
        boolean hasItsShape = header.suite() == plan.suite && header.chunkLog2() == plan.chunkLog2;
        return hasItsShape && header.isFor(keys.recipients(), keys.provider());
    }
}
