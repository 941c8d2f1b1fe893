package phalanx;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.net.ssl.SSLContext;

/**
 * A client of phalanx-server, which has the keys, and seals and opens the records of many users. It speaks /v2:
 * docs/server-format.md. One value may be used from many threads.
 *
 * <pre>{@code
 * byte[] user = "ada".getBytes("UTF-8"), text = "two books".getBytes("UTF-8"), associatedData = {};
 * try (Server server = Server.at("unix:/run/phalanx/server.sock")) {
 *     byte[] sealed = server.seal("orders", user, text, associatedData);
 *     byte[] opened = server.open("orders", user, sealed, associatedData);
 * }
 * }</pre>
 */
public final class Server implements AutoCloseable {
    private static final String UNIX = "unix:";
    private static final Set<String> THIS_MACHINE = Set.of("localhost", "127.0.0.1", "[::1]");

    /** How often, and how many seconds at most, a server that has too much to do is waited for. */
    private static final int RETRIES = 5;

    private static final long LONGEST_WAIT = 10;

    private final String address;
    private final String token;
    private final SSLContext tls;
    private final Duration timeout;
    private final ServerLink link;

    private Server(String address, String token, SSLContext tls, Duration timeout) {
        this.address = address;
        this.token = token;
        this.tls = tls;
        this.timeout = timeout;
        this.link = link(address, tls, timeout);
    }

    /**
     * A client for an address. It does not connect yet.
     *
     * @param address {@code unix:/path}, {@code https://host:port}, or {@code http://localhost:port} for this machine only
     * @return a client without a token, as it is right for the Unix socket of the server's own user
     */
    public static Server at(String address) {
        return new Server(address, null, null, Duration.ofMinutes(1));
    }

    /**
     * A client with a token.
     *
     * @param token the caller's token, or null for none
     * @return another client
     * @throws IllegalArgumentException if the token is empty, or has other characters than printable ones of ASCII
     */
    public Server withToken(String token) {
        // Some links would show the token in their exception, and others would send a header more.
        if (token != null && (token.isEmpty() || !token.chars().allMatch(letter -> letter >= '!' && letter <= '~'))) {
            throw new IllegalArgumentException("a token is text of printable ASCII characters, without spaces or line ends");
        }
        return new Server(address, token, tls, timeout);
    }

    /**
     * A client that trusts other certificates, or has one of its own.
     *
     * @param tls the certificates
     * @return another client
     */
    public Server withTls(SSLContext tls) {
        return new Server(address, token, tls, timeout);
    }

    /**
     * A client with another patience.
     *
     * @param timeout how long the server may be silent; it is a minute otherwise
     * @return another client
     */
    public Server withTimeout(Duration timeout) {
        return new Server(address, token, tls, timeout);
    }

    /**
     * Seals a text.
     *
     * @param key the name of the key
     * @param user the user; empty if the key needs none
     * @param text the text
     * @param associatedData data to which the ciphertext is bound, and which is not in it; empty if there is none
     * @return the ciphertext
     * @throws ServerException if the server refuses it
     * @throws IOException if the server cannot be reached
     */
    public byte[] seal(String key, byte[] user, byte[] text, byte[] associatedData) throws IOException {
        return seal(List.of(new ServerRecord(key, user, associatedData, text))).get(0);
    }

    /**
     * Opens a ciphertext.
     *
     * @param key the name of the key
     * @param user the user
     * @param ciphertext the ciphertext
     * @param associatedData the data to which it is bound
     * @return the text
     * @throws ServerException if the server refuses it
     * @throws IOException if the server cannot be reached
     */
    public byte[] open(String key, byte[] user, byte[] ciphertext, byte[] associatedData) throws IOException {
        return open(List.of(new ServerRecord(key, user, associatedData, ciphertext))).get(0);
    }

