package phalanx.cluster;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import phalanx.ChangedException;
import phalanx.KeyException;
import phalanx.OutputException;
import phalanx.PhalanxException;
import phalanx.command.Text;

/** The lines of one rank: what failed, on which path. */
final class Report {
    private final int rank;
    private final PrintStream err;

    Report(int rank, PrintStream err) {
        this.rank = rank;
        this.err = err;
    }

    /** Writes one line. A name in it cannot deceive a terminal. */
    void line(String text) {
        err.println("phalanx-cluster: " + Text.oneLine(String.valueOf(text)));
    }

    /** Reports why a file failed on this rank, and returns the code for it. */
    Code failed(String name, Throwable why) {
        line(name + ": " + reason(why) + (rank == 0 ? "" : " (rank " + rank + ")"));
        return code(why);
    }

    private static Code code(Throwable why) {
        if (why instanceof ChangedException || why instanceof OutputException || why instanceof KeyException) {
            return Code.INPUT_OUTPUT;
        }
        if (why instanceof PhalanxException) {
            return Code.NOT_AUTHENTIC;
        }
        return why instanceof IOException ? Code.INPUT_OUTPUT : Code.OTHER;
    }

    private static String reason(Throwable why) {
        if (why instanceof OutputException && why.getCause() != null) {
            return "cannot write: " + reason(why.getCause());
        }
        if (why instanceof NoSuchFileException) {
            return "no such file";
        }
        if (why instanceof AccessDeniedException) {
            return "access denied";
        }
        if (why instanceof FileAlreadyExistsException e) {
            return e.getFile() + " exists: use --force to overwrite it";
        }
        if (why instanceof FileSystemException e && e.getReason() != null) {
            return e.getReason();
        }
        return why.getMessage() == null ? why.getClass().getSimpleName() : why.getMessage();
    }
}
