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
import java.util.List;
import java.util.Locale;
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
 * What protected Parquet costs over a store beside the plain one: the bytes that the store sends, the requests, and the seconds of this JVM. {@code
 * java/hadoop/scripts/column-test} runs it, with a proxy that counts.
 */
final class ColumnCost {
    private static final int COLUMNS = 20;

    private final Path counter;
    private final int rounds;
    private final SparkSession session = SparkSession.builder().appName("columns").getOrCreate();
    private final OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private ColumnCost(Path counter, int rounds) {
        this.counter = counter;
        this.rounds = rounds;
    }

    /** The arguments: a URL of S3A, the file of the proxy's counter, rows, and rounds. */
    public static void main(String[] args) throws IOException {
        new ColumnCost(Path.of(args[1]), Integer.parseInt(args[3])).run(args[0], Long.parseLong(args[2]));
    }

    private interface Work {
        void run() throws IOException;
    }

    /** What the proxy has counted, and the clocks. */
    private record Counts(long bytes, long requests, long cut, double seconds, double processorSeconds) {
        Counts since(Counts before) {
            return new Counts(bytes - before.bytes, requests - before.requests, cut - before.cut, seconds - before.seconds,
                    processorSeconds - before.processorSeconds);
        }
    }

    private Counts counts() throws IOException {
        ByteBuffer counted = ByteBuffer.wrap(Files.readAllBytes(counter)).order(ByteOrder.LITTLE_ENDIAN);
        return new Counts(counted.getLong(), counted.getLong(), counted.getLong(), System.nanoTime() / 1e9, system.getProcessCpuTime() / 1e9);
    }

    private void measure(List<Counts> spent, Work work) throws IOException {
        Counts before = counts();
        work.run();
        spent.add(counts().since(before));
    }

    private void run(String url, long rows) throws IOException {
        String plain = url + "/plain";
        Dataset<Row> table = session.range(rows).toDF();
        for (int i = 0; i < COLUMNS; i++) {
            table = table.withColumn("c" + i, functions.rand(i));
        }
        Column[] columns = IntStream.range(0, COLUMNS).mapToObj(i -> functions.col("c" + i)).toArray(Column[]::new);
        table.select(columns).coalesce(1).write().parquet(plain);
        Configuration conf = session.sparkContext().hadoopConfiguration();
        for (String suite : List.of("aes-256", "aes-256-turbo")) {
            for (String chunk : List.of("64K", "256K", "1M")) {
                compare(plain, protect(plain, url, suite, chunk, conf), suite + ", chunks of " + chunk, conf);
            }
        }
    }

    /** The same files, protected. */
    private static String protect(String plain, String url, String suite, String chunk, Configuration conf) throws IOException {
        Configuration other = new Configuration(conf);
        other.set("fs.phalanx.cipher", suite);
        other.set("fs.phalanx.chunk.size", chunk);
        String sealed = "phalanx+" + url + "/" + suite + "-" + chunk;
        var from = new org.apache.hadoop.fs.Path(plain);
        var to = new org.apache.hadoop.fs.Path(sealed);
        FileSystem fs = FileSystem.newInstance(to.toUri(), other);
        try {
            FileUtil.copy(from.getFileSystem(conf), from, fs, to, false, other);
        } finally {
            fs.close();
        }
        return sealed;
    }

    private void compare(String plain, String sealed, String what, Configuration conf) throws IOException {
        for (boolean vectored : new boolean[] {false, true}) {
            compare(plain, sealed, what + ": one column of " + COLUMNS + (vectored ? ", vectored" : ""), table -> session.read()
                    .option("parquet.hadoop.vectored.io.enabled", vectored).parquet(table).agg(functions.sum("c7")).collectAsList());
        }
        compare(plain, sealed, what + ": a full scan", table -> scan(table, conf));
    }

    private interface Reading {
        void of(String table) throws IOException;
    }

    private void compare(String plain, String sealed, String what, Reading reading) throws IOException {
        List<Counts> ofPlain = new ArrayList<>();
        List<Counts> ofSealed = new ArrayList<>();
        // The first round is for the JVM.
        for (int round = 0; round <= rounds; round++) {
            measure(round == 0 ? new ArrayList<>() : ofPlain, () -> reading.of(plain));
            measure(round == 0 ? new ArrayList<>() : ofSealed, () -> reading.of(sealed));
        }
        System.out.println(what);
        say("bytes sent", ofPlain, ofSealed, Counts::bytes, 0);
        say("requests", ofPlain, ofSealed, Counts::requests, 0);
        say("of them cut", ofPlain, ofSealed, Counts::cut, 0);
        say("seconds", ofPlain, ofSealed, Counts::seconds, 3);
        say("processor seconds", ofPlain, ofSealed, Counts::processorSeconds, 3);
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

    private static void say(String what, List<Counts> plain, List<Counts> sealed, ToDoubleFunction<Counts> value, int digits) {
        double ofPlain = median(plain, value);
        double ofSealed = median(sealed, value);
        String times = ofPlain == 0 ? "" : String.format(Locale.ROOT, ": %.3f times", ofSealed / ofPlain);
        System.out.println("  " + what + ": plain " + shown(plain, value, digits) + ", protected " + shown(sealed, value, digits) + times);
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
