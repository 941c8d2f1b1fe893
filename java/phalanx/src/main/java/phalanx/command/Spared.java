package phalanx.command;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import phalanx.Keyring;

/** The files that hold the user's keys and passwords, which no output replaces. */
public final class Spared {
    /** The most links that a kernel follows. */
    private static final int MOST_LINKS = 40;

    private Spared() {}

    /** Refuses an output in the place of such a file, whatever path leads there. */
    static void check(Options options, Places.Place place) throws Failure {
        if (place.writesStandard()) {
            return;
        }
        List<Path> keys = new ArrayList<>();
        for (String option : List.of("--key-file", "--password-file", "--identity")) {
            for (String file : options.all(option)) {
                // Standard input may be such a file too.
                keys.add(file.equals(Places.STANDARD) ? Path.of("/dev/stdin") : Places.path(file));
            }
        }
        check(place.output(), Places.path(place.output()), keys);
    }

    /** Refuses an output in the place of one of these files, or of a key of the keyring. */
    public static void check(String name, Path output, List<Path> secrets) throws Failure {
        if (!Files.exists(output, LinkOption.NOFOLLOW_LINKS) || Files.isDirectory(output)) {
            return;
        }
        List<Path> keys = new ArrayList<>(secrets);
        Path parent = output.toAbsolutePath().getParent();
        boolean isSpared = false;
        try {
            Path keyring = Keyring.usual().folder();
            isSpared = isSame(keyring, parent);
            try (DirectoryStream<Path> entries = Files.newDirectoryStream(keyring)) {
                entries.forEach(keys::add);
            }
        } catch (IOException | IllegalStateException e) {
            // There is no keyring.
        }
        for (Path key : keys) {
            // Replacing a link does not change the file that it leads to, unless the key is found through that link.
            isSpared |= Files.isSymbolicLink(output) ? leadsBy(key, output) : isSame(key, output);
        }
        if (isSpared) {
            throw Failure.usage(Text.shown(name)
                    + ": it holds a key or password, which no output replaces")
                    .hint("name another output, or move it away");
        }
    }

    /** Whether a link is among those that the last name of a path leads through. */
    private static boolean leadsBy(Path path, Path link) {
        Path at = path.toAbsolutePath();
        for (int followed = 0; followed < MOST_LINKS && Files.isSymbolicLink(at); followed++) {
            if (isSameEntry(at, link)) {
                return true;
            }
            try {
                at = at.resolveSibling(Files.readSymbolicLink(at));
            } catch (IOException e) {
                return false;
            }
        }
        return false;
    }

    private static boolean isSameEntry(Path a, Path b) {
        return a.getFileName() != null
                && a.getFileName().equals(b.getFileName())
                && isSame(a.toAbsolutePath().getParent(), b.toAbsolutePath().getParent());
    }

    private static boolean isSame(Path a, Path b) {
        try {
            return Files.isSameFile(a, b);
        } catch (IOException e) {
            return false;
        }
    }
}
