package phalanx.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.jar.JarFile;
import org.junit.jupiter.api.Test;

/** The jar, as a plugin of Flink. */
class JarIT extends Fixture {
    private static final Path JAR = Path.of("target", "phalanx-flink.jar").toAbsolutePath();

    @Test
    void flinkFindsItAmongItsPlugins() throws IOException, InterruptedException {
        Path plugin = Files.createDirectories(top.resolve("plugins/phalanx"));
        Files.copy(JAR, plugin.resolve("phalanx-flink.jar"));
        // Of the tests only the job, which uses nothing but Flink.
        Path classes = top.resolve("classes");
        Path own = Path.of("target", "test-classes", "phalanx", "flink");
        Files.createDirectories(classes.resolve("phalanx/flink"));
        try (var all = Files.newDirectoryStream(own, "Job*.class")) {
            for (Path each : all) {
                Files.copy(each, classes.resolve("phalanx/flink").resolve(each.getFileName()));
            }
        }
        Process job = Job.start(top, List.of(classes.toString()), "row", "whole");
        assertEquals(0, job.waitFor(), this::said);
        assertEachLineIsThereOnce();
    }

    @Test
    void theJarHasWhatItNeedsAndNoMore() throws IOException {
        try (JarFile jar = new JarFile(JAR.toFile())) {
            List<String> names = jar.stream().map(each -> each.getName()).filter(each -> each.endsWith(".class")).toList();
            assertTrue(names.contains("phalanx/Protector.class"));
            assertFalse(names.stream().anyMatch(each -> !each.startsWith("phalanx/")));
        }
    }
}
