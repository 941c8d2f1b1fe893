package phalanx;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Every example in the documentation compiles. */
class JavadocExamplesTest {
    private static final Pattern EXAMPLE = Pattern.compile("<pre>\\{@code\n(.*?)\\s*\\* \\}</pre>", Pattern.DOTALL);
    private static final Pattern FENCE = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

    @TempDir
    Path folder;

    @Test
    void examplesCompile() throws IOException {
        List<String> examples = new ArrayList<>();
        Path java = Vectors.root().resolve("java");
        try (Stream<Path> files = Files.walk(java.resolve("phalanx/src/main/java"))) {
            for (Path file : files.filter(path -> path.toString().endsWith(".java")).toList()) {
                Matcher matcher = EXAMPLE.matcher(Files.readString(file));
                while (matcher.find()) {
                    examples.add(matcher.group(1).replaceAll("(?m)^ \\* ?", ""));
                }
            }
        }
        assertTrue(examples.size() >= 5, "only " + examples.size() + " examples in the sources");
        Matcher guide = FENCE.matcher(Files.readString(java.resolve("README.md")));
        int before = examples.size();
        while (guide.find()) {
            examples.add(guide.group(1));
        }
        assertTrue(examples.size() > before, "no example in the guide");
        for (String example : examples) {
            compile(example);
        }
    }

    private void compile(String example) {
        String source = "import java.io.*; import java.nio.*; import java.nio.channels.*; import java.nio.file.*;"
                + "import java.util.*; import java.util.concurrent.*; import phalanx.*; class Example {"
                + "static void run(PhalanxKey key, Password password, byte[] plaintext) throws Exception {{\n"
                + example.replace("PhalanxKey key = PhalanxKey.random()", "PhalanxKey made = PhalanxKey.random()") + "\n}}}";
        JavaFileObject file = new SimpleJavaFileObject(URI.create("string:///Example.java"), JavaFileObject.Kind.SOURCE) {
            @Override
            public CharSequence getCharContent(boolean ignoreEncodingErrors) {
                return source;
            }
        };
        var compiler = ToolProvider.getSystemJavaCompiler();
        Needs.require("javac", compiler != null);
        DiagnosticCollector<JavaFileObject> found = new DiagnosticCollector<>();
        List<String> options =
                List.of("-d", folder.toString(), "-classpath", System.getProperty("java.class.path"), "-proc:none");
        boolean compiles = compiler.getTask(null, null, found, options, null, List.of(file)).call();
        assertTrue(compiles, () -> example + "\n" + found.getDiagnostics().stream()
                .filter(diagnostic -> diagnostic.getKind() == Diagnostic.Kind.ERROR)
                .toList());
    }
}
