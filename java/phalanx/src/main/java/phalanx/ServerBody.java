package phalanx;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;

/** The body of an answer while it comes. It takes memory only for what has come, and no more than the records can need. */
final class ServerBody {
    /** For the heads of results, what sealing adds, and reasons of refusals: some hundred bytes for each record of a request. */
    private static final int BESIDE_CONTENTS = 8 << 20;
    private static final int LONGEST_ARRAY = Integer.MAX_VALUE - 8;

    private final int limit;
    private byte[] bytes = new byte[0];
    private int length;

    ServerBody(byte[] request) {
        this.limit = (int) Math.min(LONGEST_ARRAY, (long) request.length + BESIDE_CONTENTS);
    }

    /** Checks that so many more bytes may come. */
    void expect(int more) throws IOException {
        if (more > limit - length) {
            throw new IOException("the server's answer is too long");
        }
    }

    /** Takes so many bytes. */
    void add(ByteBuffer from, int count) throws IOException {
        expect(count);
        if (count > bytes.length - length) {
            byte[] old = bytes;
            bytes = Arrays.copyOf(old, (int) Math.min(limit, Math.max(2L * old.length, (long) length + count)));
            Arrays.fill(old, (byte) 0);
        }
        from.get(bytes, length, count);
        length += count;
    }

    /** All that has come. Nothing is left here. */
    byte[] take() {
        byte[] all = Arrays.copyOf(bytes, length);
        wipe();
        return all;
    }

    void wipe() {
        Arrays.fill(bytes, (byte) 0);
        length = 0;
    }
}
