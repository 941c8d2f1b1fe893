package phalanx;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.file.FileSystemException;
import java.nio.file.Path;

/**
 * How outputs are written.
 *
 * @param replaces whether an existing file is replaced
 * @param syncs whether outputs are on the disk when they have their names
 */
record OutputRules(boolean replaces, boolean syncs) {
    static final OutputRules USUAL = new OutputRules(false, true);

    OutputRules replacing() {
        return new OutputRules(true, syncs);
    }

    OutputRules withoutSync() {
        return new OutputRules(replaces, false);
    }

    /** Begins an output. */
    Output create(Path path) throws IOException {
        return Output.create(path, replaces);
    }

    /** An output must not replace its own input. */
    void refuseSame(Input in, Path output) throws IOException {
        if (in.isAt(output)) {
            throw new OutputException(
                    new FileSystemException(output.toString(), null, "input and output are the same file"));
        }
    }

    /** Something that can fail. */
    @FunctionalInterface
    interface Step {
        void run() throws IOException;
    }

    /** Takes over metadata, and gives the output its name. */
    void finish(Output out, Step metadata) throws IOException {
        try {
            out.checkPlace();
            metadata.run();
        } catch (IOException e) {
            throw new OutputException(e);
        }
        out.commit(syncs);
    }

    /** Writes a stream, and returns the length of the plaintext. */
    @FunctionalInterface
    interface Writer {
        long write(OutputStream out) throws IOException;
    }

    /** Writes a stream as a file. */
    long write(Path path, Writer writer) throws IOException {
        try (Output out = create(path)) {
            long length = writer.write(new BufferedOutputStream(Channels.newOutputStream(out.channel())));
            finish(out, () -> Metadata.asNew(out.temporary()));
            return length;
        }
    }

    static void flush(OutputStream out) throws OutputException {
        try {
            out.flush();
        } catch (IOException e) {
            throw new OutputException(e);
        }
    }
}
