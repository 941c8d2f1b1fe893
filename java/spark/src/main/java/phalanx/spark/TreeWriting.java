package phalanx.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import phalanx.Excludes;
import phalanx.Manifest;
import phalanx.OutputException;
import phalanx.Recipients;
import phalanx.TreeEntry;
import phalanx.TreeNode;
import phalanx.command.Failure;
import phalanx.command.Terminal;
import phalanx.command.Text;
import phalanx.hadoop.Keys;
import phalanx.spark.TreeComparison.Move;
import phalanx.spark.TreeComparison.State;
import phalanx.spark.TreeComparison.Task;

/**
 * On the driver: protects a folder, or makes or renews a mirror of it. The driver compares, makes folders and links, renames and deletes.
 * Executors write the files. The manifest is written last.
 */
final class TreeWriting {
    /** Names that are only given by Java programs, with a random part. */
    private static final Pattern UNFINISHED = Pattern.compile("\\.phalanx-[0-9a-f]{32}-[0-9a-f]{16}\\.tmp");

    private final Plan plan;
    private final Configuration conf;
    private final Job job;
    private final Keys keys;
    private final long begun = System.nanoTime();
    private final int failedBefore;
    private final long bytesBefore;

    private TreeRoot source;
    private TreeRoot mirror;
    private Journal journal;
    private Deletions deletions;
    private TreeComparison compared;
    /** The folders whose times the work has changed. */
    private final Set<String> touched = new HashSet<>();
    private final List<String> unfinished = new ArrayList<>();
    private int leftOut;

    TreeWriting(Plan plan, Configuration conf, Job job) {
        this.plan = plan;
        this.conf = conf;
        this.job = job;
        keys = Held.keys(conf);
        failedBefore = job.failed();
        bytesBefore = job.bytes();
    }

    /** Makes or renews a mirror. */
    void mirror() throws Failure {
        run(plan.paths().get(0), Inputs.path(plan.paths().get(0)), Inputs.path(plan.paths().get(1)), plan.excludes(), false);
    }

    /** Protects a folder. */
    void protect(Inputs.Folder folder) throws Failure {
        try {
            FileStatus there = TreeRoot.of(folder.output(), conf).status();
            if (there != null && !plan.replaces() && !plan.resumes()) {
                throw Failure.of(Failure.Code.INPUT_OUTPUT, Text.shown(Work.shown(folder.output())) + ": it is a folder already")
                        .hint("--force overwrites files in it and deletes nothing");
            }
        } catch (IOException e) {
            throw Hadoop.at(Work.shown(folder.output()), e);
        }
        run(folder.name(), folder.path(), folder.output(), Excludes.NONE, !plan.resumes());
    }

    private void run(String name, Path from, Path to, Excludes excludes, boolean all) throws Failure {
        TreeNode listed;
        TreeNode there;
        StoredManifest before;
        try {
            source = TreeRoot.of(from, conf);
            listed = source.list(excludes, this::leaveOut);
        } catch (IOException e) {
            throw Hadoop.at(name, e);
        }
        try {
            mirror = TreeRoot.of(to, conf);
            refusePlaces();
            before = StoredManifest.read(mirror, keys.provider());
            journal = Journal.of(mirror, keys.recipients(), keys.provider(), conf);
            there = mirror.status() == null ? null : listMirror();
        } catch (IOException e) {
            throw Hadoop.at(Work.shown(to), e);
        }
        compare(listed, before == null ? null : before.root(), there, excludes, all);
        deletions = new Deletions(plan, job, source, mirror, compared, before != null, journal.hasRecords());
        deletions.refuse(there);
        if (journal.hasRecords()) {
            findUnfinished(there, "");
        }
        if (plan.isDryRun()) {
            print();
            return;
        }
        try {
            write(before, excludes.text());
        } catch (IOException e) {
            throw Hadoop.at(Work.shown(to), e instanceof OutputException ? e : new OutputException(e));
        }
    }

    /** Compares, and reports what is refused. Once something has failed, nothing is deleted to make way: what would be is refused too. */
    private void compare(TreeNode listed, TreeNode before, TreeNode there, Excludes excludes, boolean all) {
        List<Failure> failures = new ArrayList<>();
        boolean makesWay = plan.deletes() && job.failed() == failedBefore;
        do {
            makesWay &= failures.isEmpty();
            failures.clear();
            var rules = new TreeComparison.Rules(
                    excludes, makesWay, plan.deletesExcluded(), all, mirror.hasLinks(), mirror.isStore());
            compared = TreeComparison.of(
                    listed, before, there, rules, journal, (path, why) -> failures.add(Hadoop.at(source.shown(path), why)));
            compared.occupied.forEach(each -> failures.add(
                    Failure.of(Failure.Code.INPUT_OUTPUT, Text.shown(mirror.shown(each.stored())) + ": " + each.why()).hint(each.hint())));
        } while (makesWay && !failures.isEmpty());
        failures.forEach(job::fail);
    }

