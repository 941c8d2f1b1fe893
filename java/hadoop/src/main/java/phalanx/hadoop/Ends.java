package phalanx.hadoop;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * The headers and last chunks of files that were read of late, as they are stored: nothing of them is secret, and all is authenticated anew whenever a file
 * is opened. Engines open a file several times, such as for its schema, its footer and its columns. Only versions that an ETag names are kept.
 */
final class Ends {
    static final int MOST_BYTES = 16 << 20;
    /** About what an entry takes beside its bytes: its path, its ETag and its place in the map. */
    static final int ENTRY = 500;

    private record Version(Path path, long length, String etag) {}

    /**
     * What is known of a version of a file.
     *
     * @param header the header
     * @param last the last chunk with its nonce and its tag, or null
     */
    record Known(byte[] header, byte[] last) {
        int length() {
            return ENTRY + header.length + (last == null ? 0 : last.length);
        }
    }

    private final Map<Version, Known> all = new LinkedHashMap<>(16, 0.75f, true);
    private long bytes;

    synchronized Optional<Known> find(FileStatus file) {
        return Optional.ofNullable(all.get(version(file)));
    }

    /** Keeps both, or the header alone if {@code last} is null or very long. The arrays must not change. */
    synchronized void keep(FileStatus file, byte[] header, byte[] last) {
        Version version = version(file);
        Known both = new Known(header, last);
        Known known = both.length() > MOST_BYTES / 4 ? new Known(header, null) : both;
        if (version.etag == null || known.length() > MOST_BYTES / 4) {
            return;
        }
        Known before = all.put(version, known);
        bytes += known.length() - (before == null ? 0 : before.length());
        for (Iterator<Known> oldest = all.values().iterator(); bytes > MOST_BYTES;) {
            bytes -= oldest.next().length();
            oldest.remove();
        }
    }

    private static Version version(FileStatus file) {
        return new Version(file.getPath(), file.getLen(), PlainStatus.etagOf(file));
    }
}
