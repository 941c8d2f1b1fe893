package phalanx.cluster;

/**
 * The ranks of one job, from the view of one of them. Every rank calls the same methods in the same order; each call
 * returns when all ranks have called it.
 */
public interface World {
    /**
     * The number of this rank.
     *
     * @return 0 … {@link #size()} − 1
     */
    int rank();

    /**
     * The number of ranks.
     *
     * @return at least 1
     */
    int size();

    /**
     * Sends the bytes of rank 0 to all ranks.
     *
     * @param message the bytes on rank 0; ignored on the others
     * @return the bytes of rank 0, on every rank
     */
    byte[] broadcast(byte[] message);

    /**
     * The largest number of all ranks.
     *
     * @param mine the number of this rank
     * @return the largest one
     */
    long largest(long mine);

    /** Waits for all ranks. */
    default void barrier() {
        largest(0);
    }

    /**
     * The only rank of a job.
     *
     * @return a world of one rank
     */
    static World alone() {
        return new World() {
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
    }
}
