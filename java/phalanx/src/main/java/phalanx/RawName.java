package phalanx;

import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;

/**
 * A name of a file, or the target of a link, as the bytes that the system has. They need not be text. They are ordered
 * as unsigned numbers.
 */
public final class RawName implements Comparable<RawName> {
    private static final HexFormat HEX = HexFormat.of();

    private final byte[] bytes;

    RawName(byte[] bytes) {
        this.bytes = bytes;
    }

    /**
     * A name in UTF-8.
     *
     * @param name the name
     * @return its bytes
     */
    public static RawName of(String name) {
        return new RawName(name.getBytes(StandardCharsets.UTF_8));
    }

    /**
     * A name as bytes.
     *
     * @param bytes its bytes
     * @return the name
     */
    public static RawName ofBytes(byte[] bytes) {
        return new RawName(bytes.clone());
    }

    /**
     * The name of a path's last part.
     *
     * @param path a path of the default file system
     * @return its bytes, as the system has them
     */
    public static RawName of(Path path) {
        byte[] whole = bytesOf(path);
        int end = whole.length > 1 && whole[whole.length - 1] == '/' ? whole.length - 1 : whole.length;
        int begin = end;
        while (begin > 0 && whole[begin - 1] != '/') {
            begin--;
        }
        return new RawName(Arrays.copyOfRange(whole, begin, end));
    }

    /**
     * Where a link leads.
     *
     * @param target what {@link java.nio.file.Files#readSymbolicLink} has returned
     * @return its bytes, as the system has them
     */
    public static RawName ofTarget(Path target) {
        byte[] whole = bytesOf(target);
        int end = whole.length;
        // A slash that is not the target's says that a folder is there.
        if (whole[end - 1] == '/' && !target.toString().endsWith("/")) {
            end--;
        }
        int begin = 0;
        if (!target.isAbsolute()) {
            byte[] above = bytesOf(Path.of("").toAbsolutePath());
            begin = above[above.length - 1] == '/' ? above.length : above.length + 1;
        }
        return new RawName(Arrays.copyOfRange(whole, begin, end));
    }

    /** An absolute path. Only its URI has the bytes: its text is decoded, and not every name is text. */
    private static byte[] bytesOf(Path path) {
        String uri = path.toUri().getRawPath();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int i = 0; i < uri.length(); i++) {
            if (uri.charAt(i) == '%') {
                bytes.write(HexFormat.fromHexDigits(uri, i + 1, i + 3));
                i += 2;
            } else {
                bytes.write(uri.charAt(i));
            }
        }
        return bytes.toByteArray();
    }

    /**
     * These bytes as a path, whatever the locale.
     *
     * @return the path: relative, unless they begin with a slash
     */
    public Path path() {
        boolean isAbsolute = bytes[0] == '/';
        StringBuilder uri = new StringBuilder("file:///");
        for (int i = isAbsolute ? 1 : 0; i < bytes.length; i++) {
            uri.append('%').append(HEX.toHexDigits(bytes[i]));
        }
        Path absolute = Path.of(URI.create(uri.toString()));
        return isAbsolute ? absolute : absolute.subpath(0, absolute.getNameCount());
    }

    /** The entry of this name in a folder, whatever the locale. */
    Path inFolder(Path folder) {
        return folder.resolve(path());
    }

    /**
     * This name with more behind it.
     *
     * @param suffix what follows, such as {@code .phx}
     * @return the longer name
     */
    public RawName with(String suffix) {
        byte[] more = suffix.getBytes(StandardCharsets.UTF_8);
        byte[] both = Arrays.copyOf(bytes, bytes.length + more.length);
        System.arraycopy(more, 0, both, bytes.length, more.length);
        return new RawName(both);
    }

    /**
     * Its bytes.
     *
     * @return a copy of them
     */
    public byte[] toBytes() {
        return bytes.clone();
    }

    int length() {
        return bytes.length;
    }

    boolean contains(int b) {
        for (byte each : bytes) {
            if (each == b) {
                return true;
            }
        }
        return false;
    }

    /**
     * Whether the bytes are text in UTF-8.
     *
     * @return whether {@link #toString} says all of it
     */
    public boolean isText() {
        return of(toString()).equals(this);
    }

    @Override
    public int compareTo(RawName other) {
        return Arrays.compareUnsigned(bytes, other.bytes);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof RawName name && Arrays.equals(bytes, name.bytes);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    /** The text that the bytes are in UTF-8. What is no text is replaced. */
    @Override
    public String toString() {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
