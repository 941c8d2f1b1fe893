package phalanx;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLContext;

/** How a client reaches its server. */
interface ServerLink extends AutoCloseable {
    /** An answer: the status, the headers by their names in lower case, and the body. */
    record Answer(int status, Map<String, String> headers, byte[] body) {}

    /** Sends a request, and reads the whole answer. */
    Answer post(String path, Map<String, String> headers, byte[] body) throws IOException;

    @Override
    void close();

    /** By {@code https://}, or by {@code http://} on this machine. */
    final class Web implements ServerLink {
        private static final Duration CENTURY = Duration.ofDays(36500);

        private final HttpClient client;
        private final String base;
        /** In nanoseconds. */
        private final long timeout;

        Web(URI base, SSLContext tls, Duration timeout) {
            HttpClient.Builder builder = HttpClient.newBuilder()
                    .version(HttpClient.Version.HTTP_1_1)
                    .followRedirects(HttpClient.Redirect.NEVER)
                    .connectTimeout(timeout);
            if (tls != null) {
                builder.sslContext(tls);
            }
            this.client = builder.build();
            this.base = base.toString().replaceAll("/$", "");
            this.timeout = (timeout.compareTo(CENTURY) < 0 ? timeout : CENTURY).toNanos();
        }

        @Override
        public Answer post(String path, Map<String, String> headers, byte[] content) throws IOException {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + path))
                    .POST(HttpRequest.BodyPublishers.ofByteArray(content));
            headers.forEach(request::setHeader);
            WebBody body = new WebBody(content);
            HttpResponse<byte[]> response = whole(client.sendAsync(request.build(), head -> body), body);
            Map<String, String> own = new TreeMap<>();
            response.headers().map().forEach((name, values) -> own.put(name.toLowerCase(Locale.ROOT), values.get(0)));
            return new Answer(response.statusCode(), own, response.body());
        }

        /** Waits as long as something comes. The timeout of the client itself ends when the headers have come. */
        private HttpResponse<byte[]> whole(CompletableFuture<HttpResponse<byte[]>> coming, WebBody body) throws IOException {
            try {
                while (true) {
                    try {
                        return coming.get(timeout - body.silence(), TimeUnit.NANOSECONDS);
                    } catch (TimeoutException e) {
                        if (body.silence() >= timeout) {
                            throw new SocketTimeoutException("the server is silent");
                        }
                    }
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException("interrupted");
            } catch (ExecutionException e) {
                throw e.getCause() instanceof IOException why ? why : new IOException(e.getCause());
            } finally {
                // If it has not ended, its connection does.
                coming.cancel(true);
            }
        }

        @Override
        public void close() {
            // Its connections end when nobody has it any more.
        }
    }
}
