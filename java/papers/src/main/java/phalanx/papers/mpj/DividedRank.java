package phalanx.papers.mpj;

import mpi.MPI;
import phalanx.cluster.Parent;
import phalanx.cluster.mpj.MpjWorld;
import phalanx.papers.Divided;

/** {@link Divided}, as one rank of a job of MPJ Express. */
public final class DividedRank {
    private DividedRank() {}

    /**
     * Measures.
     *
     * @param args the arguments of MPJ Express, then those of {@link Divided}
     */
    public static void main(String[] args) {
        Parent.watch();
        try {
            String[] own = MPI.Init(args);
            new Divided(own).run(new MpjWorld());
            MPI.Finalize();
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);
        }
    }
}
