package phalanx.spark;

import java.io.ByteArrayInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.RDD;
import org.apache.spark.util.SerializableConfiguration;
import phalanx.Header;
import phalanx.Layout;
import phalanx.NotPhalanxException;
import phalanx.OutputException;
import phalanx.PhalanxException;
import phalanx.command.Failure;
import phalanx.command.Failures;
import phalanx.command.Spared;
import phalanx.command.Terminal;
import phalanx.command.Text;
import phalanx.hadoop.Keys;
import phalanx.hadoop.Stored;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/** The driver of a job: what is done with which file, and what came of it. */
final class Job {
    /** How many headers are read, and files ended, at once. */
    private static final int THREADS = 8;

    /** Spark in one JVM, perhaps with the number of tries. */
    private static final Pattern LOCAL = Pattern.compile("local(?:\\[[^,\\]]+(?:,\\s*([0-9]+))?])?");

    private final Plan plan;
    private final Configuration conf;
    private final SparkContext spark;
    private final Division division;
    private final Failures failures = new Failures();
    private final Map<Integer, Progress> running = new ConcurrentHashMap<>();
    private final AtomicInteger files = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();
    private final AtomicLong bytes = new AtomicLong();

    Job(Plan plan, Configuration conf, SparkContext spark) {
        this.plan = plan;
        this.conf = conf;
        this.spark = spark;
        division = new Division(spark.defaultParallelism());
    }

    /** Does all, and throws the worst failure. Failures are reported where they happen. */
    void run() throws Failure {
        checkKeys();
        long begun = System.nanoTime();
        List<Inputs.Place> places = Inputs.of(plan, conf, failures);
        Thread cleaner = new Thread(this::abandon);
        Runtime.getRuntime().addShutdownHook(cleaner);
        try {
            together(places, this::prepare);
            work();
        } finally {
            for (Progress left : running.values()) {
                tell(left, () -> left.giveUp(Failure.of(
                        Failure.Code.OTHER, left.item().name() + ": the job ended before it was done")));
            }
            forget(cleaner);
        }
        summary((System.nanoTime() - begun) / 1e9);
        failures.end();
    }

    private static void forget(Thread cleaner) {
        try {
            Runtime.getRuntime().removeShutdownHook(cleaner);
        } catch (IllegalStateException e) {
            // The driver is on its way out.
        }
    }

    /** If the driver is ended by a signal, nothing stays but what a later run can use. */
    private void abandon() {
        for (Progress left : running.values()) {
            try {
                left.giveUp(Failure.told(Failure.Code.OTHER));
            } catch (Failure e) {
                // The driver is on its way out.
            }
        }
    }

    private void checkKeys() throws Failure {
        Keys keys = Held.keys(conf);
        try {
            if (plan.what == Plan.What.PROTECT) {
                keys.recipients();
            } else {
                keys.provider();
            }
        } catch (IOException e) {
            throw Failure.of(Failure.Code.INPUT_OUTPUT, e.getMessage());
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw Failure.usage(e.getMessage());
        }
    }

    private interface Each<T> {
        void accept(int number, T value) throws Failure;
    }

    /** Does something with each, side by side. */
    private <T> void together(List<T> all, Each<T> each) {
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        for (int i = 0; i < all.size(); i++) {
            int number = i;
            threads.execute(() -> attempt(() -> each.accept(number, all.get(number))));
        }
        await(threads);
    }

