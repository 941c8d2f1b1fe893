package phalanx.command;

/** The failures of a run. A failure does not stop the run: its line is written at once, and the worst failure determines the exit code. */
public final class Failures {
    private Failure.Code worst;

    /** Something that can fail. */
    @FunctionalInterface
    public interface Attempt {
        void run() throws Failure;
    }

    /** Whether it succeeded. */
    public boolean attempt(Attempt attempt) {
        try {
            attempt.run();
            return true;
        } catch (Failure e) {
            e.report();
            worst = worst == null || e.code().compareTo(worst) > 0 ? e.code() : worst;
            return false;
        }
    }

    /** Throws the worst of them. */
    public void end() throws Failure {
        if (worst != null) {
            throw Failure.told(worst);
        }
    }
}
