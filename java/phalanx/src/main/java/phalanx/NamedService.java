package phalanx;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.net.http.HttpTimeoutException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import phalanx.primitives.Sponge;

/** A key service, and what it has answered in this run. It is asked by one thread at a time, and once for each run key. */
final class NamedService {
    /** How long it is not asked again about a run key that it did not unwrap. */
    static final long RETRY = TimeUnit.SECONDS.toNanos(10);
    /** How long it is not asked at all after it did not answer in time. */
    static final long BROKEN = TimeUnit.SECONDS.toNanos(300);
    static final int LONGEST_WRAPPED = 4096;
    private static final int LONGEST_MESSAGE = 300;

    /** The run key that this run protects with, and its wrapped form. */
    record RunKey(String uri, byte[] wrapped, PhalanxKey key) {
        /** The length of its slot's body. */
        int slotBytes() {
            return 2 + uri.length() + 2 + wrapped.length + Slots.WRAPPED_BYTES;
        }

        @Override
        public String toString() {
            return "RunKey[" + Slots.brief(uri) + "]";
        }
    }

    /** Why there was no answer, and when. */
    private record Refusal(String message, Throwable cause, long when) {
        KeyException exception() {
            KeyException e = new KeyException(message);
            e.initCause(cause);
            return e;
        }
    }

    /** A call of the service. */
    @FunctionalInterface
    private interface Call {
        byte[] run() throws IOException;
    }

    private final String uri;
    private final KeyService service;
    private final LongSupplier clock;
    /** Held while it is asked, which can take long. */
    private final Object asking = new Object();
    /** By the SHA3-256 of their wrapped forms. */
    private final Map<String, PhalanxKey> runKeys = new HashMap<>();
    private final Map<String, Refusal> refused = new HashMap<>();
    private Refusal broken;
    private RunKey ours;
    private boolean closed;

    NamedService(String uri, KeyService service, LongSupplier clock) {
        this.uri = uri;
        this.service = service;
        this.clock = clock;
    }

    /** The run key that was wrapped. */
    PhalanxKey unwrap(byte[] wrapped) throws IOException {
        String hash = hash(wrapped);
        PhalanxKey known = known(hash);
        if (known != null) {
            return known;
        }
        synchronized (asking) {
            known = known(hash);
            if (known != null) {
                return known;
            }
            byte[] bytes = null;
            try {
                bytes = ask(() -> service.unwrap(wrapped.clone()));
                if (bytes.length != PhalanxKey.BYTES) {
                    throw refusal("it unwrapped " + bytes.length + " bytes, and a run key has 32", null).exception();
                }
                return keep(hash, PhalanxKey.of(bytes));
            } catch (KeyException e) {
                refuse(hash, new Refusal(e.getMessage(), e.getCause(), clock.getAsLong()));
                throw e;
            } finally {
                wipe(bytes);
            }
        }
    }

    /** The run key for the files that this run protects. */
    RunKey wrapped() throws IOException {
        synchronized (asking) {
            synchronized (this) {
                checkOpen();
                if (ours != null) {
                    return ours;
                }
            }
            PhalanxKey key = PhalanxKey.random();
            byte[] bytes = key.expose();
            byte[] copy = bytes.clone();
            try {
                byte[] wrapped = ask(() -> service.wrap(copy)).clone();
                check(wrapped, bytes);
                // The run opens what it protects, such as the manifest of a mirror.
                keep(hash(wrapped), key);
                synchronized (this) {
                    ours = new RunKey(uri, wrapped, key);
                    return ours;
                }
            } catch (IOException | RuntimeException e) {
                key.close();
                throw e;
            } finally {
                wipe(bytes);
                wipe(copy);
            }
        }
    }

    private void check(byte[] wrapped, byte[] runKey) throws KeyException {
        if (wrapped.length == 0 || wrapped.length > LONGEST_WRAPPED) {
            String line = "the wrapped run key has " + wrapped.length + " bytes, and a slot holds 1 to " + LONGEST_WRAPPED;
            throw refusal(line, null).exception();
        }
        // Whoever reads the file would have its key.
        for (int at = 0; at + runKey.length <= wrapped.length; at++) {
            if (Arrays.equals(wrapped, at, at + runKey.length, runKey, 0, runKey.length)) {
                throw refusal("it has wrapped nothing: its answer contains the run key", null).exception();
            }
        }
    }

