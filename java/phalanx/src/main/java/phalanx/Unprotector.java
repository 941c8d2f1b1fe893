package phalanx;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.concurrent.Executor;

/**
 * Unprotects files and streams, or only checks them. One value may be used for many, from many threads at once.
 *
 * <pre>{@code
 * Unprotector unprotector = new Unprotector(Keyring.usual());
 * unprotector.verify(Path.of("run42.h5.phx"));
 * unprotector.unprotect(Path.of("run42.h5.phx"), Path.of("run42.h5"));
 * }</pre>
 *
 * <p>No plaintext is written before its chunk has been checked, and no output gets its name before the whole file has
 * been checked. Memory is bounded, whatever the file contains.
 */
public final class Unprotector {
    private final KeyProvider keys;
    private final Crew crew;
    private final OutputRules rules;

    /**
     * Opens files with the keys at hand.
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
     * A copy that works on other threads. The calling thread works too, and does everything if the executor has no
     * threads.
     *
     * @param executor provides the other threads
     * @param threads how many work at once on one file, the calling one included
     * @return a new unprotector
     */
    public Unprotector on(Executor executor, int threads) {
        return new Unprotector(keys, Crew.of(executor, threads), rules);
    }

    /**
     * A copy that replaces existing outputs.
     *
     * @return a new unprotector
     */
    public Unprotector replacing() {
        return new Unprotector(keys, crew, rules.replacing());
    }

    /**
     * A copy that does not wait until outputs are on the disk.
     *
     * @return a new unprotector
     */
    public Unprotector withoutSync() {
        return new Unprotector(keys, crew, rules.withoutSync());
    }

    /**
     * Unprotects a file. The output gets its name only when the whole file is found authentic and the output is on the
     * disk.
     *
     * @param input the protected file
     * @param output the plaintext, a new file
     * @return the length of the plaintext in bytes
     * @throws PhalanxException if it is not a whole, authentic file for the keys at hand; the type says why
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
     * Unprotects a stream. Both streams stay open.
     *
     * @param in the protected file, to its end
     * @param out where the plaintext is written, chunk by chunk, each after it has been checked. If this fails, the
     *     written part is only the beginning of the plaintext
     * @return the length of the plaintext in bytes
     * @throws IOException as for files
     */
    public long unprotect(InputStream in, OutputStream out) throws IOException {
        long length = open(in, out);
        OutputRules.flush(out);
        return length;
    }

    /**
     * Unprotects a stream as a file. The output gets its name only when everything is found authentic.
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
     * Unprotects a file as a stream, which stays open.
     *
     * @param input the protected file
     * @param out where the plaintext is written, chunk by chunk, as for streams
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
            chunks.close();
        }
    }
}
