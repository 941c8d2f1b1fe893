package phalanx.command;

import java.io.IOError;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The command: the exit codes and messages are those of the program {@code phalanx}. */
public final class Main {
    private Main() {}

    /**
     * Runs the command and ends the JVM with its exit code: 0 done, 2 wrong usage, 3 not a whole and authentic file for the
     * keys at hand, 4 input or output failed, 1 anything else.
     *
     * @param args its arguments
     */
    public static void main(String[] args) {
        System.exit(run(List.of(args)));
    }

    /** Runs the command, and returns the exit code. */
    static int run(List<String> args) {
        Terminal.begin();
        try {
            dispatch(args);
            return 0;
        } catch (Failure e) {
            e.report();
            return e.code().number();
        } catch (Typed.UnknownCharacter e) {
            e.failure().report();
            return Failure.Code.USAGE.number();
        } catch (OutOfMemoryError e) {
            Terminal.complain("not enough memory: java -Xmx gives it more");
        } catch (IOError e) {
            // A path of Windows on a drive that is not there.
            Terminal.complain(e.getCause().getMessage());
            return Failure.Code.INPUT_OUTPUT.number();
        } catch (RuntimeException | Error e) {
            StackTraceElement[] trace = e.getStackTrace();
            String place = trace.length > 0 ? " (" + trace[0] + ")" : "";
            Terminal.complain("internal error" + place + ": please report it");
        }
        return Failure.Code.OTHER.number();
    }

    private static void dispatch(List<String> args) throws Failure {
        Secrets.refuse(args);
        // Options that may stand before the command.
        List<String> rest = new ArrayList<>(args);
        List<String> before = new ArrayList<>();
        while (!rest.isEmpty() && List.of("-q", "--quiet", "-v", "--verbose").contains(rest.get(0))) {
            before.add(rest.remove(0));
        }
        if (rest.isEmpty()) {
            if (before.isEmpty()) {
                // The exit code shows a script that nothing was done.
                print("phalanx");
                throw Failure.told(Failure.Code.USAGE);
            }
            throw Failure.usage("no command given").hint("phalanx --help");
        }
        String command = rest.remove(0);
        switch (command) {
            case "-h", "--help" -> print("phalanx");
            case "-V", "--version", "version" -> Terminal.say("phalanx " + version());
            case "help" -> print(rest.isEmpty() ? "phalanx" : rest.get(0));
            default -> {
                if (command.startsWith("-")) {
                    throw Failure.usage("unknown option " + Text.shown(command)).hint("phalanx --help");
                }
                rest.addAll(0, before);
                act(command, Options.parse(command, rest));
            }
        }
    }

    private static void act(String command, Options options) throws Failure {
        if (options.has("--help")) {
            print(command);
            return;
        }
        switch (command) {
            case "protect" -> Transfers.protect(options);
            case "unprotect" -> Transfers.unprotect(options);
            case "verify" -> Verify.run(options);
            default -> Inspect.run(options);
        }
    }

    private static void print(String page) throws Failure {
        boolean isKnown = page.equals("phalanx") || Options.commands().contains(page);
        if (!isKnown) {
            throw Failure.usage("unknown command " + Text.shown(page)).hint("phalanx --help");
        }
        try (InputStream in = Main.class.getResourceAsStream(page + ".txt")) {
            System.out.print(new String(in.readAllBytes(), StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw Failure.of(e);
        }
        if (System.out.checkError()) {
            throw Failure.of(Failure.Code.INPUT_OUTPUT, "cannot write: standard output is broken");
        }
    }

    private static String version() {
        String version = Main.class.getPackage().getImplementationVersion();
        return version == null ? "(not from its jar)" : version;
    }
}
