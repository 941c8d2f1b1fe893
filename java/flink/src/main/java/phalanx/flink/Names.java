package phalanx.flink;

import java.net.URI;
import org.apache.flink.core.fs.Path;

/** Where a file lies in the inner file system: {@code phalanx+s3://bucket/a} is {@code s3://bucket/a.phx}. */
final class Names {
    static final String PREFIX = "phalanx+";
    static final String ENDING = ".phx";

    private Names() {}

    static URI inner(URI outer) {
        String text = outer.toString();
        if (!text.startsWith(PREFIX) || text.length() == PREFIX.length()) {
            throw new IllegalArgumentException("not a URI of the form phalanx+FS://…: " + outer);
        }
        return URI.create(text.substring(PREFIX.length()));
    }

    /** The same path in another scheme. */
    static Path withScheme(String scheme, Path path) {
        URI uri = path.toUri();
        return new Path(scheme, uri.getAuthority(), uri.getPath());
    }

    /** The protected file of a path. */
    static Path stored(Path path) {
        return path.getName().isEmpty() ? path : path.suffix(ENDING);
    }

    /** Whether a file of this name is shown. */
    static boolean isStored(Path path) {
        String name = path.getName();
        return name.length() > ENDING.length() && name.endsWith(ENDING);
    }

    /** The path of a protected file, without its ending. */
    static Path plain(Path stored) {
        String name = stored.getName();
        return new Path(stored.getParent(), name.substring(0, name.length() - ENDING.length()));
    }
}
