package phalanx.cluster.mpj;

import mpi.MPI;
import phalanx.cluster.Command;
import phalanx.cluster.Parent;
import phalanx.command.Text;

/** One rank of the command, started by {@code mpjrun} or the launcher. */
public final class Rank {
    private Rank() {}

    /**
     * Runs the command. A rank that fails alone ends its process, which all ranks may share. The launcher ends the
     * processes of the others.
     *
     * @param args the arguments of MPJ Express, then those of the command
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
