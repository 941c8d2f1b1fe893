package phalanx.command;

import java.util.Locale;

/** What is shown to people. */
public final class Text {
    private static final int LONGEST = 4096;
    private static final int END = 256;

    private Text() {}

    /** A path in a form that is safe to show: without control characters, which could deceive a terminal. */
    public static String shown(String path) {
        if (path.length() <= LONGEST) {
            return oneLine(path);
        }
        return oneLine(path.substring(0, END)) + "…" + oneLine(path.substring(path.length() - END));
    }

    /**
     * The text as one line. Control characters, and those that change the direction of text, are escaped.
     *
     * @param text any text
     * @return the line
     */
    public static String oneLine(String text) {
        StringBuilder line = new StringBuilder();
        text.codePoints().forEach(c -> {
            boolean turns = c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069;
            if (c == '\n') {
                line.append("\\n");
            } else if (c == '\r') {
                line.append("\\r");
            } else if (c == '\t') {
                line.append("\\t");
            } else if (Character.isISOControl(c) || turns) {
                line.append(String.format("\\u{%x}", c));
            } else {
                line.appendCodePoint(c);
            }
        });
        return line.toString();
    }

    /** "1 byte", "2 bytes", "3 passes". */
    public static String count(long n, String thing) {
        if (n == 1) {
            return n + " " + thing;
        }
        return n + " " + thing + (thing.endsWith("s") ? "es" : "s");
    }

    /** A size in decimal units: "16 bytes", "900 kB", "1.2 GB". */
    static String size(long bytes) {
        return bytes < 1000 ? count(bytes, "byte") : scaled(bytes);
    }

    /** "589 kB in 14 ms". */
    static String brief(long bytes, long nanos) {
        return size(bytes) + " in " + duration(nanos);
    }

    /** "589 kB in 14 ms, 42 MB/s". */
    public static String summary(long bytes, long nanos) {
        if (bytes == 0) {
            return brief(bytes, nanos);
        }
        double speed = bytes / Math.max(1e-9, nanos / 1e9);
        String rate = speed < 999.5 ? String.format(Locale.ROOT, "%.0f B/s", speed) : scaled(speed) + "/s";
        return brief(bytes, nanos) + ", " + rate;
    }

    private static String duration(long nanos) {
        double milliseconds = nanos / 1e6;
        if (milliseconds < 9.95) {
            return String.format(Locale.ROOT, "%.1f ms", milliseconds);
        }
        if (milliseconds < 999.5) {
            return String.format(Locale.ROOT, "%.0f ms", milliseconds);
        }
        return String.format(Locale.ROOT, "%.1f s", milliseconds / 1e3);
    }

    private static String scaled(double bytes) {
        String[] units = {"kB", "MB", "GB", "TB", "PB", "EB"};
        double value = bytes / 1e3;
        int unit = 0;
        while (value >= 999.5 && unit < units.length - 1) {
            value /= 1e3;
            unit++;
        }
        return String.format(Locale.ROOT, value < 9.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    }

    /** The arrow between an input and its output, in a form that the user's locale can show. */
    static String arrow() {
        for (String name : new String[] {"LC_ALL", "LC_CTYPE", "LANG"}) {
            String locale = System.getenv(name);
            if (locale != null && !locale.isEmpty()) {
                String codeset = locale.replaceFirst("^[^.]*\\.?", "").replaceFirst("@.*", "");
                return codeset.equalsIgnoreCase("utf-8") || codeset.equalsIgnoreCase("utf8") ? "→" : "->";
            }
        }
        return "->";
    }
}
