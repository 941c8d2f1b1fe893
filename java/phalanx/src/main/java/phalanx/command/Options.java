package phalanx.command;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The arguments of one command: the options with their values, and the paths. */
public final class Options {
    /** An option: its long name, its letter or 0, and whether it takes a value and may be repeated. */
    public record Option(String name, char letter, boolean takesValue, boolean isRepeatable) {}

    /**
     * A program: its name in hints, its commands with their options, and the options and commands that only the program in Rust has.
     */
    public record Program(
            String name, Map<String, List<Option>> commands, List<String> elsewhere, List<String> commandsElsewhere) {}

    private static final List<Option> GENERAL = List.of(flag("--quiet", 'q'), flag("--verbose", 'v'), flag("--help", 'h'));
    private static final List<Option> KEYS =
            List.of(value("--password-file"), repeated("--key", 'k'), repeated("--key-file", '\0'));
    private static final List<Option> OUTPUTS = List.of(
            new Option("--output", 'o', true, false), value("--output-dir"), flag("--force", 'f'), flag("--no-sync", '\0'));
    private static final List<Option> THREADS = List.of(new Option("--threads", 't', true, false));

    private static final Map<String, List<Option>> COMMANDS = new LinkedHashMap<>();

    static {
        List<Option> recipients = List.of(repeated("--recipient", 'r'), repeated("--recipients-file", '\0'));
        List<Option> identities = List.of(repeated("--identity", 'i'));
        List<Option> protect = List.of(flag("--password", 'p'), value("--cipher"), value("--chunk-size"));
        COMMANDS.put("protect", joined(KEYS, recipients, protect, OUTPUTS, THREADS, GENERAL));
        COMMANDS.put("unprotect", joined(KEYS, identities, OUTPUTS, THREADS, GENERAL));
        COMMANDS.put("verify", joined(KEYS, identities, THREADS, GENERAL));
        COMMANDS.put("inspect", joined(List.of(flag("--json", '\0')), GENERAL));
    }

    /** Options without an empty value. An empty path would be the current folder, and comes from a variable that is not set. */
    private static final List<String> NEVER_EMPTY = List.of(
            "--cipher", "--identity", "--key-file", "--output", "--output-dir", "--password-file", "--recipients-file");

    /** Options that only the program in Rust has. */
    private static final List<String> ELSEWHERE = List.of(
            "--recursive", "-R", "--engine", "-e", "--paranoid", "--json", "--password-command", "--generate-password", "--kms",
            "--sign", "--signers", "--revoked", "--signed-text", "--resume", "--remove", "--salvage", "--range", "--volume", "--preserve",
            "--ignore-manifest", "--quick", "--expect", "--at-least", "--accept",
            "--abort", "--endpoint-url", "--region", "--requests", "--allow-http");
    private static final List<String> COMMANDS_ELSEWHERE =
            List.of("mirror", "mount", "rekey", "init", "key", "engines", "completions", "man");

    private static final Program OURS = new Program("phalanx", COMMANDS, ELSEWHERE, COMMANDS_ELSEWHERE);

    private final Program program;
    private final String command;
    private final Map<String, List<String>> given = new LinkedHashMap<>();
    /** All options with their values, in their order. */
    private final List<Map.Entry<String, String>> inOrder = new ArrayList<>();
    private final List<String> paths = new ArrayList<>();

    private Options(Program program, String command) {
        this.program = program;
        this.command = command;
    }

    /** An option without a value, with its letter or 0. */
    public static Option flag(String name, char letter) {
        return new Option(name, letter, false, false);
    }

    /** An option with a value. */
    public static Option value(String name) {
        return new Option(name, '\0', true, false);
    }

    /** An option with a value that may be repeated, with its letter or 0. */
    public static Option repeated(String name, char letter) {
        return new Option(name, letter, true, true);
    }

    @SafeVarargs
    private static List<Option> joined(List<Option>... parts) {
        List<Option> all = new ArrayList<>();
        for (List<Option> part : parts) {
            all.addAll(part);
        }
        return List.copyOf(all);
    }

    /** The names of all commands. */
    static List<String> commands() {
        return List.copyOf(COMMANDS.keySet());
    }

    /** Whether any command of this program has an option. */
    static boolean isOurs(String name) {
        return COMMANDS.values().stream().flatMap(List::stream).anyMatch(option -> option.name().equals(name));
    }

    /** Parses the arguments after the name of a command. */
    static Options parse(String command, List<String> args) throws Failure {
        return parse(OURS, command, args);
    }

