package phalanx;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** A connection to a Unix socket, which {@code java.net.http} cannot reach. It speaks as much HTTP/1.1 as the server does. */
final class UnixLink implements ServerLink {
    private static final int LONGEST_LINE = 16 << 10;
    /** The most header fields, and the most answers that only announce another one. */
    private static final int MOST_FIELDS = 100;
    private static final int MOST_ANNOUNCED = 16;

    private final Path path;
    private final long timeout;
    private final ByteBuffer in = ByteBuffer.allocate(64 << 10).flip();
    private SocketChannel channel;
    private Selector selector;

    UnixLink(Path path, Duration timeout) {
        this.path = path;
        this.timeout = Math.max(1, timeout.toMillis());
    }

    @Override
    public synchronized Answer post(String target, Map<String, String> headers, byte[] body) throws IOException {
        boolean isFresh = channel == null;
        boolean isWhole = false;
        try {
            Answer answer;
            try {
                answer = exchange(target, headers, body);
            } catch (SocketTimeoutException e) {
                throw e;
            } catch (IOException e) {
                // The server may have closed a connection that was idle. Sealing or opening twice changes nothing.
                close();
                if (isFresh) {
                    throw e;
                }
                answer = exchange(target, headers, body);
            }
            isWhole = !"close".equalsIgnoreCase(answer.headers().get("connection"));
            return answer;
        } finally {
            if (!isWhole) {
                // What is left of the answer would be taken for the next one.
                close();
            }
        }
    }

    private Answer exchange(String target, Map<String, String> headers, byte[] body) throws IOException {
        connect();
        StringBuilder head = new StringBuilder("POST " + target + " HTTP/1.1\r\nHost: localhost\r\n");
        headers.forEach((name, value) -> head.append(name).append(": ").append(value).append("\r\n"));
        head.append("Content-Length: ").append(body.length).append("\r\n\r\n");
        try {
            send(ByteBuffer.wrap(head.toString().getBytes(StandardCharsets.ISO_8859_1)));
            send(ByteBuffer.wrap(body));
        } catch (SocketTimeoutException e) {
            throw e;
        } catch (IOException e) {
            // The server may have refused the request, and closed, before it was sent. Then the answer is there.
            return answer(body);
        }
        return answer(body);
    }

    private void connect() throws IOException {
        if (channel != null) {
            return;
        }
        in.clear().flip();
        channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        channel.connect(UnixDomainSocketAddress.of(path));
        channel.configureBlocking(false);
        selector = Selector.open();
        channel.register(selector, 0);
    }

    private void await(int what) throws IOException {
        channel.keyFor(selector).interestOps(what);
        selector.select(timeout);
        if (selector.selectedKeys().isEmpty()) {
            if (Thread.currentThread().isInterrupted()) {
                throw new InterruptedIOException("interrupted");
            }
            throw new SocketTimeoutException("the server is silent");
        }
        selector.selectedKeys().clear();
    }

    private void send(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            if (channel.write(bytes) == 0) {
                await(SelectionKey.OP_WRITE);
            }
        }
    }

    private Answer answer(byte[] request) throws IOException {
        String line = line();
        for (int announced = 0; line.startsWith("HTTP/1.1 1"); announced++) {
            if (announced == MOST_ANNOUNCED) {
                throw new IOException("the server does not speak HTTP");
            }
            fields();
            line = line();
        }
        if (!line.matches("HTTP/1\\.[01] \\d{3}( .*)?")) {
            throw new IOException("the server does not speak HTTP");
        }
        Map<String, String> headers = fields();
        ServerBody body = new ServerBody(request);
        try {
            read(headers, body);
            return new Answer(Integer.parseInt(line.substring(9, 12)), headers, body.take());
        } finally {
            body.wipe();
        }
    }

    private Map<String, String> fields() throws IOException {
        Map<String, String> fields = new TreeMap<>();
        int count = 0;
        for (String line = line(); !line.isEmpty(); line = line()) {
            int colon = line.indexOf(':');
            if (colon < 1 || count++ == MOST_FIELDS) {
                throw new IOException("the server does not speak HTTP");
            }
            fields.putIfAbsent(line.substring(0, colon).toLowerCase(Locale.ROOT), line.substring(colon + 1).strip());
        }
        return fields;
    }

    private void read(Map<String, String> headers, ServerBody body) throws IOException {
        if ("chunked".equalsIgnoreCase(headers.get("transfer-encoding"))) {
            for (int length = number(line(), 16); length > 0; length = number(line(), 16)) {
                read(length, body);
                line();
            }
            fields();
            return;
        }
        read(number(headers.getOrDefault("content-length", ""), 10), body);
    }

    private static int number(String text, int radix) throws IOException {
        try {
            int number = Integer.parseUnsignedInt(text.strip(), radix);
            if (number >= 0) {
                return number;
            }
        } catch (NumberFormatException e) {
            throw new IOException("the server does not speak HTTP", e);
        }
        throw new IOException("the server's answer is too long");
    }

    private void read(int length, ServerBody body) throws IOException {
        body.expect(length);
        for (int left = length; left > 0; ) {
            fill();
            int count = Math.min(in.remaining(), left);
            body.add(in, count);
            left -= count;
        }
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        while (true) {
            fill();
            char next = (char) (in.get() & 0xff);
            if (next == '\n') {
                int end = line.length();
                return line.substring(0, end > 0 && line.charAt(end - 1) == '\r' ? end - 1 : end);
            }
            if (line.length() == LONGEST_LINE) {
                throw new IOException("the server does not speak HTTP");
            }
            line.append(next);
        }
    }

    private void fill() throws IOException {
        while (!in.hasRemaining()) {
            in.clear();
            int count = channel.read(in);
            in.flip();
            if (count < 0) {
                throw new EOFException("the server closed the connection");
            }
            if (count == 0) {
                await(SelectionKey.OP_READ);
            }
        }
    }

    @Override
    public synchronized void close() {
        Arrays.fill(in.array(), (byte) 0);
        in.clear().flip();
        close(selector);
        close(channel);
        selector = null;
        channel = null;
    }

    private static void close(Closeable what) {
        try {
            if (what != null) {
                what.close();
            }
        } catch (IOException e) {
            // Nothing depends on it.
        }
    }
}
