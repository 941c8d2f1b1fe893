package phalanx.ffi;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;

/**
 * Unprotects files as {@link phalanx.Unprotector} does, or only checks them, by libphalanx, on all processors. One value may be used for many
 * files, from many threads at once, as long as its ways are open.
 *
 * <pre>{@code
 * try (NativeWays ways = NativeWays.of(key)) {
 *     NativeUnprotector unprotector = new NativeUnprotector(ways);
 *     unprotector.verify(Path.of("run42.h5.phx"));
 *     unprotector.unprotect(Path.of("run42.h5.phx"), Path.of("run42.h5"));
 * }
 * }</pre>
 */
public final class NativeUnprotector {
    private final NativeWays ways;
    private final Settings settings;

    /**
     * Opens files by these ways.
     *
     * @param ways the ways, which stay the caller's
     */
    public NativeUnprotector(NativeWays ways) {
        this(ways, Settings.USUAL);
    }

    private NativeUnprotector(NativeWays ways, Settings settings) {
        this.ways = ways;
        this.settings = settings;
    }

    /**
     * A copy that replaces existing outputs.
     *
     * @return a new unprotector
     */
    public NativeUnprotector replacing() {
        return new NativeUnprotector(ways, settings.replacing());
    }

    /**
     * A copy that does not wait until outputs are on the disk.
     *
     * @return a new unprotector
     */
    public NativeUnprotector withoutSync() {
        return new NativeUnprotector(ways, settings.withoutSync());
    }

    /**
     * Unprotects a file. The output gets its name only when the whole file is found authentic and the output is on the disk.
     *
     * @param input the protected file
     * @param output the plaintext, a new file
     * @return the length of the plaintext in bytes
     * @throws phalanx.PhalanxException if it is not a whole, authentic file for the keys at hand; the type says why
     * @throws java.nio.file.FileAlreadyExistsException if the output exists, and is not to be replaced
     * @throws IllegalStateException if the ways are closed
     * @throws IOException if the input cannot be read
     */
    public long unprotect(Path input, Path output) throws IOException {
        return settings.transfer(ways.library().calls().unprotect, ways, input, output);
    }

    /**
     * Checks every chunk of a file.
     *
     * @param input the protected file
     * @return the length of the plaintext in bytes
     * @throws IOException as for {@link #unprotect}
     */
    public long verify(Path input) throws IOException {
        Calls calls = ways.library().calls();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment in = Strings.path(arena, input);
            MemorySegment length = arena.allocate(ValueLayout.JAVA_LONG);
            ways.<Void>use(way -> {
                calls.run(input, null, () -> (MemorySegment) calls.verify.invokeExact(in, way, length));
                return null;
            });
            return length.get(ValueLayout.JAVA_LONG, 0);
        }
    }
}
