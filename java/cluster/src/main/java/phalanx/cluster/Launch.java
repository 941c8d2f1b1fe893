package phalanx.cluster;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The command {@code java -jar phalanx-cluster.jar}: starts the ranks of a job on this host, and ends with their exit code.
 *
 * <p>{@code mpjrun} can do this too, also on several hosts, but needs daemons for more than one process, and always
 * ends with 0.
 */
public final class Launch {
    /** How long the other ranks may take to end when one has failed. */
    private static final long GRACE_SECONDS = 5;

    static final String USAGE = """
            Usage: java -jar phalanx-cluster.jar [-np N] [-dev multicore|niodev] [-J OPTION]… COMMAND ARGUMENTS…
              -np N           the number of ranks (default: 1)
              -dev multicore  all ranks in one process (the default)
              -dev niodev     each rank in a process of its own
              -J OPTION       an option of java for the processes, for example -J -Xmx512m (may be repeated)
            The command:
            """;

    private final int ranks;
    private final boolean inOneProcess;
    private final List<String> javaOptions;
    private final String main;
    private final List<String> more;
    private final List<String> arguments;

    private Launch(int ranks, boolean inOneProcess, List<String> javaOptions, String main, List<String> more,
            List<String> arguments) {
        this.ranks = ranks;
        this.inOneProcess = inOneProcess;
        this.javaOptions = javaOptions;
        this.main = main;
        this.more = more;
        this.arguments = arguments;
    }

    /**
     * Runs the command.
     *
     * @param args its arguments
     * @throws InterruptedException never
     */
    public static void main(String[] args) throws InterruptedException {
        Report report = new Report(0, System.err);
        Launch launch;
        try {
            launch = parsed(args);
        } catch (IllegalArgumentException e) {
            report.line(e.getMessage());
            System.exit(2);
            return;
        }
        if (launch.arguments.isEmpty() || launch.arguments.get(0).equals("--help")) {
            System.out.println(USAGE + Plan.USAGE);
            System.exit(launch.arguments.isEmpty() ? 2 : 0);
        }
        Optional<Installed> mpj = Installed.find(System.getenv());
        if (mpj.isEmpty()) {
            report.line("there is no MPJ Express: install it (Debian: libmpj-java), or set MPJ_HOME to its folder");
            System.exit(1);
        }
        try {
            System.exit(launch.run(mpj.get()));
        } catch (IOException e) {
            report.line("the processes cannot be started: " + e.getMessage());
            System.exit(1);
        }
    }

    private static Launch parsed(String[] args) {
        int ranks = 1;
        boolean inOneProcess = true;
        String main = "phalanx.cluster.mpj.Rank";
        List<String> more = new ArrayList<>();
        List<String> javaOptions = new ArrayList<>();
        int at = 0;
        for (; at < args.length && args[at].startsWith("-") && !args[at].equals("--help"); at += 2) {
            String name = args[at];
            if (at + 1 == args.length) {
                throw new IllegalArgumentException(name + " needs a value");
            }
            String value = args[at + 1];
            switch (name) {
                case "-np" -> {
                    ranks = value.matches("[0-9]{1,4}") ? Integer.parseInt(value) : 0;
                    if (ranks == 0) {
                        throw new IllegalArgumentException("-np needs a number from 1 to 9999, not " + value);
                    }
                }
                case "-dev" -> {
                    if (!List.of("multicore", "niodev").contains(value)) {
                        throw new IllegalArgumentException("-dev needs multicore or niodev, not " + value);
                    }
                    inOneProcess = value.equals("multicore");
                }
                case "-J" -> javaOptions.add(value);
                // For measurements: another program with ranks, and its place.
                case "-main" -> main = value;
                case "-cp" -> more.addAll(List.of(value.split(File.pathSeparator)));
                default -> throw new IllegalArgumentException("there is no option " + name + " (--help)");
            }
        }
        return new Launch(ranks, inOneProcess, javaOptions, main, more, Arrays.asList(args).subList(at, args.length));
    }

