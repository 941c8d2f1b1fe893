package phalanx.command;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import phalanx.Header;
import phalanx.NotPhalanxException;
import phalanx.OutputException;
import phalanx.PhalanxException;
import phalanx.Protector;
import phalanx.Recipients;
import phalanx.Unprotector;

/** {@code protect} and {@code unprotect}: one input after another. */
final class Transfers {
    private Transfers() {}

    /** Moves the bytes from one place to another. Either path is null for standard input or output. */
    private interface Mover {
        long move(Path input, InputStream in, Path output, OutputStream out) throws IOException;
    }

    /** Makes a mover when there is something to do. It may ask for a password. */
    private interface Preparation {
        Mover prepare() throws Failure;
    }

    static void protect(Options options) throws Failure {
        var suite = Ciphers.suite(options);
        int chunkLog2 = Ciphers.chunkLog2(options);
        int threads = Ciphers.threads(options);
        boolean isUnsaid = options.one("--output").isEmpty() && options.one("--output-dir").isEmpty();
        if (isUnsaid && options.paths().contains(Places.STANDARD) && Terminal.isTerminal(1)) {
            throw Failure.usage("protected bytes are not for a terminal").hint("name an --output, or - to insist");
        }
        Places.checkStandard(options);
        Failures failures = new Failures();
        var places = Places.of(options, Places::protectedName, failures);
        Preparation preparation = () -> {
            Recipients recipients;
            try {
                recipients = AtHand.recipients(options);
            } catch (IllegalArgumentException e) {
                throw Failure.of(e);
            }
            Protector base = new Protector(recipients).withSuite(suite).withChunkLog2(chunkLog2).on(others(threads), threads);
            Protector synced = options.has("--no-sync") ? base.withoutSync() : base;
            Protector protector = options.has("--force") ? synced.replacing() : synced;
            return (input, in, output, out) -> {
                if (out != null) {
                    return input == null ? protector.protect(in, out) : protector.protect(input, out);
                }
                return input == null ? protector.protect(in, output) : protector.protect(input, output);
            };
        };
        run(options, places, preparation, threads, true, failures);
    }

    static void unprotect(Options options) throws Failure {
        int threads = Ciphers.threads(options);
        Places.checkStandard(options);
        Failures failures = new Failures();
        AtHand keys = AtHand.of(options);
        var places = Places.of(options, Places::unprotectedName, failures);
        Unprotector base = new Unprotector(keys).on(others(threads), threads);
        Unprotector synced = options.has("--no-sync") ? base.withoutSync() : base;
        Unprotector unprotector = options.has("--force") ? synced.replacing() : synced;
        Mover mover = (input, in, output, out) -> {
            keys.begin(input == null ? Places.STANDARD : input.toString());
            if (out != null) {
                return input == null ? unprotector.unprotect(in, out) : unprotector.unprotect(input, out);
            }
            return input == null ? unprotector.unprotect(in, output) : unprotector.unprotect(input, output);
        };
        run(options, places, () -> mover, threads, false, failures);
    }

    /** The threads in addition to the one that runs the command. They end with it. */
    static Executor others(int threads) {
        AtomicLong number = new AtomicLong();
        return threads == 1 ? Runnable::run : Executors.newFixedThreadPool(threads - 1, work -> {
            Thread thread = new Thread(work, "worker " + number.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        });
    }

    private static void run(
            Options options, List<Places.Place> places, Preparation preparation, int threads, boolean protects,
            Failures failures)
            throws Failure {
        Mover[] mover = new Mover[1];
        for (Places.Place place : places) {
            boolean[] isPrepared = {true};
            failures.attempt(() -> {
                check(place, protects, options.has("--force"));
                if (options.has("--force")) {
                    Spared.check(options, place);
                }
                if (mover[0] == null) {
                    isPrepared[0] = false;
                    mover[0] = preparation.prepare();
                    isPrepared[0] = true;
                }
                one(options, place, mover[0], threads);
            });
            if (!isPrepared[0]) {
                // Nothing can be done for the others either.
                break;
            }
        }
        failures.end();
    }

    /** Finds errors that can be found before a password is asked for. */
    private static void check(Places.Place place, boolean protects, boolean force) throws Failure {
        Path input = Places.path(place.input());
        Path output = Places.path(place.output());
        if (!place.readsStandard()) {
            if (Files.isDirectory(input)) {
                throw Failure.folder(place.input());
            }
            if (!Files.exists(input)) {
                throw Failure.at(place.input(), new NoSuchFileException(place.input()));
            }
            if (!Files.isRegularFile(input)) {
                throw Failure.at(place.input(), new IOException("not a regular file"));
            }
            if (protects && Places.unprotectedName(input.getFileName().toString()).isPresent()) {
                refuseProtected(place.input(), input);
            }
            boolean isSame = place.writesStandard() ? Terminal.isStandardOutput(input) : isSame(input, output);
            if (isSame) {
                String end = place.writesStandard() ? place.input() : place.output();
                throw Failure.usage(Text.shown(end) + ": input and output are the same file");
            }
        }
        boolean isFolder = Files.isDirectory(output);
        if (!place.writesStandard() && !force && !isFolder && Files.exists(output, LinkOption.NOFOLLOW_LINKS)) {
            throw Failure.at(place.output(), new FileAlreadyExistsException(place.output()));
        }
    }

    private static boolean isSame(Path input, Path output) {
        try {
            return Files.isSameFile(input, output);
        } catch (IOException e) {
            return false;
        }
    }

    /** A pattern like {@code *} easily matches outputs of an earlier run. */
    private static void refuseProtected(String name, Path input) throws Failure {
        Header header = null;
        try {
            header = Places.header(input);
        } catch (NotPhalanxException e) {
            return;
        } catch (PhalanxException e) {
            // It begins like a protected file.
        } catch (IOException e) {
            throw Failure.at(name, e);
        }
        throw Failure.of(Failure.Code.INPUT_OUTPUT, Text.shown(name) + ": protected already")
                .hint("a pipe protects it twice: phalanx protect - <FILE");
    }

    private static void one(Options options, Places.Place place, Mover mover, int threads) throws Failure {
        Path input = place.readsStandard() ? null : Places.path(place.input());
        Path output = place.writesStandard() ? null : Places.path(place.output());
        long begun = System.nanoTime();
        long bytes;
        try {
            InputStream in = new BufferedInputStream(new FileInputStream(FileDescriptor.in));
            OutputStream out = output == null ? new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)) : null;
            bytes = mover.move(input, in, output, out);
        } catch (OutputException | FileAlreadyExistsException e) {
            throw Failure.at(place.output(), e);
        } catch (IOException e) {
            throw Failure.at(place.input(), e);
        }
        tell(options, place, bytes, System.nanoTime() - begun, threads);
    }

    private static void tell(Options options, Places.Place place, long bytes, long nanos, int threads) {
        String what = Text.shown(place.input()) + " " + Text.arrow() + " " + Text.shown(place.output()) + ": ";
        if (options.has("--verbose")) {
            Terminal.complain(what + Text.summary(bytes, nanos) + ", " + engine(threads));
        } else if (!options.has("--quiet") && !place.writesStandard() && Terminal.isTerminal(2)) {
            Terminal.complain(what + Text.brief(bytes, nanos));
        }
    }

    static String engine(int threads) {
        return "Java " + Runtime.version().feature() + " (" + Text.count(threads, "thread") + ")";
    }
}
