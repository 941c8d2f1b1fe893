package phalanx.hadoop;

import java.net.URI;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * The names of files on both sides. A folder has the same name on both; the protected file of {@code a} is {@code a.phx}. Names of
 * the inner side that have another ending are not files here.
 */
final class Names {
    static final String PREFIX = "phalanx+";
    static final String ENDING = ".phx";

    private Names() {}

    /** The URI of the inner file system, of one with the scheme {@code phalanx+FS}. */
    static URI inner(URI outer) {
        String scheme = outer.getScheme();
        if (scheme == null || !scheme.startsWith(PREFIX) || scheme.length() == PREFIX.length()) {
            throw new IllegalArgumentException("not a URI of the form phalanx+FS://…: " + outer);
        }
        return URI.create(outer.toString().substring(PREFIX.length()));
    }

    /** The same path in another scheme. */
    static Path withScheme(String scheme, Path path) {
        URI uri = path.toUri();
        return new Path(scheme, uri.getAuthority(), uri.getPath());
    }

    /** The protected file of a path. */
    static Path stored(Path path) {
        return path.suffix(ENDING);
    }

    /** Whether it is a protected file that has a name here. */
    static boolean isStored(FileStatus status) {
        String name = status.getPath().getName();
        return !status.isDirectory() && name.length() > ENDING.length() && name.endsWith(ENDING);
    }

    /** The path of a protected file, without its ending. */
    static Path plain(Path stored) {
        String name = stored.getName();
        return new Path(stored.getParent(), name.substring(0, name.length() - ENDING.length()));
    }
}
