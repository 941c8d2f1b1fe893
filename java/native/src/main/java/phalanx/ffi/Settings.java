package phalanx.ffi;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import phalanx.Suite;

/**
 * How files are processed.
 *
 * @param suite the suite of new files
 * @param chunkLog2 the binary logarithm of the chunk size of new files
 * @param replaces whether an existing file is replaced
 * @param syncs whether outputs are on the disk when they have their names
 */
record Settings(Suite suite, int chunkLog2, boolean replaces, boolean syncs) {
    static final Settings USUAL = new Settings(Suite.AES_256_CTR_SHA3, 20, false, true);

    Settings {
        if (chunkLog2 < 12 || chunkLog2 > 24) {
            throw new IllegalArgumentException("the binary logarithm of a chunk size is 12 to 24, not " + chunkLog2);
        }
    }

    Settings withSuite(Suite other) {
        return new Settings(other, chunkLog2, replaces, syncs);
    }

    Settings withChunkLog2(int log2) {
        return new Settings(suite, log2, replaces, syncs);
    }

    Settings replacing() {
        return new Settings(suite, chunkLog2, true, syncs);
    }

    Settings withoutSync() {
        return new Settings(suite, chunkLog2, replaces, false);
    }

    /** The name that the library has for a suite. */
    static String cipher(Suite suite) {
        return switch (suite) {
            case AES_256_CTR_SHA3 -> "aes-256";
            case AES_192_CTR_SHA3 -> "aes-192";
            case AES_128_CTR_SHA3 -> "aes-128";
            case AES_256_GCM -> "aes-256-gcm";
            case AES_256_CTR_TURBOSHAKE -> "aes-256-turbo";
        };
    }

    /** Makes one file from another by {@code phalanx_protect} or {@code phalanx_unprotect}, and returns the length of the content. */
    long transfer(MethodHandle call, NativeWays ways, Path input, Path output) throws IOException {
        Calls calls = ways.library().calls();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment in = Strings.path(arena, input);
            MemorySegment out = Strings.path(arena, output);
            MemorySegment length = arena.allocate(ValueLayout.JAVA_LONG);
            MemorySegment options = options(calls, arena);
            try {
                ways.<Void>use(way -> {
                    calls.run(input, output, () -> (MemorySegment) call.invokeExact(in, out, way, options, length));
                    return null;
                });
            } finally {
                Calls.free(calls.optionsFree, options);
            }
            return length.get(ValueLayout.JAVA_LONG, 0);
        }
    }

    private MemorySegment options(Calls calls, Arena arena) throws IOException {
        MemorySegment cipher = Strings.text(arena, "a cipher", cipher(suite));
        long chunkSize = 1L << chunkLog2;
        MemorySegment options = calls.made(null, arena, place -> (MemorySegment) calls.optionsNew.invokeExact(place));
        try {
            calls.run(() -> (MemorySegment) calls.optionsSetCipher.invokeExact(options, cipher));
            calls.run(() -> (MemorySegment) calls.optionsSetChunkSize.invokeExact(options, chunkSize));
            calls.run(() -> (MemorySegment) calls.optionsSetOverwrite.invokeExact(options, replaces));
            calls.run(() -> (MemorySegment) calls.optionsSetSync.invokeExact(options, syncs));
            return options;
        } catch (IOException | RuntimeException | Error e) {
            Calls.free(calls.optionsFree, options);
            throw e;
        }
    }
}
