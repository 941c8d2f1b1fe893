package phalanx.flink;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.BulkWriter;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.core.fs.FSDataOutputStream;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.plugin.PluginUtils;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.DefaultRollingPolicy;
import org.apache.flink.util.CloseableIterator;

/**
 * A job that writes lines into protected files, and fails in the middle, after a few checkpoints and before the next one. Its checkpoints are protected,
 * too. The source gives a certain number of lines for each checkpoint, so nothing depends on time.
 */
final class Job {
    /** Of the tests in this module; {@code scripts/s3-test} has more. */
    static final int LINES = Integer.getInteger("phalanx.lines", 40_000);
    private static final int PARALLELISM = 2;
    private static final int CHECKPOINTS_BEFORE = 3;

    /** What the failing function has seen in this JVM. */
    static final AtomicLong COMPLETED = new AtomicLong();
    static final AtomicBoolean FAILED = new AtomicBoolean();

    private Job() {}

    static String line(long number) {
        return "the line with the number " + number;
    }

    /** What happens in the middle. */
    enum Failure { NONE, EXCEPTION, WAITING_TO_BE_KILLED }

    private record Middle(Failure failure, String mark) implements MapFunction<String, String>, CheckpointListener {
        private static final long serialVersionUID = 1L;

        @Override
        public String map(String line) throws Exception {
            if (failure != Failure.NONE && COMPLETED.get() >= CHECKPOINTS_BEFORE && FAILED.compareAndSet(false, true)) {
                if (failure == Failure.EXCEPTION) {
                    throw new IllegalStateException("the failure in the middle");
                }
                Files.createFile(Path.of(mark));
                new CountDownLatch(1).await();
            }
            return line;
        }

        @Override
        public void notifyCheckpointComplete(long id) {
            COMPLETED.incrementAndGet();
        }
    }

    /** Lines in a format that is written at once, as Parquet is. */
    private static final class Lines implements BulkWriter.Factory<String> {
        private static final long serialVersionUID = 1L;

        @Override
        public BulkWriter<String> create(FSDataOutputStream out) {
            return new BulkWriter<>() {
                @Override
                public void addElement(String line) throws IOException {
                    out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
                }

                @Override
                public void flush() throws IOException {
                    out.flush();
                }

                @Override
                public void finish() throws IOException {
                    out.flush();
                }
            };
        }
    }

    private static FileSink<String> sink(String folder, boolean bulk) {
        var path = new org.apache.flink.core.fs.Path(folder);
        return bulk
                ? FileSink.forBulkFormat(path, new Lines()).withBucketAssigner(new BasePathBucketAssigner<>()).build()
                // Files that go on over checkpoints.
                : FileSink.forRowFormat(path, new SimpleStringEncoder<String>()).withBucketAssigner(new BasePathBucketAssigner<>())
                        .withRollingPolicy(DefaultRollingPolicy.builder().withMaxPartSize(MemorySize.ofMebiBytes(1024)).build()).build();
    }

    static void run(Configuration settings, Path top, boolean bulk, Failure failure, String from) throws Exception {
        run(settings, top, "phalanx+file://" + top, bulk, failure, from);
    }

    /** {@code store} is where files and checkpoints go. */
    private static void run(Configuration settings, Path top, String store, boolean bulk, Failure failure, String from) throws Exception {
        Configuration conf = new Configuration(settings);
        conf.setString("execution.checkpointing.interval", "20ms");
        conf.setString("execution.checkpointing.storage", "filesystem");
        conf.setString("execution.checkpointing.dir", store + "/checkpoints");
        conf.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        // Every state in a file of its own, however small.
        conf.setString("execution.checkpointing.data-inline-threshold", "0b");
        conf.setString("restart-strategy.type", "fixed-delay");
        conf.setString("restart-strategy.fixed-delay.attempts", "1");
        conf.setString("restart-strategy.fixed-delay.delay", "0s");
        if (from != null) {
            conf.setString("execution.state-recovery.path", from);
        }
        FileSystem.initialize(conf, PluginUtils.createPluginManagerFromRootFolder(conf));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, conf);
        var source = new DataGeneratorSource<>(Job::line, LINES, RateLimiterStrategy.perCheckpoint(LINES / 10), Types.STRING);
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "lines").uid("lines")
                .map(new Middle(failure, top.resolve("mark").toString())).uid("middle")
                .sinkTo(sink(store + "/files", bulk)).uid("files");
        env.execute();
    }

    /** Starts a process with a job. {@code instead} is its class path without that of Flink, if that is another one than the tests'. */
    static Process start(Path top, List<String> instead, String... args) throws IOException {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx512m"));
        command.addAll(Arrays.stream(System.getProperty("flink.opens").trim().split("\\s+")).toList());
        String all = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        Stream<String> others = Arrays.stream(all.split(File.pathSeparator)).filter(each -> !each.contains("phalanx") && !each.contains("bouncycastle"));
        String classes = instead.isEmpty() ? all : Stream.concat(instead.stream(), others).collect(Collectors.joining(File.pathSeparator));
        command.addAll(List.of("-cp", classes, Job.class.getName(), top.toString()));
        command.addAll(List.of(args));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(top.resolve("said").toFile());
        builder.environment().put("FLINK_PLUGINS_DIR", top.resolve("plugins").toString());
        return builder.start();
    }

    /** Counts the lines of another job's files, and those that are not the same as one before. */
    @SuppressWarnings("try")
    private static void read(Configuration conf, String store) throws Exception {
        FileSystem.initialize(conf, PluginUtils.createPluginManagerFromRootFolder(conf));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, conf);
        env.setRuntimeMode(RuntimeExecutionMode.BATCH);
        var folder = new org.apache.flink.core.fs.Path(store + "/files");
        var source = FileSource.forRecordStreamFormat(new TextLineInputFormat(), folder).build();
        Set<String> different = new HashSet<>();
        int lines = 0;
        try (CloseableIterator<String> read = env.fromSource(source, WatermarkStrategy.noWatermarks(), "again").executeAndCollect()) {
            for (; read.hasNext(); lines++) {
                different.add(read.next());
            }
        }
        System.out.println("read " + lines + " lines, " + different.size() + " different");
    }

    /**
     * In a process of its own: the folder, the format, and what happens. This is {@code killed}, {@code failed}, {@code whole}, {@code read}, or the
     * checkpoint from which the job goes on. Then where files and checkpoints go, if not to the folder, and settings with a {@code =}.
     */
    public static void main(String[] args) throws Exception {
        Path top = Path.of(args[0]);
        Configuration conf = new Configuration();
        conf.setString("phalanx.keys", "work");
        conf.setString("phalanx.keyring", top.resolve("ring").toString());
        conf.setString("phalanx.chunk.size", "4kb");
        for (int i = 4; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            conf.setString(setting[0], setting[1]);
        }
        String store = args.length > 3 ? args[3] : "phalanx+file://" + top;
        boolean bulk = args[1].equals("bulk");
        switch (args[2]) {
            case "killed" -> run(conf, top, store, bulk, Failure.WAITING_TO_BE_KILLED, null);
            case "failed" -> run(conf, top, store, bulk, Failure.EXCEPTION, null);
            case "whole" -> run(conf, top, store, bulk, Failure.NONE, null);
            case "read" -> read(conf, store);
            default -> run(conf, top, store, bulk, Failure.NONE, args[2]);
        }
    }
}
