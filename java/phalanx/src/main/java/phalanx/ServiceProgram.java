package phalanx;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A key service that a program {@code phalanx-kms-NAME} asks. The program gets one JSON object on standard input and answers with
 * one: docs/key-services.md.
 */
final class ServiceProgram implements KeyService {
    private static final Pattern URI = Pattern.compile("([a-z0-9][a-z0-9-]{0,31})://.+", Pattern.DOTALL);
    private static final long TIME = TimeUnit.SECONDS.toMillis(30);
    /** How long it may take to end after its answer. */
    private static final long ENDING = TimeUnit.SECONDS.toMillis(2);
    private static final int MOST = 64 << 10;
    /** How much it may write to standard error, in bytes and in lines. More is not shown. */
    private static final int MOST_SAID = 4 << 10;
    private static final int MOST_LINES = 5;
    private static final int LONGEST_LINE = 300;

    private static final Set<String> NAMES = Set.of(
            "PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "GNUPGHOME", "SSH_AUTH_SOCK", "LD_LIBRARY_PATH");
    private static final Set<String> PROXIES = Set.of("http_proxy", "https_proxy", "all_proxy", "no_proxy");
    private static final List<String> PREFIXES = List.of(
            "VAULT_", "BAO_", "AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "KMS_", "LC_", "XDG_", "SSL_CERT_", "KUBERNETES_");

    /** It did not answer in time, or cannot be asked at all. */
    static final class AwayException extends IOException {
        private static final long serialVersionUID = 1L;

        AwayException(String message) {
            super(message);
        }
    }

    private final String uri;
    private final String program;
    private final String path;
    private final long time;

    private ServiceProgram(String uri, String program, String path, long time) {
        this.uri = uri;
        this.program = program;
        this.path = path;
        this.time = time;
    }

    static ServiceProgram of(String uri, String path) {
        return of(uri, path, TIME);
    }

    /** With so many milliseconds, for tests. */
    static ServiceProgram of(String uri, String path, long time) {
        Matcher matcher = URI.matcher(uri);
        if (!matcher.matches() || !Slots.isServiceUri(uri)) {
            throw new IllegalArgumentException(NamedService.oneLine(uri, LONGEST_LINE)
                    + " is not the URI of a key service: it looks like NAME://KEY, and the program phalanx-kms-NAME asks it");
        }
        return new ServiceProgram(uri, "phalanx-kms-" + matcher.group(1), path == null ? "" : path, time);
    }

    @Override
    public String uri() {
        return uri;
    }

    @Override
    public byte[] wrap(byte[] runKey) throws IOException {
        return ask("wrap", "plaintext", runKey, "ciphertext");
    }

    @Override
    public byte[] unwrap(byte[] wrapped) throws IOException {
        return ask("unwrap", "ciphertext", wrapped, "plaintext");
    }

    private byte[] ask(String operation, String field, byte[] bytes, String wanted) throws IOException {
        Path file = find();
        byte[] request = request(operation, field, bytes);
        Process process;
        try {
            process = start(file);
        } catch (IOException e) {
            Arrays.fill(request, (byte) 0);
            throw cannotRun(e);
        }
        Exchange exchange = new Exchange(process, request);
        byte[] answer = null;
        try {
            answer = exchange.answer();
            boolean ended = process.waitFor(ENDING, TimeUnit.MILLISECONDS);
            byte[] found = read(answer, wanted, exchange);
            if (ended && process.exitValue() != 0) {
                Arrays.fill(found, (byte) 0);
                throw exchange.failure("ended with exit code " + process.exitValue());
            }
            return found;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted");
        } finally {
            // What it has started may keep running, as for plugins of age.
            process.destroyForcibly();
            if (answer != null) {
                Arrays.fill(answer, (byte) 0);
            }
        }
    }

    /** Finds the program. Relative folders of PATH do not count. */
    private Path find() throws AwayException {
        for (String folder : path.split(Pattern.quote(File.pathSeparator))) {
            try {
                Path file = Path.of(folder).resolve(program);
                if (file.isAbsolute() && Files.isRegularFile(file) && Files.isExecutable(file)) {
                    return file;
                }
            } catch (InvalidPathException e) {
                // The locale has no such name.
            }
        }
        throw new AwayException("it needs the program " + program + ", which is not in PATH");
    }

    /** The request, on one line. A URI has no characters that JSON must escape but these two. */
    private byte[] request(String operation, String field, byte[] bytes) {
        String named = uri.replace("\\", "\\\\").replace("\"", "\\\"");
        byte[] before = ("{\"version\":1,\"operation\":\"" + operation + "\",\"uri\":\"" + named + "\",\"context\":{\"purpose\":\""
                + CONTEXT + "\"},\"" + field + "\":\"").getBytes(StandardCharsets.US_ASCII);
        byte[] encoded = Base64.getEncoder().encode(bytes);
        byte[] request = new byte[before.length + encoded.length + 3];
        ByteBuffer.wrap(request).put(before).put(encoded).put(new byte[] {'"', '}', '\n'});
        Arrays.fill(encoded, (byte) 0);
        return request;
    }

    private IOException cannotRun(IOException e) {
        String why = String.valueOf(e.getMessage());
        String line = program + " cannot be run: " + why;
        // No such file, or no permission.
        return why.contains("error=2,") || why.contains("error=13,") ? new AwayException(line) : new IOException(line);
    }

    private static Process start(Path file) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(file.toString());
        builder.environment().keySet().removeIf(name -> !isPassedOn(name));
        return builder.directory(new File("/")).start();
    }

    /**
     * Whether a program gets an environment variable: those that say how services are reached, and what programs need to run at
     * all. Ours hold passwords and the places of keys, and others may hold secrets of other programs.
     */
    static boolean isPassedOn(String name) {
        return NAMES.contains(name) || PREFIXES.stream().anyMatch(name::startsWith)
                || PROXIES.contains(name.toLowerCase(Locale.ROOT));
    }

    /** What the answer holds. No message repeats any of it but the error, since it may hold the run key. */
    private static byte[] read(byte[] answer, String wanted, Exchange exchange) throws IOException {
        ServiceAnswer fields;
        try {
            fields = ServiceAnswer.parse(answer);
        } catch (ServiceAnswer.Malformed e) {
            boolean isEmpty = new String(answer, 0, Math.min(answer.length, 64), StandardCharsets.ISO_8859_1).isBlank();
            throw exchange.failure(isEmpty ? "gave no answer" : "did not answer with a JSON object of texts");
        }
        try (fields) {
            if (fields.error() != null) {
                throw exchange.refusal(NamedService.oneLine(fields.error(), LONGEST_LINE));
            }
            char[] text = fields.text(wanted);
            if (text == null) {
                throw exchange.failure("answered without a " + wanted);
            }
            return ServiceAnswer.decode(text)
                    .orElseThrow(() -> exchange.failure("answered with a " + wanted + " that is not Base64 with padding"));
        }
    }

    /**
     * Sends the request, and receives the answer and what is on standard error. Threads do it, since neither reading nor writing
     * has a time limit; nothing waits for a program that keeps a pipe open.
     */
    private final class Exchange {
        private final FutureTask<byte[]> answer;
        private final FutureTask<byte[]> said;

        Exchange(Process process, byte[] request) {
            begin(() -> {
                try (OutputStream out = process.getOutputStream()) {
                    out.write(request);
                } finally {
                    Arrays.fill(request, (byte) 0);
                }
                return null;
            });
            answer = begin(() -> some(process.getInputStream(), MOST + 1));
            said = begin(() -> some(process.getErrorStream(), MOST_SAID));
            begin(() -> {
                // It must not wait for a pipe that is full.
                said.get();
                return process.getErrorStream().transferTo(OutputStream.nullOutputStream());
            });
        }

        private <T> FutureTask<T> begin(Callable<T> work) {
            FutureTask<T> task = new FutureTask<>(work);
            Thread thread = new Thread(task, program);
            thread.setDaemon(true);
            thread.start();
            return task;
        }

        byte[] answer() throws IOException, InterruptedException {
            try {
                byte[] bytes = answer.get(time, TimeUnit.MILLISECONDS);
                if (bytes.length > MOST) {
                    Arrays.fill(bytes, (byte) 0);
                    throw new IOException(program + " answered with more than 64 KiB");
                }
                return bytes;
            } catch (TimeoutException e) {
                throw new AwayException(program + " took longer than " + TimeUnit.MILLISECONDS.toSeconds(time) + " seconds");
            } catch (ExecutionException e) {
                throw failure("gave no answer");
            }
        }

        IOException failure(String what) {
            return refusal(program + " " + what);
        }

        /** The failure, and what the program wrote to standard error. */
        IOException refusal(String line) {
            IOException failure = new IOException(line);
            try {
                String text = new String(said.get(ENDING, TimeUnit.MILLISECONDS), StandardCharsets.UTF_8);
                List<String> lines = new ArrayList<>();
                text.lines().filter(each -> !each.isBlank()).limit(MOST_LINES)
                        .forEach(each -> lines.add(NamedService.oneLine(each, LONGEST_LINE)));
                if (!lines.isEmpty()) {
                    failure.addSuppressed(new IOException(program + " said: " + String.join("; ", lines)));
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } catch (ExecutionException | TimeoutException e) {
                // Then it is not shown.
            }
            return failure;
        }
    }

    /** Reads to the end, but no more than so many bytes. What was read before an error counts. */
    private static byte[] some(InputStream in, int most) {
        byte[] bytes = new byte[most];
        int length = 0;
        try {
            for (int n; length < most && (n = in.read(bytes, length, most - length)) > 0; ) {
                length += n;
            }
        } catch (IOException e) {
            // It has ended.
        }
        byte[] exact = Arrays.copyOf(bytes, length);
        Arrays.fill(bytes, (byte) 0);
        return exact;
    }

    @Override
    public String toString() {
        return "KeyService[" + Slots.brief(uri) + "]";
    }
}
