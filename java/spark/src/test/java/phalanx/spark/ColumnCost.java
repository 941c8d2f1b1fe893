package phalanx.spark;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.DoubleSummaryStatistics;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.ToDoubleFunction;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;

/**
 * What protected Parquet costs over a store beside the plain one: the bytes that the store sends and the requests, by way of a proxy that counts, and the seconds
 * without it. Also what a scan of local files costs. {@code java/hadoop/scripts/column-test} runs it.
 */
final class ColumnCost {
    private static final int COLUMNS = 20;
    /** So many rounds are for the JVM's compiler. */
    private static final int WARM_UP = 3;

    private final Map<String, String> arguments;
    private final Path counter;
    private final ProcessHandle store;
    private final int rounds;
    private final List<String> summary = new ArrayList<>();
    private final SparkSession session = SparkSession.builder().appName("columns").getOrCreate();
    private final OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private ColumnCost(Map<String, String> arguments) {
        this.arguments = arguments;
        counter = Path.of(arguments.get("counter"));
        store = ProcessHandle.of(Long.parseLong(arguments.get("store"))).orElseThrow();
        rounds = Integer.parseInt(arguments.get("rounds"));
    }

    /**
     * The arguments, each as {@code name=value}: {@code counted} and {@code direct}, a bucket by way of the proxy and without it; {@code local}, a local folder;
     * {@code counter}, the proxy's file; {@code store}, the process of the store; {@code rows}, {@code rounds}, {@code suites} and {@code chunks}.
     */
    public static void main(String[] args) throws IOException {
        Map<String, String> arguments = new HashMap<>();
        for (String arg : args) {
            String[] pair = arg.split("=", 2);
            arguments.put(pair[0], pair[1]);
        }
        new ColumnCost(arguments).run();
    }

    private interface Work {
        void run() throws IOException;
    }

    /** What the proxy has counted, and the clocks. */
    private record Counts(long bytes, long requests, long cut, double seconds, double processorSeconds, double storeSeconds) {
        Counts since(Counts before) {
            return new Counts(bytes - before.bytes, requests - before.requests, cut - before.cut, seconds - before.seconds,
                    processorSeconds - before.processorSeconds, storeSeconds - before.storeSeconds);
        }
    }

    private Counts counts() throws IOException {
        ByteBuffer counted = ByteBuffer.wrap(Files.readAllBytes(counter)).order(ByteOrder.LITTLE_ENDIAN);
        double ofStore = store.info().totalCpuDuration().orElseThrow().toMillis() / 1e3;
        return new Counts(counted.getLong(), counted.getLong(), counted.getLong(), System.nanoTime() / 1e9, system.getProcessCpuTime() / 1e9, ofStore);
    }

    private void measure(List<Counts> spent, Work work) throws IOException {
        Counts before = counts();
        work.run();
        spent.add(counts().since(before));
    }

    private void run() throws IOException {
        Dataset<Row> table = session.range(Long.parseLong(arguments.get("rows"))).toDF();
        for (int i = 0; i < COLUMNS; i++) {
            table = table.withColumn("c" + i, functions.rand(i));
        }
        Column[] columns = IntStream.range(0, COLUMNS).mapToObj(i -> functions.col("c" + i)).toArray(Column[]::new);
        Configuration conf = session.sparkContext().hadoopConfiguration();
        table.select(columns).coalesce(1).write().parquet(arguments.get("direct") + "/plain");
        copy(arguments.get("direct") + "/plain", arguments.get("local") + "/plain", conf);
        for (String suite : arguments.get("suites").split(",")) {
            for (String chunk : arguments.get("chunks").split(",")) {
                compare(suite, chunk, conf);
            }
        }
        summary.forEach(System.out::println);
    }

    private static void copy(String from, String to, Configuration conf) throws IOException {
        var source = new org.apache.hadoop.fs.Path(from);
        var target = new org.apache.hadoop.fs.Path(to);
        FileSystem fs = FileSystem.newInstance(target.toUri(), conf);
        try {
            FileUtil.copy(source.getFileSystem(conf), source, fs, target, false, conf);
        } finally {
            fs.close();
        }
    }

