package phalanx;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.Executor;

/**
 * Protects files and streams. One value may be used for many, from many threads at once. Each file gets a file key of its own.
 *
 * <pre>{@code
 * try (PhalanxKey key = PhalanxKey.random()) {
 *     Protector protector = new Protector(Recipients.of(key));
 *     protector.protect(Path.of("run42.h5"), Path.of("run42.h5.phx"));
 * }
 * }</pre>
 *
 * <p>By default all processors work, on the JVM's common pool. Memory is bounded: each thread has a few chunks,
 * whatever the length of the file.
 */
public final class Protector {
    /** The usual chunk size: 2^20 bytes. */
    public static final int USUAL_CHUNK_LOG2 = 20;

    private final Recipients recipients;
    private final Suite suite;
    private final int chunkLog2;
    private final Crew crew;
    private final OutputRules rules;

    /**
     * Protects for these recipients, in the usual suite and with the usual chunk size.
     *
     * @param recipients the recipients
     */
    public Protector(Recipients recipients) {
        this(recipients, Suite.AES_256_CTR_SHA3, USUAL_CHUNK_LOG2, Crew.common(), OutputRules.USUAL);
    }

    private Protector(Recipients recipients, Suite suite, int chunkLog2, Crew crew, OutputRules rules) {
        this.recipients = recipients;
        this.suite = suite;
        this.chunkLog2 = chunkLog2;
        this.crew = crew;
        this.rules = rules;
    }

    /**
     * A copy with another suite.
     *
     * @param other the suite
     * @return a new protector
     */
    public Protector withSuite(Suite other) {
        return new Protector(recipients, other, chunkLog2, crew, rules);
    }

    /**
     * A copy with another chunk size. A chunk is checked and decrypted as a whole.
     *
     * @param log2 the binary logarithm of the size in bytes, 12 … 24
     * @return a new protector
     * @throws IllegalArgumentException if the format has no such size
     */
    public Protector withChunkLog2(int log2) {
        new Layout(suite, log2, 0, 0);
        return new Protector(recipients, suite, log2, crew, rules);
    }

    /**
     * A copy that works on other threads. The calling thread works too, and does everything if the executor has no
     * threads.
     *
     * @param executor provides the other threads
     * @param threads how many work at once on one file, the calling one included
     * @return a new protector
     */
    public Protector on(Executor executor, int threads) {
        return new Protector(recipients, suite, chunkLog2, Crew.of(executor, threads), rules);
    }

    /**
     * A copy that replaces existing outputs.
     *
     * @return a new protector
     */
    public Protector replacing() {
        return new Protector(recipients, suite, chunkLog2, crew, rules.replacing());
    }

    /**
     * A copy that does not wait until outputs are on the disk.
     *
     * @return a new protector
     */
    public Protector withoutSync() {
        return new Protector(recipients, suite, chunkLog2, crew, rules.withoutSync());
    }

    /**
     * Protects a file. The output gets its name only when it is complete and on the disk.
     *
     * @param input a regular file
     * @param output the new file
     * @return the length of the plaintext in bytes
     * @throws java.nio.file.FileAlreadyExistsException if the output exists, and is not to be replaced
     * @throws ChangedException if the input changed while it was read
     * @throws OutputException if the output cannot be written
     * @throws IOException if the input cannot be read, or is too large for the suite and the chunk size
     */
    public long protect(Path input, Path output) throws IOException {
        try (Input in = Input.open(input)) {
            return protect(in, output);
        }
    }

    /** The same for an input that is open, and stays so. */
    long protect(Input in, Path output) throws IOException {
        rules.refuseSame(in, output);
        long length = in.length();
        Layout.refuseTooLarge(suite, chunkLog2, length);
        try (Output out = rules.create(output);
                Recipients.NewFile file = recipients.newFile(suite, chunkLog2, OptionalLong.of(length))) {
            byte[] header = file.header().toBytes();
            Bytes.writeAt(out.channel(), header, 0, header.length, 0);
            Layout layout = new Layout(suite, chunkLog2, header.length, length);
            ChunkLoop.run(crew, layout.chunks(), () -> new SealStep(file.keys(), layout, in.channel(), out.channel()));
            Map<String, byte[]> userAttributes = Metadata.userAttributes(in.path());
            in.checkUnchanged();
            rules.finish(out, () -> Metadata.all(in.attributes(), userAttributes, out.temporary()));
            return length;
        }
    }

