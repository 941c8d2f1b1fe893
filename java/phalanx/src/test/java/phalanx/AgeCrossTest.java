package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program {@code phalanx} opens what this library protects for age's own keys, and the other way round. */
class AgeCrossTest {
    @TempDir
    Path folder;

    private final byte[] plaintext = new byte[100_000];
    private Path program;
    /** The names of files with an identity, and what is in them. */
    private final List<String> names = List.of("classic.txt", "hybrid.txt", "new.txt");
    private final List<AgeIdentity> identities = new ArrayList<>();

    @BeforeEach
    void prepare() throws IOException, InterruptedException {
        program = Needs.phalanx();
        new Random(37).nextBytes(plaintext);
        Files.write(folder.resolve("f"), plaintext);
        Path data = Vectors.root().resolve("crates/age/tests/data");
        copy(data.resolve("alice.txt"), "classic.txt");
        copy(data.resolve("pq.txt"), "hybrid.txt");
        String made = phalanx("key", "new", "--identity", "new.txt").out();
        for (String name : names) {
            identities.addAll(AgeIdentity.read(folder.resolve(name)));
        }
        assertEquals(List.of(false, true, true), identities.stream().map(each -> each.recipient().isPostQuantum()).toList());
        assertEquals(identities.get(2).recipient(), AgeRecipient.parse(made));
    }

    private void copy(Path from, String name) throws IOException {
        Path to = Files.copy(from, folder.resolve(name));
        Files.setPosixFilePermissions(to, PosixFilePermissions.fromString("rw-------"));
    }

    private Needs.Ran phalanx(String... args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(program.toString()));
        command.addAll(Arrays.asList(args));
        return Needs.run(folder, command).ok();
    }

    /** All sets of the identities but the empty one. */
    private List<List<Integer>> sets() {
        List<List<Integer>> sets = new ArrayList<>();
        for (int bits = 1; bits < 1 << identities.size(); bits++) {
            List<Integer> set = new ArrayList<>();
            for (int i = 0; i < identities.size(); i++) {
                if ((bits >> i & 1) == 1) {
                    set.add(i);
                }
            }
            sets.add(set);
        }
        return sets;
    }

    @Test
    void phalanxOpensWhatJavaProtects() throws IOException, InterruptedException {
        for (List<Integer> set : sets()) {
            Recipients recipients = Recipients.none();
            for (int each : set) {
                recipients = recipients.and(identities.get(each).recipient());
            }
            Path file = folder.resolve("f.phx");
            new Protector(recipients).replacing().protect(folder.resolve("f"), file);
            for (int each : set) {
                phalanx("unprotect", "f.phx", "--identity", names.get(each), "--output", "out", "--force");
                assertArrayEquals(plaintext, Files.readAllBytes(folder.resolve("out")));
                // The program finds the slot of a public key by its tag, and leaves the others.
                if (set.size() > 1) {
                    Files.copy(file, folder.resolve("less.phx"));
                    phalanx("rekey", "less.phx", "--identity", names.get(each), "--remove-recipient",
                            identities.get(set.get(0) == each ? set.get(1) : set.get(0)).recipient().toString());
                    Header less = Header.read(Files.newInputStream(folder.resolve("less.phx")));
                    assertEquals(set.size() - 1, less.slots().stream().filter(slot -> slot instanceof Slot.OfAge).count());
                    Files.delete(folder.resolve("less.phx"));
                }
            }
        }
    }

    @Test
    void javaOpensWhatPhalanxProtects() throws IOException, InterruptedException {
        for (List<Integer> set : sets()) {
            List<String> args = new ArrayList<>(List.of("protect", "f", "--force"));
            for (int each : set) {
                args.addAll(List.of("--recipient", identities.get(each).recipient().toString()));
            }
            phalanx(args.toArray(String[]::new));
            for (int each : set) {
                ByteArrayOutputStream out = new ByteArrayOutputStream();
                new Unprotector(KeyProvider.of(identities.get(each))).unprotect(folder.resolve("f.phx"), out);
                assertArrayEquals(plaintext, out.toByteArray());
            }
        }
    }
}
