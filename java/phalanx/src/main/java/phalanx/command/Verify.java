package phalanx.command;

import java.io.BufferedInputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Files;
import phalanx.Unprotector;

/** {@code verify}: checks every chunk, and writes nothing. */
final class Verify {
    private Verify() {}

    static void run(Options options) throws Failure {
        Places.checkStandard(options);
        int threads = Ciphers.threads(options);
        AtHand keys = AtHand.of(options);
        Unprotector unprotector = new Unprotector(keys).on(Transfers.others(threads), threads);
        Failures failures = new Failures();
        boolean isQuiet = options.has("--quiet");
        long[] total = {0, 0, 0};
        for (String name : options.paths()) {
            boolean isAuthentic = failures.attempt(() -> {
                long begun = System.nanoTime();
                keys.begin(name);
                long bytes = one(unprotector, name);
                total[0]++;
                total[1] += bytes;
                if (!isQuiet) {
                    Terminal.say(Text.shown(name) + ": " + Text.count(bytes, "byte") + ": whole and authentic");
                }
                if (options.has("--verbose")) {
                    String summary = Text.summary(bytes, System.nanoTime() - begun);
                    Terminal.complain(Text.shown(name) + ": " + summary + ", " + Transfers.engine(threads));
                }
            });
            total[2] += isAuthentic ? 0 : 1;
        }
        if (!isQuiet && options.paths().size() > 1) {
            String failed = total[2] > 0 ? "; " + total[2] + " failed" : "";
            Terminal.say(Text.count(total[0], "file") + ", " + Text.count(total[1], "byte") + ": whole and authentic" + failed);
        }
        failures.end();
    }

    private static long one(Unprotector unprotector, String name) throws Failure {
        try {
            if (name.equals(Places.STANDARD)) {
                return unprotector.verify(new BufferedInputStream(new FileInputStream(FileDescriptor.in)));
            }
            if (Files.isDirectory(Places.path(name))) {
                throw Failure.folder(name);
            }
            return unprotector.verify(Places.path(name));
        } catch (IOException e) {
            throw Failure.at(name, e);
        }
    }
}
