package phalanx.ffi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import phalanx.Keyring;
import phalanx.PhalanxKey;

/** Every example in the documentation and the guide runs, in a folder with a file and a key. */
class ExamplesTest {
    private static final Pattern EXAMPLE = Pattern.compile("<pre>\\{@code\n(.*?)\\s*\\* \\}</pre>", Pattern.DOTALL);
    private static final Pattern FENCE = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

    @TempDir
    Path folder;

    private static List<String> examples() throws IOException {
        List<String> examples = new ArrayList<>();
        try (Stream<Path> files = Files.walk(Path.of("src/main/java"))) {
            for (Path file : files.filter(path -> path.toString().endsWith(".java")).sorted().toList()) {
                Matcher matcher = EXAMPLE.matcher(Files.readString(file));
                while (matcher.find()) {
                    examples.add(matcher.group(1).replaceAll("(?m)^ \\* ?", ""));
                }
            }
        }
        assertEquals(5, examples.size(), "examples in the sources");
        Matcher guide = FENCE.matcher(Files.readString(Path.of("README.md")));
        while (guide.find()) {
            examples.add(guide.group(1));
        }
        assertTrue(examples.size() > 5, "no example in the guide");
        return examples;
    }

    @Test
    void examplesRun() throws IOException, InterruptedException {
        Path library = Needs.libraryFile();
        StringBuilder source = new StringBuilder("""
                import java.nio.*; import java.nio.channels.*; import java.nio.file.*; import java.util.*;
                import phalanx.*; import phalanx.ffi.*;
                class Examples {
                    public static void main(String[] args) throws Exception {
                        PhalanxKey key = Keyring.usual().load("work");
                        byte[] plaintext = {1, 2, 3};
                """);
        List<String> examples = examples();
        for (String example : examples) {
            // Examples of opening need a file, and those that make one need that there is none.
            boolean makes = example.contains(".protect(");
            source.append("Files.deleteIfExists(Path.of(\"run42.h5.phx\"));");
            if (!makes) {
                source.append("try (NativeWays w = NativeWays.of(key)) {"
                        + "new NativeProtector(w).protect(Path.of(\"plain\"), Path.of(\"run42.h5.phx\")); }");
            }
            source.append(example.contains(".unprotect(") && !makes ? "Files.deleteIfExists(Path.of(\"run42.h5\"));" : "");
            source.append("{\n").append(example).append("}\n");
            source.append("Files.copy(Path.of(\"plain\"), Path.of(\"run42.h5\"), StandardCopyOption.REPLACE_EXISTING);");
        }
        source.append("System.out.println(\"all ran\"); } }");
        Path file = Files.writeString(folder.resolve("Examples.java"), source);
        Files.write(folder.resolve("plain"), new byte[2_000_000]);
        Files.write(folder.resolve("run42.h5"), new byte[2_000_000]);
        Keyring.in(folder.resolve("ring")).store("work", PhalanxKey.random());
        Map<String, String> environment = Map.of("PHALANX_KEYRING", folder.resolve("ring").toString());
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String printed = Needs.run(0, folder, environment, java, "--enable-native-access=ALL-UNNAMED",
                "-Dphalanx.library=" + library, "-cp", System.getProperty("java.class.path"), file.toString());
        assertEquals("all ran", printed.strip());
    }
}
