package phalanx.command;

import java.io.Console;
import java.util.Arrays;

/** What somebody types at a prompt that does not show it. */
final class Typed {
    /** Stands for all that the locale's character set lacks. */
    private static final char REPLACEMENT = '\ufffd';

    private Typed() {}

    /** What was typed is not known. Nothing can be done with it, so it ends the run. */
    static final class UnknownCharacter extends RuntimeException {
        private static final long serialVersionUID = 1L;

        /** The same as a failure of the command. */
        Failure failure() {
            return Failure.usage("a character was typed that is not in this locale's character set")
                    .hint("LC_ALL=C.UTF-8 has all; a password can be given by --password-file, too");
        }
    }

    /** The characters, which the caller wipes, or null at the end of input. */
    static char[] at(Console console, String question) {
        char[] typed = console.readPassword("%s", question);
        return typed == null ? null : checked(typed);
    }

    /**
     * The same characters. In the locale C, Java takes each byte outside of ASCII for the same character, and all such passwords of one
     * length would be one.
     */
    static char[] checked(char[] typed) {
        for (char each : typed) {
            if (each == REPLACEMENT) {
                Arrays.fill(typed, '\0');
                throw new UnknownCharacter();
            }
        }
        return typed;
    }
}
