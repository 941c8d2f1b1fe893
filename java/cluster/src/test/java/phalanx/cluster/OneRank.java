package phalanx.cluster;

/** Runs a command in this process, as the only rank. */
final class OneRank {
    private OneRank() {}

    /** Ends with the command's exit code. */
    public static void main(String[] args) {
        World alone = new World() {
            @Override
            public int rank() {
                return 0;
            }

            @Override
            public int size() {
                return 1;
            }

            @Override
            public byte[] broadcast(byte[] message) {
                return message;
            }

            @Override
            public long largest(long mine) {
                return mine;
            }
        };
        System.exit(new Command(alone, System.out, System.err).run(args));
    }
}
