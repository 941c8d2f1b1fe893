package phalanx.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import phalanx.Layout;
import phalanx.Output;
import phalanx.OutputException;

/**
 * An output in a folder that all executors see. The first attempt at each part writes to its place in one file, which only gets its name
 * in the end. Every other attempt writes a file of its own. If one of those counts, a first attempt may still be writing to the common
 * file, so that file is not used: all parts that count are copied to a new one.
 */
final class LocalPlace extends Place {
    private static final long serialVersionUID = 1L;
    private static final int MARK = 32;
    /** Without a common file, this many names are looked for to clean up. */
    private static final int LIKELY_ATTEMPTS = 8;
    /** The handle of a part in its place of the common file. */
    private static final String COMMON = "common";

    /** The common file, or null if the output is not divided. */
    private String common;
    /** Bytes by which an executor recognizes the common file, and where they are. */
    private byte[] mark;
    private long markAt;
    /** Bytes at the end of each file of an attempt that has plaintext, by which the driver recognizes it. Nobody else can read them. */
    private final byte[] ownMark = new byte[MARK];
    /** The number of the common file, by which the driver recognizes it. */
    private transient String inode;
    /** The states of earlier runs that this one goes on with. */
    private transient String previous = "";

    LocalPlace(org.apache.hadoop.fs.Path output, Rules rules) {
        super(output, rules);
        new SecureRandom().nextBytes(ownMark);
    }

    /** Plaintext says nothing of where it is from. What is protected is authenticated by whoever opens it. */
    private static boolean isMarked(Item item) {
        return item.what() == Plan.What.UNPROTECT;
    }

    private Path target() {
        return Hadoop.local(output());
    }

    @Override
    void begin(Item item, Layout layout, Earlier earlier, Configuration conf) throws IOException {
        if (item.what() == Plan.What.PROTECT) {
            mark = item.header();
            markAt = 0;
        } else {
            mark = new byte[MARK];
            new SecureRandom().nextBytes(mark);
            markAt = layout.plaintextLength();
        }
        if (earlier != null) {
            previous = earlier.state();
            // What it has left must be there before anything is built on it.
            for (String handle : earlier.parts().values()) {
                Found.open(target(), handle).close();
            }
        }
        // It is closed until all parts are done: a job may have more files than a process may have open.
        try (Output out = Output.create(target(), rules().replaces())) {
            writeFully(out.channel(), ByteBuffer.wrap(mark), markAt);
            common = out.temporary().toAbsolutePath().toString();
            inode = Found.inode(out.temporary());
            out.keep();
        } catch (FileAlreadyExistsException | OutputException e) {
            throw e;
        } catch (IOException e) {
            throw new OutputException(e);
        }
    }

    @Override
    Sink open(Piece piece, Configuration conf) throws IOException {
        boolean isCommon = common != null && piece.attempt() == 0;
        try {
            if (isCommon) {
                return new InFile(sameFile(), piece.offset(), null, new byte[0], rules().syncs());
            }
            Path own = target().toAbsolutePath().resolveSibling(own(piece.part(), piece.attempt()));
            Set<StandardOpenOption> options = Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
            FileAttribute<?> mine = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
            byte[] end = isMarked(piece.item()) ? ownMark : new byte[0];
            return new InFile(FileChannel.open(own, options, mine), 0, own, end, rules().syncs());
        } catch (IOException e) {
            throw new OutputException(e);
        }
    }

    /** The common file, if it is the one that the driver has begun. */
    private FileChannel sameFile() throws IOException {
        FileChannel channel = FileChannel.open(
                Path.of(common), StandardOpenOption.READ, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS);
        if (!hasMark(channel, mark, markAt)) {
            channel.close();
            throw new FileSystemException(common, null, "this executor sees another file there than the driver");
        }
        return channel;
    }

    /** A part, at its place in the common file or in a file of its own. */
    private static final class InFile implements Sink {
        private final FileChannel channel;
        private final Path own;
        /** What follows the part. */
        private final byte[] end;
        private final boolean syncs;
        private long position;
        private boolean finished;

