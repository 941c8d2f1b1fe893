package phalanx.cluster.mpj;

import mpi.MPI;
import phalanx.cluster.Command;
import phalanx.cluster.Parent;
import phalanx.command.Text;

/** One rank of the command, as {@code mpjrun} and the launcher start it. */
public final class Rank {
    private Rank() {}

    /**
     * Runs it. A rank that fails alone ends its process, and so that of all ranks where they share one; the launcher ends
     * those of the others.
     *
     * @param args those of MPJ Express, then those of the command
     */
    public static void main(String[] args) {
        Parent.watch();
        int code;
        try {
            String[] own = MPI.Init(args);
            code = new Command(new MpjWorld(), System.out, System.err).run(own);
            MPI.Finalize();
        } catch (Throwable e) {
            System.err.println("phalanx-cluster: a rank failed: " + Text.oneLine(e.toString()));
            code = 1;
        }
        if (code != 0) {
            System.exit(code);
        }
    }
}
