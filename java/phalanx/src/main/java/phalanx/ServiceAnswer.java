package phalanx;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Base64;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The answer of a service's program: one JSON object (RFC 8259), whose fields {@code plaintext}, {@code ciphertext} and {@code error}
 * are texts. Others do not matter, but must be JSON. It may hold a secret, so nothing makes a string of it but of the error.
 */
final class ServiceAnswer implements AutoCloseable {
    private static final Set<String> FIELDS = Set.of("plaintext", "ciphertext", "error");
    private static final int DEEPEST = 128;
    private static final String ESCAPES = "\"\\/bfnrt";
    private static final String ESCAPED = "\"\\/\b\f\n\r\t";

    /** It is not such an object. */
    static final class Malformed extends Exception {
        private static final long serialVersionUID = 1L;

        Malformed() {
            super("not a JSON object of texts", null, false, false);
        }
    }

    private final char[] json;
    private final int end;
    private final Map<String, char[]> fields = new HashMap<>();
    private int at;

    private ServiceAnswer(char[] json, int end) {
        this.json = json;
        this.end = end;
    }

    /** Reads an answer. */
    static ServiceAnswer parse(byte[] answer) throws Malformed {
        CharBuffer decoded = CharBuffer.allocate(answer.length);
        var decoder = StandardCharsets.UTF_8.newDecoder()
                .onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT);
        ServiceAnswer parsed = null;
        boolean isWhole = false;
        try {
            var result = decoder.decode(ByteBuffer.wrap(answer), decoded, true);
            if (result.isError()) {
                result.throwException();
            }
            parsed = new ServiceAnswer(decoded.array(), decoded.position());
            parsed.object();
            isWhole = true;
            return parsed;
        } catch (CharacterCodingException e) {
            throw new Malformed();
        } finally {
            Arrays.fill(decoded.array(), '\0');
            if (parsed != null && !isWhole) {
                parsed.close();
            }
        }
    }

    /** A field, or null if it is not there. It is wiped with this. */
    char[] text(String field) {
        return fields.get(field);
    }

    /** Why the service refuses, or null. */
    String error() {
        char[] error = fields.get("error");
        return error == null ? null : new String(error);
    }

    /** The bytes of a text in Base64, with padding and in the one form that they have. */
    static Optional<byte[]> decode(char[] text) {
        byte[] ascii = new byte[text.length];
        byte[] again = {};
        byte[] bytes = {};
        boolean isSame = false;
        try {
            for (int i = 0; i < text.length; i++) {
                ascii[i] = (byte) (text[i] > '~' ? 0 : text[i]);
            }
            bytes = Base64.getDecoder().decode(ascii);
            again = Base64.getEncoder().encode(bytes);
            isSame = Arrays.equals(ascii, again);
            return isSame ? Optional.of(bytes) : Optional.empty();
        } catch (IllegalArgumentException e) {
            return Optional.empty();
        } finally {
            Arrays.fill(ascii, (byte) 0);
            Arrays.fill(again, (byte) 0);
            if (!isSame) {
                Arrays.fill(bytes, (byte) 0);
            }
        }
    }

    /** The whole answer. */
    private void object() throws Malformed {
        space();
        expect('{');
        space();
        if (!skip('}')) {
            do {
                member();
            } while (skip(','));
            expect('}');
        }
        space();
        check(at == end);
    }

    private void member() throws Malformed {
        space();
        char[] name = string();
        String field = new String(name);
        Arrays.fill(name, '\0');
        space();
        expect(':');
        space();
        if (FIELDS.contains(field)) {
            check(!fields.containsKey(field));
            if (!skip("null")) {
                fields.put(field, string());
            }
        } else {
            other();
        }
        space();
    }

    /** Any value, which does not matter. It does not recurse, since others chose its depth. */
    private void other() throws Malformed {
        Deque<Character> open = new ArrayDeque<>();
        do {
            // A value begins here.
            space();
            if (skip('{')) {
                check(open.size() < DEEPEST);
                open.push('}');
                space();
                if (!skip('}')) {
                    name();
                    continue;
                }
                open.pop();
            } else if (skip('[')) {
                check(open.size() < DEEPEST);
                open.push(']');
                space();
                if (!skip(']')) {
                    continue;
                }
                open.pop();
            } else {
                scalar();
            }
            afterValue(open);
        } while (!open.isEmpty());
    }

    /** Ends what ends behind a value, and goes on to the next value. */
    private void afterValue(Deque<Character> open) throws Malformed {
        while (!open.isEmpty()) {
            space();
            if (skip(',')) {
                space();
                if (open.peek() == '}') {
                    name();
                }
                return;
            }
            expect(open.pop());
        }
    }

    private void name() throws Malformed {
        wipe(string());
        space();
        expect(':');
    }

    private void scalar() throws Malformed {
        check(at < end);
        if (json[at] == '"') {
            wipe(string());
        } else if (!skip("true") && !skip("false") && !skip("null")) {
            number();
        }
    }

    private void number() throws Malformed {
        skip('-');
        if (!skip('0')) {
            digits();
        }
        if (skip('.')) {
            digits();
        }
        if (skip('e') || skip('E')) {
            if (!skip('+')) {
                skip('-');
            }
            digits();
        }
    }

    private void digits() throws Malformed {
        int first = at;
        while (at < end && json[at] >= '0' && json[at] <= '9') {
            at++;
        }
        check(at > first);
    }

    /** A string, without its escapes. Wipe it. */
    private char[] string() throws Malformed {
        expect('"');
        int close = at;
        while (close < end && json[close] != '"') {
            close += json[close] == '\\' ? 2 : 1;
        }
        check(close < end);
        // It is no longer than with its escapes, and never grows, because growing would leave copies.
        char[] text = new char[close - at];
        int length = 0;
        try {
            while (!skip('"')) {
                check(at < end && json[at] >= ' ');
                char each = json[at++];
                text[length++] = each == '\\' ? escape() : each;
            }
            checkPairs(text, length);
            return Arrays.copyOf(text, length);
        } finally {
            wipe(text);
        }
    }

    private char escape() throws Malformed {
        check(at < end);
        char each = json[at++];
        if (each != 'u') {
            int which = ESCAPES.indexOf(each);
            check(which >= 0);
            return ESCAPED.charAt(which);
        }
        check(end - at >= 4);
        int code = 0;
        for (int i = 0; i < 4; i++) {
            char digit = json[at++];
            check(digit < 0x80 && Character.digit(digit, 16) >= 0);
            code = code << 4 | Character.digit(digit, 16);
        }
        return (char) code;
    }

    /** Refuses halves of surrogate pairs, which are no characters. */
    private static void checkPairs(char[] text, int length) throws Malformed {
        for (int i = 0; i < length; i++) {
            if (Character.isHighSurrogate(text[i]) && i + 1 < length && Character.isLowSurrogate(text[i + 1])) {
                i++;
            } else {
                check(!Character.isSurrogate(text[i]));
            }
        }
    }

    private void space() {
        while (at < end && " \t\r\n".indexOf(json[at]) >= 0) {
            at++;
        }
    }

    private boolean skip(char wanted) {
        boolean isThere = at < end && json[at] == wanted;
        at += isThere ? 1 : 0;
        return isThere;
    }

    private boolean skip(String word) {
        boolean isThere = end - at >= word.length();
        for (int i = 0; isThere && i < word.length(); i++) {
            isThere = json[at + i] == word.charAt(i);
        }
        at += isThere ? word.length() : 0;
        return isThere;
    }

    private void expect(char wanted) throws Malformed {
        check(skip(wanted));
    }

    private static void check(boolean holds) throws Malformed {
        if (!holds) {
            throw new Malformed();
        }
    }

    private static void wipe(char[] text) {
        Arrays.fill(text, '\0');
    }

    /** Shows nothing of it. */
    @Override
    public String toString() {
        return "ServiceAnswer";
    }

    @Override
    public void close() {
        fields.values().forEach(ServiceAnswer::wipe);
        fields.clear();
    }
}
