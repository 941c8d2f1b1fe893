package phalanx.spark;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.hadoop.conf.Configuration;
import phalanx.Excludes;
import phalanx.RawName;
import phalanx.Suite;
import phalanx.command.Ciphers;
import phalanx.command.Failure;
import phalanx.command.Options;
import phalanx.command.Options.Option;
import phalanx.command.Text;
import phalanx.hadoop.Keys;

/** The command line of a job: what to do with which files. */
final class Plan {
    static final String NAME = "phalanx-spark";
    private static final String EXCLUDE = "--exclude";
    private static final String INCLUDE = "--include";
    private static final String EXCLUDE_FROM = "--exclude-from";

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
    private static final List<Option> WHOLE = List.of(Options.flag("--recursive", 'R'));
    private static final List<Option> PINS =
            List.of(Options.flag("--quick", '\0'), Options.value("--at-least"), Options.value("--expect"));
    private static final List<Option> PROTECTION = List.of(Options.value("--cipher"), Options.value("--chunk-size"));
    private static final List<Option> MIRROR = List.of(
            Options.flag("--delete", '\0'), Options.value("--max-delete"), Options.flag("--delete-excluded", '\0'),
            Options.repeated(EXCLUDE, '\0'), Options.repeated(INCLUDE, '\0'), Options.repeated(EXCLUDE_FROM, '\0'),
            Options.flag("--new", '\0'), Options.flag("--dry-run", 'n'), Options.flag("--no-sync", '\0'));
    private static final List<Option> GENERAL =
            List.of(Options.flag("--quiet", 'q'), Options.flag("--verbose", 'v'), Options.flag("--help", 'h'));
    private static final Options.Program PROGRAM = new Options.Program(
            NAME + ".jar",
            commands(),
            List.of("--engine", "-e", "--remove", "--recipient", "-r", "--recipients-file", "--identity", "-i",
                    "--salvage", "--range", "--volume", "--preserve", "--password", "-p", "--password-file", "--threads", "-t",
                    "--checksum", "-c", "--backup-dir", "--files-from", "--exclude-caches", "--exclude-if-present", "--one-file-system", "-x",
                    "--ignore-manifest", "--accept", "--sign", "--signers", "--json"),
            List.of("inspect", "mount", "rekey", "init", "key", "engines", "completions", "man"));

    final What what;
    final Suite suite;
    final int chunkLog2;
    private final boolean isMirror;
    private final Options options;

    private Plan(String command, Options options) throws Failure {
        isMirror = command.equals("mirror");
        what = isMirror ? What.PROTECT : What.valueOf(command.toUpperCase(java.util.Locale.ROOT));
        this.options = options;
        boolean seals = what == What.PROTECT && !options.has("--help");
        suite = seals ? Ciphers.suite(options) : null;
        chunkLog2 = seals ? Ciphers.chunkLog2(options) : 0;
    }

    private static Map<String, List<Option>> commands() {
        Map<String, List<Option>> commands = new LinkedHashMap<>();
        commands.put("protect", joined(KEYS, PROTECTION, OUTPUTS, WHOLE, GENERAL));
        commands.put("unprotect", joined(KEYS, OUTPUTS, WHOLE, GENERAL));
        commands.put("verify", joined(KEYS, PINS, WHOLE, GENERAL));
        commands.put("mirror", joined(KEYS, PROTECTION, MIRROR, GENERAL));
        return commands;
    }

    @SafeVarargs
    private static List<Option> joined(List<Option>... parts) {
        List<Option> all = new ArrayList<>();
        for (List<Option> part : parts) {
            all.addAll(part);
        }
        return List.copyOf(all);
    }

    /** Reads the arguments. */
    static Plan of(List<String> args) throws Failure {
        if (args.isEmpty()) {
            throw Failure.usage("no command given: protect, unprotect, verify or mirror").hint(NAME + ".jar --help");
        }
        Options options = Options.parse(PROGRAM, args.get(0), args.subList(1, args.size()));
        return new Plan(args.get(0), options).checked();
    }

