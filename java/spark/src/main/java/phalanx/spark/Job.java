package phalanx.spark;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.RDD;
import org.apache.spark.util.SerializableConfiguration;
import phalanx.Header;
import phalanx.command.Failure;
import phalanx.command.Failures;
import phalanx.command.Terminal;
import phalanx.command.Text;
import phalanx.hadoop.Keys;
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
    private volatile Witness witness = Witness.NONE;

    Job(Plan plan, Configuration conf, SparkContext spark) {
        this.plan = plan;
        this.conf = conf;
        this.spark = spark;
        division = new Division(spark.defaultParallelism());
    }

    /** Does all, and throws the worst failure. Failures are reported where they happen. */
    void run() throws Failure {
        checkKeys();
        if (plan.isMirror()) {
            new TreeWriting(plan, conf, this).mirror();
            failures.end();
            return;
        }
        Inputs.Named named = Inputs.of(plan, conf, failures);
        for (Inputs.Folder folder : named.folders()) {
            attempt(() -> {
                if (plan.what == Plan.What.PROTECT) {
                    new TreeWriting(plan, conf, this).protect(folder);
                } else {
                    new TreeReading(plan, conf, this).read(folder);
                }
            });
        }
        if (!named.files().isEmpty() || named.folders().isEmpty()) {
            long begun = System.nanoTime();
            files(named.files(), Witness.NONE);
            summary((System.nanoTime() - begun) / 1e9);
        }
        failures.end();
    }

    /** Hears of files that are done, from several threads. */
    interface Witness {
        Witness NONE = (number, progress) -> {};

        void done(int number, Progress progress) throws Failure;
    }

    /** Does files, and reports the failures. */
    void files(List<Inputs.Place> places, Witness hears) {
        if (places.isEmpty()) {
            return;
        }
        witness = hears;
        Thread cleaner = new Thread(this::abandon);
        Runtime.getRuntime().addShutdownHook(cleaner);
        try {
            together(places, new Preparation(plan, conf, division, running)::prepare);
            work();
        } finally {
            for (Progress left : running.values()) {
                tell(left, () -> left.giveUp(Failure.of(
                        Failure.Code.OTHER, left.item().name() + ": the job ended before it was done")));
            }
            forget(cleaner);
        }
    }

    /** Reports a failure, and goes on. */
    void fail(Failure failure) {
        attempt(() -> {
            throw failure;
        });
    }

    /** How many files and entries have failed so far. */
    int failed() {
        return failed.get();
    }

    /** How many bytes of plaintext were done so far. */
    long bytes() {
        return bytes.get();
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

    interface Each<T> {
        void accept(int number, T value) throws Failure;
    }

    /** Does something with each, side by side. */
    <T> void together(List<T> all, Each<T> each) {
        ExecutorService threads = Executors.newFixedThreadPool(Math.max(1, Math.min(THREADS, all.size())));
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
            note(e);
        } catch (RuntimeException | Error e) {
            // In a thread of its own nobody else would see it.
            note(unexpected(null, e));
        }
    }

    /** A failure for what is no failure of a file: a lack of memory, a class that is not there, a mistake of this program. */
    static Failure unexpected(String name, Throwable e) {
        String what = e instanceof OutOfMemoryError ? "not enough memory: --driver-memory gives more" : "unexpected: " + e;
        return Failure.of(Failure.Code.OTHER, name == null ? what : Text.shown(name) + ": " + what);
    }

    private void note(Failure failure) {
        failed.incrementAndGet();
        synchronized (failures) {
            failures.attempt(() -> {
                throw failure;
            });
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
    private List<Tuple2<byte[], Seq<String>>> tasks() {
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

    /** Those that have the beginning of a part on their disks. If that cannot be told, the task finds out what is wrong with the file. */
    private List<String> hosts(Item item, int part) {
        try {
            return knownHosts(item, part);
        } catch (IOException e) {
            return List.of();
        }
    }

    private List<String> knownHosts(Item item, int part) throws IOException {
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
            witness.done(progress.item().number(), progress);
            boolean isNamed = !plan.isQuiet() && (plan.isVerbose() || !plan.isRecursive());
            if (plan.what == Plan.What.VERIFY && isNamed) {
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
