package phalanx;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * Which entries of a folder are left out of its mirror, by patterns that mean what they mean for rsync and for {@code phalanx mirror}.
 * The first one that matches an entry decides; an entry that none matches is kept. In a folder that is left out nothing is
 * looked at.
 *
 * <pre>{@code
 * Excludes excludes = Excludes.of(List.of(Excludes.Rule.include("final.dat"), Excludes.Rule.exclude("*.dat")));
 * boolean isLeftOut = excludes.excludes(RawName.of("results/step.dat"), false);
 * }</pre>
 */
public final class Excludes {
    /** Nothing is left out. */
    public static final Excludes NONE = new Excludes(List.of(), List.of());

    /**
     * A rule: what happens to the entries that its pattern matches.
     *
     * @param excludes whether they are left out, or kept
     * @param pattern a pattern of rsync
     */
    public record Rule(boolean excludes, RawName pattern) {
        /**
         * What it matches is left out.
         *
         * @param pattern a pattern of rsync
         * @return the rule
         */
        public static Rule exclude(String pattern) {
            return new Rule(true, RawName.of(pattern));
        }

        /**
         * What it matches is kept.
         *
         * @param pattern a pattern of rsync
         * @return the rule
         */
        public static Rule include(String pattern) {
            return new Rule(false, RawName.of(pattern));
        }
    }

    private final List<Rule> rules;
    /** What each rule matches. */
    private final List<PathPattern> patterns;

    private Excludes(List<Rule> rules, List<PathPattern> patterns) {
        this.rules = rules;
        this.patterns = patterns;
    }

    /**
     * What these rules leave out.
     *
     * @param rules the rules, in their order
     * @return the rules, ready
     * @throws IllegalArgumentException if a pattern is not one, or all together are longer than 1 MiB
     */
    public static Excludes of(List<Rule> rules) {
        List<PathPattern> patterns = new ArrayList<>();
        for (Rule rule : rules) {
            patterns.add(PathPattern.of(rule.pattern()));
        }
        Excludes excludes = new Excludes(List.copyOf(rules), patterns);
        if (excludes.text().getBytes(StandardCharsets.UTF_8).length > Manifest.MOST_RULES) {
            throw new IllegalArgumentException("patterns and paths of --files-from are more than 1 MiB together");
        }
        return excludes;
    }

    /**
     * The rules as a manifest lists them. The same rules have the same text in all programs.
     *
     * @return a line for each rule
     */
    public String text() {
        StringBuilder text = new StringBuilder();
        for (Rule rule : rules) {
            text.append(rule.excludes() ? "exclude " : "include ").append(escaped(rule.pattern())).append('\n');
        }
        return text.toString();
    }

    /** Bytes as text: what a line cannot have is a percent sign and two hexadecimal digits. */
    private static String escaped(RawName name) {
        StringBuilder text = new StringBuilder();
        byte[] bytes = name.toBytes();
        for (int i = 0; i < bytes.length; ) {
            int length = lengthOfCharacter(bytes, i);
            boolean isPlain = length > 1 || length == 1 && bytes[i] >= 0x20 && bytes[i] != 0x7f && bytes[i] != '%';
            if (isPlain) {
                text.append(new String(bytes, i, length, StandardCharsets.UTF_8));
            } else {
                text.append('%').append(HexFormat.of().toHexDigits(bytes[i]));
            }
            i += Math.max(1, length);
        }
        return text.toString();
    }

    /** How many bytes the character of UTF-8 has that begins here; 0 if there is none. */
    private static int lengthOfCharacter(byte[] bytes, int at) {
        int first = bytes[at] & 0xff;
        int length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
        if (length == 0 || at + length > bytes.length) {
            return 0;
        }
        RawName character = new RawName(java.util.Arrays.copyOfRange(bytes, at, at + length));
        return RawName.of(character.toString()).equals(character) ? length : 0;
    }

    /**
     * Whether an entry is left out. What is in a folder that is left out is not asked for: it is left out too.
     *
     * @param path its path from the source on, with {@code /} between the names
     * @param isFolder whether it is a folder
     * @return whether it is left out
     */
    public boolean excludes(RawName path, boolean isFolder) {
        return excludesBytes(new String(path.toBytes(), StandardCharsets.ISO_8859_1), isFolder);
    }

    /** The same of a path with a character for each byte. */
    boolean excludesBytes(String bytes, boolean isFolder) {
        for (int i = 0; i < rules.size(); i++) {
            if (patterns.get(i).matches(bytes, isFolder)) {
                return rules.get(i).excludes();
            }
        }
        return false;
    }
}
