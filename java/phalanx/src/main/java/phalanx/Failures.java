package phalanx;

import java.io.IOException;

/** Failures that ended the work of a thread. */
final class Failures {
    private Failures() {}

    /** Throws it unchanged. Does nothing if there is none. */
    static void rethrow(Throwable failure) throws IOException {
        if (failure instanceof IOException e) {
            throw e;
        }
        if (failure instanceof RuntimeException e) {
            throw e;
        }
        if (failure instanceof Error e) {
            throw e;
        }
        if (failure != null) {
            throw new IllegalStateException(failure);
        }
    }
}
