package phalanx.command;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Runs the command lines of a file, one after another, and shows what each did. */
final class Lines {
    private Lines() {}

    /** Runs the lines of the file that is named by the only argument. */
    public static void main(String[] args) throws IOException {
        PrintStream out = System.out;
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            ByteArrayOutputStream complained = new ByteArrayOutputStream();
            System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
            int code = Main.run(List.of(line.split(" ")));
            out.print(shown(
                    line, code, said.toString(StandardCharsets.UTF_8), complained.toString(StandardCharsets.UTF_8)));
        }
        out.flush();
    }

    static String shown(String line, int code, String out, String err) {
        // The pages of help differ.
        String page = out.contains("Usage:") ? "(help)\n" : out;
        return "$ phalanx " + line + "\n" + page + err + "exit code " + code + "\n";
    }
}
