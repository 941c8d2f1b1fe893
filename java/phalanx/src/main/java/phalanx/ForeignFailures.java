package phalanx;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;

/**
 * The failures of libphalanx as those of this library. This is for {@code phalanx-native}, which calls libphalanx; other programs have
 * no use for it.
 */
public final class ForeignFailures {
    private ForeignFailures() {}

    /**
     * The failure of a call.
     *
     * @param kind its kind, as {@code phalanx_error_kind()} names it
     * @param text its line, as {@code phalanx_error_text()} has it, without a path
     * @param hint what to do, or null
     * @param input the file that the call reads, or null
     * @param output the file that the call writes, or null
     * @return the exception to throw
     * @throws IllegalArgumentException if an argument was wrong
     */
    public static IOException of(String kind, String text, String hint, Path input, Path output) {
        return switch (kind) {
            case "not-phalanx" -> new NotPhalanxException();
            case "version" -> UnsupportedVersionException.told(text);
            case "header" -> MalformedHeaderException.told(text);
            case "volume" -> MalformedHeaderException.volume();
            case "wrong-key", "no-key", "no-password", "no-way", "keys-refused" -> WrongKeyException.told(kind, text, hint);
            case "derivation-limit" -> KeyDerivationException.told(text, true);
            case "derivation-memory" -> KeyDerivationException.told(text, false);
            case "altered", "extended", "messages" -> new AuthenticationException(text);
            case "truncated" -> new TruncatedException(without("truncated: ", text));
            case "no-such-key", "key-locked", "key" -> KeyException.told(kind, text, hint);
            case "changed" -> new ChangedException();
            case "same-file" -> new OutputException(new FileSystemException(name(output), null, text));
            case "output" -> new OutputException(new IOException(without("cannot write: ", text)));
            case "exists" -> new FileAlreadyExistsException(name(output));
            case "not-found" -> new NoSuchFileException(name(input));
            case "access" -> new AccessDeniedException(name(input));
            case "input", "protected" -> new FileSystemException(name(input), null, without("cannot read: ", text));
            case "argument" -> throw new IllegalArgumentException(text);
            default -> new IOException(text);
        };
    }

    /**
     * The failure of a batch.
     *
     * @param failed the indices of the messages that are not authentic, in ascending order, and at least one
     * @return the exception to throw
     */
    public static MessagesException messages(List<Integer> failed) {
        return new MessagesException(failed);
    }

    private static String without(String prefix, String text) {
        return text.startsWith(prefix) ? text.substring(prefix.length()) : text;
    }

    private static String name(Path path) {
        return path == null ? null : path.toString();
    }
}
