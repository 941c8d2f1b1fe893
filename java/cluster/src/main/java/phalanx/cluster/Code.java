package phalanx.cluster;

/** Exit codes, in ascending order of rank. If there are several, the highest counts. */
enum Code {
    DONE(0),
    OTHER(1),
    USAGE(2),
    INPUT_OUTPUT(4),
    NOT_AUTHENTIC(3);

    private final int number;

    Code(int number) {
        this.number = number;
    }

    int number() {
        return number;
    }
}
