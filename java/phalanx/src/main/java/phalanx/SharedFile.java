package phalanx;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.PrimitiveIterator;
import java.util.concurrent.Executor;
import java.util.stream.LongStream;

/**
 * One file that several processes protect, unprotect or verify together. All must see the same files under the same paths.
 *
 * <p>One process leads. It begins the work and gives {@link #toBytes} to the others, which {@link #join} it. Each
 * process, the leader included, does its part by {@link #work}. When all have succeeded, the leader calls {@link
 * #finish}: only then does the output get its name. If the leader's value is closed before, nothing is left.
 *
 * <pre>{@code
 * Path input = Path.of("run42.h5");
 * Path output = Path.of("run42.h5.phx");
 * Recipients recipients = Recipients.of(key);
 * try (SharedFile leader = SharedFile.protect(input, output, recipients, Suite.AES_256_CTR_SHA3, 20, false);
 *         // In another process, which has got the bytes in a message.
 *         SharedFile other = SharedFile.join(leader.toBytes())) {
 *     other.work(1, 2, Runnable::run, 1, true);
 *     leader.work(0, 2, Runnable::run, 1, true);
 *     leader.finish(true);
 * }
 * }</pre>
 */
public final class SharedFile implements Closeable {
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final int MARK = 32;
    /** The longest pages of memory by which file systems keep what a process has written. */
    private static final int PAGE = 1 << 16;

    private enum Kind {
        PROTECT,
        UNPROTECT,
        VERIFY
    }

    /** A file, and the properties by which another process recognizes it. */
    private record Seen(String path, long length, long modifiedNanos) {
        static Seen at(Path path, BasicFileAttributes attributes) {
            var time = attributes.lastModifiedTime().toInstant();
            long nanos = time.getEpochSecond() * 1_000_000_000 + time.getNano();
            return new Seen(path.toAbsolutePath().toString(), attributes.size(), nanos);
        }
    }

    private final Kind kind;
    private final Seen input;
    /** The attributes of the input when the leader opened it. */
    private final BasicFileAttributes attributes;
    private final Layout layout;
    private final FileKeys keys;
    /** The temporary name of the output. Empty if there is no output. */
    private final String temporary;
    /** Bytes by which a process recognizes the output: its beginning if it is protected, or otherwise bytes after its end. */
    private final byte[] mark;
    /** The leader's output. */
    private final Output output;
    private final OutputRules rules;
    /** How many parts there are, as the leader has been told last. */
    private int parts = 1;

    private SharedFile(
            Kind kind, Seen input, BasicFileAttributes attributes, Layout layout, FileKeys keys, byte[] mark, String temporary,
            Output output, OutputRules rules) {
        this.kind = kind;
        this.input = input;
        this.attributes = attributes;
        this.layout = layout;
        this.keys = keys;
        this.mark = mark;
        this.temporary = temporary;
        this.output = output;
        this.rules = rules;
    }

    /**
     * Begins to protect a file.
     *
     * @param input a regular file
     * @param output the new file
     * @param recipients the recipients
     * @param suite the suite
     * @param chunkLog2 the binary logarithm of the chunk size, 12 … 24
     * @param replaces whether an existing output is replaced
     * @return the shared work, with a file key of its own
     * @throws IOException as for {@link Protector#protect(Path, Path)}
     */
    public static SharedFile protect(
            Path input, Path output, Recipients recipients, Suite suite, int chunkLog2, boolean replaces) throws IOException {
        OutputRules rules = new OutputRules(replaces, true);
        BasicFileAttributes attributes;
        try (Input in = Input.open(input)) {
            rules.refuseSame(in, output);
            attributes = in.attributes();
        }
        Seen seen = Seen.at(input, attributes);
        Layout.refuseTooLarge(suite, chunkLog2, seen.length);
        Recipients.NewFile file = recipients.newFile(suite, chunkLog2, OptionalLong.of(seen.length));
        Output out = null;
        try {
            byte[] header = file.header().toBytes();
            out = rules.create(output);
            Bytes.writeAt(out.channel(), header, 0, header.length, 0);
            Layout layout = new Layout(suite, chunkLog2, header.length, seen.length);
            return new SharedFile(
                    Kind.PROTECT, seen, attributes, layout, file.keys(), header, absolute(out), out, rules);
        } catch (IOException | RuntimeException e) {
            giveUp(file.keys(), out, e);
            throw e;
        }
    }

