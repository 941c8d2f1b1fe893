package phalanx.cluster;

import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import phalanx.SharedFile;
import phalanx.command.Failure;
import phalanx.command.Places;
import phalanx.command.Spared;
import phalanx.command.Text;

/** A command, run by one rank of several. */
public final class Command {
    private final World world;
    private final PrintStream out;
    private final Report report;

    /**
     * For one rank.
     *
     * @param world all ranks
     * @param out where results are written
     * @param err where messages are written
     */
    public Command(World world, PrintStream out, PrintStream err) {
        this.world = world;
        this.out = out;
        this.report = new Report(world.rank(), err);
    }

    /**
     * Runs the command.
     *
     * @param args the same on all ranks
     * @return the exit code, the same on all ranks
     */
    public int run(String... args) {
        Plan plan;
        try {
            plan = Plan.of(args);
        } catch (IllegalArgumentException e) {
            if (world.rank() == 0) {
                report.line(e.getMessage());
            }
            return Code.USAGE.number();
        }
        int threads = plan.threads;
        if (threads == 0) {
            threads = Math.max(1, Runtime.getRuntime().availableProcessors() / world.size());
        }
        ExecutorService executor = Executors.newCachedThreadPool(work -> {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        });
        try {
            return run(plan, new Job(world, executor, threads, plan.syncs, report)).number();
        } finally {
            executor.shutdown();
        }
    }

    private Code run(Plan plan, Job job) {
        Keys keys = null;
        Code code = Code.DONE;
        if (world.rank() == 0) {
            try {
                keys = new Keys(plan, report);
                if (plan.what == Plan.What.PROTECT) {
                    keys.recipients();
                }
                checkOutputs(plan);
            } catch (Failure e) {
                report.line(e.getMessage());
                code = Code.USAGE;
            } catch (IOException e) {
                code = report.failed("keys", e);
            } catch (IllegalArgumentException | IllegalStateException e) {
                report.line(e.getMessage());
                code = Code.USAGE;
            }
        }
        code = job.worst(code);
        if (code != Code.DONE) {
            return code;
        }
        long begun = System.nanoTime();
        int files = 0;
        int failed = 0;
        long bytes = 0;
        for (Path path : plan.paths) {
            Keys at = keys;
            Job.Result result = job.run(path.toString(), () -> begin(plan, at, path));
            if (result.code() == Code.DONE) {
                files++;
                bytes += result.bytes();
                if (world.rank() == 0 && plan.what == Plan.What.VERIFY && !plan.quiet) {
                    out.println(Text.oneLine(path + ": " + result.bytes() + " bytes: whole and authentic"));
                }
            } else {
                failed++;
                code = result.code().compareTo(code) > 0 ? result.code() : code;
            }
        }
        if (keys != null) {
            keys.close();
        }
        tell(plan, job, files, failed, bytes, (System.nanoTime() - begun) / 1e9);
        return code;
    }

    /** No output may replace a key, a password, another output, or an input that is still to be read. */
    private static void checkOutputs(Plan plan) throws Failure {
        if (plan.what == Plan.What.VERIFY) {
            return;
        }
        List<Path> secrets = new ArrayList<>(plan.keyFiles);
        if (plan.passwordFile != null) {
            secrets.add(plan.passwordFile);
        }
        List<Places.Place> places = new ArrayList<>();
        for (Path path : plan.paths) {
            Path output = plan.output(path);
            if (output != null) {
                Spared.check(output.toString(), output, secrets);
                places.add(new Places.Place(path.toString(), output.toString()));
            }
        }
        Places.refuseCollisions(places);
    }

    private static SharedFile begin(Plan plan, Keys keys, Path path) throws IOException {
        if (plan.what == Plan.What.VERIFY) {
            return SharedFile.verify(path, keys);
        }
        Path output = plan.output(path);
        if (output == null) {
            throw new IOException("its name does not end with .phx: name an --output");
        }
        if (plan.what == Plan.What.UNPROTECT) {
            return SharedFile.unprotect(path, output, keys, plan.replaces);
        }
        return SharedFile.protect(path, output, keys.recipients(), plan.suite, plan.chunkLog2, plan.replaces);
    }

    private void tell(Plan plan, Job job, int files, int failed, long bytes, double seconds) {
        if (plan.verbose) {
            report.line(String.format(Locale.ROOT, "%s (rank %d): %.3f s at work, %.3f s for messages, %d MiB of memory",
                    host(), world.rank(), job.work(), job.messages(), peakMebibytes()));
            // This makes the summary the last line.
            world.barrier();
        }
        if (world.rank() != 0 || plan.quiet || plan.what == Plan.What.VERIFY || files == 0) {
            return;
        }
        String line = String.format(Locale.ROOT, "%s %d %s, %.1f MB in %.3f s, %.1f MB/s, %d %s", plan.what.done, files,
                files == 1 ? "file" : "files", bytes / 1e6, seconds, bytes / seconds / 1e6, world.size(),
                world.size() == 1 ? "rank" : "ranks");
        report.line(failed == 0 ? line : line + "; " + failed + " failed");
    }

    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            return "a machine without a name";
        }
    }

    /** The largest resident memory of the process, which only Linux reports. */
    private static long peakMebibytes() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"), StandardCharsets.ISO_8859_1)) {
                if (line.startsWith("VmHWM:")) {
                    return Long.parseLong(line.replaceAll("[^0-9]", "")) >> 10;
                }
            }
        } catch (IOException | NumberFormatException e) {
            // Not Linux.
        }
        return 0;
    }
}
