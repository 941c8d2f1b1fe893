package phalanx.hadoop;

import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.RemoteIterator;

/**
 * The files and folders of an inner listing as they are shown, in batches, so that the headers of many files are read side by side and
 * a folder of any size takes bounded memory. What is neither a folder nor a protected file is left out.
 *
 * @param <I> the kind of the inner entries
 * @param <O> the kind of the entries here
 */
final class Listing<I extends FileStatus, O extends FileStatus> implements RemoteIterator<O>, Closeable {
    private static final int BATCH = 256;

    /** Makes an entry of one that is shown. */
    @FunctionalInterface
    interface Make<I, O> {
        O of(I inner, PlainStatus shown) throws IOException;
    }

    private final Tree tree;
    private final Lengths lengths;
    private final RemoteIterator<I> inner;
    private final Make<I, O> make;
    private final Deque<O> ready = new ArrayDeque<>();

    private Listing(Tree tree, Lengths lengths, RemoteIterator<I> inner, Make<I, O> make) {
        this.tree = tree;
        this.lengths = lengths;
        this.inner = inner;
        this.make = make;
    }

    static Listing<FileStatus, FileStatus> of(Tree tree, Lengths lengths, RemoteIterator<FileStatus> inner) {
        return new Listing<>(tree, lengths, inner, (each, shown) -> shown);
    }

    /** With the places of blocks, which the inner listing has already. */
    static Listing<LocatedFileStatus, LocatedFileStatus> located(Tree tree, Lengths lengths, RemoteIterator<LocatedFileStatus> inner) {
        return new Listing<>(tree, lengths, inner, Listing::located);
    }

    private static LocatedFileStatus located(LocatedFileStatus inner, PlainStatus shown) throws IOException {
        BlockLocation[] blocks = inner.getBlockLocations();
        if (blocks != null && shown.layout().isPresent()) {
            blocks = Blocks.plain(shown.layout().get(), blocks);
        }
        return new LocatedFileStatus(shown, blocks);
    }

    @Override
    public boolean hasNext() throws IOException {
        while (ready.isEmpty() && inner.hasNext()) {
            fill();
        }
        return !ready.isEmpty();
    }

    @Override
    public O next() throws IOException {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        return ready.remove();
    }

    private void fill() throws IOException {
        List<I> batch = new ArrayList<>();
        while (batch.size() < BATCH && inner.hasNext()) {
            I next = inner.next();
            if (next.isDirectory() || Names.isStored(next)) {
                batch.add(next);
            }
        }
        List<I> files = batch.stream().filter(each -> !each.isDirectory()).toList();
        List<Lengths.Shown> shown = lengths.shown(files);
        int file = 0;
        for (I each : batch) {
            if (each.isDirectory()) {
                ready.add(make.of(each, tree.folder(each)));
                continue;
            }
            Lengths.Shown found = shown.get(file++);
            if (found.kind() != Lengths.Kind.GONE) {
                ready.add(make.of(each, tree.file(each, found)));
            }
        }
    }

    @Override
    public void close() throws IOException {
        if (inner instanceof Closeable closeable) {
            closeable.close();
        }
    }
}
