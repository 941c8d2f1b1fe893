package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import phalanx.Vectors.Vector;

/** Every vector of {@code vectors/messages} has the expected verdict, alone and in a batch. */
class MessageVectorsTest {
    static List<Vector> messages() {
        return Vectors.of("messages", 153);
    }

    private static Message message(Vector vector, String content) {
        return new Message(PhalanxKey.of(vector.bytes("key")), vector.bytes("ad"), vector.bytes(content));
    }

    /** By one sealer for each suite, so that each message follows others. */
    @Test
    void oneByOne() throws MessagesException {
        for (Suite suite : Suite.values()) {
            try (MessageSealer sealer = new MessageSealer(suite)) {
                for (Vector vector : messages().stream().filter(vector -> suite(vector) == suite).toList()) {
                    if (vector.text("expect").equals("ok")) {
                        assertArrayEquals(vector.bytes("plaintext"), sealer.open(message(vector, "message")), vector.name());
                    } else {
                        assertThrows(MessagesException.class, () -> sealer.open(message(vector, "message")), vector.name());
                    }
                }
            }
        }
    }

    private static Suite suite(Vector vector) {
        return Suite.of(vector.number("suite")).orElseThrow();
    }

    @ParameterizedTest
    @MethodSource("messages")
    void alone(Vector vector) throws MessagesException {
        Messages messages = new Messages(suite(vector));
        List<Message> batch = List.of(message(vector, "message"));
        if (vector.text("expect").equals("ok")) {
            assertArrayEquals(vector.bytes("plaintext"), messages.open(batch).get(0));
            try (MessageKeys keys = new MessageKeys(PhalanxKey.of(vector.bytes("key")), suite(vector))) {
                byte[] sealed = new MessageCipher(suite(vector)).seal(keys, vector.bytes("ad"), vector.bytes("plaintext"), vector.bytes("nonce"));
                assertArrayEquals(vector.bytes("message"), sealed);
            }
        } else {
            assertEquals("altered", vector.text("expect"));
            assertThrows(AuthenticationException.class, () -> messages.open(batch));
        }
    }

    @Test
    void inBatches() {
        for (Suite suite : Suite.values()) {
            List<Vector> vectors = messages().stream().filter(vector -> suite(vector) == suite).toList();
            List<Message> batch = vectors.stream().map(vector -> message(vector, "message")).toList();
            List<Optional<byte[]>> opened = new Messages(suite).openEach(batch);
            List<Integer> failed = new ArrayList<>();
            for (int i = 0; i < batch.size(); i++) {
                boolean isOk = vectors.get(i).text("expect").equals("ok");
                assertEquals(isOk, opened.get(i).isPresent(), vectors.get(i).name());
                if (!isOk) {
                    failed.add(i);
                }
            }
            MessagesException e = assertThrows(MessagesException.class, () -> new Messages(suite).open(batch));
            assertArrayEquals(failed.stream().mapToInt(i -> i).toArray(), e.failed());
        }
    }
}