    private int run(Installed mpj) throws IOException, InterruptedException {
        List<Process> processes = new ArrayList<>();
        Thread ending = new Thread(() -> end(processes));
        Runtime.getRuntime().addShutdownHook(ending);
        int code;
        if (inOneProcess) {
            start(processes, mpj, allRanks(mpj), true);
            code = outcome(processes);
        } else {
            try (Rendezvous rendezvous = new Rendezvous(ranks)) {
                for (int rank = 0; rank < ranks; rank++) {
                    start(processes, mpj, oneRank(mpj, rank, rendezvous.configuration()), rank == 0);
                }
                Thread meeting = new Thread(() -> meet(rendezvous));
                meeting.setDaemon(true);
                meeting.start();
                code = outcome(processes);
            }
        }
        Runtime.getRuntime().removeShutdownHook(ending);
        return code;
    }

    private static void meet(Rendezvous rendezvous) {
        try {
            rendezvous.meet();
        } catch (IOException e) {
            // It was closed because the job is over.
        }
    }

    private List<String> java() {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(javaOptions);
        command.add("-D" + Parent.PROPERTY + "=" + ProcessHandle.current().pid());
        return command;
    }

    /**
     * One process for all ranks. MPJ Express loads its own classes separately for each rank, as it must. The library is
     * loaded and compiled once for all.
     */
    private List<String> allRanks(Installed mpj) {
        List<Object> own = new ArrayList<>(List.of(Installed.of(Launch.class)));
        own.addAll(more);
        List<String> command = java();
        command.addAll(List.of("-cp", Installed.joined(List.of(mpj.ofAll(), library())), "runtime.starter.MulticoreStarter",
                System.getProperty("user.dir"), Integer.toString(ranks), "smpdev", "useLocalLoader", Installed.joined(own),
                main));
        command.addAll(arguments);
        return command;
    }

    private List<String> oneRank(Installed mpj, int rank, String configuration) {
        List<Object> path = new ArrayList<>(List.of(Installed.of(Launch.class), library()));
        path.addAll(more);
        path.add(mpj.ofRank());
        List<String> command = java();
        command.addAll(List.of("-cp", Installed.joined(path), main, Integer.toString(rank), configuration, "niodev"));
        command.addAll(arguments);
        return command;
    }

    private static Path library() {
        return Installed.of(phalanx.Suite.class);
    }

    /** Only the process that reads keys gets standard input and a password in the environment. */
    private static void start(List<Process> processes, Installed mpj, List<String> command, boolean readsKeys)
            throws IOException {
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.inheritIO();
        builder.environment().put("MPJ_HOME", mpj.home().toString());
        if (!readsKeys) {
            builder.redirectInput(new File("/dev/null"));
            builder.environment().remove("PHALANX_PASSWORD");
        }
        synchronized (processes) {
            processes.add(builder.start());
        }
    }

    /** Waits for all. When one has failed, the others get some time to end by themselves, and are then ended. */
    private static int outcome(List<Process> processes) throws InterruptedException {
        BlockingQueue<Process> ended = new LinkedBlockingQueue<>();
        processes.forEach(process -> process.onExit().thenAccept(ended::add));
        int code = 0;
        for (int left = processes.size(); left > 0; left--) {
            Process next = code == 0 ? ended.take() : ended.poll(GRACE_SECONDS, TimeUnit.SECONDS);
            if (next == null) {
                end(processes);
                break;
            }
            if (code == 0 && next.exitValue() != 0) {
                code = codeOf(next.exitValue());
            }
        }
        return code;
    }

    private static int codeOf(int status) {
        if (status >= 1 && status <= 4) {
            return status;
        }
        System.err.println("phalanx-cluster: a rank ended with status " + status);
        return 1;
    }

    /** Ends all processes, at first so that they can remove unfinished files. */
    private static void end(List<Process> processes) {
        List<Process> all;
        synchronized (processes) {
            all = List.copyOf(processes);
        }
        all.forEach(Process::destroy);
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(GRACE_SECONDS);
        for (Process process : all) {
            try {
                if (!process.waitFor(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS)) {
                    process.destroyForcibly();
                }
            } catch (InterruptedException e) {
                process.destroyForcibly();
            }
        }
    }
}
