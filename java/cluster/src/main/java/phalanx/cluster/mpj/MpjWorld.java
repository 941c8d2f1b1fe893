package phalanx.cluster.mpj;

import mpi.MPI;
import mpi.MPIException;
import phalanx.cluster.World;

/** The ranks of a job of MPJ Express. */
public final class MpjWorld implements World {
    private final int rank = MPI.COMM_WORLD.Rank();
    private final int size = MPI.COMM_WORLD.Size();

    /**
     * The ranks of this job, after {@code MPI.Init}.
     *
     * @throws MPIException if there are none
     */
    public MpjWorld() throws MPIException {}

    @Override
    public int rank() {
        return rank;
    }

    @Override
    public int size() {
        return size;
    }

    @Override
    public byte[] broadcast(byte[] message) {
        int[] length = {rank == 0 ? message.length : 0};
        MPI.COMM_WORLD.Bcast(length, 0, 1, MPI.INT, 0);
        byte[] bytes = rank == 0 ? message : new byte[length[0]];
        if (length[0] > 0) {
            MPI.COMM_WORLD.Bcast(bytes, 0, length[0], MPI.BYTE, 0);
        }
        return bytes;
    }

    @Override
    public long largest(long mine) {
        long[] all = new long[1];
        MPI.COMM_WORLD.Allreduce(new long[] {mine}, 0, all, 0, 1, MPI.LONG, MPI.MAX);
        return all[0];
    }
}
