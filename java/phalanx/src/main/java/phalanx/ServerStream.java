package phalanx;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Records and answers as they lie in the streams of a server: docs/server-format.md. */
final class ServerStream {
    /** A request is cut so that the server takes all of it before the first answer must be read. */
    private static final long REQUEST = 4 << 20;

    /** What a record counts as beside its bytes. */
    private static final int OVERHEAD = 256;

    private static final int RECORD_HEAD = 12;
    private static final int ANSWER_HEAD = 8;

    private ServerStream() {}

    /** How many of the records behind the first ones make up the next request: at least one, if there are any. */
    static int count(List<ServerRecord> records, int first) {
        long cost = 0;
        int end = first;
        while (end < records.size()) {
            cost += length(records.get(end)) + OVERHEAD;
            if (cost > REQUEST && end > first) {
                break;
            }
            end++;
        }
        return end - first;
    }

    private static long length(ServerRecord record) {
        return RECORD_HEAD
                + (long) record.key().getBytes(StandardCharsets.UTF_8).length
                + record.user().length
                + record.associatedData().length
                + record.content().length;
    }

    /** The body of a request. */
    static byte[] write(List<ServerRecord> records) {
        long length = records.stream().mapToLong(ServerStream::length).sum();
        ByteBuffer out = ByteBuffer.allocate(Math.toIntExact(length)).order(ByteOrder.LITTLE_ENDIAN);
        for (ServerRecord record : records) {
            byte[] key = record.key().getBytes(StandardCharsets.UTF_8);
            out.putShort(u16(key.length)).putShort(u16(record.user().length));
            out.putInt(record.associatedData().length).putInt(record.content().length);
            out.put(key).put(record.user()).put(record.associatedData()).put(record.content());
        }
        return out.array();
    }

    private static short u16(int length) {
        if (length > 0xffff) {
            throw new IllegalArgumentException("a key's name or a user is longer than 65535 bytes");
        }
        return (short) length;
    }

    /**
     * The results for so many records.
     *
     * @param before the results of earlier requests, to which these are added
     */
    static void read(byte[] answer, int count, List<ServerResult> before) throws ServerException {
        ByteBuffer in = ByteBuffer.wrap(answer).order(ByteOrder.LITTLE_ENDIAN);
        List<ServerResult> results = new ArrayList<>(count);
        while (in.hasRemaining()) {
            ServerResult result = next(in);
            if (result == null) {
                before.addAll(results);
                throw ServerException.request("the server's answer is malformed", 0, before);
            }
            if (results.size() == count) {
                // One more than there are records is about the stream.
                before.addAll(results);
                throw ServerException.request("the server broke the answer off: " + result.reason(), result.status(), before);
            }
            results.add(result);
        }
        before.addAll(results);
        if (results.size() < count) {
            ServerResult last = results.isEmpty() ? null : results.get(results.size() - 1);
            String why = last == null || last.isDone() ? "" : ": " + last.reason();
            throw ServerException.request("the server broke the answer off" + why, 0, before);
        }
    }

    /** The next result, or null if it is malformed. */
    private static ServerResult next(ByteBuffer in) {
        if (in.remaining() < ANSWER_HEAD) {
            return null;
        }
        int status = Short.toUnsignedInt(in.getShort());
        short zero = in.getShort();
        int length = in.getInt();
        if (zero != 0 || length < 0 || length > in.remaining()) {
            return null;
        }
        byte[] content = new byte[length];
        in.get(content);
        return status == 0
                ? new ServerResult(0, content, "")
                : new ServerResult(status, new byte[0], new String(content, StandardCharsets.UTF_8));
    }
}
