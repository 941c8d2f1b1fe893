package phalanx.spark;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import phalanx.command.Failure;
import phalanx.command.Secrets;
import phalanx.command.Terminal;

/**
 * The job that {@code spark-submit phalanx-spark.jar protect|unprotect|verify PATH…} runs. Its files, messages and exit codes are those
 * of {@code phalanx}.
 */
public final class Main {
    private Main() {}

    /**
     * Runs the job and ends the JVM with its exit code: 0 done, 2 wrong usage, 3 not a whole and authentic file for the keys at hand,
     * 4 input or output failed, 1 anything else.
     *
     * @param args its arguments
     */
    public static void main(String[] args) {
        int code = run(List.of(args));
        if (code != 0) {
            System.exit(code);
        }
    }

    /** Runs the job, and returns the exit code. */
    static int run(List<String> args) {
        Terminal.begin(Plan.NAME);
        try {
            Secrets.refuse(args);
            if (args.equals(List.of("--help")) || args.equals(List.of("-h"))) {
                help();
                return 0;
            }
            Plan plan = Plan.of(args);
            if (plan.helps()) {
                help();
                return 0;
            }
            submit(plan);
            return 0;
        } catch (Failure e) {
            e.report();
            return e.code().number();
        } catch (RuntimeException e) {
            StackTraceElement[] trace = e.getStackTrace();
            Terminal.complain("internal error" + (trace.length > 0 ? " (" + trace[0] + ")" : "") + ": please report it");
            return Failure.Code.OTHER.number();
        }
    }

    private static void submit(Plan plan) throws Failure {
        SparkConf settings = new SparkConf().setIfMissing("spark.app.name", Plan.NAME);
        SparkContext spark = SparkContext.getOrCreate(settings);
        try {
            if (!plan.isVerbose()) {
                spark.setLogLevel(plan.isQuiet() ? "ERROR" : "WARN");
            }
            run(plan, spark);
        } finally {
            spark.stop();
        }
    }

    /** Runs it in a context, which stays. */
    static void run(Plan plan, SparkContext spark) throws Failure {
        Configuration conf = new Configuration(spark.hadoopConfiguration());
        plan.nameKeys(conf);
        new Job(plan, conf, spark).run();
    }

    private static void help() throws Failure {
        try (InputStream in = Main.class.getResourceAsStream("help.txt")) {
            System.out.print(new String(in.readAllBytes(), StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw Failure.of(e);
        }
    }
}
