package phalanx.cluster;

/** Runs a command in this process, as the only rank. */
final class OneRank {
    private OneRank() {}

    /** Ends with the command's exit code. */
    public static void main(String[] args) {
        System.exit(new Command(World.alone(), System.out, System.err).run(args));
    }
}
