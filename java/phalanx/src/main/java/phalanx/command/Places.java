package phalanx.command;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import phalanx.Header;
import phalanx.NotPhalanxException;

/** The outputs of the inputs. Only the command line determines them, never the files that happen to exist. */
public final class Places {
    /** Standard input or output, as the command line names it. */
    static final String STANDARD = "-";

    private static final String EXTENSION = ".phx";

    private Places() {}

    /** The names of one input and its output; {@code -} is standard input or output. */
    public record Place(String input, String output) {
        boolean readsStandard() {
            return input.equals(STANDARD);
        }

        boolean writesStandard() {
            return output.equals(STANDARD);
        }
    }

    /** Standard input can be read only once. */
    static void checkStandard(Options options) throws Failure {
        List<String> all = new ArrayList<>(options.paths());
        for (String option : List.of("--key-file", "--password-file", "--identity", "--recipients-file")) {
            all.addAll(options.all(option));
        }
        if (all.stream().filter(STANDARD::equals).count() > 1) {
            throw Failure.usage("- is given more than once");
        }
    }

    /** The places of all inputs. Inputs that have no output are reported and left out; {@code failures} gets their kinds. */
    static List<Place> of(Options options, Function<String, Optional<String>> outputName, Failures failures)
            throws Failure {
        Optional<String> output = options.one("--output");
        if (output.isPresent() && options.paths().size() > 1) {
            throw Failure.usage("--output names one output, and there are several inputs").hint("use --output-dir");
        }
        if (output.isPresent() && (output.get().endsWith("/") || output.get().endsWith(File.separator))) {
            throw Failure.usage(Text.shown(output.get()) + ": --output names a file")
                    .hint("use --output-dir for a folder");
        }
        Optional<String> folder = options.one("--output-dir");
        if (folder.isPresent() && !Files.isDirectory(path(folder.get()))) {
            throw Failure.of(Failure.Code.INPUT_OUTPUT, Text.shown(folder.get()) + ": no such folder")
                    .hint("--output-dir needs an existing one");
        }
        List<Place> places = new ArrayList<>();
        for (String input : options.paths()) {
            failures.attempt(() -> places.add(place(input, output, folder, outputName)));
        }
        refuseCollisions(places);
        return places;
    }

    private static Place place(
            String input, Optional<String> output, Optional<String> folder, Function<String, Optional<String>> outputName)
            throws Failure {
        if (output.isPresent()) {
            return new Place(input, output.get());
        }
        if (input.equals(STANDARD) && folder.isEmpty()) {
            return new Place(input, STANDARD);
        }
        Path path = path(input);
        Path file = path.getFileName();
        Optional<String> name =
                input.equals(STANDARD) || file == null ? Optional.empty() : outputName.apply(file.toString());
        if (name.isEmpty()) {
            throw nameless(input);
        }
        Path target = folder.isPresent() ? path(folder.get()).resolve(name.get()) : path.resolveSibling(name.get());
        return new Place(input, target.toString());
    }

    /** Why no output name can be made from an input's name. */
    private static Failure nameless(String input) {
        if (!input.equals(STANDARD)) {
            try {
                header(path(input));
            } catch (NotPhalanxException e) {
                return Failure.at(input, e);
            } catch (IOException | Failure e) {
                // It has a header, or this cannot be found out.
            }
        }
        return Failure.usage(Text.shown(input) + ": no name for the output").hint("give one with --output");
    }

    /** The header of a regular file. */
    static Header header(Path path) throws IOException {
        if (!Files.isRegularFile(path)) {
            throw new IOException("not a regular file");
        }
        try (var in = Files.newInputStream(path)) {
            return Header.read(in);
        }
    }

    /** No output may replace another one, or an input that is still to be read. */
    public static void refuseCollisions(List<Place> places) throws Failure {
        if (places.size() < 2) {
            return;
        }
        // Inputs, and outputs with the input that they belong to.
        Map<Path, Optional<String>> taken = new HashMap<>();
        for (Place place : places) {
            identity(place.input()).ifPresent(input -> taken.put(input, Optional.empty()));
        }
        for (Place place : places) {
            Optional<Path> output = identity(place.output());
            if (output.isEmpty()) {
                continue;
            }
            String input = Text.shown(place.input());
            Optional<String> other = taken.put(output.get(), Optional.of(place.input()));
            if (other != null) {
                throw Failure.usage(Text.shown(place.output()) + other
                        .map(first -> ": it would be the output of both " + Text.shown(first) + " and " + input)
                        .orElse(": it is an input, and would be the output of " + input));
            }
        }
    }

    /** The folder that contains a file, whatever path leads there, and its name in it. */
    private static Optional<Path> identity(String name) throws Failure {
        Path path = path(name).toAbsolutePath();
        if (name.equals(STANDARD) || path.getFileName() == null) {
            return Optional.empty();
        }
        try {
            return Optional.of(path.getParent().toRealPath().resolve(path.getFileName()));
        } catch (IOException e) {
            return Optional.empty();
        }
    }

    static Path path(String name) throws Failure {
        try {
            return Path.of(name);
        } catch (InvalidPathException e) {
            throw Failure.usage(Text.shown(name) + ": it cannot be a path here (" + e.getReason() + ")");
        }
    }

    /** The name with {@code .phx} appended. */
    static Optional<String> protectedName(String name) {
        return Optional.of(name + EXTENSION);
    }

    /** The name without {@code .phx}. */
    static Optional<String> unprotectedName(String name) {
        boolean hasIt = name.endsWith(EXTENSION) && name.length() > EXTENSION.length();
        return hasIt ? Optional.of(name.substring(0, name.length() - EXTENSION.length())) : Optional.empty();
    }
}
