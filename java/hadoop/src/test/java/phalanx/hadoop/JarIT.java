package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.jar.JarFile;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FsShell;
import org.junit.jupiter.api.Test;

/** The jar with Hadoop's own command, as on a cluster. */
class JarIT extends Fixture {
    private static final Path JAR = Path.of("target", "phalanx-hadoop.jar").toAbsolutePath();

    private String hadoop(String... arguments) throws IOException, InterruptedException {
        String classes = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        List<String> others = Arrays.stream(classes.split(File.pathSeparator))
                .filter(each -> each.contains("hadoop-client") || each.contains("slf4j") || each.contains("commons-logging"))
                .toList();
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp",
                String.join(File.pathSeparator, settings().toString(), JAR.toString(), String.join(File.pathSeparator, others)),
                FsShell.class.getName()));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), said);
        return said;
    }

    /** A folder with the file of settings that each machine of a cluster has. */
    private Path settings() throws IOException {
        Path folder = Files.createDirectories(top.resolve("settings"));
        try (OutputStream out = Files.newOutputStream(folder.resolve("core-site.xml"))) {
            Configuration own = new Configuration(false);
            own.set(Keys.KEYS, "work");
            own.set(Keys.KEYRING, top.resolve("ring").toString());
            own.writeXml(out);
        }
        return folder;
    }

    @Test
    void theCommandPutsAndGets() throws IOException, InterruptedException {
        byte[] plaintext = bytes(3_000_000);
        Path file = Files.write(top.resolve("in"), plaintext);
        String there = "phalanx+file://" + folder;
        hadoop("-put", file.toString(), there + "/a");
        assertArrayEquals(plaintext, read("a"));
        assertEquals(List.of("a.phx"), stored());
        assertTrue(hadoop("-ls", there).contains("3000000"));
        hadoop("-get", there + "/a", top.resolve("out").toString());
        assertArrayEquals(plaintext, Files.readAllBytes(top.resolve("out")));
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
