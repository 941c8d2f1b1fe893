package phalanx.command;

import java.io.Console;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** Standard input, output and error. */
final class Terminal {
    private Terminal() {}

    /** Writes one line to standard error. If that fails, the failure cannot be reported. */
    static void complain(String line) {
        System.err.println("phalanx: " + Text.oneLine(line));
    }

    /** Writes one line to standard output. */
    static void say(String line) throws Failure {
        PrintStream out = System.out;
        out.println(Text.oneLine(line));
        if (out.checkError()) {
            throw Failure.of(Failure.Code.INPUT_OUTPUT, "cannot write: standard output is broken");
        }
    }

    /** Whether standard input (0), output (1) or error (2) is a terminal, as reported by Linux. */
    static boolean isTerminal(int number) {
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
        return tells && !(isTerminal(0) && isTerminal(1)) ? null : System.console();
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
