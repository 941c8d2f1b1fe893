package phalanx.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.SortedMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.io.IOUtils;
import phalanx.Layout;
import phalanx.OutputException;
import phalanx.hadoop.Inner;

/**
 * A file in a file system with renaming, such as HDFS. Each attempt writes a file of its own. HDFS joins them without copying; where that
 * is not possible, the driver copies them. Then the file is renamed.
 */
final class RenamedPlace extends Place {
    private static final long serialVersionUID = 1L;
    private static final FsPermission MINE = new FsPermission((short) 0600);
    private static final int LIKELY_ATTEMPTS = 8;
    private static final int COPIED_AT_ONCE = 1 << 20;

    /** The states of earlier runs that this one goes on with. */
    private transient String previous = "";

    RenamedPlace(Path output, Rules rules) {
        super(output, rules);
    }

    private Path sibling(String name) {
        return new Path(output().getParent(), name);
    }

    @Override
    void begin(Item item, Layout layout, Earlier earlier, Configuration conf) throws IOException {
        if (earlier == null) {
            return;
        }
        previous = earlier.state();
        FileSystem fs = Hadoop.of(output(), conf);
        for (String name : earlier.parts().values()) {
            fs.getFileStatus(sibling(new Path(name).getName()));
        }
    }

    @Override
    Sink open(Piece piece, Configuration conf) throws IOException {
        try {
            FileSystem fs = Hadoop.of(output(), conf);
            Path own = sibling(own(piece.part(), piece.attempt()));
            FSDataOutputStream out = create(fs, own);
            return new OfFile(fs, own, out, rules().syncs());
        } catch (IOException e) {
            throw new OutputException(e);
        }
    }

    private static FSDataOutputStream create(FileSystem fs, Path path) throws IOException {
        return fs.create(path, MINE, false, COPIED_AT_ONCE, fs.getDefaultReplication(path), fs.getDefaultBlockSize(path), null);
    }

    private static final class OfFile implements Sink {
        private final FileSystem fs;
        private final Path own;
        private final FSDataOutputStream out;
        private final boolean syncs;
        private boolean finished;

        OfFile(FileSystem fs, Path own, FSDataOutputStream out, boolean syncs) {
            this.fs = fs;
            this.own = own;
            this.out = out;
            this.syncs = syncs;
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            try {
                out.write(bytes, offset, length);
            } catch (IOException e) {
                throw new OutputException(e);
            }
        }

        @Override
        public String finish() throws IOException {
            try {
                if (syncs) {
                    out.hsync();
                }
                out.close();
                finished = true;
                return own.getName();
            } catch (IOException e) {
                throw new OutputException(e);
            }
        }

        @Override
        public void close() throws IOException {
            if (!finished) {
                try {
                    out.close();
                } finally {
                    fs.delete(own, false);
                }
            }
        }
    }

    @Override
    String state() {
        return own() + (previous.isEmpty() ? "" : "/" + previous);
    }

    @Override
    void publish(Item item, Layout layout, SortedMap<Integer, String> parts, Configuration conf) throws IOException {
        FileSystem fs = Hadoop.of(output(), conf);
        List<Path> all = new ArrayList<>();
        parts.values().forEach(name -> all.add(sibling(new Path(name).getName())));
        Path joined = all.get(0);
        if (all.size() > 1) {
            joined = fs.hasPathCapability(output(), CommonPathCapabilities.FS_CONCAT) ? concat(fs, all) : copy(fs, all);
        }
        long length = fs.getFileStatus(joined).getLen();
        if (layout != null && length != (item.what() == Plan.What.PROTECT ? layout.fileLength() : layout.plaintextLength())) {
            throw new OutputException(new IOException("a part of it is gone"));
        }
        resemble(item, fs, joined, conf);
        Inner inner = Inner.of(output().toUri(), conf);
        try {
            inner.publish(joined, output(), rules().replaces());
        } finally {
            inner.close();
        }
    }

    /** Without copying. The parts go into an empty file, since local folders overwrite the first one. */
    private Path concat(FileSystem fs, List<Path> all) throws IOException {
        Path joined = sibling(joined());
        create(fs, joined).close();
        fs.concat(joined, all.toArray(new Path[0]));
        return joined;
    }

    private Path copy(FileSystem fs, List<Path> all) throws IOException {
        Path joined = sibling(joined());
        try (FSDataOutputStream out = create(fs, joined)) {
            for (Path part : all) {
                try (var in = fs.open(part)) {
                    IOUtils.copyBytes(in, out, COPIED_AT_ONCE, false);
                }
            }
            if (rules().syncs()) {
                out.hsync();
            }
        }
        return joined;
    }

    /** A protected file has the permissions of its input. A plaintext has those of a new file, and none that its input lacks. */
    private static void resemble(Item item, FileSystem fs, Path file, Configuration conf) throws IOException {
        Path input = new Path(item.input());
        FileSystem inputs = Hadoop.of(input, conf);
        FileStatus from = inputs.getFileStatus(input);
        item.seen().require(inputs, from);
        FsPermission permission = from.getPermission();
        if (item.what() == Plan.What.UNPROTECT) {
            FsPermission ofNew = FsPermission.getFileDefault().applyUMask(FsPermission.getUMask(conf));
            permission = new FsPermission((short) (permission.toShort() & ofNew.toShort()));
        }
        fs.setPermission(file, permission);
        fs.setTimes(file, from.getModificationTime(), -1);
    }

    @Override
    void discard(Item item, SortedMap<Integer, String> parts, Configuration conf) {
        try {
            FileSystem fs = Hadoop.of(output(), conf);
            if (!item.isDivided()) {
                for (int attempt = 0; attempt < LIKELY_ATTEMPTS; attempt++) {
                    fs.delete(sibling(own(0, attempt)), false);
                }
                return;
            }
            for (String stem : state().split("/")) {
                for (FileStatus left : fs.listStatus(output().getParent(), path -> path.getName().startsWith(stem))) {
                    fs.delete(left.getPath(), false);
                }
            }
        } catch (IOException e) {
            // They keep their temporary names.
        }
    }
}
