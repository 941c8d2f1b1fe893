package phalanx;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.function.IntPredicate;
import java.util.regex.Pattern;

/**
 * A pattern of paths, with the meaning that rsync gives it. Names need not be text, so each byte is one character here, and the JDK's
 * expressions match.
 */
final class PathPattern {
    private static final int ALL_NAMES = -1;

    /**
     * What matches a part of a path.
     *
     * @param before how many names before the last one it looks at, or {@link #ALL_NAMES}
     */
    private record Glob(Pattern expression, int before, boolean foldersOnly) {
        boolean matches(String path, boolean isFolder) {
            if (foldersOnly && !isFolder) {
                return false;
            }
            return expression.matcher(before == ALL_NAMES ? path : end(path)).matches();
        }

        /** The last names. A path that has fewer is all of it. */
        private String end(String path) {
            int slash = path.length();
            for (int i = 0; i <= before && slash >= 0; i++) {
                slash = path.lastIndexOf('/', slash - 1);
            }
            return path.substring(slash + 1);
        }
    }

    /**
     * A part of a pattern.
     *
     * @param text what it is as an expression
     */
    private record Token(Kind kind, String text) {
        enum Kind {
            SLASH,
            BYTE,
            ANY_PATH,
            OTHER
        }
    }

    private static final Token ANY_NAME = new Token(Token.Kind.OTHER, "[^/]*+");
    private static final Token ANY_NAME_BACK = new Token(Token.Kind.OTHER, "[^/]*");
    private static final Token ANY_PATH = new Token(Token.Kind.ANY_PATH, ".*");

    private final List<Glob> globs;

    private PathPattern(List<Glob> globs) {
        this.globs = globs;
    }

    boolean matches(String path, boolean isFolder) {
        return globs.stream().anyMatch(glob -> glob.matches(path, isFolder));
    }

    static PathPattern of(RawName name) {
        if (name.length() == 0) {
            throw new IllegalArgumentException("a pattern is empty");
        }
        String pattern = new String(name.toBytes(), StandardCharsets.ISO_8859_1);
        try {
            return new PathPattern(globs(pattern));
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("pattern " + name + ": " + e.getMessage());
        }
    }

    /** It matches what one of these matches. */
    private static List<Glob> globs(String whole) {
        boolean foldersOnly = whole.length() > 1 && whole.endsWith("/");
        String pattern = foldersOnly ? whole.substring(0, whole.length() - 1) : whole;
        boolean isAnchored = pattern.startsWith("/");
        List<Token> tokens = tokens(isAnchored ? pattern.substring(1) : pattern);
        List<Glob> globs = new ArrayList<>();
        int last = tokens.size() - 1;
        // dir/*** is the folder, as well as dir/**.
        if (pattern.endsWith("***") && last >= 1 && tokens.get(last).kind == Token.Kind.ANY_PATH
                && tokens.get(last - 1).kind == Token.Kind.SLASH) {
            globs.add(glob(isAnchored, tokens.subList(0, last - 1), true));
        }
        globs.add(glob(isAnchored, tokens, foldersOnly));
        return globs;
    }

    /** What these tokens match, from the source on or from any folder on. */
    private static Glob glob(boolean isAnchored, List<Token> all, boolean foldersOnly) {
        List<Token> tokens = all;
        // For rsync a path begins with a slash here.
        if (!isAnchored && all.size() >= 2 && all.get(0).kind == Token.Kind.ANY_PATH && all.get(1).kind == Token.Kind.SLASH) {
            tokens = all.subList(2, all.size());
        }
        boolean hasAnyPath = tokens.stream().anyMatch(token -> token.kind == Token.Kind.ANY_PATH);
        int slashes = (int) tokens.stream().filter(token -> token.kind == Token.Kind.SLASH).count();
        StringBuilder expression = new StringBuilder(!isAnchored && hasAnyPath ? "(?:.*/)?" : "");
        tokens.forEach(token -> expression.append(token.text));
        Pattern compiled = Pattern.compile(expression.toString(), Pattern.DOTALL);
        return new Glob(compiled, isAnchored || hasAnyPath ? ALL_NAMES : slashes, foldersOnly);
    }