    private synchronized PhalanxKey known(String hash) throws KeyException {
        checkOpen();
        PhalanxKey key = runKeys.get(hash);
        Refusal refusal = refused.get(hash);
        if (key == null && isFresh(refusal, RETRY)) {
            throw refusal.exception();
        }
        return key;
    }

    private synchronized PhalanxKey keep(String hash, PhalanxKey key) {
        if (closed) {
            key.close();
        }
        checkOpen();
        PhalanxKey before = runKeys.putIfAbsent(hash, key);
        return before == null ? key : before;
    }

    private synchronized void refuse(String hash, Refusal refusal) {
        refused.values().removeIf(old -> !isFresh(old, RETRY));
        refused.put(hash, refusal);
    }

    private synchronized void checkBroken() throws KeyException {
        if (isFresh(broken, BROKEN)) {
            throw broken.exception();
        }
    }

    private synchronized void setBroken(Refusal refusal) {
        broken = refusal;
    }

    private boolean isFresh(Refusal refusal, long time) {
        return refusal != null && clock.getAsLong() - refusal.when() < time;
    }

    /** Asks the service. Its failures are {@link KeyException}s, since another way in may still open a file. */
    private byte[] ask(Call call) throws IOException {
        checkBroken();
        try {
            byte[] answer = call.run();
            if (answer == null) {
                throw refusal("it gave no answer", null).exception();
            }
            return answer;
        } catch (KeyException e) {
            throw e;
        } catch (IOException | RuntimeException e) {
            if (Thread.currentThread().isInterrupted()) {
                // This says nothing about the service.
                InterruptedIOException interrupted = new InterruptedIOException("interrupted");
                interrupted.initCause(e);
                throw interrupted;
            }
            String message = e.getMessage() == null ? e.getClass().getSimpleName() : e.getMessage();
            Refusal refusal = refusal(oneLine(message, LONGEST_MESSAGE), e);
            if (isAway(e)) {
                setBroken(refusal);
            }
            throw refusal.exception();
        }
    }

    /** Whether it did not answer in time, or cannot be asked at all. */
    private static boolean isAway(Exception e) {
        return e instanceof ServiceProgram.AwayException || e instanceof SocketTimeoutException
                || e instanceof HttpTimeoutException;
    }

    private Refusal refusal(String why, Throwable cause) {
        return new Refusal("the key service " + Slots.brief(uri) + ": " + why, cause, clock.getAsLong());
    }

    /** A text on one line, without control characters. */
    static String oneLine(String text, int most) {
        StringBuilder line = new StringBuilder();
        text.strip().codePoints().limit(most).forEach(each -> line.appendCodePoint(isShown(each) ? each : '\ufffd'));
        return line.toString();
    }

    private static boolean isShown(int each) {
        int type = Character.getType(each);
        return type != Character.CONTROL && type != Character.FORMAT && type != Character.SURROGATE
                && type != Character.LINE_SEPARATOR && type != Character.PARAGRAPH_SEPARATOR;
    }

    private static String hash(byte[] wrapped) {
        byte[] hash = new byte[Sponge.DIGEST];
        Sponge.sha3().hash(wrapped, 0, wrapped.length, hash, 0, hash.length);
        return HexFormat.of().formatHex(hash);
    }

    private static void wipe(byte[] bytes) {
        if (bytes != null) {
            Arrays.fill(bytes, (byte) 0);
        }
    }

    private void checkOpen() {
        if (closed) {
            throw new IllegalStateException("the key services are closed");
        }
    }

    synchronized void close() {
        closed = true;
        runKeys.values().forEach(PhalanxKey::close);
        runKeys.clear();
        if (ours != null) {
            // It is among the others, unless the service has wrapped two run keys to the same bytes.
            ours.key().close();
        }
        refused.clear();
        ours = null;
    }
}
