package phalanx.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import phalanx.Excludes;
import phalanx.RawName;
import phalanx.SourceTree;
import phalanx.TreeEntry;
import phalanx.TreeNode;

/**
 * Compares a source with the manifest and the mirror of the last run: what is to be done with each entry. The rules are those of
 * {@code phalanx mirror}. No content is read.
 */
final class TreeComparison {
    /** What is to be done with an entry. */
    enum State {
        NEW("new"),
        CHANGED("changed"),
        MOVED("moved"),
        METADATA("permissions");

        /** The word for it in messages. */
        final String word;

        State(String word) {
            this.word = word;
        }
    }

    /**
     * An entry that is to be worked on.
     *
     * @param path its path in the source
     * @param node the entry in the next manifest
     * @param old what the old manifest lists in its place, or null
     * @param folder the folder that it is in, in the next manifest
     */
    record Task(State state, String path, TreeNode node, TreeNode old, TreeNode folder) {}

    /**
     * An entry of the old manifest that the source has no more, or something in the mirror that no manifest lists.
     *
     * @param path its path in the source or, if no manifest lists it, in the mirror
     * @param node the entry
     * @param folder the folder that it is in, in the next manifest; null if it is not listed
     */
    record Gone(String path, TreeNode node, TreeNode folder) {
        boolean isFolder() {
            return node.isFolder();
        }
    }

    /** Where an entry is kept that is the source of a move. */
    record Move(Task task, Gone from) {}

    /** What stays in the mirror, at this path in it, although another entry of the source has its place: that one is not written. */
    record Occupied(String stored, String why, String hint) {}

    /**
     * How entries are compared.
     *
     * @param makesWay whether what is gone is deleted where another entry takes its place
     */
    record Rules(Excludes excludes, boolean makesWay, boolean deletesExcluded, boolean all, boolean hasLinks, boolean isStore) {}

    private final Rules rules;
    private final Journal journal;
    private final TreeRoot.Problems problems;

    /** What the next manifest lists. */
    TreeNode next;
    /** Files that are to be written or get other permissions, and links. */
    final List<Task> tasks = new ArrayList<>();
    /** Folders that are to be made, or get other permissions. Those above come first. */
    final List<Task> folders = new ArrayList<>();
    final List<Move> moves = new ArrayList<>();
    /** What the source has no more. What is in a folder comes before it. */
    final List<Gone> gone = new ArrayList<>();
    /** What has to go before something of another kind can be written in its place. */
    final List<Gone> inTheWay = new ArrayList<>();
    final List<Occupied> occupied = new ArrayList<>();
    /** What no manifest lists. */
    final List<Gone> strays = new ArrayList<>();
    /** The number of files and links that the old manifest lists, of those that need nothing, and of those that stay whatever the source has. */
    long filesBefore;
    long unchanged;
    /** Whether the source has something that the old manifest lists, other than a folder. */
    boolean isFound;

    private TreeComparison(Rules rules, Journal journal, TreeRoot.Problems problems) {
        this.rules = rules;
        this.journal = journal;
        this.problems = problems;
    }

    /**
     * Compares all entries.
     *
     * @param source what is at the source
     * @param old what the old manifest lists, or null
     * @param there what is in the mirror, or null
     */
    static TreeComparison of(TreeNode source, TreeNode old, TreeNode there, Rules rules, Journal journal, TreeRoot.Problems problems) {
        TreeComparison comparison = new TreeComparison(rules, journal, problems);
        comparison.next = new TreeNode(source.entry());
        boolean isSame = old != null && old.entry().equals(source.entry());
        if (!isSame) {
            comparison.folders.add(new Task(there == null ? State.NEW : State.METADATA, "", comparison.next, old, null));
        }
        comparison.folder(source, old, there, "", comparison.next);
        comparison.findMoves();
        return comparison;
    }

    private static TreeNode child(TreeNode folder, RawName name) {
        return folder == null ? null : folder.children().get(name);
    }