    private Plan checked() throws Failure {
        if (helps()) {
            return this;
        }
        if (isMirror && options.paths().size() != 2) {
            throw options.wrong(options.paths().size() < 2 ? "missing: MIRROR" : "mirror takes two folders: SOURCE and MIRROR");
        }
        for (String needing : List.of("--quick", "--at-least", "--expect")) {
            if (options.has(needing) && !isRecursive()) {
                throw options.wrong(needing + " needs --recursive");
            }
        }
        if (options.has("--delete-excluded") && !deletes()) {
            throw options.wrong("--delete-excluded needs --delete");
        }
        if (options.has("--resume") && suite == Suite.AES_256_GCM) {
            throw Failure.usage("--resume does not work with aes-256-gcm, whose chunks are written once");
        }
        atLeast();
        expects();
        maxDelete();
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

    boolean isMirror() {
        return isMirror;
    }

    /** Whether folders are taken as wholes. */
    boolean isRecursive() {
        return isMirror || options.has("--recursive");
    }

    /** A mirror always goes on where a run that was ended has left it. */
    boolean resumes() {
        return isMirror || options.has("--resume");
    }

    boolean deletes() {
        return options.has("--delete");
    }

    boolean deletesExcluded() {
        return options.has("--delete-excluded");
    }

    boolean isDryRun() {
        return options.has("--dry-run");
    }

    boolean isNew() {
        return options.has("--new");
    }

    boolean isQuick() {
        return options.has("--quick");
    }

    OptionalLong maxDelete() throws Failure {
        return number("--max-delete");
    }

    /** The least generation that a manifest has to have. */
    OptionalLong atLeast() throws Failure {
        return number("--at-least");
    }

    private OptionalLong number(String option) throws Failure {
        if (!options.has(option)) {
            return OptionalLong.empty();
        }
        String text = options.one(option).orElseThrow();
        try {
            return OptionalLong.of(Long.parseUnsignedLong(text));
        } catch (NumberFormatException e) {
            throw options.wrong(option + " " + text + ": it is not a number");
        }
    }

    /** The digest that a manifest has to have. */
    Optional<String> expects() throws Failure {
        Optional<String> digest = options.one("--expect");
        if (digest.isPresent() && !digest.get().matches("[0-9a-fA-F]{64}")) {
            throw options.wrong("--expect " + digest.get() + ": it is not a digest of 64 hexadecimal digits");
        }
        return digest.map(text -> text.toLowerCase(java.util.Locale.ROOT));
    }

    /** What is left out of a mirror. Files of patterns are read. */
    Excludes excludes() throws Failure {
        List<Excludes.Rule> rules = new ArrayList<>();
        for (Map.Entry<String, String> option : options.inOrder(List.of(EXCLUDE, INCLUDE, EXCLUDE_FROM))) {
            switch (option.getKey()) {
                case EXCLUDE -> rules.add(Excludes.Rule.exclude(option.getValue()));
                case INCLUDE -> rules.add(Excludes.Rule.include(option.getValue()));
                default -> addList(rules, option.getValue());
            }
        }
        try {
            return Excludes.of(rules);
        } catch (IllegalArgumentException e) {
            throw Failure.usage(e.getMessage());
        }
    }

    /** Adds the rules in a file. As for rsync, a line with an exclamation mark takes back all that came before. */
    private static void addList(List<Excludes.Rule> rules, String name) throws Failure {
        byte[] bytes;
        try {
            bytes = java.nio.file.Files.readAllBytes(java.nio.file.Path.of(name));
        } catch (IOException e) {
            throw Failure.at(name, e);
        }
        // Patterns need not be text: each byte is a character here.
        int number = 0;
        for (String raw : new String(bytes, StandardCharsets.ISO_8859_1).split("\n", -1)) {
            number++;
            String line = raw.endsWith("\r") ? raw.substring(0, raw.length() - 1) : raw;
            if (line.isEmpty() || line.startsWith("#") || line.startsWith(";")) {
                continue;
            }
            if (line.equals("!")) {
                rules.clear();
                continue;
            }
            boolean isMarked = line.startsWith("+ ") || line.startsWith("- ");
            RawName pattern = RawName.ofBytes((isMarked ? line.substring(2) : line).getBytes(StandardCharsets.ISO_8859_1));
            Excludes.Rule rule = new Excludes.Rule(!line.startsWith("+ "), pattern);
            try {
                Excludes.of(List.of(rule));
            } catch (IllegalArgumentException e) {
                throw Failure.usage(Text.shown(name) + ": line " + number + ": " + e.getMessage());
            }
            rules.add(rule);
        }
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