    /**
     * Seals again what is sealed, under the newest version of the key.
     *
     * @param key the name of the key
     * @param user the user
     * @param ciphertext the ciphertext
     * @param associatedData the data to which it is bound
     * @return another ciphertext
     * @throws ServerException if the server refuses it
     * @throws IOException if the server cannot be reached
     */
    public byte[] rewrap(String key, byte[] user, byte[] ciphertext, byte[] associatedData) throws IOException {
        return rewrap(List.of(new ServerRecord(key, user, associatedData, ciphertext))).get(0);
    }

    /**
     * Seals texts. Either all of them are sealed, or the exception says what became of each.
     *
     * @param records the records, with texts
     * @return the ciphertexts, in the same order
     * @throws ServerException if the server refuses some
     * @throws IOException if the server cannot be reached
     */
    public List<byte[]> seal(List<ServerRecord> records) throws IOException {
        return all(sealEach(records));
    }

    /**
     * Opens ciphertexts. Either all of them are opened, or the exception says what became of each.
     *
     * @param records the records, with ciphertexts
     * @return the texts, in the same order
     * @throws ServerException if the server refuses some
     * @throws IOException if the server cannot be reached
     */
    public List<byte[]> open(List<ServerRecord> records) throws IOException {
        return all(openEach(records));
    }

    /**
     * Seals again what is sealed, under the newest versions of the keys.
     *
     * @param records the records, with ciphertexts
     * @return other ciphertexts, in the same order
     * @throws ServerException if the server refuses some
     * @throws IOException if the server cannot be reached
     */
    public List<byte[]> rewrap(List<ServerRecord> records) throws IOException {
        return all(rewrapEach(records));
    }

    /**
     * Seals those texts that the server does not refuse.
     *
     * @param records the records, with texts
     * @return a result for each, in the same order
     * @throws ServerException if the server refuses the request as a whole
     * @throws IOException if the server cannot be reached
     */
    public List<ServerResult> sealEach(List<ServerRecord> records) throws IOException {
        return each("/v2/seal", records);
    }

    /**
     * Opens those ciphertexts that the server does not refuse.
     *
     * @param records the records, with ciphertexts
     * @return a result for each, in the same order
     * @throws ServerException if the server refuses the request as a whole
     * @throws IOException if the server cannot be reached
     */
    public List<ServerResult> openEach(List<ServerRecord> records) throws IOException {
        return each("/v2/open", records);
    }

    /**
     * Seals again those ciphertexts that the server does not refuse.
     *
     * @param records the records, with ciphertexts
     * @return a result for each, in the same order
     * @throws ServerException if the server refuses the request as a whole
     * @throws IOException if the server cannot be reached
     */
    public List<ServerResult> rewrapEach(List<ServerRecord> records) throws IOException {
        return each("/v2/rewrap", records);
    }

    /**
     * The form of a ciphertext under /v1.
     *
     * @param ciphertext the form under /v2
     * @return {@code vault:v1:…}
     */
    public static String toText(byte[] ciphertext) {
        if (ciphertext.length <= Integer.BYTES) {
            throw new IllegalArgumentException("a ciphertext is longer");
        }
        int version = ByteBuffer.wrap(ciphertext).order(ByteOrder.LITTLE_ENDIAN).getInt();
        byte[] message = Arrays.copyOfRange(ciphertext, Integer.BYTES, ciphertext.length);
        return "vault:v" + Integer.toUnsignedString(version) + ":" + Base64.getEncoder().encodeToString(message);
    }

    /**
     * The form of a ciphertext under /v2.
     *
     * @param text {@code vault:v1:…}, the form under /v1
     * @return the other form
     */
    public static byte[] ofText(String text) {
        String[] parts = text.split(":", -1);
        boolean isOne = parts.length == 3 && parts[0].equals("vault") && parts[1].matches("v[0-9]{1,10}");
        long version = isOne ? Long.parseLong(parts[1].substring(1)) : 0;
        if (version < 1 || version > 0xffff_ffffL || parts[2].isEmpty()) {
            throw new IllegalArgumentException("it does not begin with vault:v and a version");
        }
        byte[] message = Base64.getDecoder().decode(parts[2]);
        ByteBuffer out = ByteBuffer.allocate(Integer.BYTES + message.length).order(ByteOrder.LITTLE_ENDIAN);
        return out.putInt((int) version).put(message).array();
    }

