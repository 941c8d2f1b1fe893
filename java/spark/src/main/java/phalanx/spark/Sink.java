package phalanx.spark;

import java.io.Closeable;
import java.io.IOException;

/** Where an attempt writes its part. If it is closed before it is finished, nothing of it counts. */
interface Sink extends Closeable {
    void write(byte[] bytes, int offset, int length) throws IOException;

    /** Ends the part. Returns by what the driver finds it. */
    String finish() throws IOException;
}
