package phalanx.command;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Map;
import phalanx.AuthenticationException;
import phalanx.ChangedException;
import phalanx.KeyDerivationException;
import phalanx.KeyException;
import phalanx.Keyring;
import phalanx.OutputException;
import phalanx.PhalanxException;
import phalanx.TruncatedException;
import phalanx.WrongKeyException;

/** A failure of the command: one line on standard error, and an exit code for its kind. */
final class Failure extends Exception {
    private static final long serialVersionUID = 1L;

    /** The kinds of failures, from the lowest rank. If several paths fail in one run, the highest one counts. */
    enum Code {
        /** Anything else. */
        OTHER(1),
        /** The command line is wrong. */
        USAGE(2),
        /** Input or output failed. */
        INPUT_OUTPUT(4),
        /** Not a whole, authentic Phalanx file for the keys at hand. */
        NOT_AUTHENTIC(3);

        private final int number;

        Code(int number) {
            this.number = number;
        }

        /** The exit code. */
        int number() {
            return number;
        }
    }

    /** The system's messages, with their numbers on Linux. */
    private static final Map<String, Integer> NUMBERS = Map.of(
            "No such file or directory", 2,
            "Input/output error", 5,
            "Permission denied", 13,
            "Not a directory", 20,
            "Is a directory", 21,
            "File too large", 27,
            "No space left on device", 28,
            "Read-only file system", 30,
            "Broken pipe", 32,
            "File name too long", 36);

    private final Code code;

    private Failure(Code code, String line) {
        super(line);
        this.code = code;
    }

    static Failure of(Code code, String line) {
        return new Failure(code, line);
    }

    static Failure usage(String line) {
        return new Failure(Code.USAGE, line);
    }

    /** A failure whose line has been written already. */
    static Failure told(Code code) {
        return new Failure(code, null);
    }

    /** A failure at a path. */
    static Failure at(String path, Exception e) {
        return new Failure(codeOf(e), Text.shown(path) + ": " + sentence(e));
    }

    /** The failure for a folder, which only the program {@code phalanx} accepts. */
    static Failure folder(String path) {
        return new Failure(Code.INPUT_OUTPUT, Text.shown(path) + ": it is a folder (the program phalanx takes folders)");
    }

    /** A failure without a path. */
    static Failure of(Exception e) {
        return new Failure(codeOf(e), sentence(e));
    }

    Code code() {
        return code;
    }

    private static Code codeOf(Exception e) {
        if (e instanceof KeyDerivationException derivation) {
            return derivation.isBeyondLimit() ? Code.NOT_AUTHENTIC : Code.OTHER;
        }
        if (e instanceof OutputException || e instanceof ChangedException || e instanceof KeyException) {
            return Code.INPUT_OUTPUT;
        }
        if (e instanceof PhalanxException) {
            return Code.NOT_AUTHENTIC;
        }
        if (e instanceof IllegalArgumentException) {
            return Code.USAGE;
        }
        return e instanceof IOException || e instanceof UncheckedIOException ? Code.INPUT_OUTPUT : Code.OTHER;
    }

    /** The library's sentence, and a hint for the user of the command. */
    private static String sentence(Exception e) {
        if (e instanceof FileAlreadyExistsException) {
            return "exists already (--force replaces it)";
        }
        if (e instanceof OutputException) {
            String why = system((IOException) e.getCause());
            String hint = why.equals("not a regular file") ? " (use - for standard output)" : "";
            return "cannot write: " + why + hint;
        }
        if (e instanceof ChangedException) {
            return e.getMessage() + " (try again when nothing writes to it)";
        }
        if (e instanceof TruncatedException) {
            return e.getMessage() + " (unprotect --salvage of the program phalanx saves what is there)";
        }
        if (e instanceof AuthenticationException) {
            return e.getMessage() + " (unprotect --salvage of the program phalanx saves the other chunks)";
        }
        if (e instanceof WrongKeyException wrong && wrong.wasTried()) {
            return e.getMessage() + " (try again; if it is right, restore a copy of the file)";
        }
        if (e instanceof WrongKeyException wrong && wrong.lacksKey()) {
            return e.getMessage() + " (phalanx key list shows yours)";
        }
        if (e instanceof WrongKeyException wrong && wrong.lacksPassword()) {
            return e.getMessage() + " (name no key, and the password is asked for)";
        }
        if (e instanceof KeyException key && key.isMissing()) {
            Path folder = Keyring.usual().folder();
            return e.getMessage() + " " + Text.shown(folder.toString()) + (Files.exists(folder)
                    ? " (phalanx key list shows them)" : ", which does not exist (phalanx key new makes it;"
                            + " phalanx key import brings a key back from a copy)");
        }
        if (e instanceof PhalanxException || !(e instanceof IOException)) {
            return e.getMessage();
        }
        String why = system((IOException) e);
        return "cannot read: " + why + (why.equals("not a regular file") ? " (use - to read from a pipe)" : "");
    }

    /** The system's message for a failure. Java leaves it out of the messages of some exceptions. */
    private static String system(IOException e) {
        String why = e.getMessage();
        if (e instanceof NoSuchFileException) {
            why = "No such file or directory";
        } else if (e instanceof AccessDeniedException) {
            why = "Permission denied";
        } else if (e instanceof FileSystemException file && file.getReason() != null) {
            why = file.getReason();
        }
        Integer number = why == null ? null : NUMBERS.get(why);
        return number == null ? String.valueOf(why) : why + " (os error " + number + ")";
    }
}
