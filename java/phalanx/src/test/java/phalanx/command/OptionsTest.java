package phalanx.command;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import phalanx.Needs;

/** What only the program in Rust has is named as such. */
class OptionsTest {
    private static final Pattern OPTION = Pattern.compile("(?m)^ +(?:(-[a-zA-Z]), )?(--[a-z-]+)");
    private static final Pattern COMMAND = Pattern.compile("(?m)^  ([a-z]+) {2,}[A-Z]");

    @TempDir
    Path folder;

    private static String refused(String command, String option) {
        return assertThrows(Failure.class, () -> Options.parse(command, List.of("f.phx", option)), option).getMessage();
    }

    @Test
    void anOptionOfTheOtherProgramIsNamed() {
        for (String option : List.of("--sign", "--json", "--paranoid", "--password-command", "--endpoint-url")) {
            assertEquals("this program has no option " + option + ": the program phalanx has it", refused("protect", option));
        }
        assertEquals("this program has no command mirror: the program phalanx has it", refused("mirror", "-v"));
        assertTrue(refused("protect", "--nonsense").startsWith("unknown option --nonsense"));
    }

    /** Options that another command of ours has are left out: their names are known. */
    @Test
    void allThatTheOtherProgramHasIsKnown() throws IOException, InterruptedException {
        String program = Needs.phalanx().toString();
        int options = 0;
        for (String command : Options.commands()) {
            var found = OPTION.matcher(Needs.run(folder, List.of(program, command, "--help")).ok().out());
            while (found.find()) {
                options++;
                if (Options.isOurs(found.group(2))) {
                    continue;
                }
                for (String name : found.group(1) == null ? List.of(found.group(2)) : List.of(found.group(1), found.group(2))) {
                    assertTrue(refused(command, name).startsWith("this program has no option"), command + " " + name);
                }
            }
        }
        assertTrue(options > 50, options + " options");
        var found = COMMAND.matcher(Needs.run(folder, List.of(program, "--help")).ok().out());
        int commands = 0;
        while (found.find()) {
            String command = found.group(1);
            commands++;
            if (!Options.commands().contains(command) && !List.of("help", "version").contains(command)) {
                assertTrue(refused(command, "f").startsWith("this program has no command"), command);
            }
        }
        assertTrue(commands > 10, commands + " commands");
    }
}
