package phalanx.cluster;

import java.io.File;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * An installation of MPJ Express.
 *
 * @param home the folder with {@code lib} and {@code conf}, which MPJ Express calls {@code MPJ_HOME}
 * @param log4j the library that it logs with. Debian's package has it in another place than its jars name
 */
record Installed(Path home, Path log4j) {
    private static final Path DEBIAN = Path.of("/usr/share/mpj");
    private static final Path DEBIAN_JARS = Path.of("/usr/share/java");
    /** The jars from which a process with all ranks starts. The rest comes from the class path of each rank. */
    private static final List<String> MULTICORE = List.of("smpdev", "xdev", "mpjbuf", "loader2", "starter", "mpiExp");

    /**
     * Looks for it in the folder that the variable {@code MPJ_HOME} names, or else where Debian's package has it.
     *
     * @param environment the environment's variables
     * @return the installation, if there is one
     */
    static Optional<Installed> find(Map<String, String> environment) {
        String named = environment.get("MPJ_HOME");
        Path home = named == null || named.isEmpty() ? DEBIAN : Path.of(named);
        if (!Files.isRegularFile(home.resolve("lib/mpj.jar"))) {
            return Optional.empty();
        }
        return log4j(home.resolve("lib")).or(() -> log4j(DEBIAN_JARS)).map(log4j -> new Installed(home, log4j));
    }

    private static Optional<Path> log4j(Path folder) {
        try (Stream<Path> all = Files.list(folder)) {
            return all.filter(path -> path.getFileName().toString().matches("log4j-1\\.2.*\\.jar")).sorted().findFirst();
        } catch (IOException e) {
            return Optional.empty();
        }
    }

    /** The class path of a process that is one rank. */
    String ofRank() {
        return joined(List.of(home.resolve("lib/mpj.jar"), log4j));
    }

    /** The class path of a process with all ranks. */
    String ofAll() {
        List<Path> jars = new ArrayList<>();
        MULTICORE.forEach(name -> jars.add(home.resolve("lib/" + name + ".jar")));
        jars.add(log4j);
        return joined(jars);
    }

    /** Where a class comes from: its jar, or the folder that it was compiled to. */
    static Path of(Class<?> type) {
        try {
            return Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI());
        } catch (URISyntaxException e) {
            throw new IllegalStateException(e);
        }
    }

    static String joined(List<?> paths) {
        return paths.stream().map(Object::toString).collect(Collectors.joining(File.pathSeparator));
    }
}
