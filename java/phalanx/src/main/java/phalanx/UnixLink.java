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
    private static final int LONGEST_ANSWER = 1 << 30;

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
            return answer();
        }
        return answer();
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

    private Answer answer() throws IOException {
        String line = line();
        while (line.startsWith("HTTP/1.1 1")) {
            fields();
            line = line();
        }
        if (!line.matches("HTTP/1\\.[01] \\d{3}( .*)?")) {
            throw new IOException("the server does not speak HTTP");
        }
        Map<String, String> headers = fields();
        return new Answer(Integer.parseInt(line.substring(9, 12)), headers, body(headers));
    }

    private Map<String, String> fields() throws IOException {
        Map<String, String> fields = new TreeMap<>();
        for (String line = line(); !line.isEmpty(); line = line()) {
            int colon = line.indexOf(':');
            if (colon < 1 || fields.size() > 100) {
                throw new IOException("the server does not speak HTTP");
            }
            fields.putIfAbsent(line.substring(0, colon).toLowerCase(Locale.ROOT), line.substring(colon + 1).strip());
        }
        return fields;
    }

    private byte[] body(Map<String, String> headers) throws IOException {
        byte[] body = new byte[0];
        if ("chunked".equalsIgnoreCase(headers.get("transfer-encoding"))) {
            for (int length = number(line(), 16); length > 0; length = number(line(), 16)) {
                body = read(body, length);
                line();
            }
            fields();
            return body;
        }
        return read(body, number(headers.getOrDefault("content-length", ""), 10));
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

    /** Adds so many bytes to others. */
    private byte[] read(byte[] before, int length) throws IOException {
        if (length > LONGEST_ANSWER - before.length) {
            throw new IOException("the server's answer is too long");
        }
        byte[] all = Arrays.copyOf(before, before.length + length);
        int at = before.length;
        while (at < all.length) {
            fill();
            int taken = Math.min(in.remaining(), all.length - at);
            in.get(all, at, taken);
            at += taken;
        }
        return all;
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