        InFile(FileChannel channel, long position, Path own, byte[] end, boolean syncs) {
            this.channel = channel;
            this.position = position;
            this.own = own;
            this.end = end;
            this.syncs = syncs;
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            try {
                writeFully(channel, ByteBuffer.wrap(bytes, offset, length), position);
            } catch (IOException e) {
                throw new OutputException(e);
            }
            position += length;
        }

        @Override
        public String finish() throws IOException {
            try {
                writeFully(channel, ByteBuffer.wrap(end), position);
                if (syncs) {
                    channel.force(true);
                }
                channel.close();
                String handle = own == null ? COMMON : Found.handle(own, 0);
                finished = true;
                return handle;
            } catch (IOException e) {
                throw new OutputException(e);
            }
        }

        @Override
        public void close() throws IOException {
            channel.close();
            if (!finished && own != null) {
                Files.deleteIfExists(own);
            }
        }
    }

    /** A file of an attempt or of an earlier run, and where a part begins in it. */
    private record Found(FileChannel channel, Path path, long offset) implements AutoCloseable {
        static String handle(Path file, long offset) throws IOException {
            return inode(file) + ":" + offset + ":" + file.getFileName();
        }

        static String inode(String handle) {
            return handle.split(":", 3)[0];
        }

        static String name(String handle) {
            return handle.split(":", 3)[2];
        }

        static Path path(Path target, String handle) {
            return target.toAbsolutePath().resolveSibling(Path.of(name(handle)).getFileName());
        }

        /** Opens it beside the output, if it is the file that was meant. */
        static Found open(Path target, String handle) throws IOException {
            String inode = inode(handle);
            Path path = path(target, handle);
            requireInode(path, inode);
            FileChannel channel = FileChannel.open(path, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS);
            try {
                requireInode(path, inode);
                return new Found(channel, path, Long.parseLong(handle.split(":", 3)[1]));
            } catch (IOException | RuntimeException e) {
                channel.close();
                throw e;
            }
        }

        /** Java cannot tell which file it has opened, so the name has to lead to the one that is meant before and after that. */
        static void requireInode(Path path, String inode) throws IOException {
            if (!inode(path).equals(inode)) {
                throw replaced(path);
            }
        }

        static String inode(Path path) throws IOException {
            return String.valueOf(Files.getAttribute(path, "unix:ino", LinkOption.NOFOLLOW_LINKS));
        }

        @Override
        public void close() throws IOException {
            channel.close();
        }
    }

    /** The names that belong to this run and to those before. */
    @Override
    String state() {
        return Path.of(common).getFileName() + "/" + own() + (previous.isEmpty() ? "" : "/" + previous);
    }

    /** The common file of this run is an ordinary file to the next one. */
    @Override
    String later(Piece piece, String handle) throws IOException {
        return handle.equals(COMMON) ? Found.handle(Path.of(common), piece.offset()) : handle;
    }

    @Override
    void publish(Item item, Layout layout, SortedMap<Integer, String> parts, Configuration conf) throws IOException {
        if (common == null) {
            String handle = parts.get(0);
            try (Output own = adopt(Found.path(target(), handle), Found.inode(handle))) {
                if (isMarked(item)) {
                    long length = own.channel().size() - MARK;
                    requireMark(own.channel(), ownMark, length, own.temporary());
                    own.channel().truncate(length);
                }
                end(item, own, conf);
            }
            return;
        }
        boolean isSole = parts.values().stream().noneMatch(handle -> !handle.equals(COMMON) && Found.name(handle).startsWith(own()));
        try (Output out = adopt(Path.of(common), inode);
                Output fresh = isSole ? null : Output.create(target(), rules().replaces())) {
            requireMark(out.channel(), mark, markAt, out.temporary());
            Output to = isSole ? out : fresh;
            join(out, to, item, layout, parts);
            end(item, to, conf);
        }
    }

    /** Takes over a temporary file, if its name leads to the one that is meant. */
    private Output adopt(Path temporary, String inode) throws IOException {
        try {
            Found.requireInode(temporary, inode);
        } catch (IOException e) {
            throw new OutputException(e);
        }
        Output out = Output.adopt(target(), temporary, rules().replaces());
        try {
            Found.requireInode(temporary, inode);
            return out;
        } catch (IOException e) {
            out.close();
            throw new OutputException(e);
        }
    }

