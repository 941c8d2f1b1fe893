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
import phalanx.MalformedHeaderException;
import phalanx.OutputException;
import phalanx.PhalanxException;
import phalanx.TruncatedException;
import phalanx.WrongKeyException;

/** A failure of the command: one line on standard error, and an exit code for its kind. */
public final class Failure extends Exception {
    private static final long serialVersionUID = 1L;

    /** The kinds of failures, from the lowest rank. If several paths fail in one run, the highest one counts. */
    public enum Code {
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
        public int number() {
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

    private static final String NOT_REGULAR = "not a regular file";

    private final Code code;
    private final String hint;

    private Failure(Code code, String line, String hint) {
        super(line);
        this.code = code;
        this.hint = hint;
    }

    public static Failure of(Code code, String line) {
        return new Failure(code, line, null);
    }

    public static Failure usage(String line) {
        return new Failure(Code.USAGE, line, null);
    }

    /** A failure whose line has been written already. */
    public static Failure told(Code code) {
        return new Failure(code, null, null);
    }

    /** A failure at a path. */
    public static Failure at(String path, Exception e) {
        return new Failure(codeOf(e), Text.shown(path) + ": " + sentence(e), hint(e));
    }

    /** The failure for a folder, which only the program {@code phalanx} accepts. */
    public static Failure folder(String path) {
        return new Failure(Code.INPUT_OUTPUT, Text.shown(path) + ": it is a folder", "the program phalanx takes folders");
    }

    /** A failure without a path. */
    public static Failure of(Exception e) {
        return new Failure(codeOf(e), sentence(e), hint(e));
    }

    /** The same failure with advice for the user. */
    public Failure hint(String advice) {
        return new Failure(code, getMessage(), advice);
    }

    public Code code() {
        return code;
    }

    /** Writes the line and the hint, unless the line has been written already. */
    public void report() {
        if (getMessage() != null) {
            Terminal.complain(getMessage(), hint);
        }
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

    /** What failed. */
    private static String sentence(Exception e) {
        if (e instanceof FileAlreadyExistsException) {
            return "exists already";
        }
        if (e instanceof OutputException) {
            return "cannot write: " + system((IOException) e.getCause());
        }
        if (e instanceof KeyException key && key.isMissing()) {
            Path folder = Keyring.usual().folder();
            String missing = Files.exists(folder) ? "" : ", which does not exist";
            return e.getMessage() + " " + Text.shown(folder.toString()) + missing;
        }
        if (e instanceof PhalanxException || !(e instanceof IOException)) {
            return e.getMessage();
        }
        return "cannot read: " + system((IOException) e);
    }

    /** What the user may do about it, or null. */
    private static String hint(Exception e) {
        if (e instanceof FileAlreadyExistsException) {
            return "--force replaces it";
        }
        if (e instanceof OutputException) {
            return system((IOException) e.getCause()).equals(NOT_REGULAR) ? "- writes to standard output" : null;
        }
        if (e instanceof ChangedException) {
            return "try again when nothing writes to it";
        }
        if (e instanceof TruncatedException) {
            return "unprotect --salvage of the program phalanx saves what is there";
        }
        if (e instanceof AuthenticationException) {
            return "unprotect --salvage of the program phalanx saves the other chunks";
        }
        if (e instanceof WrongKeyException wrong) {
            return hint(wrong);
        }
        if (e instanceof MalformedHeaderException header && header.isOfVolume()) {
            return "mount the folder that it lies in";
        }
        if (e instanceof KeyException key && key.isMissing()) {
            return Files.exists(Keyring.usual().folder())
                    ? "phalanx key list shows them"
                    : "phalanx key new makes it; phalanx key import brings a key back from a copy";
        }
        if (e instanceof KeyException key) {
            return key.remedy().orElse(null);
        }
        boolean isInput = e instanceof IOException && !(e instanceof PhalanxException);
        return isInput && system((IOException) e).equals(NOT_REGULAR) ? "name it -, and give it as standard input" : null;
    }

    private static String hint(WrongKeyException e) {
        if (e.remedy().isPresent()) {
            return e.remedy().get();
        }
        if (e.wasTried()) {
            return "try again; if it is right, restore a copy of the file";
        }
        if (e.lacksKey()) {
            return "phalanx key list shows yours";
        }
        if (e.lacksIdentity()) {
            return "--identity names a file of identities";
        }
        return e.lacksPassword() ? "--password-file gives it; at a terminal it is asked for if no key is named" : null;
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
