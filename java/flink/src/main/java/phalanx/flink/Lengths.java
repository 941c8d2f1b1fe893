package phalanx.flink;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import phalanx.Header;
import phalanx.Layout;
import phalanx.PhalanxException;
import phalanx.Suite;

/**
 * The lengths of plaintexts. Headers have several lengths, and chunks several sizes, so a file's header is read once, for which no key is needed. None of
 * this is authenticated: whoever can write to the store can show any length. A file that is opened has its true one.
 */
final class Lengths {
    private static final int MOST_KNOWN = 100_000;
    /** A file that was changed this shortly before its header was read could have been changed again within the same tick of a clock. */
    private static final long SETTLED_MILLIS = 3000;

    private record Known(long length, long modified, Suite suite, int chunkLog2, int headerLength) {}

    private final FileSystem fs;
    private final Map<Path, Known> known = new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Path, Known> eldest) {
            return size() > MOST_KNOWN;
        }
    };

    Lengths(FileSystem fs) {
        this.fs = fs;
    }

    /** What a listing shows: a file whose header cannot be read has no layout, and one that is gone is null. */
    PlainStatus shown(FileStatus stored, Path path) throws IOException {
        try {
            return new PlainStatus(stored, path, listed(stored));
        } catch (FileNotFoundException e) {
            return null;
        } catch (PhalanxException e) {
            return new PlainStatus(stored, path, null);
        }
    }

    private Layout listed(FileStatus stored) throws IOException {
        Known found;
        synchronized (known) {
            found = known.get(stored.getPath());
        }
        boolean isSame = found != null && found.length == stored.getLen() && found.modified == stored.getModificationTime();
        return isSame ? Layout.ofFile(found.suite, found.chunkLog2, found.headerLength, found.length) : layout(stored);
    }

    /** Reads the header of a file. */
    Layout layout(FileStatus stored) throws IOException {
        long now = System.currentTimeMillis();
        Header header;
        try (FSDataInputStream in = fs.open(stored.getPath())) {
            header = PlainInput.header(in);
        }
        Layout layout = header.layout(stored.getLen());
        if (now - stored.getModificationTime() > SETTLED_MILLIS) {
            Known found =
                    new Known(stored.getLen(), stored.getModificationTime(), header.suite(), header.chunkLog2(), header.length());
            synchronized (known) {
                known.put(stored.getPath(), found);
            }
        }
        return layout;
    }
}
