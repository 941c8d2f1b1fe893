package phalanx.spark;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import phalanx.ChangedException;

/** The properties by which executors recognize an input, and the driver that it did not change. */
record Seen(long length, long modifiedNanos, String tag) implements Serializable {
    /** Local files have finer times than Hadoop reports. */
    static Seen of(FileSystem fs, FileStatus status) throws IOException {
        if (Hadoop.isLocal(fs)) {
            return of(Files.readAttributes(Hadoop.local(status.getPath()), BasicFileAttributes.class));
        }
        String etag = status instanceof EtagSource source ? source.getEtag() : null;
        return new Seen(
                status.getLen(), TimeUnit.MILLISECONDS.toNanos(status.getModificationTime()), etag == null ? "" : etag);
    }

    private static Seen of(BasicFileAttributes now) {
        var time = now.lastModifiedTime().toInstant();
        return new Seen(now.size(), time.getEpochSecond() * 1_000_000_000 + time.getNano(), "");
    }

    /** An output only gets the time of what was read: otherwise a later run would take it for the file as it is now. */
    void require(BasicFileAttributes now) throws ChangedException {
        if (!of(now).equals(this)) {
            throw new ChangedException();
        }
    }

    /** The same, of a file that may be anywhere. */
    void require(FileSystem fs, FileStatus now) throws IOException {
        if (!of(fs, now).equals(this)) {
            throw new ChangedException();
        }
    }

    static Seen of(FileSystem fs, Path path) throws IOException {
        return of(fs, fs.getFileStatus(path));
    }
}
