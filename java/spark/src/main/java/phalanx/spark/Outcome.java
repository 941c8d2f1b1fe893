package phalanx.spark;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import phalanx.command.Failure;

/**
 * What came of one part of a file.
 *
 * @param item the number of the file
 * @param part which part
 * @param handle by what the driver finds the part of the output, or null
 * @param bytes how many bytes of plaintext it had
 * @param found what the whole file is, of which this is a part; null if it failed
 * @param failure why it failed, or null
 */
record Outcome(int item, int part, String handle, long bytes, Found found, Failure failure) implements Serializable {
    /**
     * What the protected file is that was written or read.
     *
     * @param stored its length
     * @param chunks how many chunks it has
     * @param contents the nonces and tags of those that this part has, joined; empty if nobody asked for them
     */
    record Found(long stored, long chunks, byte[] contents) implements Serializable {}

    /** A part that failed. */
    static Outcome failed(int item, int part, Failure failure) {
        return new Outcome(item, part, null, 0, null, failure);
    }

    /** Bytes for another JVM, whatever serializer the job is set to use. */
    static byte[] toBytes(Serializable value) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(value);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        return bytes.toByteArray();
    }

    static Object ofBytes(byte[] bytes) {
        ClassLoader loader = Outcome.class.getClassLoader();
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes)) {
            @Override
            protected Class<?> resolveClass(ObjectStreamClass type) throws ClassNotFoundException {
                return Class.forName(type.getName(), false, loader);
            }
        }) {
            return in.readObject();
        } catch (IOException | ClassNotFoundException e) {
            throw new IllegalStateException(e);
        }
    }
}