    /** The name in the mirror. */
    static RawName stored(TreeNode node, RawName name) {
        return node.entry() instanceof TreeEntry.File ? name.with(".phx") : name;
    }

    private static boolean isSameKind(TreeNode one, TreeNode other) {
        return one.entry() != null && other.entry() != null && one.entry().getClass() == other.entry().getClass();
    }

    private void folder(TreeNode source, TreeNode old, TreeNode there, String path, TreeNode into) {
        SortedMap<RawName, TreeNode> listed = old == null ? new TreeMap<>() : old.children();
        Set<RawName> belonging = new HashSet<>();
        Set<RawName> refused = refused(source, listed, there, path);
        TreeSet<RawName> names = new TreeSet<>(source.children().keySet());
        names.addAll(listed.keySet());
        for (RawName name : names) {
            TreeNode now = source.children().get(name);
            TreeNode before = listed.get(name);
            String at = path + name;
            if (now == null) {
                gone(source, before, name, there, at, into, belonging, refused);
            } else if (now.entry() == null || refused.contains(name)) {
                if (before != null) {
                    isFound |= now.entry() == null || isSameKind(now, before) && !before.isFolder();
                    add(before, name, there, at, into, belonging, null);
                }
            } else if (before == null || isSameKind(now, before)) {
                belonging.add(stored(now, name));
                entry(now, before, there, name, at, into);
            } else {
                belonging.add(stored(before, name));
                belonging.add(stored(now, name));
                collect(before, at, child(there, stored(before, name)), inTheWay);
                countFiles(before);
                entry(now, null, null, name, at, into);
            }
        }
        findStrays(there, path, belonging);
    }

    /** The entries of a folder of the source that are not written: they would have the places of others, or of what stays in the mirror. */
    private Set<RawName> refused(TreeNode source, SortedMap<RawName, TreeNode> listed, TreeNode there, String path) {
        Set<RawName> refused = new HashSet<>();
        source.children().forEach((name, now) -> {
            if (now.entry() != null && isRival(source, now, name, path.isEmpty())) {
                problems.leftOut(path + name, new IOException("its name in the mirror would be that of another entry: left out"));
                refused.add(name);
            }
        });
        // What is refused leaves what it was before in the mirror, which may be in the place of one more.
        int size;
        do {
            size = refused.size();
            listed.forEach((name, before) -> refuseTakers(source, before, name, there, path, refused));
        } while (refused.size() > size);
        return refused;
    }

    /** Refuses the entries that would take the place of an entry of the old manifest, if that stays. */
    private void refuseTakers(TreeNode source, TreeNode before, RawName name, TreeNode there, String path, Set<RawName> refused) {
        TreeNode now = source.children().get(name);
        List<RawName> takers = new ArrayList<>();
        if (now != null && now.entry() != null && !isSameKind(now, before)) {
            takers.add(name);
        }
        RawName rival = rival(source, before, name);
        if (rival != null) {
            takers.add(rival);
        }
        if (refused.containsAll(takers)) {
            return;
        }
        RawName stored = stored(before, name);
        String why = "something of it is left out, and another entry takes its place";
        String hint;
        if (hasLeftOut(before, path + name, child(there, stored))) {
            hint = "--delete --delete-excluded removes it";
        } else if (now != null && (now.entry() == null || refused.contains(name))) {
            hint = null;
        } else if (!rules.makesWay && (before.isFolder() || now == null)) {
            // A file or link of the same name is replaced, as if it had changed.
            why = before.isFolder()
                    ? "it was a folder, and is none at the source any more"
                    : "it is gone at the source, and another entry takes its place";
            hint = "--delete removes it, if nothing else fails";
        } else {
            return;
        }
        occupied.add(new Occupied(path + stored, why, hint));
        refused.addAll(takers);
    }

