package phalanx.spark;

import java.io.ByteArrayInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BBPartHandle;
import org.apache.hadoop.fs.BBUploadHandle;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.MultipartUploader;
import org.apache.hadoop.fs.PartHandle;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.UploadHandle;
import org.apache.hadoop.util.functional.FutureIO;
import phalanx.Layout;
import phalanx.OutputException;

/**
 * An object. Executors upload parts of it, and the store makes the object of those that the driver names, at once. Attempts have numbers of
 * their own, since a store keeps only the last part of a number. A part is in memory as a whole, because the client sends it again
 * if a request fails, and one cannot seal it twice under the same nonces.
 */
final class StorePlace extends Place {
    private static final long serialVersionUID = 1L;
    /** Stores take 10,000 numbers, and files have at most 1,000 parts. */
    private static final int ATTEMPTS = 8;
    private static final long MOST_BYTES = 1 << 30;

    /** The upload, if several executors add to it. */
    private String upload;

    StorePlace(Path output, Rules rules) {
        super(output, rules);
    }

    @Override
    long longest() {
        return Division.LONGEST_IN_MEMORY;
    }

    @Override
    long mostBytes() {
        return MOST_BYTES;
    }

    @Override
    void begin(Item item, Layout layout, Earlier earlier, Configuration conf) throws IOException {
        upload = earlier == null ? startUpload(conf) : earlier.state();
    }

    private String startUpload(Configuration conf) throws IOException {
        try (MultipartUploader uploader = uploader(conf)) {
            return text(FutureIO.awaitFuture(uploader.startUpload(output())).toByteArray());
        }
    }

    private MultipartUploader uploader(Configuration conf) throws IOException {
        return Hadoop.of(output(), conf).createMultipartUploader(output().getParent()).build();
    }

    private static String text(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    private static UploadHandle upload(String text) {
        return BBUploadHandle.from(ByteBuffer.wrap(Base64.getDecoder().decode(text)));
    }

    @Override
    Sink open(Piece piece, Configuration conf) throws IOException {
        if (piece.attempt() >= ATTEMPTS) {
            throw new OutputException(new IOException("a part of it failed " + ATTEMPTS + " times"));
        }
        return new Buffer(piece, conf);
    }

    private final class Buffer implements Sink {
        private final Piece piece;
        private final Configuration conf;
        private final byte[] bytes;
        private int length;

        Buffer(Piece piece, Configuration conf) {
            this.piece = piece;
            this.conf = conf;
            bytes = new byte[Math.toIntExact(piece.length())];
        }

        @Override
        public void write(byte[] from, int offset, int count) {
            System.arraycopy(from, offset, bytes, length, count);
            length += count;
        }

        @Override
        public String finish() throws IOException {
            if (length == 0) {
                // Stores take no empty part. The driver makes the empty object.
                return "";
            }
            String to = upload == null ? startUpload(conf) : upload;
            int number = 1 + piece.part() * ATTEMPTS + piece.attempt();
            try (MultipartUploader uploader = uploader(conf)) {
                PartHandle part = FutureIO.awaitFuture(
                        uploader.putPart(upload(to), number, output(), new ByteArrayInputStream(bytes, 0, length), length));
                return to + ":" + number + ":" + text(part.toByteArray());
            } catch (IOException e) {
                throw new OutputException(e);
            }
        }

        @Override
        public void close() {
            Arrays.fill(bytes, (byte) 0);
        }
    }

    @Override
    String state() {
        return upload;
    }

    @Override
    void publish(Item item, Layout layout, SortedMap<Integer, String> parts, Configuration conf) throws IOException {
        FileSystem fs = Hadoop.of(output(), conf);
        if (!rules().replaces()) {
            refuseExisting(fs);
        }
        if (parts.get(0).isEmpty()) {
            fs.create(output(), rules().replaces()).close();
            return;
        }
        Map<Integer, PartHandle> all = new TreeMap<>();
        String to = null;
        for (String handle : parts.values()) {
            String[] fields = handle.split(":", 3);
            to = fields[0];
            all.put(Integer.parseInt(fields[1]), BBPartHandle.from(ByteBuffer.wrap(Base64.getDecoder().decode(fields[2]))));
        }
        try (MultipartUploader uploader = uploader(conf)) {
            FutureIO.awaitFuture(uploader.complete(upload(to), output(), all));
        }
    }

    /** Uploads have no condition, so an object that appears in just this moment would be replaced. */
    private void refuseExisting(FileSystem fs) throws IOException {
        try {
            fs.getFileStatus(output());
        } catch (FileNotFoundException e) {
            return;
        }
        throw new java.nio.file.FileAlreadyExistsException(output().toString());
    }

    @Override
    void discard(Item item, SortedMap<Integer, String> parts, Configuration conf) {
        String known = upload != null ? upload : parts.containsKey(0) ? parts.get(0).split(":", 3)[0] : "";
        if (known.isEmpty()) {
            return;
        }
        try (MultipartUploader uploader = uploader(conf)) {
            FutureIO.awaitFuture(uploader.abort(upload(known), output()));
        } catch (IOException e) {
            // The store has it no more, or its rules end it some day.
        }
    }
}