    /** What is in the mirror. What cannot be listed would be taken for gone. */
    private TreeNode listMirror() throws IOException {
        List<IOException> problems = new ArrayList<>();
        TreeNode there = mirror.list(Excludes.NONE, (path, why) -> {
            if (why != null && !(why instanceof TreeRoot.NotText)) {
                problems.add(new IOException(path + ": " + why.getMessage(), why));
            }
        });
        if (!problems.isEmpty()) {
            throw problems.get(0);
        }
        return there;
    }

    /** Files that a killed run of Java programs has left. */
    private void findUnfinished(TreeNode folder, String path) {
        folder.children().forEach((name, node) -> {
            if (node.isFolder()) {
                findUnfinished(node, path + name + "/");
            } else if (UNFINISHED.matcher(name.toString()).matches()) {
                unfinished.add(path + name);
            }
        });
    }

    private void removeUnfinished() {
        for (String each : unfinished) {
            try {
                mirror.delete(each, false);
                touch(each);
            } catch (IOException e) {
                // It keeps its temporary name.
            }
        }
    }

    private void leaveOut(String path, IOException why) {
        if (why != null) {
            job.fail(Hadoop.at(source.shown(path), why));
        } else {
            leftOut++;
            Terminal.complain(Text.shown(source.shown(path)) + ": neither a file, a folder nor a link: left out");
        }
    }

    private void refusePlaces() throws IOException, Failure {
        FileStatus there = mirror.status();
        if (there != null && !there.isDirectory()) {
            throw Failure.of(Failure.Code.INPUT_OUTPUT, Text.shown(mirror.shown("")) + ": not a folder");
        }
        if (plan.isMirror() && StoredManifest.isIn(source)) {
            throw Failure.of(Failure.Code.INPUT_OUTPUT, Text.shown(source.shown("")) + ": it is a mirror itself")
                    .hint("unprotect --recursive restores it; as a part of a source it is protected once more");
        }
        if (mirror.isWithin(source)) {
            throw Failure.usage(Text.shown(mirror.shown("")) + ": the mirror is within the source");
        }
        if (source.isWithin(mirror)) {
            throw Failure.usage(Text.shown(mirror.shown("")) + ": the source is within the mirror");
        }
        if (!mirror.hasParent()) {
            throw new OutputException(new FileNotFoundException());
        }
    }

    /** Says what would be done. */
    private void print() throws Failure {
        for (Task task : compared.folders) {
            if (task.state() == State.NEW && !task.path().isEmpty()) {
                Terminal.say("new " + Text.shown(task.path()));
            }
        }
        for (Task task : compared.tasks) {
            Terminal.say(task.state().word + " " + Text.shown(task.path()));
        }
        deletions.print();
    }

    private void write(StoredManifest before, String excludes) throws IOException, Failure {
        Recipients recipients = keys.recipients();
        if (mirror.status() == null) {
            mirror.makeFolder("");
        }
        boolean wentOn = journal.hasRecords();
        List<String> intended = new ArrayList<>();
        compared.tasks.stream().filter(task -> task.node().entry() instanceof TreeEntry.File).forEach(task -> intended.add(task.path()));
        journal.begin(intended, recipients);
        long madeWay = deletions.makeWay();
        makeFolders();
        Map<State, Integer> counts = new TreeMap<>();
        move(counts);
        files(links(refresh(counts), counts), recipients, counts);
        long deleted = madeWay + deletions.deleteIfAllIsWell(job.failed() == failedBefore, touched);
        if (job.failed() == failedBefore) {
            // Nothing goes on with them any more.
            removeUnfinished();
        }
        settleFolders();
        boolean isSame = before != null && !wentOn && before.head().rules().equals(excludes)
                && TreeComparison.isSame(compared.next, before.root());
        String digest = before == null ? "" : before.digest();
        long generation = before == null ? 0 : before.head().generation();
        if (!isSame) {
            Manifest.Head head = before == null ? Manifest.Head.first(excludes) : before.head().next(before.digest(), 0, excludes);
            digest = StoredManifest.write(mirror, compared.next, head, recipients, plan, conf);
            generation = head.generation();
            settle("", compared.next.entry().attributes());
        }
        journal.end();
        summary(counts, deleted, generation, digest);
    }

