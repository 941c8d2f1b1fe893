package phalanx.command;

import java.io.Console;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Standard input, output and error. */
public final class Terminal {
    private Terminal() {}

    /** The hints that this run has written. */
    private static final Set<String> HINTS = ConcurrentHashMap.newKeySet();

    /** The name of the program, with which its lines begin. */
    private static volatile String program = "phalanx";

    /** A run begins. */
    static void begin() {
        HINTS.clear();
    }

    /** A run of a program with another name begins. */
    public static void begin(String name) {
        program = name;
        begin();
    }

    /** Writes one line to standard error. If that is broken, nobody hears of it. */
    public static void complain(String line) {
        complain(line, null);
    }

    /** The same with advice on a line of its own, unless that is null. The same advice is written once. */
    public static void complain(String line, String hint) {
        boolean isNew = hint != null && HINTS.add(hint);
        System.err.print(program + ": " + Text.oneLine(line) + "\n" + (isNew ? "hint: " + Text.oneLine(hint) + "\n" : ""));
    }

    /** Writes one line to standard output. */
    public static void say(String line) throws Failure {
        PrintStream out = System.out;
        out.println(Text.oneLine(line));
        if (out.checkError()) {
            throw Failure.of(Failure.Code.INPUT_OUTPUT, "cannot write: standard output is broken");
        }
    }

    /** Whether standard input (0), output (1) or error (2) is a terminal, as reported by Linux. */
    public static boolean isTerminal(int number) {
        try {
            String target = Files.readSymbolicLink(Path.of("/proc/self/fd/" + number)).toString();
            return target.startsWith("/dev/pts/") || target.startsWith("/dev/tty") || target.equals("/dev/console");
        } catch (IOException | RuntimeException e) {
            return false;
        }
    }

    /**
     * The console where a password can be asked for, or null. From Java 22 on there is a console even if standard input
     * and output are no terminals.
     */
    static Console console() {
        boolean tells = Files.isSymbolicLink(Path.of("/proc/self/fd/0"));
        Console console = tells && !(isTerminal(0) && isTerminal(1)) ? null : System.console();
        return console != null && !tells && !isTerminal(console) ? null : console;
    }

    /** Whether a console is a terminal, which only Java 22 and later know. Before, there is none otherwise. */
    private static boolean isTerminal(Console console) {
        try {
            return (boolean) Console.class.getMethod("isTerminal").invoke(console);
        } catch (ReflectiveOperationException e) {
            return true;
        }
    }

    /** Whether standard output is this file. */
    static boolean isStandardOutput(Path file) {
        try {
            return Files.isSameFile(Path.of("/proc/self/fd/1"), file);
        } catch (IOException | RuntimeException e) {
            return false;
        }
    }
}