    /** Closes the connection. The next request opens a new one. */
    @Override
    public void close() {
        link.close();
    }

    private static ServerLink link(String address, SSLContext tls, Duration timeout) {
        if (address.startsWith(UNIX)) {
            String path = address.substring(UNIX.length());
            return new UnixLink(Path.of(path.startsWith("//") ? path.substring(2) : path), timeout);
        }
        try {
            URI uri = new URI(address);
            boolean isPlain = (uri.getPath() + "/").startsWith("/") && uri.getPath().length() < 2 && uri.getQuery() == null;
            if (uri.getHost() == null || !isPlain) {
                throw new URISyntaxException(address, "it has no host, or a path");
            }
            boolean isHere = "http".equals(uri.getScheme()) && THIS_MACHINE.contains(uri.getHost());
            if (!isHere && !"https".equals(uri.getScheme())) {
                throw new IllegalArgumentException("texts leave this machine only by https://");
            }
            return new ServerLink.Web(uri, tls, timeout);
        } catch (URISyntaxException e) {
            String known = "an address is unix:/path, https://host:port, or http://localhost:port";
            throw new IllegalArgumentException(known, e);
        }
    }

    private static List<byte[]> all(List<ServerResult> results) throws ServerException {
        if (!results.stream().allMatch(ServerResult::isDone)) {
            throw ServerException.records(results);
        }
        return results.stream().map(ServerResult::content).toList();
    }

    private List<ServerResult> each(String path, List<ServerRecord> records) throws IOException {
        List<ServerResult> results = new ArrayList<>(records.size());
        while (results.size() < records.size()) {
            int first = results.size();
            int count = ServerStream.count(records, first);
            byte[] body = ServerStream.write(records.subList(first, first + count));
            try {
                ServerStream.read(request(path, body, results), count, results);
            } finally {
                Arrays.fill(body, (byte) 0);
            }
        }
        return results;
    }

    /** The body of the answer. While the server has too much to do, it is asked again, but not for ever. */
    private byte[] request(String path, byte[] body, List<ServerResult> before) throws IOException {
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("Content-Type", "application/octet-stream");
        if (token != null) {
            headers.put("X-Vault-Token", token);
        }
        for (int left = RETRIES; ; left--) {
            ServerLink.Answer answer = link.post(path, headers, body);
            if (answer.status() == 200) {
                return answer.body();
            }
            long wait = wait(answer);
            if (wait < 0 || left == 0) {
                String reason = "the server refuses the request: " + reason(answer.body());
                throw ServerException.request(reason, answer.status(), before);
            }
            sleep(wait);
        }
    }

    /** How many seconds to wait before the server may be asked again, or less than 0. */
    private static long wait(ServerLink.Answer answer) {
        String text = answer.headers().getOrDefault("retry-after", "");
        boolean isBusy = answer.status() == 429 || answer.status() == 503;
        return isBusy && text.matches("[0-9]{1,9}") ? Math.min(Long.parseLong(text), LONGEST_WAIT) : -1;
    }

    private static void sleep(long seconds) throws IOException {
        try {
            Thread.sleep(1000 * seconds);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted");
        }
    }

    /** What an error in JSON says, in one line. It is shown, and nothing depends on it. */
    private static String reason(byte[] body) {
        String text = new String(body, 0, Math.min(body.length, 1000), StandardCharsets.UTF_8);
        text = text.replaceFirst("^\\s*\\{\\s*\"errors\"\\s*:\\s*\\[\\s*\"", "").replaceFirst("\"\\s*\\]\\s*\\}\\s*$", "");
        text = text.replaceAll("\\p{Cntrl}+", " ").strip();
        return text.isEmpty() ? "no reason is given" : text;
    }
}
