package phalanx;

import java.nio.file.attribute.FileTime;
import java.time.Instant;

/** An entry that the manifest of a tree lists: docs/format.md, section 13.3. */
public sealed interface TreeEntry {
    /**
     * Its name in its folder, as in the folder that was protected.
     *
     * @return the name; that of the root is empty
     */
    RawName name();

    /**
     * What all entries have.
     *
     * @return permissions and time
     */
    Attributes attributes();

    /**
     * What all entries have.
     *
     * @param mode the permissions: the lowest twelve bits of a mode
     * @param seconds when it was modified, in seconds since 1970
     * @param nanoseconds the nanoseconds after that, below 10^9
     */
    record Attributes(int mode, long seconds, int nanoseconds) {
        /**
         * When it was modified.
         *
         * @return the time, or the first or last that an {@link Instant} can have
         */
        public FileTime modified() {
            if (seconds < Instant.MIN.getEpochSecond()) {
                return FileTime.from(Instant.MIN);
            }
            if (seconds > Instant.MAX.getEpochSecond()) {
                return FileTime.from(Instant.MAX);
            }
            return FileTime.from(Instant.ofEpochSecond(seconds, nanoseconds));
        }
    }

    /**
     * A folder. Its entries follow it.
     *
     * @param name its name
     * @param attributes permissions and time
     */
    record Folder(RawName name, Attributes attributes) implements TreeEntry {}

    /**
     * A file. Its stored file has the same name and {@code .phx}.
     *
     * @param name its name
     * @param attributes permissions and time
     * @param length the plaintext's length in bytes
     * @param storedLength the stored file's length in bytes, when the manifest was written
     * @param device the device of the source, unsigned; 0 if unknown
     * @param inode a number of the source on its device, unsigned; 0 if unknown
     * @param contents what the stored file holds
     */
    record File(
            RawName name,
            Attributes attributes,
            long length,
            long storedLength,
            long device,
            long inode,
            Contents contents)
            implements TreeEntry {}

    /**
     * A symbolic link.
     *
     * @param name its name
     * @param attributes permissions and time
     * @param target where it leads
     */
    record Link(RawName name, Attributes attributes, RawName target) implements TreeEntry {}
}
