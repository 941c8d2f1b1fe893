package phalanx.spark;

import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.SortedMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import phalanx.Layout;

/**
 * Where an output comes together. Every attempt at a part writes under a name that is its own, and the driver makes the output of one
 * attempt for each part. So attempts that run side by side, and those that wake up late, damage nothing.
 */
abstract class Place implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final String PREFIX = ".phalanx-";
    private static final int JOINED = 0xffff;
    private static final int MOST_ATTEMPTS = 256;

    /** How it is written, beside where. */
    record Rules(boolean replaces, boolean syncs) implements Serializable {}

    private final String output;
    private final Rules rules;
    /** The beginning of all names that belong to this output and this run. */
    private final String stem;

    Place(Path output, Rules rules) {
        this.output = output.toString();
        this.rules = rules;
        byte[] random = new byte[5];
        RANDOM.nextBytes(random);
        stem = PREFIX + hash(output.getName()) + "-" + HexFormat.of().formatHex(random);
    }

    /** The place for an output: how parts become one file depends on the file system. */
    static Place of(FileSystem fs, Path output, Rules rules) throws IOException {
        if (Hadoop.isLocal(fs)) {
            return new LocalPlace(output, rules);
        }
        boolean isStore = fs.hasPathCapability(output, CommonPathCapabilities.ABORTABLE_STREAM)
                && fs.hasPathCapability(output, CommonPathCapabilities.FS_MULTIPART_UPLOADER);
        return isStore ? new StorePlace(output, rules) : new RenamedPlace(output, rules);
    }

    /** The name of the record of an output. */
    static String record(Path output) {
        // Another one than that of phalanx, which has records of another kind.
        return PREFIX + hash("spark/" + output.getName()) + ".resume";
    }

    private static String hash(String name) {
        try {
            byte[] hash = MessageDigest.getInstance("SHA3-256").digest(name.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(Arrays.copyOf(hash, 16));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    Path output() {
        return new Path(output);
    }

    Rules rules() {
        return rules;
    }

    /** The name of the file of an attempt. It has the form by which other programs know unfinished files, and leave them alone. */
    String own(int part, int attempt) {
        if (part >= JOINED || attempt >= MOST_ATTEMPTS) {
            throw new IllegalArgumentException("a part of it was begun too often");
        }
        return String.format("%s%04x%02x.tmp", stem, part, attempt);
    }

    /** The name of a file in which the driver joins parts. */
    String joined() {
        return String.format("%s%04x%02x.tmp", stem, JOINED, 0);
    }

    /** How the names of all files of attempts begin. */
    String own() {
        return stem;
    }

    /** How long a part should be at most. */
    long longest() {
        return Division.LONGEST_PART;
    }

    /** Most bytes of a part. */
    long mostBytes() {
        return Long.MAX_VALUE;
    }

    /** On an executor: a sink for one part. */
    abstract Sink open(Piece piece, Configuration conf) throws IOException;

    /**
     * On the driver, if the file is divided, before executors begin.
     *
     * @param earlier what an earlier run has left, or null
     */
    abstract void begin(Item item, Layout layout, Earlier earlier, Configuration conf) throws IOException;

    /** What a later run has to know about this place, to go on. */
    abstract String state();

    /** The handle of a part, for a later run. */
    String later(Piece piece, String handle) throws IOException {
        return handle;
    }

    /** On the driver, when all parts are done: the output gets its name. */
    abstract void publish(Item item, Layout layout, SortedMap<Integer, String> parts, Configuration conf) throws IOException;

    /** On the driver: removes what there is besides the output. */
    abstract void discard(Item item, SortedMap<Integer, String> parts, Configuration conf);

    /**
     * What an earlier run has left.
     *
     * @param state its {@link #state}
     * @param parts the handles of the parts that are done
     */
    record Earlier(String state, SortedMap<Integer, String> parts) {}
}