    /** The entry of the source, of another kind and name, whose place in the mirror is that of an old entry; or null. */
    private static RawName rival(TreeNode source, TreeNode before, RawName name) {
        RawName stored = stored(before, name);
        boolean isFile = before.entry() instanceof TreeEntry.File;
        TreeNode rival = isFile ? source.children().get(stored) : ownerOf(source, stored);
        boolean isOne = rival != null && rival.entry() != null && isFile != (rival.entry() instanceof TreeEntry.File);
        return isOne ? rival.entry().name() : null;
    }

    /** Whether the rules leave out an entry of the old manifest that is not to be deleted for that. */
    private boolean isLeftOut(String at, boolean isFolder) {
        return !rules.deletesExcluded && rules.excludes.excludes(RawName.of(at), isFolder);
    }

    /** Whether the mirror has something of an old entry that the rules leave out. */
    private boolean hasLeftOut(TreeNode before, String at, TreeNode found) {
        if (found == null && !needsNothing(before)) {
            return false;
        }
        return isLeftOut(at, before.isFolder()) || before.children().entrySet().stream().anyMatch(child -> {
            TreeNode within = child(found, stored(child.getValue(), child.getKey()));
            return hasLeftOut(child.getValue(), at + "/" + child.getKey(), within);
        });
    }

    /** Whether a folder or link has the name of the stored file of another entry, or of the manifest. */
    private static boolean isRival(TreeNode folder, TreeNode now, RawName name, boolean isRoot) {
        if (now.entry() instanceof TreeEntry.File) {
            return SourceTree.isTemporary(name.with(".phx"));
        }
        return isRoot && StoredManifest.isOf(name.toString()) || ownerOf(folder, name) != null;
    }

    /** The file whose stored file has this name, or null. */
    private static TreeNode ownerOf(TreeNode folder, RawName stored) {
        String text = stored.toString();
        if (!text.endsWith(".phx") || text.length() == ".phx".length()) {
            return null;
        }
        TreeNode owner = folder.children().get(RawName.of(text.substring(0, text.length() - ".phx".length())));
        return owner != null && owner.entry() instanceof TreeEntry.File ? owner : null;
    }

    private void entry(TreeNode now, TreeNode before, TreeNode there, RawName name, String at, TreeNode into) {
        TreeNode stored = child(there, stored(now, name));
        TreeNode node = new TreeNode(now.entry());
        into.children().put(name, node);
        filesBefore += before != null && !before.isFolder() ? 1 : 0;
        isFound |= before != null && !before.isFolder();
        if (now.entry() instanceof TreeEntry.Folder) {
            boolean isThere = rules.isStore || stored != null && stored.isFolder();
            boolean isSame = before != null && before.entry().equals(now.entry());
            if (!isThere || !isSame) {
                folders.add(new Task(isThere ? State.METADATA : State.NEW, at, node, before, into));
            }
            folder(now, before, isThere ? stored : null, at + "/", node);
        } else if (now.entry() instanceof TreeEntry.Link link) {
            link(link, before, stored, at, node, into);
        } else {
            file((TreeEntry.File) now.entry(), before, stored, at, node, into);
        }
    }

    private void link(TreeEntry.Link now, TreeNode before, TreeNode stored, String at, TreeNode node, TreeNode into) {
        TreeEntry.Link listed = before == null ? null : (TreeEntry.Link) before.entry();
        boolean isThere = !rules.hasLinks || stored != null && stored.entry() instanceof TreeEntry.Link link && link.target().equals(now.target());
        if (listed != null && isThere && listed.target().equals(now.target())) {
            node.set(listed);
            unchanged++;
        } else {
            boolean isNew = listed == null || stored == null;
            tasks.add(new Task(isNew ? State.NEW : State.CHANGED, at, node, before, into));
        }
    }

