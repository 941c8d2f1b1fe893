package phalanx.cluster;

/** The process that has started this rank. */
public final class Parent {
    static final String PROPERTY = "phalanx.launcher";

    private Parent() {}

    /** Ends this process when the one that has started it is gone, so that no rank stays behind alone. */
    public static void watch() {
        Long id = Long.getLong(PROPERTY);
        if (id == null) {
            return;
        }
        ProcessHandle.of(id).ifPresentOrElse(
                parent -> parent.onExit().thenRun(() -> System.exit(1)),
                () -> System.exit(1));
    }
}