    /**
     * Protects a folder: each file as a file of its own, and last the manifest {@code phalanx.tree}, which lists all of them. So {@link
     * PhalanxTree} and {@code phalanx verify --recursive} find what is missing, additional, exchanged or older. Files are protected one after
     * another. What is neither a file, a folder nor a link is left out. Until a folder is finished only the user can look into it.
     *
     * @param source the folder
     * @param folder the new folder, which must not exist
     * @param excludes what is left out
     * @param problems hears of entries that cannot be read, or are no files
     * @return the digest of the manifest, in hexadecimal digits
     * @throws java.nio.file.FileAlreadyExistsException if the output exists
     * @throws IOException if a file could not be protected, or if there is a link now where a file or folder was. What has been
     *     written stays, without a manifest
     */
    public String protectTree(Path source, Path folder, Excludes excludes, SourceTree.Problems problems) throws IOException {
        TreeNode root = SourceTree.of(source, excludes, problems);
        TreeProtection tree = new TreeProtection(this, rules.syncs());
        try (SourceFolder opened = SourceFolder.of(source)) {
            tree.write(root, opened, folder);
        }
        if (rules.syncs()) {
            Systems.syncFolder(folder);
            Systems.syncFolder(folder.toAbsolutePath().getParent());
        }
        Protector notGcm = suite == Suite.AES_256_GCM ? withSuite(Suite.AES_256_CTR_SHA3) : this;
        Path manifest = folder.resolve(PhalanxTree.MANIFEST.path());
        notGcm.protect(root.manifest(Manifest.Head.first(excludes.text())), manifest);
        tree.finish(Input.attributes(source), folder);
        return Contents.read(manifest).toString();
    }

    /**
     * Protects a file as a stream, which stays open.
     *
     * @param input a regular file
     * @param out where the protected file is written. If this fails, the written part is incomplete, and no reader
     *     accepts it
     * @return the length of the plaintext in bytes
     * @throws ChangedException if the input changed while it was read
     * @throws OutputException if the output cannot be written
     * @throws IOException if the input cannot be read, or is too large for the suite and the chunk size
     */
    public long protect(Path input, OutputStream out) throws IOException {
        try (Input in = Input.open(input)) {
            Layout.refuseTooLarge(suite, chunkLog2, in.length());
            return protect(in.stream(), out);
        }
    }

    /**
     * Protects a stream. Both streams stay open.
     *
     * @param in the plaintext, to its end
     * @param out where the protected file is written. If this fails, the written part is incomplete, and no reader
     *     accepts it
     * @return the length of the plaintext in bytes
     * @throws OutputException if the output cannot be written
     * @throws IOException if the input cannot be read, or is too large for the suite and the chunk size
     */
    public long protect(InputStream in, OutputStream out) throws IOException {
        try (Recipients.NewFile file = recipients.newFile(suite, chunkLog2, OptionalLong.empty())) {
            try {
                out.write(file.header().toBytes());
            } catch (IOException e) {
                throw new OutputException(e);
            }
            long length = StreamWork.seal(crew, file.keys(), chunkLog2, in, out);
            OutputRules.flush(out);
            return length;
        }
    }

    /**
     * Protects a stream as a file. The output gets its name only when it is complete.
     *
     * @param in the plaintext, to its end. The stream stays open
     * @param output the new file
     * @return the length of the plaintext in bytes
     * @throws IOException as for the other forms
     */
    public long protect(InputStream in, Path output) throws IOException {
        return rules.write(output, out -> protect(in, out));
    }

    /** Seals chunks of a file into another. */
    private static final class SealStep implements ChunkLoop.Step {
        private final Layout layout;
        private final FileChannel in;
        private final FileChannel out;
        private final ChunkCipher cipher;
        private final byte[] chunk;
        private final int overhead;

        SealStep(FileKeys keys, Layout layout, FileChannel in, FileChannel out) {
            this.layout = layout;
            this.in = in;
            this.out = out;
            cipher = new ChunkCipher(keys, layout.chunkLog2());
            overhead = layout.suite().overhead();
            chunk = new byte[layout.plaintextLength(0) + overhead];
        }

        @Override
        public void chunk(long index) throws IOException {
            int length = layout.plaintextLength(index);
            if (Bytes.readAt(in, chunk, overhead, length, layout.plaintextOffset(index)) < length) {
                throw new ChangedException();
            }
            cipher.seal(chunk, 0, length, index, layout.isLast(index));
            Bytes.writeAt(out, chunk, 0, length + overhead, layout.fileOffset(index));
        }

        @Override
        public void close() {
            cipher.close();
            Arrays.fill(chunk, (byte) 0);
        }
    }
}
