package phalanx.ffi;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.Arrays;
import phalanx.PhalanxKey;

/**
 * The ways into files: new files are protected for all of them but the identities, and those that open files are tried on protected ones. If
 * none opens files, the keys of the user's keyring are tried.
 *
 * <pre>{@code
 * try (NativeWays ways = NativeWays.of(key).recipient("age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj")) {
 *     new NativeProtector(ways).protect(Path.of("run42.h5"), Path.of("run42.h5.phx"));
 * }
 * }</pre>
 *
 * <p>Several threads may use one value, and close it meanwhile: closing waits for calls that use it, and wipes it.
 */
public final class NativeWays implements AutoCloseable {
    private final NativeLibrary library;
    private final Handle handle;

    private NativeWays(NativeLibrary library) throws IOException {
        this.library = library;
        Calls calls = library.calls();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment ways = calls.made(null, arena, place -> (MemorySegment) calls.waysNew.invokeExact(place));
            handle = new Handle(ways, calls.waysFree);
        }
    }

    /**
     * These keys, in the usual library.
     *
     * @param keys the keys, which are copied
     * @return the ways: close them
     * @throws NativeLibraryException if there is no library
     * @throws IOException if there is not enough memory
     */
    public static NativeWays of(PhalanxKey... keys) throws IOException {
        return of(NativeLibrary.usual(), keys);
    }

    /**
     * These keys, in a library.
     *
     * @param library the library
     * @param keys the keys, which are copied
     * @return the ways: close them
     * @throws IOException if there is not enough memory
     */
    public static NativeWays of(NativeLibrary library, PhalanxKey... keys) throws IOException {
        NativeWays ways = new NativeWays(library);
        try {
            for (PhalanxKey key : keys) {
                ways.key(key);
            }
            return ways;
        } catch (IOException | RuntimeException | Error e) {
            ways.close();
            throw e;
        }
    }

    /**
     * Adds a key.
     *
     * @param key the key, which is copied
     * @return these ways
     * @throws IOException if there is not enough memory
     */
    public NativeWays key(PhalanxKey key) throws IOException {
        Calls calls = library.calls();
        byte[] bytes = key.expose();
        try {
            secret(bytes, (arena, copy) -> {
                MemorySegment own = calls.made(null, arena, place -> (MemorySegment) calls.keyFromBytes.invokeExact(copy, place));
                try {
                    change(ways -> (MemorySegment) calls.waysAddKey.invokeExact(ways, own));
                } finally {
                    Calls.free(calls.keyFree, own);
                }
            });
            return this;
        } finally {
            Arrays.fill(bytes, (byte) 0);
        }
    }

    /**
     * Sets the password.
     *
     * @param password the password, which is copied: wipe yours
     * @return these ways
     * @throws IllegalArgumentException if it is empty
     * @throws IOException if there is not enough memory
     */
    public NativeWays password(byte[] password) throws IOException {
        Calls calls = library.calls();
        secret(password, (arena, copy) -> change(ways ->
                (MemorySegment) calls.waysSetPassword.invokeExact(ways, copy, (long) password.length)));
        return this;
    }

    /**
     * Adds a public key of age or SSH, for new files.
     *
     * @param recipient {@code age1…} or {@code ssh-ed25519 …}
     * @return these ways
     * @throws IllegalArgumentException if it is none
     * @throws IOException if it cannot be used
     */
    public NativeWays recipient(String recipient) throws IOException {
        Calls calls = library.calls();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment text = Strings.text(arena, "a recipient", recipient);
            change(ways -> (MemorySegment) calls.waysAddRecipient.invokeExact(ways, text));
        }
        return this;
    }

    /**
     * Adds a file of identities of age, or of a private key of SSH, to open files with.
     *
     * @param path the file
     * @return these ways
     * @throws IOException if it cannot be read, or others could read it
     */
    public NativeWays identityFile(Path path) throws IOException {
        Calls calls = library.calls();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment text = Strings.path(arena, path);
            change(path, ways -> (MemorySegment) calls.waysAddIdentityFile.invokeExact(ways, text));
        }
        return this;
    }

    /**
     * Adds a key service. It is asked only where a file needs it.
     *
     * @param uri its URI, as {@code phalanx --kms} takes it
     * @return these ways
     * @throws IllegalArgumentException if it is none
     * @throws IOException if it cannot be used
     */
    public NativeWays service(String uri) throws IOException {
        Calls calls = library.calls();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment text = Strings.text(arena, "a URI", uri);
            change(ways -> (MemorySegment) calls.waysAddService.invokeExact(ways, text));
        }
        return this;
    }

    private interface Secret {
        void with(Arena arena, MemorySegment copy) throws IOException;
    }

    /** Copies a secret for a call, and wipes the copy. */
    private static void secret(byte[] bytes, Secret secret) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment copy = arena.allocate(Math.max(1, bytes.length));
            try {
                MemorySegment.copy(bytes, 0, copy, ValueLayout.JAVA_BYTE, 0, bytes.length);
                secret.with(arena, copy);
            } finally {
                copy.fill((byte) 0);
            }
        }
    }

    private void change(Calls.Given call) throws IOException {
        change(null, call);
    }

    private void change(Path path, Calls.Given call) throws IOException {
        handle.<Void, IOException, IllegalStateException>change(NativeWays::closed, ways -> {
            library.calls().run(path, null, () -> call.invoke(ways));
            return null;
        });
    }

    private static IllegalStateException closed() {
        return new IllegalStateException("the ways are closed");
    }

    NativeLibrary library() {
        return library;
    }

    /** Uses them. They are neither changed nor closed meanwhile. */
    <T> T use(Handle.Use<T, IOException> use) throws IOException {
        return handle.<T, IOException, IllegalStateException>use(NativeWays::closed, use);
    }

    /** Wipes them. Does nothing if they are closed already. */
    @Override
    public void close() {
        handle.close();
    }
}