    /** Whatever the name leads to: the file that is open has to be the one that was begun. */
    private static void requireMark(FileChannel file, byte[] mark, long at, Path path) throws IOException {
        if (at < 0 || !hasMark(file, mark, at)) {
            throw new OutputException(replaced(path));
        }
    }

    private static boolean hasMark(FileChannel file, byte[] mark, long at) throws IOException {
        byte[] found = new byte[mark.length];
        return readFully(file, ByteBuffer.wrap(found), at) && Arrays.equals(found, mark);
    }

    private static FileSystemException replaced(Path path) {
        return new FileSystemException(path.toString(), null, "its temporary file was replaced");
    }

    /** Copies the parts that are not there to their places. */
    private void join(Output out, Output to, Item item, Layout layout, Map<Integer, String> parts) throws IOException {
        for (Map.Entry<Integer, String> part : parts.entrySet()) {
            Piece piece = new Piece(item, part.getKey(), 0, layout);
            boolean isCommon = part.getValue().equals(COMMON);
            if (isCommon && to == out) {
                continue;
            }
            try (Found found = isCommon ? null : Found.open(target(), part.getValue())) {
                FileChannel from = isCommon ? out.channel() : found.channel();
                long at = isCommon ? piece.offset() : found.offset();
                if (!isCommon && isMarked(item)) {
                    requireMark(from, ownMark, at + piece.length(), found.path());
                }
                copy(from, at, to.channel(), piece.offset(), piece.length());
            }
        }
        boolean seals = item.what() == Plan.What.PROTECT;
        to.channel().truncate(seals ? layout.fileLength() : layout.plaintextLength());
    }

    private static void copy(FileChannel from, long at, FileChannel to, long toAt, long length) throws IOException {
        to.position(toAt);
        long done = 0;
        while (done < length) {
            long copied = from.transferTo(at + done, length - done, to);
            if (copied <= 0) {
                throw new OutputException(new IOException("a part of it is gone"));
            }
            done += copied;
        }
    }

    private void end(Item item, Output finished, Configuration conf) throws IOException {
        org.apache.hadoop.fs.Path input = new org.apache.hadoop.fs.Path(item.input());
        FileSystem from = Hadoop.of(input, conf);
        if (Hadoop.isLocal(from)) {
            Path path = Hadoop.local(input);
            var attributes = Files.readAttributes(path, PosixFileAttributes.class);
            item.seen().require(attributes);
            finished.resemble(path, attributes, item.what() == Plan.What.PROTECT);
        } else {
            FileStatus now = from.getFileStatus(input);
            item.seen().require(from, now);
            finished.resembleNew(FileTime.fromMillis(now.getModificationTime()));
        }
        finished.commit(rules().syncs());
    }

    @Override
    void discard(Item item, SortedMap<Integer, String> parts, Configuration conf) {
        if (common == null) {
            for (int attempt = 0; attempt < LIKELY_ATTEMPTS; attempt++) {
                delete(own(0, attempt));
            }
            return;
        }
        for (String name : state().split("/")) {
            delete(name);
            try (DirectoryStream<Path> left = Files.newDirectoryStream(target().toAbsolutePath().getParent(), name + "??????.tmp")) {
                left.forEach(file -> delete(file.getFileName().toString()));
            } catch (IOException e) {
                // They keep their temporary names.
            }
        }
    }

    private void delete(String name) {
        try {
            Files.deleteIfExists(target().toAbsolutePath().resolveSibling(name));
        } catch (IOException e) {
            // It keeps its temporary name.
        }
    }

    private static void writeFully(FileChannel channel, ByteBuffer bytes, long at) throws IOException {
        long position = at;
        while (bytes.hasRemaining()) {
            position += channel.write(bytes, position);
        }
    }

    private static boolean readFully(FileChannel channel, ByteBuffer into, long at) throws IOException {
        long position = at;
        while (into.hasRemaining()) {
            int read = channel.read(into, position);
            if (read < 0) {
                return false;
            }
            position += read;
        }
        return true;
    }
}
