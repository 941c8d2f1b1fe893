package phalanx.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.security.AccessControlException;
import phalanx.OutputException;
import phalanx.command.Failure;

/** What is asked of Hadoop's file systems. */
final class Hadoop {
    private Hadoop() {}

    /** The file system of a path, of local files without Hadoop's checksums: chunks are authenticated. */
    static FileSystem of(Path path, Configuration conf) throws IOException {
        try {
            FileSystem fs = path.getFileSystem(conf);
            return fs instanceof LocalFileSystem local ? local.getRawFileSystem() : fs;
        } catch (RuntimeException e) {
            if (e.getCause() instanceof ClassNotFoundException missing) {
                throw new IOException(missing.getMessage());
            }
            throw e;
        }
    }

    static boolean isLocal(FileSystem fs) {
        return fs.getClass() == RawLocalFileSystem.class;
    }

    /** A file of the local file system. */
    static java.nio.file.Path local(Path path) {
        return java.nio.file.Path.of(path.toUri().getPath());
    }

    /** Whether there is nothing at a path. Local files that cannot be opened have the same exception as those that are not there. */
    static boolean isAbsent(FileSystem fs, Path path) throws IOException {
        if (isLocal(fs)) {
            return java.nio.file.Files.notExists(local(path), java.nio.file.LinkOption.NOFOLLOW_LINKS);
        }
        try {
            fs.getFileStatus(path);
            return false;
        } catch (java.io.FileNotFoundException e) {
            return true;
        }
    }

    /** A failure at a path. Hadoop's exceptions have other types than those of the JDK. */
    static Failure at(String name, Exception e) {
        boolean isOutput = e instanceof OutputException;
        return Failure.at(name, isOutput ? new OutputException(known((IOException) e.getCause())) : known(e));
    }

    private static <T extends Exception> T known(T e) {
        Exception known = e;
        if (e instanceof FileNotFoundException) {
            known = new NoSuchFileException("");
        } else if (e instanceof AccessControlException) {
            known = new AccessDeniedException("");
        } else if (e instanceof org.apache.hadoop.fs.FileAlreadyExistsException) {
            known = new FileAlreadyExistsException("");
        }
        @SuppressWarnings("unchecked")
        T same = (T) known;
        return same;
    }

    /** Whether another try would fail too. */
    static boolean isFinal(IOException e) {
        return e instanceof FileNotFoundException || e instanceof NoSuchFileException || e instanceof AccessDeniedException
                || e instanceof AccessControlException || e instanceof FileAlreadyExistsException
                || e instanceof org.apache.hadoop.fs.FileAlreadyExistsException;
    }
}
