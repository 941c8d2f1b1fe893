package phalanx;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import phalanx.Vectors.Vector;

/** The client of a server: its streams against the vectors, and itself against the program. */
class ServerTest {
    private static final byte[] ADA = "ada".getBytes(UTF_8);
    private static final byte[] AD = "v1".getBytes(UTF_8);

    @TempDir(cleanup = org.junit.jupiter.api.io.CleanupMode.ALWAYS)
    static Path folder;

    private static Process process;

    /** A client of a server that runs. It starts once, and has the keys {@code orders} and {@code log}. */
    private static synchronized Server server() throws IOException, InterruptedException {
        Path dir = folder.resolve("server");
        if (process == null) {
            String named = System.getenv("PHALANX_SERVER");
            Path program = named != null
                    ? Path.of(named)
                    : Vectors.root().resolve("target").resolve("debug").resolve("phalanx-server");
            Needs.require("phalanx-server", Files.isExecutable(program));
            Path key = Files.write(folder.resolve("key"), new byte[32]);
            key.toFile().setReadable(false, false);
            key.toFile().setReadable(true, true);
            run(List.of(program.toString(), "init", "--dir", dir.toString(), "--key-file", key.toString()));
            process = new ProcessBuilder(program.toString(), "run", "--dir", dir.toString(), "--key-file", key.toString())
                    .redirectErrorStream(true)
                    .redirectOutput(folder.resolve("log").toFile())
                    .start();
            long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(1);
            while (!Files.exists(dir.resolve("server.sock"))) {
                assertTrue(process.isAlive() && System.nanoTime() < end, "the server does not start");
                Thread.sleep(5);
            }
            run(List.of(program.toString(), "key", "new", "orders", "--dir", dir.toString()));
            run(List.of(program.toString(), "key", "new", "log", "--dir", dir.toString()));
        }
        return Server.at("unix:" + dir.resolve("server.sock"));
    }