    private static void await(ExecutorService threads) {
        threads.shutdown();
        try {
            threads.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void attempt(Failures.Attempt attempt) {
        try {
            attempt.run();
        } catch (Failure e) {
            failed.incrementAndGet();
            synchronized (failures) {
                failures.attempt(() -> {
                    throw e;
                });
            }
        }
    }

    /** Decides how a file is divided. The header of a large one is made or opened here, so that a wrong key is found early. */
    private void prepare(int number, Inputs.Place place) throws Failure {
        try {
            FileStatus status = place.status();
            FileSystem fs = Hadoop.of(status.getPath(), conf);
            Seen seen = Seen.of(fs, status);
            boolean seals = plan.what == Plan.What.PROTECT;
            if (seals) {
                refuseProtected(place, fs);
            }
            if (place.output() != null && isDone(place, fs, seen)) {
                if (plan.isVerbose()) {
                    Terminal.complain(Text.shown(place.name()) + ": done by an earlier run");
                }
                return;
            }
            Record record = seals && plan.resumes() ? record(place, seen) : null;
            try {
                begin(number, place, fs, seen, record);
            } catch (IOException e) {
                if (record == null) {
                    throw e;
                }
                Terminal.complain(Text.shown(place.name()) + ": what the run that was interrupted has left is gone, so it begins anew");
                begin(number, place, fs, seen, null);
            }
        } catch (IOException e) {
            throw Hadoop.at(place.name(), e);
        }
    }

    /** A pattern easily matches outputs of an earlier run. */
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
        boolean seals = plan.what == Plan.What.PROTECT;
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

    private void begin(int number, Inputs.Place place, FileSystem fs, Seen seen, Record record) throws IOException {
        boolean seals = plan.what == Plan.What.PROTECT;
        Place output = place.output() == null ? null : Place.of(
                Hadoop.of(place.output(), conf), place.output(), new Place.Rules(plan.replaces(), plan.syncs()));
        byte[] header = null;
        Layout layout = null;
        int parts = 1;
        if (seen.length() >= Division.LARGE) {
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
                seals ? (layout == null ? plan.chunkLog2 : layout.chunkLog2()) : 0, header, parts);
        Progress progress = new Progress(item, layout, conf, plan.resumes());
        if (item.isDivided() && output != null) {
            Place.Earlier earlier = record == null ? null : new Place.Earlier(record.state(), record.done());
            output.begin(item, layout, earlier, conf);
            if (record != null) {
                progress.resume(record.done());
            }
        }
        running.put(number, progress);
    }

    private Header newHeader(FileSystem fs, Inputs.Place place, Seen seen) throws IOException {
        Keys keys = Held.keys(conf);
        if (plan.what == Plan.What.PROTECT) {
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
        Record record = Record.read(place.output(), Held.keys(conf).provider(), conf);
        if (record == null) {
            return null;
        }
        String name = Text.shown(place.name());
        if (!record.input().equals(place.status().getPath().toString()) || !record.seen().equals(seen)) {
            Terminal.complain(name + ": it changed since the run that was interrupted, so it begins anew");
            return null;
        }
        try {
            Header header = Header.read(new ByteArrayInputStream(record.header()));
            header.open(Held.keys(conf).provider()).keys().close();
            Layout layout = new Layout(header.suite(), header.chunkLog2(), header.length(), seen.length());
            boolean isSound = record.parts() >= 1 && record.parts() <= layout.chunks()
                    && record.done().keySet().stream().allMatch(part -> part >= 0 && part < record.parts());
            return isSound ? record : null;
        } catch (PhalanxException e) {
            return null;
        }
    }

    /** Lets the executors work, and ends each file when its last part is done. */
    private void work() {
        ExecutorService ending = Executors.newFixedThreadPool(THREADS);
        ScheduledExecutorService records = Executors.newSingleThreadScheduledExecutor();
        try {
            if (plan.resumes()) {
                records.scheduleWithFixedDelay(() -> running.values().forEach(Progress::remember), 0, 1, TimeUnit.SECONDS);
            }
            // What an earlier run has done but for its name.
            running.values().stream().filter(Progress::isWhole).forEach(whole -> ending.execute(() -> end(whole)));
            List<Tuple2<byte[], Seq<String>>> tasks = tasks();
            if (!tasks.isEmpty()) {
                run(tasks, ending);
            }
        } catch (Exception e) {
            // Spark has given up: the files that are left say so. Only its message says why.
            String why = e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage().lines().findFirst().orElse("");
            Terminal.complain("Spark ended the job: " + why);
        } finally {
            await(ending);
            records.shutdown();
            await(records);
        }
    }

    private void run(List<Tuple2<byte[], Seq<String>>> tasks, ExecutorService ending) {
        ClassTag<byte[]> tag = ClassTag$.MODULE$.apply(byte[].class);
        RDD<byte[]> rdd = spark.makeRDD(CollectionConverters.asScala(tasks).toSeq(), tag);
        Broadcast<SerializableConfiguration> settings = new JavaSparkContext(spark).broadcast(new SerializableConfiguration(conf));
        spark.runJob(rdd, new Work(settings, tries()), new Handler(ending), tag);
    }

    /** How often Spark begins a task. */
    private int tries() {
        Matcher local = LOCAL.matcher(spark.master());
        if (local.matches()) {
            return local.group(1) == null ? 1 : Integer.parseInt(local.group(1));
        }
        return spark.getConf().getInt("spark.task.maxFailures", 4);
    }

    /** Takes what tasks return, in the thread of Spark's scheduler, which must not wait. */
    private final class Handler extends AbstractFunction2<Object, byte[], BoxedUnit> {
        private final ExecutorService ending;

        Handler(ExecutorService ending) {
            this.ending = ending;
        }

        @Override
        public BoxedUnit apply(Object partition, byte[] result) {
            for (Outcome outcome : Work.outcomes(result)) {
                Progress progress = running.get(outcome.item());
                if (progress != null && progress.take(outcome)) {
                    ending.execute(() -> end(progress));
                }
            }
            return BoxedUnit.UNIT;
        }
    }

    /** One task for each part of a large file, and one for each batch of small ones; with the hosts that have the data. */
    private List<Tuple2<byte[], Seq<String>>> tasks() throws IOException {
        List<Item> small = new ArrayList<>();
        List<Tuple2<byte[], Seq<String>>> tasks = new ArrayList<>();
        SortedMap<Integer, Progress> all = new TreeMap<>(running);
        for (Progress progress : all.values()) {
            Item item = progress.item();
            if (!item.isDivided()) {
                small.add(item);
                continue;
            }
            for (int part = 0; part < item.parts(); part++) {
                if (!progress.isDone(part)) {
                    tasks.add(task(new Work.Batch(new ArrayList<>(List.of(item)), part), hosts(item, part)));
                }
            }
        }
        for (Work.Batch batch : division.batches(small)) {
            tasks.add(task(batch, List.of()));
        }
        return tasks;
    }

    private static Tuple2<byte[], Seq<String>> task(Serializable batch, List<String> hosts) {
        return new Tuple2<>(Outcome.toBytes(batch), CollectionConverters.asScala(hosts).toSeq());
    }

    /** Those that have the beginning of a part on their disks. */
    private List<String> hosts(Item item, int part) throws IOException {
        Path input = new Path(item.input());
        FileSystem fs = Hadoop.of(input, conf);
        if (Hadoop.isLocal(fs) || fs.hasPathCapability(input, CommonPathCapabilities.ABORTABLE_STREAM)) {
            return List.of();
        }
        Header header = Header.read(new ByteArrayInputStream(item.header()));
        Piece piece = new Piece(item, part, 0, item.layout(header));
        var blocks = fs.getFileBlockLocations(input, piece.inputOffset(), 1);
        return blocks == null || blocks.length == 0 ? List.of() : List.of(blocks[0].getHosts());
    }

    private void end(Progress progress) {
        tell(progress, progress::end);
    }

    private void tell(Progress progress, Failures.Attempt ending) {
        running.remove(progress.item().number());
        attempt(() -> {
            ending.run();
            files.incrementAndGet();
            bytes.addAndGet(progress.bytes());
            if (plan.what == Plan.What.VERIFY && !plan.isQuiet()) {
                synchronized (failures) {
                    Terminal.say(Text.shown(progress.item().name()) + ": " + Text.count(progress.bytes(), "byte")
                            + ": whole and authentic");
                }
            }
        });
    }

    private void summary(double seconds) throws Failure {
        if (plan.isQuiet()) {
            return;
        }
        String rest = failed.get() == 0 ? "" : "; " + failed.get() + " failed";
        if (plan.what == Plan.What.VERIFY) {
            if (files.get() + failed.get() > 1) {
                Terminal.say(Text.count(files.get(), "file") + ", " + Text.count(bytes.get(), "byte") + ": whole and authentic" + rest);
            }
            return;
        }
        if (files.get() > 0) {
            Terminal.complain(String.format(java.util.Locale.ROOT, "%s %d %s, %.1f MB in %.3f s, %.1f MB/s, %d %s%s", plan.what.done,
                    files.get(), files.get() == 1 ? "file" : "files", bytes.get() / 1e6, seconds, bytes.get() / seconds / 1e6,
                    spark.defaultParallelism(), spark.defaultParallelism() == 1 ? "core" : "cores", rest));
        }
    }
}
