package phalanx.ffi;

import java.io.IOException;
import java.nio.file.Path;
import phalanx.Suite;

/**
 * Protects files as {@link phalanx.Protector} does, by libphalanx, on all processors. One value may be used for many files, from many threads at
 * once, as long as its ways are open.
 *
 * <pre>{@code
 * try (NativeWays ways = NativeWays.of(key)) {
 *     new NativeProtector(ways).protect(Path.of("run42.h5"), Path.of("run42.h5.phx"));
 * }
 * }</pre>
 */
public final class NativeProtector {
    private final NativeWays ways;
    private final Settings settings;

    /**
     * Protects for these ways, in the usual suite and with the usual chunk size.
     *
     * @param ways the ways, which stay the caller's
     */
    public NativeProtector(NativeWays ways) {
        this(ways, Settings.USUAL);
    }

    private NativeProtector(NativeWays ways, Settings settings) {
        this.ways = ways;
        this.settings = settings;
    }

    /**
     * A copy with another suite.
     *
     * @param other the suite
     * @return a new protector
     */
    public NativeProtector withSuite(Suite other) {
        return new NativeProtector(ways, settings.withSuite(other));
    }

    /**
     * A copy with another chunk size. A chunk is checked and decrypted as a whole.
     *
     * @param log2 the binary logarithm of the size in bytes, 12 … 24
     * @return a new protector
     * @throws IllegalArgumentException if the format has no such size
     */
    public NativeProtector withChunkLog2(int log2) {
        return new NativeProtector(ways, settings.withChunkLog2(log2));
    }

    /**
     * A copy that replaces existing outputs.
     *
     * @return a new protector
     */
    public NativeProtector replacing() {
        return new NativeProtector(ways, settings.replacing());
    }

    /**
     * A copy that does not wait until outputs are on the disk.
     *
     * @return a new protector
     */
    public NativeProtector withoutSync() {
        return new NativeProtector(ways, settings.withoutSync());
    }

    /**
     * Protects a file. The output gets its name only when it is complete and on the disk.
     *
     * @param input a regular file, which is not protected yet
     * @param output the new file
     * @return the length of the plaintext in bytes
     * @throws java.nio.file.FileAlreadyExistsException if the output exists, and is not to be replaced
     * @throws phalanx.ChangedException if the input changed while it was read
     * @throws phalanx.OutputException if the output cannot be written
     * @throws IllegalArgumentException if nothing would open the file
     * @throws IllegalStateException if the ways are closed
     * @throws IOException if the input cannot be read, or is too large for the suite and the chunk size
     */
    public long protect(Path input, Path output) throws IOException {
        return settings.transfer(ways.library().calls().protect, ways, input, output);
    }
}
