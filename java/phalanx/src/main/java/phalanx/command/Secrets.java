package phalanx.command;

import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/**
 * Secrets in the command line. They are refused before any message can repeat them. Everybody who can list processes
 * sees arguments, and shells keep them.
 */
public final class Secrets {
    private static final String PASSWORD =
            "--password takes no value: a password does not belong in arguments, where others can see it";
    private static final String KEY =
            "a key's text does not belong in arguments, where others can see it";
    private static final String SWITCHES = "pfqvhV";
    private static final String WITH_VALUE = "oktri";
    private static final String KEY_PREFIX = "PHALANXKEY1";
    private static final int SHORTEST_KEY_TEXT = 42;

    private Secrets() {}

    /** Refuses an argument that looks like a password after {@code --password}, or like a key's text. */
    public static void refuse(List<String> args) throws Failure {
        boolean afterPassword = false;
        boolean pathsOnly = false;
        for (String arg : args) {
            boolean isOption = !pathsOnly && arg.length() > 1 && arg.startsWith("-") && !isIdentity(arg);
            if (isOption) {
                afterPassword = asksForPassword(arg);
                pathsOnly = arg.equals("--");
                String value = attached(arg);
                if (isKeyText(value) && isMissing(value)) {
                    throw key();
                }
                continue;
            }
            // An existing path is taken as a path, whatever option it follows.
            if ((afterPassword || isKeyText(arg)) && isMissing(arg)) {
                throw afterPassword ? password() : key();
            }
            afterPassword = false;
        }
    }

    private static boolean asksForPassword(String option) throws Failure {
        boolean isCluster = isCluster(option);
        if (option.startsWith("--password=") || option.startsWith("-p") && !isCluster) {
            throw password();
        }
        return option.equals("--password") || isCluster && option.endsWith("p");
    }

    private static Failure key() {
        return Failure.usage(KEY).hint("give the file that holds it, or - to type it");
    }

    private static Failure password() {
        return Failure.usage(PASSWORD)
                .hint("leave it out and it is asked for, or use --password-file or PHALANX_PASSWORD");
    }

    private static boolean isCluster(String option) {
        String letters = option.substring(1);
        for (int i = 0; i < letters.length(); i++) {
            boolean isLast = i == letters.length() - 1;
            boolean fits = SWITCHES.indexOf(letters.charAt(i)) >= 0 || isLast && WITH_VALUE.indexOf(letters.charAt(i)) >= 0;
            if (!fits) {
                return false;
            }
        }
        return true;
    }

    /** The value within an option's argument, or nothing. */
    private static String attached(String option) {
        int at = 1;
        if (option.startsWith("--")) {
            at = option.indexOf('=');
            return at < 0 ? "" : option.substring(at + 1);
        }
        while (at < option.length() && SWITCHES.indexOf(option.charAt(at)) >= 0) {
            at++;
        }
        boolean takes = at < option.length() && WITH_VALUE.indexOf(option.charAt(at)) >= 0;
        String value = takes ? option.substring(at + 1) : "";
        return value.startsWith("=") ? value.substring(1) : value;
    }

    private static boolean isKeyText(String arg) {
        String bare = arg.replaceAll("[\\s-]", "").toUpperCase(Locale.ROOT);
        return arg.length() > SHORTEST_KEY_TEXT && bare.startsWith(KEY_PREFIX) || isIdentity(arg);
    }

    /** Whether it is a private key of age or SSH, or a file of them. */
    private static boolean isIdentity(String arg) {
        return arg.lines().map(line -> line.stripLeading().toUpperCase(Locale.ROOT)).anyMatch(line ->
                line.startsWith("AGE-SECRET-KEY-") || line.startsWith("AGE-PLUGIN-") || line.startsWith("-----BEGIN"));
    }

    private static boolean isMissing(String path) {
        try {
            return !path.equals("-") && !Files.exists(Path.of(path), LinkOption.NOFOLLOW_LINKS);
        } catch (RuntimeException e) {
            // It cannot be a path.
            return true;
        }
    }
}