    private void file(TreeEntry.File now, TreeNode before, TreeNode stored, String at, TreeNode node, TreeNode into) {
        TreeEntry.File listed = before == null ? null : (TreeEntry.File) before.entry();
        long storedLength = stored != null && stored.entry() instanceof TreeEntry.File file ? file.length() : -1;
        TreeEntry.File written = written(now, at, storedLength);
        boolean isSame = listed != null && isOf(listed, now) && listed.storedLength() == storedLength;
        boolean isOther = written == null ? journal.isInDoubt(at) : listed != null && !written.contents().equals(listed.contents());
        if (isSame && !isOther && !rules.all) {
            if (listed.attributes().equals(now.attributes())) {
                node.set(listed);
                unchanged++;
            } else {
                node.set(now(listed, now));
                tasks.add(new Task(isReplaced(listed, now) ? State.CHANGED : State.METADATA, at, node, before, into));
            }
        } else if (written != null) {
            node.set(now(written, now));
            tasks.add(new Task(State.METADATA, at, node, before, into));
        } else {
            boolean isNew = listed == null || storedLength < 0;
            tasks.add(new Task(isNew ? State.NEW : State.CHANGED, at, node, before, into));
        }
    }

    /** What an earlier run, which did not come to its manifest, has written of a file as it is now; or null. */
    private TreeEntry.File written(TreeEntry.File now, String at, long storedLength) {
        TreeEntry.File written = journal.written(at);
        return written != null && isOf(written, now) && written.storedLength() == storedLength ? written : null;
    }

    /** Whether a file has the length and the time that are listed. */
    private static boolean isOf(TreeEntry.File listed, TreeEntry.File now) {
        return listed.length() == now.length()
                && listed.attributes().seconds() == now.attributes().seconds()
                && listed.attributes().nanoseconds() == now.attributes().nanoseconds();
    }

    /** Whether another file has the name by now, as far as its file system tells. */
    private static boolean isReplaced(TreeEntry.File listed, TreeEntry.File now) {
        return listed.device() == now.device() && listed.inode() != 0 && now.inode() != 0 && listed.inode() != now.inode();
    }

    /** The content that is listed, of a file as it is now. */
    static TreeEntry.File now(TreeEntry.File listed, TreeEntry.File now) {
        return new TreeEntry.File(
                now.name(), now.attributes(), listed.length(), listed.storedLength(), now.device(), now.inode(), listed.contents());
    }

    /** An entry that the source has no more. */
    private void gone(
            TreeNode source, TreeNode before, RawName name, TreeNode there, String at, TreeNode into, Set<RawName> belonging,
            Set<RawName> refused) {
        RawName rival = rival(source, before, name);
        if (rival != null && !refused.contains(rival)) {
            RawName stored = stored(before, name);
            belonging.add(stored);
            collect(before, at, child(there, stored), inTheWay);
            countFiles(before);
            return;
        }
        add(before, name, there, at, into, belonging, gone);
    }

    private void countFiles(TreeNode node) {
        filesBefore += node.isFolder() ? 0 : 1;
        node.children().values().forEach(this::countFiles);
    }

    /**
     * Notes an entry of the old manifest and all in it, as far as the mirror has it: where a link lies in the place of a folder, what it leads
     * to is not the mirror's.
     */
    private void collect(TreeNode node, String at, TreeNode found, List<Gone> into) {
        node.children().forEach((name, child) -> {
            TreeNode within = child(found, stored(child, name));
            if (name.isText() && (within != null || needsNothing(child))) {
                collect(child, at + "/" + name, within, into);
            }
        });
        into.add(new Gone(at, node, null));
    }

    /** Whether nothing but the manifest has the entry. */
    private boolean needsNothing(TreeNode node) {
        return node.isFolder() && rules.isStore || node.entry() instanceof TreeEntry.Link && !rules.hasLinks;
    }