    /** Parses the arguments after the name of a command of any program. */
    public static Options parse(Program program, String command, List<String> args) throws Failure {
        String help = program.name + " --help";
        if (!program.commands.containsKey(command)) {
            if (program.commandsElsewhere.contains(command)) {
                throw Failure.usage("this program has no command " + command + ": the program phalanx has it").hint(help);
            }
            List<String> known = List.copyOf(program.commands.keySet());
            String perhaps = Similar.to(command, known).map(similar -> ": did you mean " + similar + "?").orElse("");
            throw Failure.usage("unknown command " + Text.shown(command) + perhaps).hint(help);
        }
        Options options = new Options(program, command);
        boolean pathsOnly = false;
        for (int i = 0; i < args.size(); i++) {
            String arg = args.get(i);
            if (pathsOnly || arg.equals("-") || !arg.startsWith("-")) {
                if (arg.isEmpty()) {
                    throw options.needsValue(options.nameOfPaths());
                }
                options.paths.add(arg);
            } else if (arg.equals("--")) {
                pathsOnly = true;
            } else {
                i = arg.startsWith("--") ? options.longOption(args, i) : options.letters(args, i);
            }
        }
        options.check();
        return options;
    }

    private int longOption(List<String> args, int i) throws Failure {
        String arg = args.get(i);
        int equals = arg.indexOf('=');
        String name = equals < 0 ? arg : arg.substring(0, equals);
        Option option = find(name);
        if (!option.takesValue()) {
            if (equals >= 0) {
                throw wrong(name + " takes no value");
            }
            add(option, "");
            return i;
        }
        if (equals >= 0) {
            add(option, arg.substring(equals + 1));
            return i;
        }
        return following(option, args, i);
    }

    private int letters(List<String> args, int i) throws Failure {
        String arg = args.get(i);
        for (int at = 1; at < arg.length(); at++) {
            Option option = find("-" + arg.charAt(at));
            if (!option.takesValue()) {
                add(option, "");
                continue;
            }
            String rest = arg.substring(at + 1);
            if (rest.isEmpty()) {
                return following(option, args, i);
            }
            add(option, rest.startsWith("=") ? rest.substring(1) : rest);
            return i;
        }
        return i;
    }

    private int following(Option option, List<String> args, int i) throws Failure {
        boolean isThere = i + 1 < args.size() && (args.get(i + 1).equals("-") || !args.get(i + 1).startsWith("-"));
        if (!isThere) {
            throw needsValue(option.name());
        }
        add(option, args.get(i + 1));
        return i + 1;
    }

    private Option find(String name) throws Failure {
        List<Option> options = program.commands.get(command);
        for (Option option : options) {
            if (option.name().equals(name) || name.equals("-" + option.letter())) {
                return option;
            }
        }
        if (program.elsewhere.contains(name)) {
            throw wrong("this program has no option " + name + ": the program phalanx has it");
        }
        Optional<String> known = Similar.to(name, options.stream().map(Option::name).toList());
        String hint = name.startsWith("--") ? known.map(word -> ": did you mean " + word + "?").orElse("") : "";
        throw wrong("unknown option " + Text.shown(name) + hint);
    }

    private void add(Option option, String value) throws Failure {
        List<String> values = given.computeIfAbsent(option.name(), name -> new ArrayList<>());
        if (!values.isEmpty() && !option.isRepeatable()) {
            throw wrong(option.name() + " is given twice");
        }
        if (value.isEmpty() && NEVER_EMPTY.contains(option.name())) {
            throw needsValue(option.name());
        }
        values.add(value);
        inOrder.add(Map.entry(option.name(), value));
    }

    private void check() throws Failure {
        if (has("--help")) {
            return;
        }
        refuseTogether("--quiet", "--verbose");
        refuseTogether("--password", "--password-file");
        refuseTogether("--output", "--output-dir");
        if (paths.isEmpty()) {
            throw wrong("missing: " + nameOfPaths());
        }
    }

    private String nameOfPaths() {
        return command.equals("protect") ? "PATH" : command.equals("mirror") ? "SOURCE" : "PATH.phx";
    }

    private Failure needsValue(String name) {
        return wrong(name + " needs a value" + (name.equals("--cipher") ? ": " + Ciphers.NAMES : ""));
    }

    private void refuseTogether(String one, String other) throws Failure {
        if (has(one) && has(other)) {
            throw wrong(one + " cannot be combined with " + other);
        }
    }

    /** A mistake of the command line, with a hint where to read more. */
    public Failure wrong(String line) {
        return Failure.usage(line).hint(program.name + " " + command + " --help");
    }

    public boolean has(String name) {
        return given.containsKey(name);
    }

    public Optional<String> one(String name) {
        return Optional.ofNullable(given.get(name)).map(values -> values.get(0));
    }

    public List<String> all(String name) {
        return given.getOrDefault(name, List.of());
    }

    /** These options with their values, in the order of the command line. */
    public List<Map.Entry<String, String>> inOrder(List<String> names) {
        return inOrder.stream().filter(option -> names.contains(option.getKey())).toList();
    }

    public List<String> paths() {
        return paths;
    }
}