    private void makeFolders() {
        Set<String> lost = new HashSet<>();
        for (Task task : compared.folders) {
            int slash = task.path().lastIndexOf('/');
            if (slash >= 0 && lost.contains(task.path().substring(0, slash))) {
                lost.add(task.path());
                continue;
            }
            touched.add(task.path());
            // What is in a folder that could not be made is not tried: something else is in its place.
            boolean isMade = task.state() != State.NEW || task.path().isEmpty() || attempt(task, () -> {
                touch(task.path());
                mirror.makeFolder(task.path());
            });
            if (!isMade) {
                lost.add(task.path());
                compared.tasks.removeIf(within -> within.path().startsWith(task.path() + "/"));
                compared.moves.removeIf(move -> move.task().path().startsWith(task.path() + "/"));
            }
        }
    }

    private interface Step {
        void run() throws IOException;
    }

    /** Does something with an entry. If it fails, that is reported, and the manifest lists what it has listed before. */
    private boolean attempt(Task task, Step step) {
        try {
            step.run();
            return true;
        } catch (IOException e) {
            giveUp(task);
            job.fail(Hadoop.at(mirror.shown(task.path()), e instanceof OutputException ? e : new OutputException(e)));
            return false;
        }
    }

    /** The manifest lists what it has listed before. */
    private static void giveUp(Task task) {
        if (task.folder() == null) {
            return;
        }
        // A folder that could not be made is not there, and nothing that was listed in it.
        if (task.old() == null || task.node().isFolder()) {
            task.folder().children().remove(task.node().entry().name());
        } else {
            task.node().set(task.old().entry());
        }
    }

    private void touch(String path) {
        int slash = path.lastIndexOf('/');
        touched.add(slash < 0 ? "" : path.substring(0, slash));
    }

    private static String stored(String path) {
        return path + ".phx";
    }

    /** Renames stored files. One that is not what the manifest lists is left, and the right content written. */
    private void move(Map<State, Integer> counts) {
        for (Move move : compared.moves) {
            Task task = move.task();
            TreeEntry.File listed = (TreeEntry.File) move.from().node().entry();
            try {
                String from = stored(move.from().path());
                if (mirror.last(from).equals(LastChunk.of(listed)) && mirror.rename(from, stored(task.path()))) {
                    touch(task.path());
                    touch(move.from().path());
                    move.from().folder().children().remove(listed.name());
                    task.node().set(TreeComparison.now(listed, (TreeEntry.File) task.node().entry()));
                    settle(stored(task.path()), task.node().entry().attributes());
                    done(task, State.MOVED, counts);
                }
            } catch (IOException e) {
                // The file is written instead.
            }
        }
    }

    /** Gives stored files their permissions and times. Returns what is left to do. */
    private List<Task> refresh(Map<State, Integer> counts) {
        List<Task> left = new ArrayList<>();
        for (Task task : compared.tasks) {
            boolean isListed = task.node().entry() instanceof TreeEntry.File file && file.contents() != null;
            if (isListed && task.state() == State.METADATA && isListed(task)) {
                settle(stored(task.path()), task.node().entry().attributes());
                done(task, State.METADATA, counts);
            } else if (!isListed || task.state() != State.MOVED) {
                left.add(task);
            }
        }
        return left;
    }

    /** Whether the stored file is the one that is listed. One that somebody else put there gets no permissions. */
    private boolean isListed(Task task) {
        try {
            return mirror.last(stored(task.path())).equals(LastChunk.of((TreeEntry.File) task.node().entry()));
        } catch (IOException e) {
            return false;
        }
    }

    /** Makes links. Returns the files. */
    private List<Task> links(List<Task> tasks, Map<State, Integer> counts) {
        List<Task> files = new ArrayList<>();
        for (Task task : tasks) {
            if (task.node().entry() instanceof TreeEntry.Link link) {
                boolean isMade = attempt(task, () -> {
                    touch(task.path());
                    mirror.link(task.path(), link.target());
                });
                if (isMade) {
                    done(task, task.state(), counts);
                }
            } else {
                files.add(task);
            }
        }
        return files;
    }

