package phalanx;

import java.util.List;

/**
 * What a check of a tree has found.
 *
 * @param manifest the head of the manifest
 * @param digest the digest of the manifest in hexadecimal digits. With the generation it stands for the whole tree:
 *     somebody who keeps both notices an older tree
 * @param entries how many entries the manifest lists, the root included
 * @param findings what is not as the manifest says, in the order of the manifest
 */
public record TreeReport(Manifest.Head manifest, String digest, long entries, List<Finding> findings) {
    /**
     * Makes a report.
     *
     * @param manifest the head of the manifest
     * @param digest the digest of the manifest
     * @param entries how many entries the manifest lists
     * @param findings what is not as the manifest says
     */
    public TreeReport {
        findings = List.copyOf(findings);
    }

    /**
     * Whether everything is as the manifest says.
     *
     * @return whether there are no findings
     */
    public boolean isWhole() {
        return findings.isEmpty();
    }

    /** What can be wrong with an entry. */
    public enum Fault {
        /** The manifest lists it, and it is not there. */
        MISSING,
        /** It is there, and the manifest does not list it. */
        ADDITIONAL,
        /** Something else is in its place: another kind of entry, another target, or a file with other contents. */
        EXCHANGED,
        /** The file in its place is not a whole, authentic file for the keys at hand. */
        DAMAGED,
    }

    /**
     * An entry that is not as the manifest says.
     *
     * @param fault what is wrong
     * @param path its stored path in the tree, with {@code /} between the parts
     * @param why why the file does not open, if it is damaged; otherwise empty
     */
    public record Finding(Fault fault, String path, String why) {}
}
