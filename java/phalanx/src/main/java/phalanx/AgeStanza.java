package phalanx;

import java.util.List;

/**
 * One recipient's part of the header of an age file.
 *
 * @param arguments its type, and what follows it on the first line
 * @param body the decoded body
 */
record AgeStanza(List<String> arguments, byte[] body) {
    String type() {
        return arguments.get(0);
    }
}
