package phalanx.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import phalanx.Contents;
import phalanx.command.Failure;
import phalanx.command.Failures;
import phalanx.command.Text;

/** The files that the command line names, with their outputs. */
final class Inputs {
    private static final String EXTENSION = ".phx";

    /**
     * An input and its output.
     *
     * @param name the input in messages
     * @param status what its file system says of it
     * @param output the output, or null to verify
     * @param listed what the manifest of its tree lists, or null if it is no file of a tree
     */
    record Place(String name, FileStatus status, Path output, Listed listed) {}

    /**
     * What a manifest lists.
     *
     * @param contents what the protected file has to hold, or null if it is still to be written
     * @param length the length of the plaintext
     */
    record Listed(Contents contents, long length) {
        /** A file of a tree that is to be listed when it is written. */
        static final Listed WHEN_WRITTEN = new Listed(null, 0);
    }

    /**
     * A folder that is taken as a whole.
     *
     * @param name its name in messages
     * @param path the folder
     * @param output the folder of the outputs, or null to verify
     */
    record Folder(String name, Path path, Path output) {}

    /**
     * What the command line names.
     *
     * @param files single files
     * @param folders whole folders
     */
    record Named(List<Place> files, List<Folder> folders) {}

    private final Plan plan;
    private final Configuration conf;
    private final List<Folder> folders = new ArrayList<>();

    private Inputs(Plan plan, Configuration conf) {
        this.plan = plan;
        this.conf = conf;
    }

    /** All of them. Those that are none are reported and left out. */
    static Named of(Plan plan, Configuration conf, Failures failures) throws Failure {
        Inputs inputs = new Inputs(plan, conf);
        Path folder = inputs.folder();
        List<Place> all = new ArrayList<>();
        for (String name : plan.paths()) {
            failures.attempt(() -> inputs.named(name, folder, all));
        }
        inputs.refuseCollisions(all);
        return new Named(all, inputs.folders);
    }

    static Path path(String name) throws Failure {
        try {
            return new Path(name);
        } catch (IllegalArgumentException e) {
            throw Failure.usage(Text.shown(name) + ": it cannot be a path here (" + e.getMessage() + ")");
        }
    }

    /** The folder of all outputs, or null. */
    private Path folder() throws Failure {
        if (plan.outputDir().isEmpty()) {
            return null;
        }
        String name = plan.outputDir().get();
        Path folder = path(name);
        try {
            FileSystem fs = Hadoop.of(folder, conf);
            if (fs.getFileStatus(folder).isDirectory()) {
                return fs.makeQualified(folder);
            }
        } catch (FileNotFoundException e) {
            // An object store has no empty folders.
            if (isStore(folder)) {
                return folder;
            }
        } catch (IOException e) {
            throw Hadoop.at(name, e);
        }
        throw Failure.of(Failure.Code.INPUT_OUTPUT, Text.shown(name) + ": no such folder")
                .hint("--output-dir needs an existing one");
    }

    private boolean isStore(Path path) {
        try {
            return Hadoop.of(path, conf).hasPathCapability(path, CommonPathCapabilities.ABORTABLE_STREAM);
        } catch (IOException e) {
            return false;
        }
    }

    /** What one argument names: a file, or files by a pattern of Hadoop. */
    private void named(String name, Path folder, List<Place> all) throws Failure {
        Path path = path(name);
        FileStatus[] found;
        boolean isPattern = false;
        try {
            FileSystem fs = Hadoop.of(path, conf);
            found = literal(fs, path);
            if (found == null) {
                isPattern = true;
                found = fs.globStatus(path);
            }
        } catch (IOException e) {
            throw Hadoop.at(name, e);
        }
        if (found == null || found.length == 0) {
            throw Failure.at(name, new NoSuchFileException(name));
        }
        if (isPattern && found.length > 1 && plan.output().isPresent()) {
            throw Failure.usage("--output names one output, and there are several inputs").hint("use --output-dir");
        }
        for (FileStatus each : found) {
            String shown = isPattern ? Work.shown(each.getPath()) : name;
            if (each.isDirectory() && plan.isRecursive()) {
                folders.add(new Folder(shown, each.getPath(), plan.what == Plan.What.VERIFY ? null : output(shown, each.getPath(), folder)));
                continue;
            }
            if (each.isDirectory()) {
                throw Failure.of(Failure.Code.INPUT_OUTPUT, Text.shown(shown) + ": it is a folder").hint("--recursive takes folders");
            }
            all.add(new Place(shown, each, plan.what == Plan.What.VERIFY ? null : output(shown, each.getPath(), folder), null));
        }
    }

    /** A file or folder that has exactly this name. */
    private static FileStatus[] literal(FileSystem fs, Path path) throws IOException {
        try {
            return new FileStatus[] {fs.getFileStatus(path)};
        } catch (FileNotFoundException e) {
            return null;
        }
    }

    private Path output(String name, Path input, Path folder) throws Failure {
        if (plan.output().isPresent()) {
            Path output = path(plan.output().get());
            try {
                return Hadoop.of(output, conf).makeQualified(output);
            } catch (IOException e) {
                throw Hadoop.at(plan.output().get(), e);
            }
        }
        String file = input.getName();
        boolean hasEnding = file.endsWith(EXTENSION) && file.length() > EXTENSION.length();
        if (plan.what == Plan.What.UNPROTECT && !hasEnding) {
            throw Failure.usage(Text.shown(name) + ": no name for the output").hint("give one with --output");
        }
        String result = plan.what == Plan.What.PROTECT
                ? file + EXTENSION
                : file.substring(0, file.length() - EXTENSION.length());
        return new Path(folder == null ? input.getParent() : folder, result);
    }

    /** Where an input and its output lie, whatever paths lead there. The output is null to verify. */
    private record Ends(String name, Path input, Path output, String shown) {}

    private Ends ends(String name, Path input, Path output) {
        return new Ends(name, identity(input), output == null ? null : identity(output), output == null ? "" : Work.shown(output));
    }

    /** The folder that has it, without links on the way, and its name in it. */
    private Path identity(Path path) {
        try {
            if (path.getParent() != null && Hadoop.isLocal(Hadoop.of(path, conf))) {
                java.nio.file.Path folder = Hadoop.local(path.getParent()).toRealPath();
                // Unlike that of a child of a path, the name may have a colon.
                return new Path("file", null, folder.resolve(path.getName()).toString());
            }
        } catch (IOException e) {
            // It has no folder yet.
        }
        return path;
    }

    /** No output may replace another one, or an input that is still to be read. A folder is one of them as a whole. */
    private void refuseCollisions(List<Place> places) throws Failure {
        List<Ends> all = new ArrayList<>();
        places.forEach(place -> all.add(ends(place.name, place.status.getPath(), place.output)));
        folders.forEach(folder -> all.add(ends(folder.name, folder.path, folder.output)));
        Map<Path, Optional<String>> taken = new HashMap<>();
        all.forEach(each -> taken.put(each.input, Optional.empty()));
        for (Ends each : all) {
            Optional<String> other = each.output == null ? null : taken.put(each.output, Optional.of(each.name));
            if (other != null) {
                String input = Text.shown(each.name);
                if (each.output.equals(each.input)) {
                    throw Failure.usage(Text.shown(each.shown) + ": input and output are the same file");
                }
                throw Failure.usage(Text.shown(each.shown) + other
                        .map(first -> ": it would be the output of both " + Text.shown(first) + " and " + input)
                        .orElse(": it is an input, and would be the output of " + input));
            }
        }
    }
}
