package phalanx.papers;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import phalanx.cluster.World;

class DividedTest {
    @TempDir
    Path folder;

    @Test
    void partsFollowEachOtherAndCoverAll() {
        for (long length : List.of(0L, 1L, 15L, 16L, 17L, 1000L, 1080_000_000L)) {
            for (int parts : List.of(1, 2, 3, 16, 31)) {
                long end = 5;
                for (int i = 0; i < parts; i++) {
                    Divided.Part part = new Divided.Part(5, length).of(parts, i);
                    assertEquals(end, part.at());
                    assertEquals(0, i == 0 || part.length() == 0 ? 0 : (part.at() - 5) % 16);
                    end += part.length();
                }
                assertEquals(5 + length, end);
            }
        }
    }

    @Test
    void anyDivisionGivesTheSameBytes() throws Exception {
        byte[] key = new byte[32];
        Arrays.fill(key, (byte) 7);
        Path in = folder.resolve("in");
        Path out = folder.resolve("out");
        for (int length : List.of(1, 16, 17, 100_003)) {
            byte[] plain = new byte[length];
            new Random(length).nextBytes(plain);
            Files.write(in, plain);
            Cipher cipher = Cipher.getInstance("AES/CTR/NoPadding");
            cipher.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(key, "AES"), new IvParameterSpec(new byte[16]));
            byte[] wanted = cipher.doFinal(plain);
            for (String threads : List.of("1", "2", "7")) {
                Divided.main(new String[] {"ctr", threads, "1", in.toString(), out.toString()});
                assertArrayEquals(wanted, Files.readAllBytes(out), length + " by " + threads);
            }
            // Three ranks, one after another. Rank 0 removes the old output.
            Path ranks = Files.write(folder.resolve("ranks"), new byte[1]);
            for (int rank = 0; rank < 3; rank++) {
                new Divided(new String[] {"ctr", "2", "1", in.toString(), ranks.toString()}).run(alone(rank, 3));
            }
            assertArrayEquals(wanted, Files.readAllBytes(ranks), length + " by ranks");
            Divided.main(new String[] {"cbc", "1,3", "2", in.toString()});
        }
    }

    private static World alone(int rank, int size) {
        return new World() {
            @Override
            public int rank() {
                return rank;
            }

            @Override
            public int size() {
                return size;
            }

            @Override
            public byte[] broadcast(byte[] message) {
                return message;
            }

            @Override
            public long largest(long mine) {
                return mine;
            }
        };
    }
}