    /** The parts of a pattern. Without wildcards, a backslash is nothing special. */
    private static List<Token> tokens(String pattern) {
        List<Token> tokens = new ArrayList<>();
        boolean hasWildcards = pattern.chars().anyMatch(c -> c == '*' || c == '?' || c == '[');
        int at = 0;
        while (at < pattern.length()) {
            char c = pattern.charAt(at++);
            if (!hasWildcards) {
                tokens.add(literal(c));
            } else if (c == '\\') {
                if (at == pattern.length()) {
                    throw new IllegalArgumentException("nothing follows the \\ at its end");
                }
                tokens.add(literal(pattern.charAt(at++)));
            } else if (c == '?') {
                tokens.add(new Token(Token.Kind.OTHER, "[^/]"));
            } else if (c == '*') {
                int first = at;
                while (at < pattern.length() && pattern.charAt(at) == '*') {
                    at++;
                }
                // Where a name ends behind it, nothing of it is tried again.
                boolean isEnd = at == pattern.length() || pattern.charAt(at) == '/';
                tokens.add(at > first ? ANY_PATH : isEnd ? ANY_NAME : ANY_NAME_BACK);
            } else if (c == '[') {
                ByteSet set = new ByteSet(pattern, at);
                tokens.add(new Token(Token.Kind.OTHER, set.expression()));
                at = set.at;
            } else {
                tokens.add(literal(c));
            }
        }
        return tokens;
    }

    private static Token literal(char c) {
        return new Token(c == '/' ? Token.Kind.SLASH : Token.Kind.BYTE, escaped(c));
    }

    private static String escaped(int c) {
        return String.format("\\x%02x", c);
    }

    /** The bytes of a set, which begins after its bracket. */
    private static final class ByteSet {
        private static final String OPEN = "a [ in it has no ]";

        private final String pattern;
        private final BitSet set = new BitSet(256);
        /** The place behind what has been read. */
        int at;

        ByteSet(String pattern, int at) {
            this.pattern = pattern;
            this.at = at;
            boolean isNegated = at < pattern.length() && (pattern.charAt(at) == '!' || pattern.charAt(at) == '^');
            if (isNegated) {
                this.at++;
            }
            read();
            if (isNegated) {
                set.flip(0, 256);
            }
            set.clear('/');
        }

        private char next() {
            if (at == pattern.length()) {
                throw new IllegalArgumentException(OPEN);
            }
            return pattern.charAt(at++);
        }

        private void read() {
            // What a range may begin with.
            int before = -1;
            boolean isFirst = true;
            while (true) {
                char c = next();
                if (c == ']' && !isFirst) {
                    return;
                }
                isFirst = false;
                boolean isRange = c == '-' && before >= 0 && at < pattern.length() && pattern.charAt(at) != ']';
                String name = c == '[' ? named() : null;
                if (isRange) {
                    char high = next();
                    // One from z to a is empty.
                    set.set(before, Math.max(before, (high == '\\' ? next() : high) + 1));
                    before = -1;
                } else if (name != null) {
                    addNamed(name);
                    at += name.length() + 3;
                    before = -1;
                } else if (c == '/') {
                    throw new IllegalArgumentException("a / is never one of a [ ]");
                } else {
                    before = c == '\\' ? next() : c;
                    set.set(before);
                }
            }
        }

        /** The name of a set in a set, if one follows. */
        private String named() {
            int end = pattern.indexOf(']', at);
            boolean isNamed = at < pattern.length() && pattern.charAt(at) == ':' && end > at + 1 && pattern.charAt(end - 1) == ':';
            return isNamed ? pattern.substring(at + 1, end - 1) : null;
        }

        /** The bytes of a set with a name, as in the locale C. */
        private void addNamed(String name) {
            IntPredicate isLower = c -> c >= 'a' && c <= 'z';
            IntPredicate isUpper = c -> c >= 'A' && c <= 'Z';
            IntPredicate isDigit = c -> c >= '0' && c <= '9';
            IntPredicate isAlnum = isLower.or(isUpper).or(isDigit);
            IntPredicate isGraph = c -> c > ' ' && c < 0x7f;
            IntPredicate has = switch (name) {
                case "alnum" -> isAlnum;
                case "alpha" -> isLower.or(isUpper);
                case "blank" -> c -> c == ' ' || c == '\t';
                case "cntrl" -> c -> c < ' ' || c == 0x7f;
                case "digit" -> isDigit;
                case "graph" -> isGraph;
                case "lower" -> isLower;
                case "print" -> c -> c >= ' ' && c < 0x7f;
                case "punct" -> isGraph.and(isAlnum.negate());
                case "space" -> c -> c == ' ' || c >= '\t' && c <= '\r';
                case "upper" -> isUpper;
                case "xdigit" -> c -> isDigit.test(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F';
                default -> throw new IllegalArgumentException("it has a [: :] with a name that is unknown");
            };
            for (int c = 0; c < 128; c++) {
                if (has.test(c)) {
                    set.set(c);
                }
            }
        }

        String expression() {
            if (set.isEmpty()) {
                return "(?!)";
            }
            StringBuilder all = new StringBuilder("[");
            set.stream().forEach(c -> all.append(escaped(c)));
            return all.append(']').toString();
        }
    }
}
