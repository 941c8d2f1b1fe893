package phalanx;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Locale;

/** Where Windows differs from the systems that the library is written for. */
final class Systems {
    private static final boolean IS_WINDOWS = System.getProperty("os.name").startsWith("Windows");
    /** The names of devices, which are no files in any folder, whatever follows a dot in the name. */
    private static final List<String> DEVICES = List.of(
            "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "COM0", "COM1", "COM2", "COM3", "COM4", "COM5", "COM6", "COM7", "COM8",
            "COM9", "COM\u00b9", "COM\u00b2", "COM\u00b3", "LPT0", "LPT1", "LPT2", "LPT3", "LPT4", "LPT5", "LPT6", "LPT7", "LPT8",
            "LPT9", "LPT\u00b9", "LPT\u00b2", "LPT\u00b3");

    private Systems() {}

    /** Whether a folder can be opened and synced, so that a new name in it is on the disk. Windows has no such call. */
    static boolean hasFoldersToSync(Path path) {
        return !IS_WINDOWS || path.getFileSystem().supportedFileAttributeViews().contains("posix");
    }

    /** A folder, open so that it can be synced whatever permissions it gets meanwhile; or null where the system has no such call. */
    static FileChannel openFolder(Path folder) throws IOException {
        return hasFoldersToSync(folder) ? FileChannel.open(folder, StandardOpenOption.READ) : null;
    }

    /** Waits until the names in a folder are on the disk, where the system has a call for that. */
    static void syncFolder(Path folder) throws IOException {
        try (FileChannel opened = openFolder(folder)) {
            if (opened != null) {
                opened.force(true);
            }
        }
    }

    /** Whether a path stands for standard input where the system has no such path. */
    static boolean isStandardInput(Path path) {
        return IS_WINDOWS && path.equals(Path.of("/dev/stdin"));
    }

    /** Refuses a name that Windows takes for a device, or shortens, so that another file would be written or read. */
    static void checkName(Path path) throws IOException {
        if (IS_WINDOWS && path.getFileName() != null && isReserved(path.getFileName().toString())) {
            throw new OutputException(new FileSystemException(path.toString(), null, "Windows does not allow this name"));
        }
    }

    /** Whether Windows does not give a file this name. Java refuses all others, such as those with a colon. */
    static boolean isReserved(String name) {
        String bare = name.split("\\.", 2)[0].stripTrailing().toUpperCase(Locale.ROOT);
        boolean isDots = name.equals(".") || name.equals("..");
        return DEVICES.contains(bare) || !isDots && (name.endsWith(".") || name.endsWith(" "));
    }
}
