package phalanx.ffi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The library is found, or what is wrong is said in one line. */
class LibraryTest {
    @TempDir
    Path folder;

    /** A program that prints where the usual library is, or why there is none. */
    static final class Probe {
        private Probe() {}

        public static void main(String[] args) {
            try {
                System.out.println(NativeLibrary.usual().place() + " " + NativeLibrary.isPresent());
            } catch (NativeLibraryException e) {
                System.out.println(e.getMessage() + " " + NativeLibrary.isPresent());
            }
        }
    }

    private String probe(Map<String, String> environment, String... options) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(List.of(options));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Probe.class.getName()));
        return Needs.run(0, folder, environment, command.toArray(String[]::new)).strip();
    }

    @Test
    void theVersionIsThatOfTheModule() {
        assertEquals(System.getProperty("phalanx.version"), NativeLibrary.VERSION);
    }

    @Test
    void aMissingLibraryIsSaid() throws IOException, InterruptedException {
        NativeLibraryException e = assertThrows(NativeLibraryException.class, () -> NativeLibrary.at(folder.resolve("gone.so")));
        assertEquals("no library at " + folder.resolve("gone.so") + ": install libphalanx 0.2.0, or name its file by -Dphalanx.library=PATH",
                e.getMessage());
        String native_ = "--enable-native-access=ALL-UNNAMED";
        assertEquals("no library at gone.so: install libphalanx 0.2.0, or name its file by -Dphalanx.library=PATH false",
                probe(Map.of(), native_, "-Dphalanx.library=gone.so"));
        // Where another one is installed for the whole system, it is found.
        String found = probe(Map.of(), native_, "-Djava.library.path=" + folder);
        String none = "no libphalanx.so and no libphalanx_capi.so where libraries are looked for: "
                + "install libphalanx 0.2.0, or name its file by -Dphalanx.library=PATH false";
        assertTrue(found.equals(none) || found.equals("libphalanx.so true"), found);
    }

    @Test
    void aLibraryThatIsAnotherIsSaid() throws IOException, InterruptedException {
        Path text = Files.writeString(folder.resolve("text.so"), "no library");
        String message = assertThrows(NativeLibraryException.class, () -> NativeLibrary.at(text)).getMessage();
        assertTrue(message.startsWith(text + " cannot be loaded ("), message);
        Needs.program("cc");
        Path other = other("no", "int other;");
        assertEquals(other + " is not libphalanx 0.2.0 (it has no phalanx_version): "
                        + "install libphalanx 0.2.0, or name its file by -Dphalanx.library=PATH",
                assertThrows(NativeLibraryException.class, () -> NativeLibrary.at(other)).getMessage());
        Path older = other("older", "const char *phalanx_version(void) { return \"0.1.0\"; }");
        assertEquals(older + " has the version 0.1.0, and this module needs 0.2.0: "
                        + "install libphalanx 0.2.0, or name its file by -Dphalanx.library=PATH",
                assertThrows(NativeLibraryException.class, () -> NativeLibrary.at(older)).getMessage());
        Path lacking = other("lacking", "const char *phalanx_version(void) { return \"0.2.0\"; }");
        message = assertThrows(NativeLibraryException.class, () -> NativeLibrary.at(lacking)).getMessage();
        assertTrue(message.startsWith(lacking + " is not libphalanx 0.2.0 (it has no phalanx_error_kind)"), message);
    }

    /** Compiles a library. Each has a name of its own, since one that is loaded stays. */
    private Path other(String name, String source) throws IOException, InterruptedException {
        Path file = folder.resolve(name + ".so");
        Files.writeString(folder.resolve("other.c"), source);
        Needs.run(0, folder, Map.of(), "cc", "-shared", "-fPIC", "-o", file.toString(), "other.c");
        return file;
    }

    @Test
    void theUsualLibraryIsFound() throws IOException, InterruptedException {
        Path file = Needs.libraryFile();
        String native_ = "--enable-native-access=ALL-UNNAMED";
        assertEquals(file + " true", probe(Map.of(), native_, "-Dphalanx.library=" + file));
        Path installed = Files.createSymbolicLink(folder.resolve("libphalanx.so"), file);
        assertEquals(installed + " true", probe(Map.of(), native_, "-Djava.library.path=/nowhere:" + folder));
        String byLoader = probe(Map.of("LD_LIBRARY_PATH", folder.toString()), native_, "-Djava.library.path=/nowhere");
        assertEquals("libphalanx.so true", byLoader);
    }

    /** What is printed after the JVM's own warning of a file that is no library. */
    private static String last(String printed) {
        return printed.substring(printed.lastIndexOf('\n') + 1);
    }

    @Test
    void aBrokenLibraryIsNamed() throws IOException, InterruptedException {
        Path broken = Files.writeString(folder.resolve("libphalanx.so"), "no library");
        String native_ = "--enable-native-access=ALL-UNNAMED";
        String advice = "install libphalanx 0.2.0, or name its file by -Dphalanx.library=PATH false";
        String byJava = last(probe(Map.of(), native_, "-Djava.library.path=" + folder));
        assertTrue(byJava.startsWith(broken + " cannot be loaded (") && byJava.endsWith(advice), byJava);
        String bySystem = last(probe(Map.of("LD_LIBRARY_PATH", folder.toString()), native_, "-Djava.library.path=/nowhere"));
        // Where another one is installed for the whole system, under the other name, it is found.
        assertTrue(bySystem.equals(broken + " cannot be loaded: " + advice)
                || bySystem.equals("libphalanx_capi.so true"), bySystem);
    }

    /** Such a folder is another one wherever the program is started. */
    @Test
    void aFolderThatIsNotAbsoluteIsPassedOver() throws IOException, InterruptedException {
        Files.writeString(folder.resolve("libphalanx.so"), "no library");
        for (String folders : new String[] {".", "", ":/nowhere", "/nowhere:."}) {
            String said = last(probe(Map.of(), "--enable-native-access=ALL-UNNAMED", "-Djava.library.path=" + folders));
            assertTrue(said.startsWith("no libphalanx.so and no ") || said.endsWith(" true"), said);
        }
    }

    @Test
    void aJvmThatAllowsNoNativeAccessIsSaid() throws IOException, InterruptedException {
        Needs.require("jdk24", Runtime.version().feature() >= 24);
        Path file = Needs.libraryFile();
        assertEquals("this JVM allows no native access: start it with --enable-native-access=ALL-UNNAMED false",
                probe(Map.of(), "--illegal-native-access=deny", "-Dphalanx.library=" + file));
    }
}