    /** Lets the executors write files, and lists what they have written. */
    private void files(List<Task> tasks, Recipients recipients, Map<State, Integer> counts) {
        List<Inputs.Place> places = new ArrayList<>();
        List<Task> numbered = new ArrayList<>();
        for (Task task : tasks) {
            Path input = source.at(task.path());
            try {
                FileStatus status = source.fs().getFileStatus(input);
                places.add(new Inputs.Place(source.shown(task.path()), status, mirror.at(stored(task.path())), Inputs.Listed.WHEN_WRITTEN));
                numbered.add(task);
            } catch (IOException e) {
                giveUp(task);
                job.fail(Hadoop.at(source.shown(task.path()), e));
            }
        }
        Set<Task> left = java.util.Collections.newSetFromMap(new java.util.IdentityHashMap<>());
        left.addAll(numbered);
        ScheduledExecutorService records = Executors.newSingleThreadScheduledExecutor();
        try {
            records.scheduleWithFixedDelay(() -> journal.remember(recipients), 1, 1, TimeUnit.SECONDS);
            job.files(places, (number, progress) -> {
                synchronized (left) {
                    Task task = numbered.get(number);
                    left.remove(task);
                    TreeEntry.File file = written((TreeEntry.File) task.node().entry(), progress);
                    task.node().set(file);
                    journal.note(task.path(), file);
                    touch(task.path());
                    done(task, task.state() == State.MOVED ? State.NEW : task.state() == State.METADATA ? State.CHANGED : task.state(), counts);
                }
            });
        } finally {
            records.shutdownNow();
        }
        left.forEach(TreeWriting::giveUp);
        if (!left.isEmpty() && job.failed() == failedBefore) {
            job.fail(Failure.of(Failure.Code.OTHER, Text.shown(mirror.shown("")) + ": " + Text.count(left.size(), "file") + " not written"));
        }
    }

    /** What was written, with the time that the input had when it was read. */
    private TreeEntry.File written(TreeEntry.File now, Progress progress) {
        long nanos = progress.item().seen().modifiedNanos();
        TreeEntry.Attributes attributes = new TreeEntry.Attributes(
                now.attributes().mode(), Math.floorDiv(nanos, 1_000_000_000L), (int) Math.floorMod(nanos, 1_000_000_000L));
        return new TreeEntry.File(
                now.name(), attributes, progress.item().seen().length(), progress.stored(), now.device(), now.inode(), progress.contents());
    }

    private void done(Task task, State state, Map<State, Integer> counts) {
        counts.merge(state, 1, Integer::sum);
        if (plan.isVerbose() && !plan.isQuiet()) {
            try {
                Terminal.say(state.word + " " + Text.shown(task.path()));
            } catch (Failure e) {
                job.fail(e);
            }
        }
    }

    /** Gives folders the permissions and times of their originals. */
    private void settleFolders() {
        settle(compared.next, "");
    }

    private void settle(TreeNode folder, String path) {
        folder.children().forEach((name, child) -> {
            if (child.isFolder()) {
                settle(child, path.isEmpty() ? name.toString() : path + "/" + name);
            }
        });
        if (touched.contains(path)) {
            settle(path, folder.entry().attributes());
        }
    }

    private void settle(String path, TreeEntry.Attributes attributes) {
        try {
            mirror.settle(path, attributes, false);
        } catch (FileNotFoundException | java.nio.file.NoSuchFileException e) {
            // It was gone already, and a failure has said so.
        } catch (IOException e) {
            job.fail(Hadoop.at(mirror.shown(path), new OutputException(e)));
        }
    }

    private void summary(Map<State, Integer> counts, long deleted, long generation, String digest) throws Failure {
        if (plan.isQuiet()) {
            return;
        }
        StringBuilder line = new StringBuilder(Text.shown(source.shown("")) + " → " + Text.shown(mirror.shown("")) + ": ");
        line.append(Text.count(counts.getOrDefault(State.NEW, 0), "file")).append(" new");
        count(line, counts.getOrDefault(State.CHANGED, 0), "changed");
        count(line, counts.getOrDefault(State.MOVED, 0), "moved");
        count(line, counts.getOrDefault(State.METADATA, 0), "with new permissions");
        count(line, deleted, "deleted");
        line.append(", ").append(compared.unchanged).append(" unchanged");
        double seconds = (System.nanoTime() - begun) / 1e9;
        long bytes = job.bytes() - bytesBefore;
        line.append(String.format(Locale.ROOT, "; %.1f MB in %.3f s, %.1f MB/s", bytes / 1e6, seconds, bytes / seconds / 1e6));
        line.append(leftOut == 0 ? "" : "; " + leftOut + " left out");
        int failed = job.failed() - failedBefore;
        line.append(failed == 0 ? "" : "; " + failed + " failed");
        Terminal.complain(line.toString());
        Terminal.complain(Text.shown(mirror.shown("")) + ": generation " + Long.toUnsignedString(generation) + ", digest " + digest);
    }

    private static void count(StringBuilder line, long number, String what) {
        line.append(number == 0 ? "" : ", " + number + " " + what);
    }
}
