package phalanx.ffi;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.ProviderMismatchException;

/** Java's strings as those of C. */
final class Strings {
    /** How Java writes the names of files. */
    private static final Charset NAMES = Charset.forName(System.getProperty("sun.jnu.encoding", "UTF-8"));

    private Strings() {}

    /** A text. C would take one with a zero byte for a shorter one. */
    static MemorySegment text(Arena arena, String name, String text) {
        if (text.indexOf('\0') >= 0) {
            throw new IllegalArgumentException(name + " has a zero byte");
        }
        return bytes(arena, text, StandardCharsets.UTF_8);
    }

    /** A path of the usual file system, as {@link #absolute} writes it. */
    static MemorySegment path(Arena arena, Path path) {
        if (path.getFileSystem() != FileSystems.getDefault()) {
            throw new ProviderMismatchException("not a path of the usual file system");
        }
        if (!isText(path.toAbsolutePath())) {
            throw new InvalidPathException(path.toString(), "the library cannot be given a name that is no text in " + NAMES);
        }
        return bytes(arena, absolute(path), NAMES);
    }

    /** A path as the library gets it: Java's current folder need not be the one of the process. */
    static String absolute(Path path) {
        return path.toAbsolutePath().toString();
    }

    /** Whether the path's text names the same file. Java replaces bytes that are no characters. */
    private static boolean isText(Path path) {
        try {
            return Path.of(path.toString()).equals(path);
        } catch (InvalidPathException e) {
            return false;
        }
    }

    private static MemorySegment bytes(Arena arena, String text, Charset charset) {
        try {
            ByteBuffer encoded = charset.newEncoder().encode(CharBuffer.wrap(text));
            MemorySegment string = arena.allocate(encoded.remaining() + 1L);
            MemorySegment.copy(encoded.array(), encoded.arrayOffset(), string, ValueLayout.JAVA_BYTE, 0, encoded.remaining());
            return string;
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("not a text in " + charset, e);
        }
    }
}