    /**
     * Lists an entry of the old manifest again, with all in it. What the mirror does not have any more is not listed. What the rules
     * leave out stays, with the folders that it is in.
     *
     * @param away where it is noted as gone, or null if it stays
     * @return whether something of it stays
     */
    private boolean add(TreeNode before, RawName name, TreeNode there, String at, TreeNode into, Set<RawName> belonging, List<Gone> away) {
        RawName stored = stored(before, name);
        belonging.add(stored);
        filesBefore += before.isFolder() ? 0 : 1;
        TreeNode found = child(there, stored);
        if (found == null && !needsNothing(before)) {
            return false;
        }
        // Hadoop's paths are text, and cannot name others.
        List<Gone> noted = name.isText() && !isLeftOut(at, before.isFolder()) ? away : null;
        TreeNode node = new TreeNode(before.entry());
        into.children().put(name, node);
        Set<RawName> within = new HashSet<>();
        boolean stays = noted == null;
        for (Map.Entry<RawName, TreeNode> child : before.children().entrySet()) {
            stays |= add(child.getValue(), child.getKey(), found, at + "/" + child.getKey(), node, within, noted);
        }
        // What no manifest lists stays too where everything does.
        if (before.isFolder() && noted != null) {
            findStrays(found, at + "/", within);
        }
        if (!stays) {
            noted.add(new Gone(at, node, into));
        } else if (!before.isFolder()) {
            unchanged++;
        }
        return stays;
    }

    /** What lies in the mirror of a folder and belongs to no entry. */
    private void findStrays(TreeNode there, String path, Set<RawName> belonging) {
        if (there == null) {
            return;
        }
        there.children().forEach((name, node) -> {
            boolean isKnown = belonging.contains(name) || SourceTree.isTemporary(name)
                    || path.isEmpty() && StoredManifest.isOf(name.toString());
            if (!isKnown && !isLeftOutStray(path, name, node)) {
                strays.add(new Gone(path + name, node, null));
            }
        });
    }

    /** Whether the rules leave out what a stray would be unprotected to. */
    boolean isLeftOutStray(String path, RawName name, TreeNode node) {
        if (node.isFolder() || node.entry() instanceof TreeEntry.Link) {
            return isLeftOut(path + name, node.isFolder());
        }
        String text = name.toString();
        boolean isStored = text.endsWith(".phx") && text.length() > ".phx".length();
        return isStored && isLeftOut(path + text.substring(0, text.length() - ".phx".length()), false);
    }

    private record Identity(long device, long inode, long length, long seconds, int nanoseconds) {
        static Identity of(TreeEntry.File file) {
            TreeEntry.Attributes attributes = file.attributes();
            return new Identity(file.device(), file.inode(), file.length(), attributes.seconds(), attributes.nanoseconds());
        }
    }

    /** Finds new files that are files gone elsewhere: the same device, number, length and time. */
    private void findMoves() {
        if (rules.isStore) {
            return;
        }
        Map<Identity, Gone> left = new HashMap<>();
        for (Gone each : gone) {
            if (each.node.entry() instanceof TreeEntry.File file && file.inode() != 0) {
                left.put(Identity.of(file), each);
            }
        }
        for (int i = 0; i < tasks.size() && !left.isEmpty(); i++) {
            Task task = tasks.get(i);
            if (task.state == State.NEW && task.node.entry() instanceof TreeEntry.File file && file.inode() != 0) {
                Gone from = left.remove(Identity.of(file));
                if (from != null) {
                    Task moved = new Task(State.MOVED, task.path, task.node, task.old, task.folder);
                    tasks.set(i, moved);
                    moves.add(new Move(moved, from));
                }
            }
        }
    }

    /** Whether two trees list the same. */
    static boolean isSame(TreeNode one, TreeNode other) {
        if (other == null || !one.entry().equals(other.entry()) || !one.children().keySet().equals(other.children().keySet())) {
            return false;
        }
        return one.children().entrySet().stream().allMatch(child -> isSame(child.getValue(), other.children().get(child.getKey())));
    }
}
