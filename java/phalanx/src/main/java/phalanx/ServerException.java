package phalanx;

import java.util.List;
import java.util.stream.IntStream;

/** A server refuses a request, or some of its records, or does not answer as it should. */
public final class ServerException extends PhalanxException {
    private static final long serialVersionUID = 1L;

    /** The status of HTTP, or 0. */
    private final int status;

    /** The records that were refused. */
    private final int[] failed;

    /** What became of the records. */
    private final transient List<ServerResult> results;

    private ServerException(String message, int status, int[] failed, List<ServerResult> results) {
        super(message);
        this.status = status;
        this.failed = failed;
        this.results = List.copyOf(results);
    }

    /** A failure of the whole request, after some results. A status of 0 is that of no answer. */
    static ServerException request(String reason, int status, List<ServerResult> results) {
        String message = status == 0 ? reason : reason + " (status " + status + ")";
        return new ServerException(message, status, failed(results), results);
    }

    /** Some of the records were refused. */
    static ServerException records(List<ServerResult> results) {
        int[] failed = failed(results);
        ServerResult first = results.get(failed[0]);
        String message = "the server refuses " + failed.length + " of " + results.size() + " records (record " + failed[0]
                + ": " + first.reason() + ", status " + first.status() + ")";
        return new ServerException(message, first.status(), failed, results);
    }

    private static int[] failed(List<ServerResult> results) {
        return IntStream.range(0, results.size())
                .filter(i -> !results.get(i).isDone())
                .toArray();
    }

    /**
     * The status of HTTP.
     *
     * @return that of the request, or of the first record that was refused; 0 if there was no whole answer
     */
    public int status() {
        return status;
    }

    /**
     * The records that were refused.
     *
     * @return their indices in the request, in ascending order
     */
    public int[] failed() {
        return failed.clone();
    }

    /**
     * What became of the records.
     *
     * @return the results in the order of the records; fewer than there are records if the request failed as a whole
     */
    public List<ServerResult> results() {
        return results == null ? List.of() : results;
    }
}
