package phalanx.ffi;

import java.io.File;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Optional;

/**
 * The shared library libphalanx. It stays loaded until the JVM ends.
 *
 * <p>It must have the version of this module, since its interface may change from one version to the next. The JVM must allow native
 * access, {@code --enable-native-access=ALL-UNNAMED}: otherwise it warns, and later ones refuse.
 */
public final class NativeLibrary {
    /** The version that this module is for. */
    public static final String VERSION = "0.2.0";

    /** The system property that names the file of the library. */
    public static final String PROPERTY = "phalanx.library";

    /** As it is installed, and as cargo builds it. */
    private static final List<String> NAMES = List.of(System.mapLibraryName("phalanx"), System.mapLibraryName("phalanx_capi"));

    private static final String ADVICE = "install libphalanx " + VERSION + ", or name its file by -D" + PROPERTY + "=PATH";

    /** The one of {@link #usual}, once it is loaded. */
    private static NativeLibrary usual;

    private final String place;
    private final Calls calls;

    private NativeLibrary(String place, Calls calls) {
        this.place = place;
        this.calls = calls;
    }

    /**
     * The library that the system property {@code phalanx.library} names. If it is not set, the library {@code phalanx} or {@code
     * phalanx_capi} in an absolute folder of {@code java.library.path}, or else where the system looks for libraries, such as in {@code
     * LD_LIBRARY_PATH} and {@code /usr/lib}.
     *
     * @return the library, the same one each time
     * @throws NativeLibraryException if it is not there, or is none for this module
     */
    public static synchronized NativeLibrary usual() {
        if (usual == null) {
            String named = System.getProperty(PROPERTY);
            usual = named != null && !named.isEmpty() ? at(Path.of(named)) : found();
        }
        return usual;
    }

    /**
     * Whether {@link #usual} returns a library. If not, the pure Java library does the same work.
     *
     * @return false if it is not there, or is none for this module
     */
    public static boolean isPresent() {
        try {
            usual();
            return true;
        } catch (NativeLibraryException e) {
            return false;
        }
    }

    /**
     * The library in a file.
     *
     * @param file the file
     * @return the library
     * @throws NativeLibraryException if it is not there, or is none for this module
     */
    @SuppressWarnings("restricted")
    public static NativeLibrary at(Path file) {
        if (!Files.isRegularFile(file)) {
            throw new NativeLibraryException("no library at " + file + ": " + ADVICE);
        }
        return load(file.toString(), () -> SymbolLookup.libraryLookup(file.toAbsolutePath(), Arena.global()));
    }

    @SuppressWarnings("restricted")
    private static NativeLibrary found() {
        Optional<Path> file = in(System.getProperty("java.library.path"));
        if (file.isPresent()) {
            return at(file.get());
        }
        List<IllegalArgumentException> causes = new ArrayList<>();
        for (String name : NAMES) {
            SymbolLookup symbols;
            try {
                symbols = SymbolLookup.libraryLookup(name, Arena.global());
            } catch (IllegalArgumentException e) {
                // It is not there under this name, or cannot be loaded: Java does not say which.
                causes.add(e);
                continue;
            } catch (IllegalCallerException e) {
                throw denied(e);
            }
            return load(name, () -> symbols);
        }
        String none = "no " + String.join(" and no ", NAMES) + " where libraries are looked for: ";
        String broken = in(System.getenv("LD_LIBRARY_PATH")).map(found -> found + " cannot be loaded: ").orElse(none);
        NativeLibraryException failure = new NativeLibraryException(broken + ADVICE);
        causes.forEach(failure::addSuppressed);
        throw failure;
    }

    /** The first file of the library in these folders. One that is not absolute depends on where the program was started, and is passed over. */
    private static Optional<Path> in(String folders) {
        return Arrays.stream((folders == null ? "" : folders).split(File.pathSeparator))
                .filter(folder -> new File(folder).isAbsolute())
                .flatMap(folder -> NAMES.stream().map(name -> Path.of(folder, name)))
                .filter(Files::isRegularFile)
                .findFirst();
    }

    private interface Lookup {
        SymbolLookup symbols();
    }

    private static NativeLibrary load(String place, Lookup lookup) {
        try {
            SymbolLookup symbols = lookup.symbols();
            String version = Calls.version(symbols);
            if (!version.equals(VERSION)) {
                throw new NativeLibraryException(
                        place + " has the version " + version + ", and this module needs " + VERSION + ": " + ADVICE);
            }
            return new NativeLibrary(place, new Calls(symbols));
        } catch (IllegalArgumentException e) {
            throw new NativeLibraryException(place + " cannot be loaded (" + e.getMessage() + "): " + ADVICE, e);
        } catch (NoSuchElementException e) {
            throw new NativeLibraryException(
                    place + " is not libphalanx " + VERSION + " (" + e.getMessage() + "): " + ADVICE, e);
        } catch (IllegalCallerException e) {
            throw denied(e);
        }
    }

    private static NativeLibraryException denied(IllegalCallerException e) {
        return new NativeLibraryException(
                "this JVM allows no native access: start it with --enable-native-access=ALL-UNNAMED", e);
    }

    /**
     * Where it was found.
     *
     * @return the file, or the name by which the system found it
     */
    public String place() {
        return place;
    }

    Calls calls() {
        return calls;
    }

    /** Shows where it was found. */
    @Override
    public String toString() {
        return "NativeLibrary[" + place + "]";
    }
}