    private void compare(String suite, String chunk, Configuration conf) throws IOException {
        Configuration other = new Configuration(conf);
        other.set("fs.phalanx.cipher", suite);
        other.set("fs.phalanx.chunk.size", chunk);
        String what = suite + ", chunks of " + chunk + ": ";
        String name = suite + "-" + chunk;
        String direct = arguments.get("direct");
        String counted = arguments.get("counted");
        String local = arguments.get("local");
        copy(direct + "/plain", "phalanx+" + direct + "/" + name, other);
        copy(direct + "/plain", "phalanx+file://" + local + "/" + name, other);
        for (boolean vectored : new boolean[] {false, true}) {
            Reading column = folder -> session.read().option("parquet.hadoop.vectored.io.enabled", vectored).parquet(folder)
                    .agg(functions.sum("c7")).collectAsList();
            String title = what + "one column of " + COLUMNS + (vectored ? ", vectored" : "");
            count(counted + "/plain", "phalanx+" + counted + "/" + name, title, column);
            double ratio = time(direct + "/plain", "phalanx+" + direct + "/" + name, title, column);
            summary.add(String.format(Locale.ROOT, "%s: %.2f times the plain seconds", title, ratio));
        }
        Reading scan = folder -> scan(folder, conf);
        count(counted + "/plain", "phalanx+" + counted + "/" + name, what + "a full scan", scan);
        double ratio = time(direct + "/plain", "phalanx+" + direct + "/" + name, what + "a full scan", scan);
        summary.add(String.format(Locale.ROOT, "%sa full scan: %.2f of the plain speed", what, 1 / ratio));
        ratio = time(counted + "/plain", "phalanx+" + counted + "/" + name, what + "a full scan by way of the proxy", scan);
        summary.add(String.format(Locale.ROOT, "%sa full scan by way of the proxy: %.2f of the plain speed", what, 1 / ratio));
        ratio = time("file://" + local + "/plain", "phalanx+file://" + local + "/" + name, what + "a full scan of a local file", scan);
        summary.add(String.format(Locale.ROOT, "%sa full scan of a local file: %.2f of the plain speed", what, 1 / ratio));
    }

    private interface Reading {
        void of(String table) throws IOException;
    }

    private void count(String plain, String sealed, String what, Reading reading) throws IOException {
        List<List<Counts>> spent = alternate(plain, sealed, reading, 1);
        System.out.println(what);
        say("bytes sent", spent, Counts::bytes, 0);
        say("requests", spent, Counts::requests, 0);
        say("of them cut", spent, Counts::cut, 0);
    }

    /** Returns how many times the plain seconds are spent. */
    private double time(String plain, String sealed, String what, Reading reading) throws IOException {
        List<List<Counts>> spent = alternate(plain, sealed, reading, WARM_UP);
        System.out.println(what);
        say("processor seconds", spent, Counts::processorSeconds, 3);
        say("the store's", spent, Counts::storeSeconds, 3);
        return say("seconds", spent, Counts::seconds, 3);
    }

    /** What was spent for each, in rounds in which both are read. */
    private List<List<Counts>> alternate(String plain, String sealed, Reading reading, int warmUp) throws IOException {
        List<Counts> ofPlain = new ArrayList<>();
        List<Counts> ofSealed = new ArrayList<>();
        for (int round = -warmUp; round < rounds; round++) {
            measure(round < 0 ? new ArrayList<>() : ofPlain, () -> reading.of(plain));
            measure(round < 0 ? new ArrayList<>() : ofSealed, () -> reading.of(sealed));
        }
        return List.of(ofPlain, ofSealed);
    }

    /** Reads all bytes of a table's files in their order. */
    private static void scan(String table, Configuration conf) throws IOException {
        var folder = new org.apache.hadoop.fs.Path(table);
        FileSystem fs = folder.getFileSystem(conf);
        byte[] buffer = new byte[1 << 20];
        for (var file : fs.listStatus(folder)) {
            try (var in = fs.open(file.getPath())) {
                while (in.read(buffer) >= 0) {
                    // Nothing is done with them.
                }
            }
        }
    }

    private static double say(String what, List<List<Counts>> spent, ToDoubleFunction<Counts> value, int digits) {
        double ofPlain = median(spent.get(0), value);
        double ratio = median(spent.get(1), value) / ofPlain;
        String times = ofPlain == 0 ? "" : String.format(Locale.ROOT, ": %.3f times", ratio);
        System.out.println("  " + what + ": plain " + shown(spent.get(0), value, digits) + ", protected " + shown(spent.get(1), value, digits) + times);
        return ratio;
    }

    /** The median, the least and the most. */
    private static String shown(List<Counts> rounds, ToDoubleFunction<Counts> value, int digits) {
        String number = "%." + digits + "f";
        DoubleSummaryStatistics all = rounds.stream().mapToDouble(value).summaryStatistics();
        return String.format(Locale.ROOT, number + " (" + number + "–" + number + ")", median(rounds, value), all.getMin(), all.getMax());
    }

    private static double median(List<Counts> rounds, ToDoubleFunction<Counts> value) {
        double[] sorted = rounds.stream().mapToDouble(value).sorted().toArray();
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }
}
