package phalanx.command;

/** The command. */
public final class Main {
    private Main() {}

    /**
     * Runs the command.
     *
     * @param args its arguments
     */
    public static void main(String[] args) {
        System.out.println("phalanx " + Main.class.getPackage().getImplementationVersion());
    }
}
