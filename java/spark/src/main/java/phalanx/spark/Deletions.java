package phalanx.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import phalanx.OutputException;
import phalanx.RawName;
import phalanx.TreeEntry;
import phalanx.TreeNode;
import phalanx.command.Failure;
import phalanx.command.Terminal;
import phalanx.command.Text;
import phalanx.spark.TreeComparison.Gone;

/** What a run deletes in a mirror, and what it refuses to delete. The rules are those of {@code phalanx mirror}. */
final class Deletions {
    /** A run that would delete more files than this, and more than half of them, is refused. */
    private static final long MANY = 100;
    /** So many entries without an input are named. */
    private static final int NAMED = 10;

    /** The config of a volume. */
    private static final String VOLUME = "phalanx.volume";

    private final Plan plan;
    private final Job job;
    private final TreeRoot source;
    private final TreeRoot mirror;
    private final TreeComparison compared;
    /** Whether the mirror has a manifest. */
    private final boolean hasManifest;
    /** Whether a run that was ended has left something. */
    private final boolean wentOn;

    Deletions(Plan plan, Job job, TreeRoot source, TreeRoot mirror, TreeComparison compared, boolean hasManifest, boolean wentOn) {
        this.plan = plan;
        this.job = job;
        this.source = source;
        this.mirror = mirror;
        this.compared = compared;
        this.hasManifest = hasManifest;
        this.wentOn = wentOn;
    }

    /** Refuses to replace what others have put there, and a run that would delete suspiciously much. */
    void refuse(TreeNode there) throws Failure {
        boolean hasObjects = mirror.isStore() && !hasManifest && !wentOn && there != null && count(there) > 0;
        if (plan.isMirror() && hasObjects && !plan.isNew()) {
            throw Failure.of(Failure.Code.INPUT_OUTPUT, Text.shown(mirror.shown("")) + ": it has objects already, and no manifest")
                    .hint("--new makes a mirror there, and replaces objects of the same names");
        }
        if (!plan.isMirror()) {
            return;
        }
        // Without --delete, what another kind of entry takes the place of is replaced.
        long listed = files(compared.inTheWay) + (plan.deletes() ? files(compared.gone) - compared.moves.size() : 0);
        long unlisted = plan.deletes() && hasManifest ? unlisted() : 0;
        long all = listed + unlisted;
        // A source whose disk is not mounted may have other files. What is left out stays, and says nothing.
        boolean isFound = compared.isFound || !compared.moves.isEmpty();
        String name = Text.shown(source.shown(""));
        OptionalLong most = plan.maxDelete();
        String line;
        if (most.isPresent() && Long.compareUnsigned(all, most.getAsLong()) > 0) {
            line = all + " files would be deleted, and --max-delete allows " + Long.toUnsignedString(most.getAsLong());
        } else if (most.isEmpty() && all > 0 && !isFound) {
            line = "it has none of the mirror's files, and all " + all + " would be deleted";
        } else if (most.isEmpty() && all > MANY && all * 2 > compared.filesBefore) {
            String more = unlisted > 0 ? ", and " + unlisted + " that no manifest lists" : "";
            line = listed + " of the mirror's " + compared.filesBefore + " files would be deleted" + more;
        } else {
            if (!plan.deletes() && compared.filesBefore > 0 && !isFound) {
                Terminal.complain("warning: " + name + ": it has none of the mirror's " + Text.count(compared.filesBefore, "file"));
            }
            return;
        }
        throw Failure.of(Failure.Code.INPUT_OUTPUT, name + ": " + line + ": nothing was done").hint("--max-delete " + all + " insists");
    }

    private static long files(List<Gone> all) {
        return all.stream().filter(each -> !each.isFolder()).count();
    }

    /** How many files and links are deleted of what no manifest lists. */
    private long unlisted() {
        return compared.strays.stream().mapToLong(stray -> files(found(stray).goes)).sum();
    }

    /** What of an entry that no manifest lists is deleted, a folder after what is in it, and whether something of it stays. */
    private record Found(List<Gone> goes, boolean stays) {}

    private Found found(Gone stray) {
        List<Gone> goes = new ArrayList<>();
        int slash = stray.path().lastIndexOf('/') + 1;
        boolean stays = !find(stray.path().substring(0, slash), RawName.of(stray.path().substring(slash)), stray.node(), goes);
        return new Found(goes, stays);
    }

    private static long count(TreeNode node) {
        return node.isFolder() ? node.children().values().stream().mapToLong(Deletions::count).sum() : node.entry() == null ? 0 : 1;
    }

    /** Says what would be deleted. */
    void print() throws Failure {
        for (Gone each : compared.inTheWay) {
            Terminal.say("deleted " + Text.shown(each.path()));
        }
        if (!plan.deletes()) {
            return;
        }
        Set<TreeNode> moved = java.util.Collections.newSetFromMap(new java.util.IdentityHashMap<>());
        compared.moves.forEach(move -> moved.add(move.from().node()));
        for (Gone each : compared.gone) {
            if (!moved.contains(each.node())) {
                Terminal.say("deleted " + Text.shown(each.path()));
            }
        }
        for (Gone stray : hasManifest ? compared.strays : List.<Gone>of()) {
            for (Gone each : found(stray).goes) {
                Terminal.say("deleted " + Text.shown(each.path()));
            }
        }
    }

