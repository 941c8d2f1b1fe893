package phalanx.ffi;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BOOLEAN;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.NoSuchElementException;
import phalanx.ForeignFailures;

/**
 * The functions of {@code phalanx.h}, whose names these fields have. A size_t is a long. The memory of an argument lives as long as the
 * call, because the linker holds its arena; that of an object is the business of {@link Handle}.
 */
@SuppressWarnings("restricted")
final class Calls {
    /** {@code phalanx_column}: the values, and where each begins. */
    static final StructLayout COLUMN = MemoryLayout.structLayout(ADDRESS.withName("bytes"), ADDRESS.withName("offsets"));

    /** {@code PHALANX_NOT_AUTHENTIC}. */
    static final int NOT_AUTHENTIC = 3;

    private static final ValueLayout.OfLong SIZE = JAVA_LONG;

    private final SymbolLookup symbols;
    private final MethodHandle errorKind;
    private final MethodHandle errorCode;
    private final MethodHandle errorText;
    private final MethodHandle errorHint;
    private final MethodHandle errorFree;

    final MethodHandle keyFromBytes;
    final MethodHandle keyFree;
    final MethodHandle waysNew;
    final MethodHandle waysAddKey;
    final MethodHandle waysSetPassword;
    final MethodHandle waysAddRecipient;
    final MethodHandle waysAddIdentityFile;
    final MethodHandle waysAddService;
    final MethodHandle waysFree;
    final MethodHandle optionsNew;
    final MethodHandle optionsSetCipher;
    final MethodHandle optionsSetChunkSize;
    final MethodHandle optionsSetOverwrite;
    final MethodHandle optionsSetSync;
    final MethodHandle optionsFree;
    final MethodHandle protect;
    final MethodHandle unprotect;
    final MethodHandle verify;
    final MethodHandle open;
    final MethodHandle size;
    final MethodHandle readAt;
    final MethodHandle close;
    final MethodHandle sealEach;
    final MethodHandle openEach;

