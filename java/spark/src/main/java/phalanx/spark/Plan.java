package phalanx.spark;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import phalanx.Suite;
import phalanx.command.Ciphers;
import phalanx.command.Failure;
import phalanx.command.Options;
import phalanx.command.Options.Option;
import phalanx.hadoop.Keys;

/** The command line of a job: what to do with which files. */
final class Plan {
    static final String NAME = "phalanx-spark";

    /** What is done with the files. */
    enum What {
        PROTECT("protected"),
        UNPROTECT("unprotected"),
        VERIFY("checked");

        final String done;

        What(String done) {
            this.done = done;
        }
    }

    private static final List<Option> KEYS =
            List.of(Options.repeated("--key", 'k'), Options.repeated("--key-file", '\0'), Options.repeated("--kms", '\0'));
    private static final List<Option> OUTPUTS = List.of(
            new Option("--output", 'o', true, false), Options.value("--output-dir"), Options.flag("--force", 'f'),
            Options.flag("--no-sync", '\0'), Options.flag("--resume", '\0'));
    private static final List<Option> GENERAL =
            List.of(Options.flag("--quiet", 'q'), Options.flag("--verbose", 'v'), Options.flag("--help", 'h'));
    private static final Options.Program PROGRAM = new Options.Program(
            NAME + ".jar",
            commands(),
            List.of("--recursive", "-R", "--engine", "-e", "--remove", "--recipient", "-r", "--recipients-file", "--identity", "-i",
                    "--salvage", "--range", "--volume", "--preserve", "--password", "-p", "--password-file", "--threads", "-t"),
            List.of("inspect", "mirror", "mount", "rekey", "init", "key", "engines", "completions", "man"));

    final What what;
    final Suite suite;
    final int chunkLog2;
    private final Options options;

    private Plan(What what, Options options) throws Failure {
        this.what = what;
        this.options = options;
        boolean seals = what == What.PROTECT && !options.has("--help");
        suite = seals ? Ciphers.suite(options) : null;
        chunkLog2 = seals ? Ciphers.chunkLog2(options) : 0;
    }

    private static Map<String, List<Option>> commands() {
        Map<String, List<Option>> commands = new LinkedHashMap<>();
        commands.put("protect", joined(KEYS, List.of(Options.value("--cipher"), Options.value("--chunk-size")), OUTPUTS, GENERAL));
        commands.put("unprotect", joined(KEYS, OUTPUTS, GENERAL));
        commands.put("verify", joined(KEYS, GENERAL));
        return commands;
    }

    private static List<Option> joined(List<Option> first, List<Option> second, List<Option> third) {
        return joined(joined(first, second), third);
    }

    private static List<Option> joined(List<Option> first, List<Option> second, List<Option> third, List<Option> fourth) {
        return joined(joined(first, second), joined(third, fourth));
    }

    private static List<Option> joined(List<Option> first, List<Option> second) {
        List<Option> all = new ArrayList<>(first);
        all.addAll(second);
        return List.copyOf(all);
    }

    /** Reads the arguments. */
    static Plan of(List<String> args) throws Failure {
        if (args.isEmpty()) {
            throw Failure.usage("no command given: protect, unprotect or verify").hint(NAME + ".jar --help");
        }
        Options options = Options.parse(PROGRAM, args.get(0), args.subList(1, args.size()));
        return new Plan(What.valueOf(args.get(0).toUpperCase(java.util.Locale.ROOT)), options).checked();
    }

    private Plan checked() throws Failure {
        if (options.paths().contains("-") || output().filter("-"::equals).isPresent()) {
            throw Failure.usage("executors cannot share standard input or output: - does not work here");
        }
        if (output().isPresent() && options.paths().size() > 1) {
            throw Failure.usage("--output names one output, and there are several inputs").hint("use --output-dir");
        }
        if (options.all("--key-file").contains("-")) {
            throw Failure.usage("executors cannot share standard input or output: - does not work here");
        }
        return this;
    }

    boolean helps() {
        return options.has("--help");
    }

    List<String> paths() {
        return options.paths();
    }

    Optional<String> output() {
        return options.one("--output");
    }

    Optional<String> outputDir() {
        return options.one("--output-dir");
    }

    boolean replaces() {
        return options.has("--force");
    }

    List<java.nio.file.Path> keyFiles() {
        return options.all("--key-file").stream().map(java.nio.file.Path::of).toList();
    }

    boolean resumes() {
        return options.has("--resume");
    }

    boolean syncs() {
        return !options.has("--no-sync");
    }

    boolean isQuiet() {
        return options.has("--quiet");
    }

    boolean isVerbose() {
        return options.has("--verbose");
    }

    /** Puts the names of keys that the command line has in the place of those of the configuration. */
    void nameKeys(Configuration conf) throws Failure {
        List<String> names = new ArrayList<>(options.all("--key"));
        options.all("--key-file").forEach(file -> names.add("file:" + java.nio.file.Path.of(file).toAbsolutePath()));
        options.all("--kms").forEach(uri -> names.add("kms:" + uri));
        for (String name : names) {
            if (name.contains(",")) {
                throw Failure.usage("the name of a key has no comma here: " + name);
            }
        }
        if (!names.isEmpty()) {
            conf.set(Keys.KEYS, String.join(",", names));
            conf.unset(Keys.OPEN_KEYS);
        }
        if (what == What.PROTECT && conf.getTrimmedStringCollection(Keys.KEYS).isEmpty()) {
            throw Failure.usage("no key given: --key, --key-file or --kms");
        }
    }
}