    private static void run(List<String> command) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        process.getOutputStream().close();
        String output = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertEquals(0, process.waitFor(), () -> command + ": " + output);
    }

    @AfterAll
    static void end() throws InterruptedException {
        if (process != null) {
            process.destroyForcibly().waitFor();
        }
    }

    static List<Vector> streams() {
        return Vectors.of("streams", 9);
    }

    static List<Vector> ciphertexts() {
        return Vectors.of("server", 64).stream().filter(vector -> vector.has("text")).toList();
    }

    @ParameterizedTest
    @MethodSource("streams")
    void streamsAreThoseOfTheVectors(Vector vector) {
        List<ServerRecord> records = new ArrayList<>();
        for (JsonElement element : vector.fields().getAsJsonArray("records")) {
            JsonObject own = element.getAsJsonObject();
            records.add(new ServerRecord(
                    new String(Vectors.bytes(own, "key"), UTF_8),
                    Vectors.bytes(own, "user"),
                    Vectors.bytes(own, "ad"),
                    Vectors.bytes(own, "text")));
        }
        byte[] body = ServerStream.write(records);
        assertArrayEquals(Arrays.copyOf(vector.bytes("request"), body.length), body);
        List<ServerResult> results = new ArrayList<>();
        List<JsonElement> answers = vector.fields().getAsJsonArray("answers").asList();
        if (answers.size() == records.size()) {
            org.junit.jupiter.api.Assertions.assertDoesNotThrow(
                    () -> ServerStream.read(vector.bytes("answer"), records.size(), results));
        } else {
            ServerException e = assertThrows(
                    ServerException.class, () -> ServerStream.read(vector.bytes("answer"), records.size(), results));
            assertEquals(answers.get(records.size()).getAsJsonObject().get("status").getAsInt(), e.status());
        }
        assertEquals(records.size(), results.size());
        for (int i = 0; i < results.size(); i++) {
            JsonObject answer = answers.get(i).getAsJsonObject();
            ServerResult result = results.get(i);
            assertEquals(answer.get("status").getAsInt(), result.status());
            byte[] bytes = result.isDone() ? result.content() : result.reason().getBytes(UTF_8);
            assertArrayEquals(Vectors.bytes(answer, "bytes"), bytes);
        }
    }

    @Test
    void anAnswerThatIsCutIsSeen() {
        byte[] answer = streams().stream().filter(each -> each.name().startsWith("open")).findFirst().orElseThrow().bytes("answer");
        for (int length = 0; length < answer.length; length++) {
            byte[] cut = Arrays.copyOf(answer, length);
            assertThrows(ServerException.class, () -> ServerStream.read(cut, 3, new ArrayList<>()));
        }
    }

    @ParameterizedTest
    @MethodSource("ciphertexts")
    void textsAreThoseOfTheVectors(Vector vector) {
        assertEquals(vector.text("text"), Server.toText(vector.bytes("ciphertext")));
        assertArrayEquals(vector.bytes("ciphertext"), Server.ofText(vector.text("text")));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "vault:v1", "vault:v1:", "vault:v0:AA==", "vault:v-1:AA==", "vault:v4294967296:AA==", "v1:AA==", "vault:v1:A:"})
    void whatIsNoCiphertextIsRefused(String text) {
        assertThrows(IllegalArgumentException.class, () -> Server.ofText(text));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "host:8200", "http://example.org:1", "http://127.0.0.1.example.org", "https://host/path", "ftp://localhost"})
    void whatIsNoAddressIsRefused(String address) {
        assertThrows(IllegalArgumentException.class, () -> Server.at(address));
    }

    static Stream<String> tokensThatNoHeaderCarries() {
        return Stream.of(
                "secret\n", "sec ret", "secret\r\nX: y", "secret\u00fc", "secret\ud800", "secret\u007f", "secret\u0000", "");
    }

    @ParameterizedTest
    @MethodSource("tokensThatNoHeaderCarries")
    void aTokenThatCannotBeSentIsNotShown(String token) {
        for (String address : List.of("http://127.0.0.1:1", "unix:" + folder.resolve("none"))) {
            try (Server server = Server.at(address)) {
                IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> server.withToken(token));
                assertEquals("a token is text of printable ASCII characters, without spaces or line ends", e.getMessage());
                assertEquals(null, e.getCause());
            }
        }
    }

    @Test
    void aBusyServerIsAskedAgainAndNotForEver() throws IOException {
        AtomicInteger asked = new AtomicInteger();
        HttpServer busy = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        busy.createContext("/", exchange -> {
            asked.incrementAndGet();
            exchange.getRequestBody().readAllBytes();
            exchange.getResponseHeaders().set("Retry-After", "0");
            byte[] body = "{\"errors\":[\"too many bytes are in flight\"]}".getBytes(UTF_8);
            exchange.sendResponseHeaders(429, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        busy.start();
        try (Server server = Server.at("http://127.0.0.1:" + busy.getAddress().getPort())) {
            ServerException e = assertThrows(ServerException.class, () -> server.seal("a", ADA, ADA, AD));
            assertEquals(429, e.status());
            assertEquals("the server refuses the request: too many bytes are in flight (status 429)", e.getMessage());
        } finally {
            busy.stop(0);
        }
        assertEquals(6, asked.get());
    }

    /** A server on a port of this machine, or on a Unix socket, that answers one request with these pieces, and then waits for the end. */
    private static Thread answering(ServerSocketChannel socket, AtomicBoolean isEnded, Iterable<String> pieces) {
        Thread thread = new Thread(() -> {
            try (SocketChannel channel = socket.accept()) {
                assertTrue(channel.read(ByteBuffer.allocate(64 << 10)) > 0);
                for (String piece : pieces) {
                    channel.write(ByteBuffer.wrap(piece.getBytes(UTF_8)));
                }
                ByteBuffer rest = ByteBuffer.allocate(64 << 10);
                while (channel.read(rest.clear()) >= 0) {
                    // The rest of the request.
                }
                isEnded.set(true);
            } catch (IOException e) {
                isEnded.set(true);
            }
        });
        thread.start();
        return thread;
    }

    /** What the client says of an answer. Its connection is closed then. */
    private static String failure(boolean isWeb, Iterable<String> pieces) throws Exception {
        Path path = folder.resolve("bad.sock");
        Files.deleteIfExists(path);
        try (ServerSocketChannel socket = isWeb
                ? ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0))
                : ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(UnixDomainSocketAddress.of(path))) {
            String address = isWeb ? "http://127.0.0.1:" + ((InetSocketAddress) socket.getLocalAddress()).getPort() : "unix:" + path;
            AtomicBoolean isEnded = new AtomicBoolean();
            Thread thread = answering(socket, isEnded, pieces);
            Server server = Server.at(address).withTimeout(Duration.ofSeconds(1));
            IOException e = assertTimeoutPreemptively(Duration.ofSeconds(60),
                    () -> assertThrows(IOException.class, () -> server.seal("a", ADA, ADA, AD)));
            thread.join(TimeUnit.SECONDS.toMillis(60));
            assertTrue(isEnded.get(), "the connection stays open");
            return e.getMessage();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aServerThatFallsSilentIsNotWaitedForLong(boolean isWeb) throws Exception {
        String head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
        assertEquals("the server is silent", failure(isWeb, List.of()));
        assertEquals("the server is silent", failure(isWeb, List.of(head)));
        assertEquals("the server is silent", failure(isWeb, List.of(head, "some")));
    }

    /** It has more than what the records can need, whether or not it says so before. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void anEndlessAnswerEnds(boolean isWeb) throws Exception {
        String chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assertEquals("the server's answer is too long", failure(isWeb, endless(chunked, "100\r\n" + "x".repeat(256) + "\r\n")));
        String long1 = "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n";
        assertEquals("the server's answer is too long", failure(isWeb, endless(long1, "x".repeat(256))));
    }

    @ParameterizedTest
    @ValueSource(strings = {"HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 200 OK\r\n|A: b\r\n"})
    void anEndlessHeadEnds(String text) throws Exception {
        String[] parts = text.split("\\|");
        assertEquals("the server does not speak HTTP", failure(false, endless(parts[0], parts[parts.length - 1])));
    }

    private static Iterable<String> endless(String first, String next) {
        return () -> Stream.iterate(first, before -> next).iterator();
    }

    /** The memory that is taken follows what has come. */
    @Test
    void aBodyGrowsAsItComes() throws IOException {
        ServerBody body = new ServerBody(new byte[100]);
        body.expect(100 + (8 << 20));
        assertEquals("the server's answer is too long", assertThrows(IOException.class, () -> body.expect(101 + (8 << 20))).getMessage());
        byte[] content = new byte[100 + (8 << 20)];
        new java.util.Random(1).nextBytes(content);
        ByteBuffer from = ByteBuffer.wrap(content);
        while (from.hasRemaining()) {
            body.add(from, Math.min(7, from.remaining()));
        }
        assertThrows(IOException.class, () -> body.add(ByteBuffer.allocate(1), 1));
        assertArrayEquals(content, body.take());
        assertEquals(0, body.take().length);
    }

    @Test
    void recordsComeBack() throws Exception {
        try (Server server = server()) {
            List<ServerRecord> records = new ArrayList<>();
            for (int i = 0; i < 20_000; i++) {
                byte[] text = new byte[i % 700];
                Arrays.fill(text, (byte) i);
                byte[] user = {(byte) i, (byte) (i >> 8), 1};
                records.add(new ServerRecord(i % 2 == 0 ? "orders" : "log", user, AD, text));
            }
            List<byte[]> sealed = server.seal(records);
            check(records, server.open(with(records, sealed)));
            check(records, server.open(with(records, server.rewrap(with(records, sealed)))));
            assertEquals(List.of(), server.seal(List.of()));
        }
    }

    private static List<ServerRecord> with(List<ServerRecord> records, List<byte[]> contents) {
        List<ServerRecord> others = new ArrayList<>();
        for (int i = 0; i < records.size(); i++) {
            ServerRecord record = records.get(i);
            others.add(new ServerRecord(record.key(), record.user(), record.associatedData(), contents.get(i)));
        }
        return others;
    }

    private static void check(List<ServerRecord> records, List<byte[]> opened) {
        assertEquals(records.size(), opened.size());
        for (int i = 0; i < opened.size(); i++) {
            assertArrayEquals(records.get(i).content(), opened.get(i));
        }
    }

    @Test
    void refusalsAreThoseOfTheirRecords() throws Exception {
        try (Server server = server()) {
            byte[] sealed = server.seal("orders", ADA, AD, AD);
            assertArrayEquals(AD, server.open("orders", ADA, sealed, AD));
            assertEquals(400, assertThrows(ServerException.class, () -> server.open("log", ADA, sealed, AD)).status());
            List<ServerRecord> records = List.of(
                    new ServerRecord("orders", ADA, AD, sealed), new ServerRecord("none", ADA, AD, sealed));
            List<ServerResult> results = server.openEach(records);
            assertTrue(results.get(0).isDone());
            assertEquals(404, results.get(1).status());
            ServerException e = assertThrows(ServerException.class, () -> server.open(records));
            assertEquals(404, e.status());
            assertArrayEquals(new int[] {1}, e.failed());
            assertArrayEquals(AD, e.results().get(0).content());
            assertFalse(e.results().get(1).isDone());
        }
    }

    @Test
    void aTextThatIsTooLongBreaksTheStreamOff() throws Exception {
        try (Server server = server()) {
            ServerRecord one = new ServerRecord("orders", ADA, AD, AD);
            ServerRecord tooLong = new ServerRecord("orders", ADA, AD, new byte[(1 << 20) + 1]);
            List<ServerRecord> records = List.of(one, tooLong, one);
            ServerException e = assertThrows(ServerException.class, () -> server.sealEach(records));
            assertTrue(e.getMessage().contains("longer than 1048576 bytes"), e.getMessage());
            assertEquals(2, e.results().size());
            assertTrue(e.results().get(0).isDone());
            assertArrayEquals(new int[] {1}, e.failed());
            // The next request has a connection of its own.
            assertEquals(1, server.seal(records.subList(0, 1)).size());
        }
    }

    @Test
    void aServerThatIsNotThereIsAnError() {
        try (Server server = Server.at("unix:" + folder.resolve("nothing")).withTimeout(Duration.ofSeconds(5))) {
            assertThrows(IOException.class, () -> server.seal("orders", ADA, AD, AD));
        }
    }
}