    /** Deletes what has the name of an entry of another kind. Returns how many files and links that were. */
    long makeWay() {
        long deleted = 0;
        for (Gone each : compared.inTheWay) {
            if (delete(each, stored(each))) {
                deleted += each.isFolder() ? 0 : 1;
                say(each);
            }
        }
        return deleted;
    }

    private static String stored(Gone each) {
        return each.node().entry() instanceof TreeEntry.File ? each.path() + ".phx" : each.path();
    }

    /** Deletes an entry. Returns whether it is gone: a file in the place of a link, or a link in that of a file, is another entry. */
    private boolean delete(Gone each, String stored) {
        boolean isLink = each.node().entry() instanceof TreeEntry.Link;
        if (isLink && !mirror.hasLinks()) {
            // The manifest alone has it, and what has its name is something else.
            return true;
        }
        try {
            if (!each.isFolder() && mirror.isAnother(stored, isLink)) {
                Terminal.complain("warning: " + Text.shown(mirror.shown(stored)) + ": something else is in its place, and stays");
                return true;
            }
            return mirror.delete(stored, each.isFolder());
        } catch (IOException e) {
            job.fail(Hadoop.at(mirror.shown(stored), new OutputException(e)));
            return false;
        }
    }

    /** Deletes what is gone at the source, unless something has failed. Returns how many files and links that were. */
    long deleteIfAllIsWell(boolean isWell, Set<String> touched) {
        long deleted = 0;
        if (plan.deletes() && !isWell) {
            Terminal.complain("warning: something failed, so nothing more is deleted in the mirror");
        }
        boolean deletes = plan.deletes() && isWell;
        for (Gone each : deletes ? compared.gone : List.<Gone>of()) {
            boolean isListed = each.folder().children().get(each.node().entry().name()) == each.node();
            if (!isListed || !delete(each, stored(each))) {
                continue;
            }
            each.folder().children().remove(each.node().entry().name());
            touch(each.path(), touched);
            deleted += each.isFolder() ? 0 : 1;
            say(each);
        }
        boolean deletesStrays = deletes && hasManifest;
        int named = 0;
        long left = 0;
        for (Gone stray : compared.strays) {
            Found found = found(stray);
            boolean stays = !deletesStrays || found.stays;
            for (Gone each : deletesStrays ? found.goes : List.<Gone>of()) {
                if (!delete(each, each.path())) {
                    stays = true;
                    continue;
                }
                deleted += each.isFolder() ? 0 : 1;
                say(each);
            }
            if (!stays) {
                touch(stray.path(), touched);
            } else {
                left++;
                if (named++ < NAMED && !plan.isQuiet()) {
                    Terminal.complain(Text.shown(mirror.shown(stray.path())) + ": it has no input, and stays");
                }
            }
        }
        long unlisted = plan.deletes() && !hasManifest ? unlisted() : 0;
        if (unlisted > 0) {
            Terminal.complain("warning: " + Text.shown(mirror.shown("")) + ": the next run with --delete deletes "
                    + Text.count(unlisted, "file") + " that no manifest lists");
        }
        if (left > NAMED && !plan.isQuiet()) {
            Terminal.complain(Text.shown(mirror.shown("")) + ": " + (left - NAMED) + " more entries have no input, and stay");
        }
        return deleted;
    }

    private void say(Gone each) {
        if (plan.isVerbose() && !plan.isQuiet()) {
            try {
                Terminal.say("deleted " + Text.shown(each.path()));
            } catch (Failure e) {
                job.fail(e);
            }
        }
    }

    private static void touch(String path, Set<String> touched) {
        int slash = path.lastIndexOf('/');
        touched.add(slash < 0 ? "" : path.substring(0, slash));
    }

    /** Finds what is deleted: stored files, links, and folders of such, unless the rules leave it out. Returns whether that is all of it. */
    private boolean find(String folder, RawName name, TreeNode node, List<Gone> goes) {
        // Hadoop's paths are text, and cannot name others.
        if (!name.isText() || compared.isLeftOutStray(folder, name, node)) {
            return false;
        }
        String path = folder + name;
        if (!node.isFolder()) {
            boolean isStored = name.toString().endsWith(".phx") && name.toString().length() > ".phx".length();
            boolean isOurs = node.entry() instanceof TreeEntry.Link || node.entry() instanceof TreeEntry.File && isStored;
            return isOurs && goes.add(new Gone(path, node, null));
        }
        // A folder with a manifest of its own is another mirror, and one with a config is a volume.
        if (node.children().containsKey(RawName.of(StoredManifest.NAME)) || node.children().containsKey(RawName.of(VOLUME))) {
            return false;
        }
        boolean stays = false;
        for (var child : node.children().entrySet()) {
            stays |= !find(path + "/", child.getKey(), child.getValue(), goes);
        }
        boolean isNamed = !mirror.isStore();
        return !stays && (!isNamed || goes.add(new Gone(path, node, null)));
    }
}
