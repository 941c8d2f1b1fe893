package phalanx.cluster;

/** The process that started this rank. */
public final class Parent {
    static final String PROPERTY = "phalanx.launcher";

    private Parent() {}

    /** Ends this process when its parent has ended, so that no rank is left alone. */
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
