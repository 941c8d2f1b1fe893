package phalanx;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
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
        private final HttpClient client;
        private final String base;
        private final Duration timeout;

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
            this.timeout = timeout;
        }

        @Override
        public Answer post(String path, Map<String, String> headers, byte[] body) throws IOException {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + path))
                    .timeout(timeout)
                    .POST(HttpRequest.BodyPublishers.ofByteArray(body));
            headers.forEach(request::setHeader);
            try {
                HttpResponse<InputStream> response =
                        client.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
                Map<String, String> own = new TreeMap<>();
                response.headers().map().forEach((name, values) -> own.put(name.toLowerCase(Locale.ROOT), values.get(0)));
                try (InputStream in = response.body()) {
                    return new Answer(response.statusCode(), own, in.readAllBytes());
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException("interrupted");
            }
        }

        @Override
        public void close() {
            // Its connections end when nobody has it any more.
        }
    }
}
