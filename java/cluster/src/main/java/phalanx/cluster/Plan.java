package phalanx.cluster;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import phalanx.Suite;

/** The command line of a job: what to do with which files. It is the same on all ranks. */
final class Plan {
    static final String USAGE = """
            protect|unprotect|verify PATH… [OPTIONS]
              --key NAME            a key of the keyring (may be repeated)
              --key-file FILE       a file of 32 raw bytes (may be repeated)
              --password-file FILE  a password. Without these three: that of the
                                    variable PHALANX_PASSWORD
              -o, --output PATH     write this file
              --output-dir DIR      write the outputs into this existing folder
              -f, --force           overwrite existing outputs
              --no-sync             do not wait until the outputs are on the disk
              --cipher CIPHER       aes-256 (default), aes-192, aes-128, aes-256-turbo, aes-256-gcm
              --chunk-size LOG2     the binary logarithm of a chunk's bytes, 12 to 24 (default: 20)
              -t, --threads N       threads of each rank (default: the processors / the ranks)
              -q, --quiet; -v, --verbose""";

    private static final Map<String, Suite> CIPHERS = Map.of(
            "aes-256", Suite.AES_256_CTR_SHA3, "aes-192", Suite.AES_192_CTR_SHA3, "aes-128", Suite.AES_128_CTR_SHA3,
            "aes-256-gcm", Suite.AES_256_GCM, "aes-256-turbo", Suite.AES_256_CTR_TURBOSHAKE);

    enum What {
        PROTECT("protected"),
        UNPROTECT("unprotected"),
        VERIFY("checked");

        final String done;

        What(String done) {
            this.done = done;
        }
    }

    What what;
    final List<Path> paths = new ArrayList<>();
    final List<String> keys = new ArrayList<>();
    final List<Path> keyFiles = new ArrayList<>();
    Path passwordFile;
    Path output;
    Path outputDir;
    boolean replaces;
    boolean syncs = true;
    Suite suite = Suite.AES_256_CTR_SHA3;
    int chunkLog2 = 20;
    /** 0 if it was not given. */
    int threads;
    boolean quiet;
    boolean verbose;

    private Plan() {}

    /**
     * Reads the arguments.
     *
     * @throws IllegalArgumentException with one line, if they are wrong
     */
    static Plan of(String[] args) {
        Plan plan = new Plan();
        if (args.length == 0) {
            throw new IllegalArgumentException("no command given: protect, unprotect or verify");
        }
        plan.what = switch (args[0]) {
            case "protect" -> What.PROTECT;
            case "unprotect" -> What.UNPROTECT;
            case "verify" -> What.VERIFY;
            default -> throw new IllegalArgumentException("there is no command " + args[0]);
        };
        Iterator<String> rest = List.of(args).subList(1, args.length).iterator();
        boolean options = true;
        while (rest.hasNext()) {
            String arg = rest.next();
            if (options && arg.equals("--")) {
                options = false;
            } else if (options && arg.startsWith("-") && arg.length() > 1) {
                plan.option(arg, rest);
            } else {
                plan.paths.add(Path.of(arg));
            }
        }
        plan.check();
        return plan;
    }

    private void option(String given, Iterator<String> rest) {
        int equals = given.startsWith("--") ? given.indexOf('=') : -1;
        String name = equals < 0 ? given : given.substring(0, equals);
        switch (name) {
            case "-f", "--force" -> replaces = true;
            case "--no-sync" -> syncs = false;
            case "-q", "--quiet" -> quiet = true;
            case "-v", "--verbose" -> verbose = true;
            default -> {
                if (!List.of("--key", "-k", "--key-file", "--password-file", "-o", "--output", "--output-dir", "--cipher",
                        "--chunk-size", "-t", "--threads").contains(name)) {
                    throw new IllegalArgumentException("there is no option " + name);
                }
                if (equals < 0 && !rest.hasNext()) {
                    throw new IllegalArgumentException(name + " needs a value");
                }
                valued(name, equals < 0 ? rest.next() : given.substring(equals + 1));
            }
        }
    }

    private void valued(String name, String value) {
        switch (name) {
            case "-k", "--key" -> keys.add(value);
            case "--key-file" -> keyFiles.add(Path.of(value));
            case "--password-file" -> passwordFile = Path.of(value);
            case "-o", "--output" -> output = Path.of(value);
            case "--output-dir" -> outputDir = Path.of(value);
            case "--cipher" -> {
                if (!CIPHERS.containsKey(value)) {
                    throw new IllegalArgumentException("there is no cipher " + value);
                }
                suite = CIPHERS.get(value);
            }
            case "--chunk-size" -> chunkLog2 = number(name, value, 12, 24);
            default -> threads = number(name, value, 1, 1024);
        }
    }

    private static int number(String name, String value, int least, int most) {
        int number = value.matches("[0-9]{1,5}") ? Integer.parseInt(value) : -1;
        if (number < least || number > most) {
            throw new IllegalArgumentException(name + ": a number from " + least + " to " + most + ", not " + value);
        }
        return number;
    }

    private void check() {
        if (paths.isEmpty()) {
            throw new IllegalArgumentException("no PATH given");
        }
        if (output != null && (outputDir != null || paths.size() > 1)) {
            throw new IllegalArgumentException("--output is for one PATH, without --output-dir");
        }
        if (paths.contains(Path.of("-")) || Path.of("-").equals(output)) {
            throw new IllegalArgumentException("several processes cannot share standard input or output: - does not work here");
        }
    }

    /** The path of a file's output, or null if the file's name does not determine it. */
    Path output(Path of) {
        if (output != null) {
            return output;
        }
        String name = of.getFileName() == null ? "" : of.getFileName().toString();
        if (what == What.UNPROTECT && (!name.endsWith(".phx") || name.length() == ".phx".length())) {
            return null;
        }
        String result = what == What.PROTECT ? name + ".phx" : name.substring(0, name.length() - ".phx".length());
        return outputDir == null ? of.resolveSibling(result) : outputDir.resolve(result);
    }
}
