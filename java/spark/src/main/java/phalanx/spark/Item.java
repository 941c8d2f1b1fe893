package phalanx.spark;

import java.io.IOException;
import java.io.Serializable;
import phalanx.Header;
import phalanx.Layout;
import phalanx.Suite;

/**
 * One file of a job, with all that executors need to do parts of it. There is no key in it: executors open the header with keys of
 * their own.
 *
 * @param number its number in the job
 * @param what what is done with it
 * @param name its name in messages
 * @param input its path
 * @param seen what the driver has seen of it
 * @param place where the output comes together, or null if there is none
 * @param suite the number of the suite, to protect
 * @param chunkLog2 the binary logarithm of the chunk size, to protect
 * @param header the header, or null if it is not divided: then the executor makes or reads it
 * @param parts how many parts it has
 * @param tracks whether the nonces and tags of its chunks are needed, because a manifest lists them
 */
record Item(
        int number, Plan.What what, String name, String input, Seen seen, Place place, int suite, int chunkLog2, byte[] header,
        int parts, boolean tracks) implements Serializable {

    boolean isDivided() {
        return header != null;
    }

    /** Where chunks lie in the protected file. */
    Layout layout(Header of) throws IOException {
        return what == Plan.What.PROTECT
                ? new Layout(Suite.of(suite).orElseThrow(), chunkLog2, of.length(), seen.length())
                : of.layout(seen.length());
    }
}
