package phalanx.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import phalanx.PhalanxException;
import phalanx.RawName;
import phalanx.SourceTree;
import phalanx.TreeEntry;
import phalanx.TreeNode;
import phalanx.command.Failure;
import phalanx.command.Text;

/**
 * Compares a mirror with its manifest, and reads no content but the ends of files: what is missing, additional, exchanged, renamed or
 * another version. The rules and the words are those of {@code phalanx verify}.
 */
final class TreeCheck {
    /** An entry that is listed, or a stored file that is not. */
    private record Suspect(String path, String stored, TreeEntry.File listed) {}

    private final TreeRoot mirror;
    private final boolean readsEnds;
    /** What is wrong, by the path in the mirror. */
    private final Map<String, Failure> findings = new TreeMap<>();
    private final List<Suspect> suspects = new ArrayList<>();
    private final List<Suspect> missing = new ArrayList<>();
    /** What stored files hold that is not listed in their places. */
    private final Map<Suspect, LastChunk> strange = Collections.synchronizedMap(new IdentityHashMap<>());
    /** The files that are listed, and as far as was looked right. */
    private final Map<String, TreeEntry.File> right = new TreeMap<>();

    private TreeCheck(TreeRoot mirror, boolean readsEnds) {
        this.mirror = mirror;
        this.readsEnds = readsEnds;
    }

    /**
     * Compares all of it.
     *
     * @param isQuick whether no content is read afterwards
     */
    static TreeCheck of(TreeRoot mirror, TreeNode listed, TreeNode there, boolean isQuick, Job job) {
        TreeCheck check = new TreeCheck(mirror, isQuick || !mirror.isStore());
        check.folder(listed, there, "");
        job.together(List.copyOf(check.suspects), (number, suspect) -> check.read(suspect));
        check.nameStrange(listed);
        return check;
    }

    /** What is wrong, in the order of the paths. */
    List<Failure> findings() {
        return List.copyOf(findings.values());
    }

    /** The files that are right, by their paths in the source. */
    Map<String, TreeEntry.File> right() {
        return right;
    }

    private void find(String stored, String what) {
        findings.put(stored, Failure.of(Failure.Code.NOT_AUTHENTIC, Text.shown(mirror.shown(stored)) + ": " + what));
    }

    private void folder(TreeNode listed, TreeNode there, String path) {
        Set<RawName> belonging = new HashSet<>();
        listed.children().forEach((name, child) -> {
            RawName stored = TreeComparison.stored(child, name);
            belonging.add(stored);
            entry(child, there == null ? null : there.children().get(stored), path + name, path + stored);
        });
        if (there == null) {
            return;
        }
        there.children().forEach((name, node) -> {
            boolean isKnown = belonging.contains(name) || path.isEmpty() && StoredManifest.isOf(name.toString());
            if (isKnown || SourceTree.isTemporary(name)) {
                return;
            }
            if (mirror.isStore() && node.isFolder()) {
                // A folder is nothing but the names of objects.
                folder(new TreeNode(node.entry()), node, path + name + "/");
            } else if (node.entry() instanceof TreeEntry.File && name.toString().endsWith(".phx")) {
                suspects.add(new Suspect(null, path + name, null));
            } else {
                find(path + name, "additional: the manifest does not list it");
            }
        });
    }

    private void entry(TreeNode listed, TreeNode there, String path, String stored) {
        boolean isImplied = listed.isFolder() && mirror.isStore() || listed.entry() instanceof TreeEntry.Link && !mirror.hasLinks();
        if (there == null && !isImplied) {
            missing.add(new Suspect(path, stored, listed.entry() instanceof TreeEntry.File file ? file : null));
        } else if (there != null && (there.entry() == null || there.entry().getClass() != listed.entry().getClass())) {
            find(stored, "replaced: the manifest lists another kind of entry");
        } else if (listed.isFolder()) {
            folder(listed, there, path + "/");
        } else if (listed.entry() instanceof TreeEntry.File file) {
            file(file, (TreeEntry.File) there.entry(), path, stored);
        } else if (there != null && !((TreeEntry.Link) listed.entry()).target().equals(((TreeEntry.Link) there.entry()).target())) {
            find(stored, "another version: the manifest lists another target of the link");
        }
    }

    private void file(TreeEntry.File listed, TreeEntry.File there, String path, String stored) {
        if (readsEnds || there.length() != listed.storedLength()) {
            suspects.add(new Suspect(path, stored, listed));
        } else {
            right.put(path, listed);
        }
    }

    private void read(Suspect suspect) {
        LastChunk found;
        try {
            found = mirror.last(suspect.stored);
        } catch (FileNotFoundException e) {
            synchronized (missing) {
                missing.add(suspect);
            }
            return;
        } catch (IOException e) {
            synchronized (findings) {
                if (suspect.listed == null && e instanceof PhalanxException) {
                    find(suspect.stored, "additional: the manifest does not list it");
                } else {
                    findings.put(suspect.stored, Hadoop.at(mirror.shown(suspect.stored), e));
                }
            }
            return;
        }
        if (suspect.listed != null && found.equals(LastChunk.of(suspect.listed))) {
            synchronized (right) {
                right.put(suspect.path, suspect.listed);
            }
        } else {
            strange.put(suspect, found);
        }
    }

    /** Finds what stored files hold that are not in their places. */
    private void nameStrange(TreeNode root) {
        Map<String, String> owners = new HashMap<>();
        if (!strange.isEmpty()) {
            owners(root, "", owners);
        }
        Map<String, String> holds = new HashMap<>();
        strange.forEach((suspect, last) -> holds.put(suspect.stored, last.last()));
        Set<String> gone = new HashSet<>();
        missing.forEach(each -> gone.add(each.stored));
        Map<String, String> renamed = new HashMap<>();
        strange.forEach((suspect, last) -> {
            String owner = owners.get(last.last());
            String other = owner == null ? "" : Text.shown(mirror.shown(owner));
            if (suspect.listed == null) {
                find(suspect.stored, owner == null ? "additional: the manifest does not list it" : "additional: it has the content of " + other);
                if (owner != null && gone.contains(owner)) {
                    renamed.putIfAbsent(owner, suspect.stored);
                }
            } else if (owner == null) {
                find(suspect.stored, "another version: the manifest lists other content, so it is older, newer or foreign");
            } else if (owner.equals(suspect.stored)) {
                find(suspect.stored, "extended: its length is another");
            } else {
                boolean isExchanged = LastChunk.of(suspect.listed).last().equals(holds.get(owner));
                find(suspect.stored, (isExchanged ? "exchanged with " : "exchanged: it has the content of ") + other);
            }
        });
        for (Suspect each : missing) {
            String to = renamed.get(each.stored);
            find(each.stored, to == null ? "missing: the manifest lists it" : "missing: it was renamed to " + Text.shown(mirror.shown(to)));
        }
    }

    /** The stored files by their last chunks. */
    private static void owners(TreeNode folder, String path, Map<String, String> into) {
        folder.children().forEach((name, child) -> {
            if (child.entry() instanceof TreeEntry.File file) {
                into.put(LastChunk.of(file).last(), path + name + ".phx");
            }
            owners(child, path + name + "/", into);
        });
    }
}