    /**
     * Begins to unprotect a file.
     *
     * @param input a protected file
     * @param output the new file
     * @param keys the keys and the password at hand
     * @param replaces whether an existing output is replaced
     * @return the shared work
     * @throws IOException as for {@link Header#open}, or if the output cannot be written
     */
    public static SharedFile unprotect(Path input, Path output, KeyProvider keys, boolean replaces) throws IOException {
        return open(Kind.UNPROTECT, input, output, keys, new OutputRules(replaces, true));
    }

    /**
     * Begins to verify a file.
     *
     * @param input a protected file
     * @param keys the keys and the password at hand
     * @return the shared work
     * @throws IOException as for {@link Header#open}
     */
    public static SharedFile verify(Path input, KeyProvider keys) throws IOException {
        return open(Kind.VERIFY, input, null, keys, OutputRules.USUAL);
    }

    private static SharedFile open(Kind kind, Path input, Path output, KeyProvider keys, OutputRules rules)
            throws IOException {
        FileKeys fileKeys = null;
        Output out = null;
        try (Input in = Input.open(input)) {
            if (output != null) {
                rules.refuseSame(in, output);
            }
            Seen seen = Seen.at(input, in.attributes());
            Header header = Header.read(in.channel());
            fileKeys = header.open(keys).keys();
            Layout layout = header.layout(seen.length);
            byte[] mark = new byte[0];
            if (output != null) {
                mark = new byte[MARK];
                RANDOM.nextBytes(mark);
                out = rules.create(output);
                Bytes.writeAt(out.channel(), mark, 0, MARK, layout.plaintextLength());
            }
            String temporary = out == null ? "" : absolute(out);
            return new SharedFile(kind, seen, in.attributes(), layout, fileKeys, mark, temporary, out, rules);
        } catch (IOException | RuntimeException e) {
            giveUp(fileKeys, out, e);
            throw e;
        }
    }

    private static void giveUp(FileKeys keys, Output out, Exception why) {
        if (keys != null) {
            keys.close();
        }
        if (out != null) {
            try {
                out.close();
            } catch (IOException e) {
                why.addSuppressed(e);
            }
        }
    }

    private static String absolute(Output out) {
        return out.temporary().toAbsolutePath().toString();
    }

