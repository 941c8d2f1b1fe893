package phalanx;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.Executor;

/**
 * Gets files and streams back, or only checks them. One value may be used for many, from many threads at once.
 *
 * <pre>{@code
 * Unprotector unprotector = new Unprotector(Keyring.usual());
 * unprotector.verify(Path.of("run42.h5.phx"));
 * unprotector.unprotect(Path.of("run42.h5.phx"), Path.of("run42.h5"));
 * }</pre>
 *
 * <p>No plaintext is written before its chunk has been checked, and no output has its name before the whole file has been
 * checked. Memory is bounded, whatever the file says.
 */
public final class Unprotector {
    private final KeyProvider keys;
    private final Crew crew;
    private final OutputRules rules;

    /**
     * Opens files with what is at hand.
     *
     * @param keys the keys and the password at hand
     */
    public Unprotector(KeyProvider keys) {
        this(keys, Crew.common(), OutputRules.USUAL);
    }

    private Unprotector(KeyProvider keys, Crew crew, OutputRules rules) {
        this.keys = keys;
        this.crew = crew;
        this.rules = rules;
    }

    /**
     * The same on other threads. The calling thread works too, and all of it if the executor gives no threads.
     *
     * @param executor gives the other threads
     * @param threads how many work at once on one file, the calling one included
     * @return a new unprotector
     */
    public Unprotector on(Executor executor, int threads) {
        return new Unprotector(keys, Crew.of(executor, threads), rules);
    }

    /**
     * The same, and existing outputs are replaced.
     *
     * @return a new unprotector
     */
    public Unprotector replacing() {
        return new Unprotector(keys, crew, rules.replacing());
    }

    /**
     * The same without waiting until outputs are on the disk.
     *
     * @return a new unprotector
     */
    public Unprotector withoutSync() {
        return new Unprotector(keys, crew, rules.withoutSync());
    }

    /**
     * Gets a file back. The output has its name only when the whole file has been found authentic, and is on the disk then.
     *
     * @param input the protected file
     * @param output the plaintext, a new file
     * @return the length of the plaintext in bytes
     * @throws PhalanxException if it is not a whole, authentic file for what is at hand; the type says why
     * @throws java.nio.file.FileAlreadyExistsException if the output exists, and is not to be replaced
     * @throws IOException if the input cannot be read
     */
    public long unprotect(Path input, Path output) throws IOException {
        try (Input in = Input.open(input)) {
            rules.refuseSame(in, output);
            try (Output out = rules.create(output);
                    ProtectedInput file = ProtectedInput.open(in.channel(), keys)) {
                Layout layout = file.layout();
                ChunkLoop.run(crew, layout.chunks(), () -> new OpenStep(file, out.channel()));
                rules.finish(out, () -> Metadata.asNew(in.attributes(), out.temporary()));
                return layout.plaintextLength();
            }
        }
    }

    /**
     * Gets a stream back. Both streams stay open.
     *
     * @param in the protected file, to its end
     * @param out where the plaintext goes to, chunk by chunk, each after it has been checked. If this fails, what went there
     *     is the beginning of the plaintext, and must not be taken for the whole
     * @return the length of the plaintext in bytes
     * @throws IOException as for files
     */
    public long unprotect(InputStream in, OutputStream out) throws IOException {
        long length = open(in, out);
        OutputRules.flush(out);
        return length;
    }

    /**
     * Gets a stream back as a file. The output has its name only when all has been found authentic.
     *
     * @param in the protected file, to its end. The stream stays open
     * @param output the plaintext, a new file
     * @return the length of the plaintext in bytes
     * @throws IOException as for files
     */
    public long unprotect(InputStream in, Path output) throws IOException {
        return rules.write(output, out -> unprotect(in, out));
    }

    /**
     * Gets a file back as a stream, which stays open.
     *
     * @param input the protected file
     * @param out where the plaintext goes to, chunk by chunk, as for streams
     * @return the length of the plaintext in bytes
     * @throws IOException as for files
     */
    public long unprotect(Path input, OutputStream out) throws IOException {
        try (Input in = Input.open(input);
                InputStream stream = Channels.newInputStream(in.channel())) {
            return unprotect(stream, out);
        }
    }

    /**
     * Checks every chunk of a file.
     *
     * @param input the protected file
     * @return the length of the plaintext in bytes
     * @throws IOException as for {@link #unprotect(Path, Path)}
     */
    public long verify(Path input) throws IOException {
        try (Input in = Input.open(input);
                ProtectedInput file = ProtectedInput.open(in.channel(), keys)) {
            ChunkLoop.run(crew, file.layout().chunks(), () -> new OpenStep(file, null));
            return file.layout().plaintextLength();
        }
    }

    /**
     * Checks every chunk of a stream, which stays open.
     *
     * @param in the protected file, to its end
     * @return the length of the plaintext in bytes
     * @throws IOException as for files
     */
    public long verify(InputStream in) throws IOException {
        return open(in, null);
    }

    private long open(InputStream in, OutputStream out) throws IOException {
        Header header = Header.read(in);
        try (FileKeys file = header.open(keys).keys()) {
            return StreamWork.open(crew, file, header.chunkLog2(), in, out);
        }
    }

    /** Opens chunks of a file into another, or into nothing. */
    private static final class OpenStep implements ChunkLoop.Step {
        private final ProtectedInput.Chunks chunks;
        private final Layout layout;
        private final FileChannel out;

        OpenStep(ProtectedInput file, FileChannel out) {
            this.chunks = file.chunks();
            this.layout = file.layout();
            this.out = out;
        }

        @Override
        public void chunk(long index) throws IOException {
            int length = chunks.open(index);
            if (out != null) {
                Bytes.writeAt(out, chunks.bytes(), chunks.offset(), length, layout.plaintextOffset(index));
            }
        }

        @Override
        public void close() {
            Arrays.fill(chunks.bytes(), (byte) 0);
        }
    }
}
