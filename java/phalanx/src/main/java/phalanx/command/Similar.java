package phalanx.command;

import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/** Suggestions for misspelled words. */
final class Similar {
    private static final int FURTHEST = 3;

    private Similar() {}

    /** The known word that is nearest to a given one, if it is near. */
    static Optional<String> to(String word, List<String> known) {
        return known.stream()
                .filter(other -> distance(word, other) <= Math.min(FURTHEST, other.length() / 3))
                .min(Comparator.comparingInt(other -> distance(word, other)));
    }

    /** The least number of letters to add, to leave out or to change. */
    private static int distance(String a, String b) {
        int[] row = new int[b.length() + 1];
        for (int j = 0; j <= b.length(); j++) {
            row[j] = j;
        }
        for (int i = 1; i <= a.length(); i++) {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j <= b.length(); j++) {
                int change = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
                diagonal = row[j];
                row[j] = Math.min(change, 1 + Math.min(row[j], row[j - 1]));
            }
        }
        return row[b.length()];
    }
}