    /**
     * The data that the other processes need. <strong>It holds the keys of the file's content</strong>, but neither the
     * file key nor a user's key. Send it where nobody else can read it, and overwrite it after use.
     *
     * @return bytes for {@link #join}
     */
    public byte[] toBytes() {
        byte[] secret = keys.expose();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream() {
            @Override
            public byte[] toByteArray() {
                byte[] copy = super.toByteArray();
                Arrays.fill(buf, (byte) 0);
                return copy;
            }
        };
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeByte(kind.ordinal());
            out.writeUTF(input.path);
            out.writeLong(input.length);
            out.writeLong(input.modifiedNanos);
            out.writeUTF(temporary);
            out.writeByte(layout.suite().number());
            out.writeByte(layout.chunkLog2());
            out.writeInt(layout.headerLength());
            out.writeLong(layout.plaintextLength());
            out.writeInt(mark.length);
            out.write(mark);
            out.write(secret);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        } finally {
            Arrays.fill(secret, (byte) 0);
        }
        return bytes.toByteArray();
    }

    /**
     * Joins the work of another process.
     *
     * @param bytes the leader's {@link #toBytes}
     * @return the shared work
     * @throws IOException if the bytes are something else
     */
    public static SharedFile join(byte[] bytes) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
        Kind kind = Kind.values()[in.readByte()];
        Seen input = new Seen(in.readUTF(), in.readLong(), in.readLong());
        String temporary = in.readUTF();
        Suite suite = Suite.of(in.readByte()).orElseThrow(() -> new IOException("an unknown suite"));
        Layout layout = new Layout(suite, in.readByte(), in.readInt(), in.readLong());
        byte[] mark = in.readNBytes(in.readInt());
        byte[] secret = in.readAllBytes();
        try {
            return new SharedFile(
                    kind, input, null, layout, FileKeys.exposed(suite, secret), mark, temporary, null, OutputRules.USUAL);
        } finally {
            Arrays.fill(secret, (byte) 0);
        }
    }

    /**
     * How the plaintext lies in the protected file.
     *
     * @return the layout
     */
    public Layout layout() {
        return layout;
    }

    /**
     * Does an equal part of the file: reads and writes that part's chunks, and no others.
     *
     * @param part which part, 0 … {@code parts} − 1
     * @param parts how many there are
     * @param executor provides threads; the calling one works too
     * @param threads how many work at once, the calling one included
     * @param syncs whether the part is on the disk when this returns
     * @return the bytes of plaintext of this part
     * @throws AuthenticationException if a chunk is not authentic
     * @throws ChangedException if the input changed while it was read
     * @throws IOException if this process sees other files than the leader, or if reading or writing failed
     */
    public long work(int part, int parts, Executor executor, int threads, boolean syncs) throws IOException {
        this.parts = parts;
        long first = layout.firstChunk(part, parts);
        long count = layout.firstChunk(part + 1L, parts) - first;
        Crew crew = Crew.of(executor, threads);
        Path from = Path.of(input.path);
        try (Input in = Input.open(from)) {
            if (!Seen.at(from, in.attributes()).equals(input) || in.channel().size() != input.length) {
                throw new FileSystemException(input.path, null, "this process sees another file there than the first one");
            }
            if (temporary.isEmpty()) {
                ChunkLoop.run(crew, count, () -> new Part(first, in.channel(), null));
            } else {
                try (FileChannel out = sameOutput()) {
                    ChunkLoop.run(crew, count, () -> new Part(first, in.channel(), out));
                    if (syncs && count > 0) {
                        force(out);
                    }
                }
            }
            checkInput();
        }
        return layout.chunks() == 0 || count == 0 ? 0 : bytes(first, count);
    }

    private long bytes(long first, long count) {
        long last = first + count - 1;
        return layout.plaintextOffset(last) + layout.plaintextLength(last) - layout.plaintextOffset(first);
    }

    private FileChannel sameOutput() throws IOException {
        Path path = Path.of(temporary);
        FileChannel out;
        try {
            out = FileChannel.open(
                    path, StandardOpenOption.READ, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS);
        } catch (IOException e) {
            throw new OutputException(e);
        }
        try {
            byte[] found = new byte[mark.length];
            long at = kind == Kind.PROTECT ? 0 : layout.plaintextLength();
            if (Bytes.readAt(out, found, 0, found.length, at) < found.length || !Arrays.equals(found, mark)) {
                throw new OutputException(
                        new FileSystemException(temporary, null, "this process sees another file there than the first one"));
            }
            return out;
        } catch (IOException e) {
            out.close();
            throw e;
        }
    }

    private static void force(FileChannel out) throws OutputException {
        try {
            out.force(true);
        } catch (IOException e) {
            throw new OutputException(e);
        }
    }

    private void checkInput() throws IOException {
        Path from = Path.of(input.path);
        BasicFileAttributes now = Input.attributes(from);
        boolean isSame = attributes == null || Objects.equals(now.fileKey(), attributes.fileKey());
        if (!isSame || !Seen.at(from, now).equals(input)) {
            throw new ChangedException();
        }
    }

    /**
     * Reads again what lies around the places where two parts meet. Two processes have written to one page there, and a file system whose
     * caches are not coherent may have lost one of the two writes.
     */
    private void checkMeetings() throws IOException {
        PrimitiveIterator.OfLong around = aroundMeetings().iterator();
        if (!around.hasNext()) {
            return;
        }
        int overhead = layout.suite().overhead();
        byte[] chunk = new byte[layout.plaintextLength(0) + overhead];
        try (Input in = Input.open(Path.of(input.path)); FileChannel out = sameOutput();
                ChunkCipher cipher = new ChunkCipher(keys, layout.chunkLog2())) {
            while (around.hasNext()) {
                long index = around.nextLong();
                if (!isWritten(index, chunk, in.channel(), out, cipher)) {
                    throw new OutputException(new FileSystemException(
                            temporary, null, "its file system has lost what two processes wrote side by side, at chunk " + index));
                }
            }
        } finally {
            Arrays.fill(chunk, (byte) 0);
        }
    }

    /** The chunks that may lie on a page with those of another part, each once, in their order. Where a part is empty, no parts meet. */
    LongStream aroundMeetings() {
        long chunks = layout.chunks();
        long around = Math.max(1, PAGE >> layout.chunkLog2());
        return LongStream.range(1, parts)
                .map(part -> layout.firstChunk(part, parts))
                .filter(meeting -> meeting > 0 && meeting < chunks)
                .flatMap(meeting -> LongStream.range(Math.max(0, meeting - around), Math.min(chunks, meeting + around)))
                .distinct();
    }

    /** Whether a chunk is in the output. */
    private boolean isWritten(long index, byte[] chunk, FileChannel in, FileChannel out, ChunkCipher cipher) throws IOException {
        int overhead = layout.suite().overhead();
        int length = layout.plaintextLength(index);
        FileChannel stored = kind == Kind.PROTECT ? out : in;
        try {
            if (Bytes.readAt(stored, chunk, 0, length + overhead, layout.fileOffset(index)) < length + overhead) {
                return false;
            }
            cipher.open(chunk, 0, length, index, layout.isLast(index));
        } catch (AuthenticationException e) {
            return false;
        }
        if (kind == Kind.PROTECT) {
            return true;
        }
        byte[] plain = new byte[length];
        try {
            return Bytes.readAt(out, plain, 0, length, layout.plaintextOffset(index)) == length
                    && Arrays.equals(plain, 0, length, chunk, overhead, overhead + length);
        } finally {
            Arrays.fill(plain, (byte) 0);
        }
    }

    /**
     * Gives the output its name. For the leader, when all parts have succeeded and it has done its own.
     *
     * @param syncs whether it is on the disk when this returns
     * @throws IOException if the input changed while it was read, if the output cannot get its name, or if its file system has lost what two
     *     processes wrote side by side
     */
    public void finish(boolean syncs) throws IOException {
        Map<String, byte[]> userAttributes =
                kind == Kind.PROTECT ? Metadata.userAttributes(Path.of(input.path)) : Map.of();
        checkInput();
        if (output == null) {
            return;
        }
        checkMeetings();
        if (kind == Kind.UNPROTECT) {
            output.channel().truncate(layout.plaintextLength());
        }
        OutputRules last = syncs ? rules : rules.withoutSync();
        last.finish(output, () -> {
            if (kind == Kind.PROTECT) {
                Metadata.all(attributes, userAttributes, output.temporary());
            } else {
                Metadata.asNew(attributes, output.temporary());
            }
        });
    }

    /** Overwrites the keys. The leader's output is removed, unless it has its name. */
    @Override
    public void close() throws IOException {
        keys.close();
        if (output != null) {
            output.close();
        }
    }

    /** The chunks of one thread. */
    private final class Part implements ChunkLoop.Step {
        private final long first;
        private final FileChannel in;
        private final FileChannel out;
        private final ChunkCipher cipher = new ChunkCipher(keys, layout.chunkLog2());
        private final int overhead = layout.suite().overhead();
        private final byte[] chunk = new byte[layout.plaintextLength(0) + overhead];

        Part(long first, FileChannel in, FileChannel out) {
            this.first = first;
            this.in = in;
            this.out = out;
        }

        @Override
        public void chunk(long i) throws IOException {
            long index = first + i;
            int length = layout.plaintextLength(index);
            if (kind == Kind.PROTECT) {
                read(overhead, length, layout.plaintextOffset(index));
                cipher.seal(chunk, 0, length, index, layout.isLast(index));
                Bytes.writeAt(out, chunk, 0, length + overhead, layout.fileOffset(index));
                return;
            }
            read(0, length + overhead, layout.fileOffset(index));
            cipher.open(chunk, 0, length, index, layout.isLast(index));
            if (out != null) {
                Bytes.writeAt(out, chunk, overhead, length, layout.plaintextOffset(index));
            }
        }

        private void read(int offset, int length, long at) throws IOException {
            if (Bytes.readAt(in, chunk, offset, length, at) < length) {
                throw new ChangedException();
            }
        }

        @Override
        public void close() {
            cipher.close();
            Arrays.fill(chunk, (byte) 0);
        }
    }
}