    /** Finds all functions, or says which one is missing by a {@link NoSuchElementException}. */
    Calls(SymbolLookup symbols) {
        this.symbols = symbols;
        errorKind = handle(symbols, "phalanx_error_kind", FunctionDescriptor.of(ADDRESS, ADDRESS));
        errorCode = handle(symbols, "phalanx_error_code", FunctionDescriptor.of(JAVA_INT, ADDRESS));
        errorText = handle(symbols, "phalanx_error_text", FunctionDescriptor.of(ADDRESS, ADDRESS));
        errorHint = handle(symbols, "phalanx_error_hint", FunctionDescriptor.of(ADDRESS, ADDRESS));
        errorFree = free("phalanx_error_free");
        keyFromBytes = call("phalanx_key_from_bytes", ADDRESS, ADDRESS);
        keyFree = free("phalanx_key_free");
        waysNew = call("phalanx_ways_new", ADDRESS);
        waysAddKey = call("phalanx_ways_add_key", ADDRESS, ADDRESS);
        waysSetPassword = call("phalanx_ways_set_password", ADDRESS, ADDRESS, SIZE);
        waysAddRecipient = call("phalanx_ways_add_recipient", ADDRESS, ADDRESS);
        waysAddIdentityFile = call("phalanx_ways_add_identity_file", ADDRESS, ADDRESS);
        waysAddService = call("phalanx_ways_add_service", ADDRESS, ADDRESS);
        waysFree = free("phalanx_ways_free");
        optionsNew = call("phalanx_options_new", ADDRESS);
        optionsSetCipher = call("phalanx_options_set_cipher", ADDRESS, ADDRESS);
        optionsSetChunkSize = call("phalanx_options_set_chunk_size", ADDRESS, JAVA_LONG);
        optionsSetOverwrite = call("phalanx_options_set_overwrite", ADDRESS, JAVA_BOOLEAN);
        optionsSetSync = call("phalanx_options_set_sync", ADDRESS, JAVA_BOOLEAN);
        optionsFree = free("phalanx_options_free");
        protect = call("phalanx_protect", ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
        unprotect = call("phalanx_unprotect", ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
        verify = call("phalanx_verify", ADDRESS, ADDRESS, ADDRESS);
        open = call("phalanx_open", ADDRESS, ADDRESS, ADDRESS);
        size = handle(symbols, "phalanx_size", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
        readAt = call("phalanx_read_at", ADDRESS, JAVA_LONG, ADDRESS, SIZE, ADDRESS);
        close = free("phalanx_close");
        sealEach = call("phalanx_seal_each", ADDRESS, ADDRESS, SIZE, COLUMN, COLUMN, ADDRESS, SIZE);
        openEach = call("phalanx_open_each", ADDRESS, ADDRESS, SIZE, COLUMN, COLUMN, ADDRESS, SIZE, ADDRESS);
    }

    /** The version of a library that may be of another version, and lack the other functions. */
    static String version(SymbolLookup symbols) {
        MethodHandle version = handle(symbols, "phalanx_version", FunctionDescriptor.of(ADDRESS));
        return text(() -> (MemorySegment) version.invokeExact());
    }

    /** A function that returns its error. */
    private MethodHandle call(String name, MemoryLayout... arguments) {
        return handle(symbols, name, FunctionDescriptor.of(ADDRESS, arguments));
    }

    private MethodHandle free(String name) {
        return handle(symbols, name, FunctionDescriptor.ofVoid(ADDRESS));
    }

    private static MethodHandle handle(SymbolLookup symbols, String name, FunctionDescriptor descriptor) {
        MemorySegment function = symbols.find(name).orElseThrow(() -> new NoSuchElementException("it has no " + name));
        return Linker.nativeLinker().downcallHandle(function, descriptor);
    }

    /** A call by a method handle. */
    @FunctionalInterface
    interface Call<T> {
        T invoke() throws Throwable;
    }

    /** Calls what cannot fail. Method handles of native functions throw nothing of their own that is checked. */
    static <T> T invoke(Call<T> call) {
        try {
            return call.invoke();
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    /** Makes a call, and throws what its error says. The paths are those that the call works on, or null. */
    void run(Path input, Path output, Call<MemorySegment> call) throws IOException {
        MemorySegment error = invoke(call);
        if (error.equals(MemorySegment.NULL)) {
            return;
        }
        String kind;
        String text;
        String hint;
        try {
            kind = kind(text(() -> (MemorySegment) errorKind.invokeExact(error)), invoke(() -> (int) errorCode.invokeExact(error)));
            text = text(() -> (MemorySegment) errorText.invokeExact(error));
            hint = text(() -> (MemorySegment) errorHint.invokeExact(error));
        } finally {
            free(errorFree, error);
        }
        throw ForeignFailures.of(kind, withoutPath(text, input, output), hint, input, output);
    }

    /** The kind of an error. What is not authentic is an {@link phalanx.AuthenticationException}, also where the library has no word for it. */
    static String kind(String kind, int code) {
        return kind.equals("other") && code == NOT_AUTHENTIC ? "altered" : kind;
    }

    /** Makes a call that works on no paths. */
    void run(Call<MemorySegment> call) throws IOException {
        run(null, null, call);
    }

    /** Makes a call that gives an object through its last argument. */
    MemorySegment made(Path input, Arena arena, Given call) throws IOException {
        MemorySegment place = arena.allocate(ADDRESS);
        run(input, null, () -> call.invoke(place));
        return place.get(ADDRESS, 0);
    }

    /** A call that gives an object at a place. */
    @FunctionalInterface
    interface Given {
        MemorySegment invoke(MemorySegment place) throws Throwable;
    }

    static void free(MethodHandle free, MemorySegment object) {
        invoke(() -> {
            free.invokeExact(object);
            return null;
        });
    }

    /** A text of the library, or null. */
    private static String text(Call<MemorySegment> call) {
        MemorySegment text = invoke(call);
        return text.equals(MemorySegment.NULL) ? null : text.reinterpret(Long.MAX_VALUE).getString(0);
    }

    /** The library names the path first. Exceptions of this library do not, since their callers know it. */
    private static String withoutPath(String text, Path input, Path output) {
        for (Path path : new Path[] {input, output}) {
            if (path != null && text.startsWith(Strings.absolute(path) + ": ")) {
                return text.substring(Strings.absolute(path).length() + 2);
            }
        }
        return text;
    }
}
