package phalanx.command;

/** The failures of a run. A failure does not stop the run: its line is written at once, and the worst failure determines the exit code. */
final class Failures {
    private Failure.Code worst;

    /** Something that can fail. */
    @FunctionalInterface
    interface Attempt {
        void run() throws Failure;
    }

    /** Whether it succeeded. */
    boolean attempt(Attempt attempt) {
        try {
            attempt.run();
            return true;
        } catch (Failure e) {
            if (e.getMessage() != null) {
                Terminal.complain(e.getMessage());
            }
            worst = worst == null || e.code().compareTo(worst) > 0 ? e.code() : worst;
            return false;
        }
    }

    /** Throws the worst of them. */
    void end() throws Failure {
        if (worst != null) {
            throw Failure.told(worst);
        }
    }
}
