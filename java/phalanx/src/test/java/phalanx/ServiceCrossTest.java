package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program {@code phalanx} opens what this library protects for key services, and the other way round. */
class ServiceCrossTest {
    private static final List<String> URIS = List.of("test://one", "test://two?x=\"1\"", "other://one");

    @TempDir
    Path folder;

    private final byte[] plaintext = new byte[100_000];
    private Path program;
    private Path bin;

    @BeforeEach
    void prepare() throws IOException {
        program = Needs.phalanx();
        new Random(37).nextBytes(plaintext);
        Files.write(folder.resolve("f"), plaintext);
        bin = Files.createDirectory(folder.resolve("bin"));
        ServiceProgramTest.install(bin, "test", ServiceProgramTest.SERVICE);
        ServiceProgramTest.install(bin, "other", ServiceProgramTest.SERVICE);
    }

    private String path() {
        return bin + ":" + System.getenv("PATH");
    }

    private Needs.Ran phalanx(String... args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("env", "PATH=" + path(), "HOME=" + folder, program.toString()));
        command.addAll(Arrays.asList(args));
        return Needs.run(folder, command);
    }

    private KeyServices services(List<String> uris) {
        return KeyServices.of(uris.stream().map(uri -> (KeyService) ServiceProgram.of(uri, path())).toList());
    }

    /** How often the services were asked since the last call. */
    private int asked() throws IOException {
        Path asked = bin.resolve("asked");
        int lines = Files.exists(asked) ? Files.readAllLines(asked).size() : 0;
        Files.deleteIfExists(asked);
        return lines;
    }

    @Test
    void phalanxOpensWhatJavaProtects() throws IOException, InterruptedException {
        for (int count = 1; count <= URIS.size(); count++) {
            try (KeyServices services = services(URIS.subList(0, count))) {
                Recipients recipients = Recipients.of(services).and(PhalanxKey.random());
                for (String name : List.of("f.phx", "g.phx")) {
                    new Protector(recipients).replacing().protect(folder.resolve("f"), folder.resolve(name));
                }
            }
            assertEquals(count, asked());
            for (String uri : URIS.subList(0, count)) {
                phalanx("verify", "f.phx", "g.phx", "--kms", uri).ok();
                assertEquals(1, asked());
                phalanx("unprotect", "f.phx", "--kms", uri, "--output", "out", "--force").ok();
                assertArrayEquals(plaintext, Files.readAllBytes(folder.resolve("out")));
                asked();
            }
            assertEquals(3, phalanx("verify", "f.phx", "--kms", "test://three").code());
            assertEquals(0, asked());
        }
        String shown = phalanx("inspect", "f.phx").ok().out();
        assertTrue(shown.contains("slot 2     key service test://one, run key of 32 bytes"), shown);
    }

    @Test
    void javaOpensWhatPhalanxProtects() throws IOException, InterruptedException {
        for (int count = 1; count <= URIS.size(); count++) {
            List<String> args = new ArrayList<>(List.of("protect", "f", "--force"));
            URIS.subList(0, count).forEach(uri -> args.addAll(List.of("--kms", uri)));
            phalanx(args.toArray(String[]::new)).ok();
            assertEquals(count, asked());
            for (String uri : URIS.subList(0, count)) {
                try (KeyServices services = services(List.of(uri))) {
                    for (int i = 0; i < 2; i++) {
                        ByteArrayOutputStream out = new ByteArrayOutputStream();
                        new Unprotector(services).unprotect(folder.resolve("f.phx"), out);
                        assertArrayEquals(plaintext, out.toByteArray());
                    }
                }
                assertEquals(1, asked());
            }
        }
    }
}
