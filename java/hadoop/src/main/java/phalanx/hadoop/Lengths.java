package phalanx.hadoop;

import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.file.AccessDeniedException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.OpenFileOptions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.AccessControlException;
import phalanx.Header;
import phalanx.Layout;
import phalanx.PhalanxException;
import phalanx.Suite;

/**
 * The lengths of plaintexts. A file's stored length alone does not give that: headers have several lengths, and chunks several
 * sizes. So its header is read, for which no key is needed. Listings remember the headers of files whose length and time of
 * modification stay the same, and read those of others side by side.
 *
 * <p>None of this is authenticated: whoever can write to the store can show any length. A file that is opened has its true one.
 */
final class Lengths implements Closeable {
    private static final int MOST_KNOWN = 100_000;
    /** A file that was changed this shortly before its header was read could have been changed again within the same tick of a clock. */
    private static final long SETTLED_MILLIS = 3000;

    /** What a header said, and of which version of the file. */
    private record Known(long length, long modified, String etag, Suite suite, int chunkLog2, int headerLength) {
        boolean isOf(FileStatus file) {
            return length == file.getLen() && modified == file.getModificationTime()
                    && Objects.equals(etag, PlainStatus.etagOf(file));
        }

        Layout layout() throws IOException {
            return Layout.ofFile(suite, chunkLog2, headerLength, length);
        }
    }

    private final FileSystem fs;
    private final Ends ends;
    private final ThreadPoolExecutor readers;
    private final Map<Path, Known> known = new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Path, Known> eldest) {
            return size() > MOST_KNOWN;
        }
    };

    Lengths(FileSystem fs, Ends ends, int threads) {
        this.fs = fs;
        this.ends = ends;
        readers = new ThreadPoolExecutor(threads, threads, 10, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), work -> {
            Thread thread = new Thread(work, "phalanx-headers");
            thread.setDaemon(true);
            return thread;
        });
        readers.allowCoreThreadTimeOut(true);
    }

    /** The layout of one file, from its header, or from what is known of exactly this content, which an ETag names. */
    Layout layout(FileStatus file) throws IOException {
        Optional<Known> found = known(file);
        return found.isPresent() && found.get().etag() != null ? found.get().layout() : read(file);
    }

    /** What is shown of a file in a listing. */
    enum Kind { READABLE, UNREADABLE, GONE }

    /** The layout of a file in a listing, if it is readable. */
    record Shown(Kind kind, Layout layout) {}

    /** The layouts of files in a listing. One that cannot be read does not spoil the others. */
    List<Shown> shown(List<? extends FileStatus> files) throws IOException {
        List<Future<Shown>> read = new ArrayList<>(files.size());
        for (FileStatus file : files) {
            // One alone is read by the calling thread.
            read.add(known(file).isPresent() || files.size() == 1 ? null : readers.submit(() -> show(file)));
        }
        List<Shown> all = new ArrayList<>(files.size());
        try {
            for (int i = 0; i < files.size(); i++) {
                all.add(read.get(i) == null ? show(files.get(i)) : await(read.get(i)));
            }
            return all;
        } finally {
            read.stream().filter(Objects::nonNull).forEach(each -> each.cancel(false));
        }
    }

    private Shown show(FileStatus file) throws IOException {
        try {
            Optional<Known> found = known(file);
            return new Shown(Kind.READABLE, found.isPresent() ? found.get().layout() : read(file));
        } catch (FileNotFoundException e) {
            return new Shown(Kind.GONE, null);
        } catch (PhalanxException | AccessControlException | AccessDeniedException e) {
            return new Shown(Kind.UNREADABLE, null);
        }
    }

    private static Shown await(Future<Shown> shown) throws IOException {
        try {
            return shown.get();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof IOException cause) {
                throw cause;
            }
            throw new IOException(e.getCause());
        }
    }

    private Optional<Known> known(FileStatus file) {
        synchronized (known) {
            return Optional.ofNullable(known.get(file.getPath())).filter(each -> each.isOf(file));
        }
    }

    private Layout read(FileStatus file) throws IOException {
        long now = System.currentTimeMillis();
        Header header;
        try (FSDataInputStream in = Stored.open(fs, file, OpenFileOptions.FS_OPTION_OPENFILE_READ_POLICY_RANDOM)) {
            header = Stored.header(in, file.getLen());
        }
        if (ends.find(file).isEmpty()) {
            ends.keep(file, header.toBytes(), null);
        }
        Layout layout = header.layout(file.getLen());
        String etag = PlainStatus.etagOf(file);
        if (etag != null || now - file.getModificationTime() > SETTLED_MILLIS) {
            Known found = new Known(file.getLen(), file.getModificationTime(), etag, header.suite(), header.chunkLog2(), header.length());
            synchronized (known) {
                known.put(file.getPath(), found);
            }
        }
        return layout;
    }

    @Override
    public void close() {
        readers.shutdownNow();
    }
}
