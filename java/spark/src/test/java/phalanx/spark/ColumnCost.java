package phalanx.spark;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
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
 * What protected Parquet costs over a store beside the plain one: the bytes that the store sends, and processor seconds of this JVM. {@code
 * java/hadoop/scripts/column-test} runs it, with a proxy that counts bytes.
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

    /** What one way took: bytes that the store has sent, and processor seconds, each round. */
    private static final class Spent {
        final List<Long> bytes = new ArrayList<>();
        final List<Double> seconds = new ArrayList<>();

        double least() {
            return Collections.min(seconds);
        }
    }

    private void measure(Spent spent, Work work) throws IOException {
        long before = sent();
        long begun = system.getProcessCpuTime();
        work.run();
        spent.seconds.add((system.getProcessCpuTime() - begun) / 1e9);
        spent.bytes.add(sent() - before);
    }

    private long sent() throws IOException {
        return ByteBuffer.wrap(Files.readAllBytes(counter)).order(ByteOrder.LITTLE_ENDIAN).getLong();
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
            for (String chunk : List.of("64K", "1M")) {
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
        Spent[] column = {new Spent(), new Spent()};
        Spent[] scan = {new Spent(), new Spent()};
        // The first round is for the JVM.
        for (int round = 0; round <= rounds; round++) {
            for (int i = 0; i < 2; i++) {
                String table = i == 0 ? plain : sealed;
                measure(round == 0 ? new Spent() : column[i], () -> session.read().parquet(table).agg(functions.sum("c7")).collectAsList());
                measure(round == 0 ? new Spent() : scan[i], () -> scan(table, conf));
            }
        }
        say(what, "one column of " + COLUMNS, column);
        say(what, "a full scan", scan);
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

    private static void say(String what, String work, Spent[] spent) {
        long plain = Collections.min(spent[0].bytes);
        long sealed = Collections.min(spent[1].bytes);
        System.out.println(String.format(
                Locale.ROOT, "%s: %s: %d bytes of the plain object, %d of the protected one: %.3f times; %.3f and %.3f s of processor time: %.2f times",
                what, work, plain, sealed, (double) sealed / plain, spent[0].least(), spent[1].least(), spent[1].least() / spent[0].least()));
    }
}
