package phalanx;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.Map;
import phalanx.primitives.Sponge;

/**
 * By what a writer of manifests finds a file again that has moved: docs/format.md, section 13.3.
 *
 * @param device the file's device, unsigned; 0 if unknown
 * @param inode a number of the file on it, which no later file gets, unsigned; 0 if unknown
 */
public record SourceIdentity(long device, long inode) {
    /** Nothing is known. */
    public static final SourceIdentity UNKNOWN = new SourceIdentity(0, 0);

    /**
     * That of a file.
     *
     * @param path the file. No link is followed
     * @return its identity, as all programs compute it
     * @throws IOException if the file cannot be looked at
     */
    public static SourceIdentity of(Path path) throws IOException {
        if (!path.getFileSystem().supportedFileAttributeViews().contains("unix")) {
            return UNKNOWN;
        }
        return of(Files.readAttributes(path, "unix:dev,ino,creationTime,lastModifiedTime", LinkOption.NOFOLLOW_LINKS));
    }

    /** That of a file with these attributes. */
    static SourceIdentity of(Map<String, Object> unix) {
        long device = (Long) unix.get("dev");
        FileTime born = (FileTime) unix.get("creationTime");
        // Java does not say that a time of birth is unknown: it gives that of the last modification instead.
        if (born.equals(unix.get("lastModifiedTime"))) {
            return new SourceIdentity(device, 0);
        }
        Instant birth = born.toInstant();
        ByteBuffer text = ByteBuffer.allocate(2 * Long.BYTES + Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        text.putLong((Long) unix.get("ino")).putLong(birth.getEpochSecond()).putInt(birth.getNano());
        byte[] hash = new byte[Sponge.DIGEST];
        Sponge.sha3().hash(text.array(), 0, text.capacity(), hash, 0, hash.length);
        return new SourceIdentity(device, ByteBuffer.wrap(hash).order(ByteOrder.LITTLE_ENDIAN).getLong());
    }
}
