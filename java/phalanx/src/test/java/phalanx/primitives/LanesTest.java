package phalanx.primitives;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import phalanx.Needs;

/** Many states side by side give what one does: in plain Java, and by vectors of each length. */
class LanesTest {
    /** The build starts tests with the module, so both are there. */
    private static List<Lanes> all() {
        return List.of(new WideKeccak(), Lanes.vectors().orElseThrow());
    }

    @Test
    void groupsOfSlicesAreHashedAsSingleOnes() {
        Random random = new Random(1);
        for (Lanes lanes : all()) {
            for (Sponge sponge : new Sponge[] {
                new Sponge(Keccak.ROUNDS, 0x06, lanes), new Sponge(12, 0x50, lanes)
            }) {
                for (int slice : new int[] {512, 1024, 2048, 4096}) {
                    for (int count : new int[] {0, 1, 2, 7, 8, 9, 27, 28, 29, 63, 64, 65, 91, 92, 128, 130}) {
                        for (int more : new int[] {0, 1, 8, slice - 1}) {
                            equalsSingleOnes(sponge, slice, count, more, random);
                        }
                    }
                }
            }
        }
    }

    private static void equalsSingleOnes(Sponge sponge, int slice, int count, int more, Random random) {
        int offset = random.nextInt(20);
        byte[] data = new byte[offset + count * slice + more];
        random.nextBytes(data);
        int length = data.length - offset;
        byte[] out = new byte[(count + 1) * Sponge.DIGEST];
        int digests = sponge.digests(data, offset, length, slice, out);
        assertEquals(count + (more > 0 ? 1 : 0), digests);
        byte[] one = new byte[Sponge.DIGEST];
        for (int i = 0; i < digests; i++) {
            sponge.hash(data, offset + i * slice, Math.min(slice, length - i * slice), one, 0, one.length);
            byte[] found = Arrays.copyOfRange(out, i * one.length, (i + 1) * one.length);
            assertArrayEquals(one, found, () -> count + " slices of " + slice);
        }
    }

    /** SHA3-256 of 200 bytes of 0xa3, an example of NIST, in each lane. */
    @Test
    void eachLaneHasTheKnownAnswer() {
        byte[] answer = HexFormat.of().parseHex("79f38adec5c20307a98ef76e8324afbfd46cfd81b22e3973c65fa1bd9de31787");
        for (Lanes lanes : all()) {
            byte[] data = new byte[200 * lanes.states];
            Arrays.fill(data, (byte) 0xa3);
            byte[] out = new byte[lanes.states * Sponge.DIGEST];
            assertEquals(lanes.states, new Sponge(Keccak.ROUNDS, 0x06, lanes).digests(data, 0, data.length, 200, out));
            for (int l = 0; l < lanes.states; l++) {
                assertArrayEquals(answer, Arrays.copyOfRange(out, l * 32, l * 32 + 32), lanes.title());
            }
        }
    }

    /** JVMs that have shorter vectors, or no module, find the same digests. Each uses what is faster there. */
    @Test
    void everyLengthOfVectorsGivesTheSame(@TempDir Path folder) throws IOException, InterruptedException {
        List<String> plain = program(folder);
        assertEquals("none", plain.get(0));
        assertEquals("loops over 64", plain.get(1));
        for (int bytes : new int[] {16, 32, 64}) {
            List<String> lines = program(folder, "--add-modules", "jdk.incubator.vector", "-XX:MaxVectorSize=" + bytes);
            int states = Integer.parseInt(lines.get(0));
            assertTrue(states >= 2 && states <= bytes / Long.BYTES, lines.get(0));
            boolean taken = Runtime.version().feature() >= 21 && states >= 4;
            assertEquals(taken ? "vectors of " + states : "loops over 64", lines.get(1));
            assertEquals(plain.get(2), lines.get(2));
        }
    }

    private static List<String> program(Path folder, String... options) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of(options));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Program.class.getName()));
        return Needs.run(folder, command).ok().out().lines().toList();
    }

    /** Prints how many states the vectors have, what is used, and digests by the vectors if they are there. */
    static final class Program {
        public static void main(String[] args) {
            byte[] data = new byte[70 * 512];
            new Random(1).nextBytes(data);
            byte[] out = new byte[70 * Sponge.DIGEST];
            Optional<Lanes> vectors = Lanes.vectors();
            Lanes lanes = vectors.orElseGet(WideKeccak::new);
            new Sponge(Keccak.ROUNDS, 0x06, lanes).digests(data, 0, data.length, 512, out);
            System.out.println(vectors.map(found -> Integer.toString(found.states)).orElse("none"));
            System.out.println(Sponge.engine());
            System.out.println(HexFormat.of().formatHex(out));
        }
    }
}
