package phalanx.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import phalanx.Excludes;
import phalanx.OutputException;
import phalanx.TreeEntry;
import phalanx.TreeNode;
import phalanx.command.Failure;
import phalanx.command.Terminal;
import phalanx.command.Text;

/**
 * On the driver: checks or restores a tree. It is compared with its manifest first. Then executors open every chunk, and a file counts only
 * if it holds what the manifest lists.
 */
final class TreeReading {
    private final Plan plan;
    private final Configuration conf;
    private final Job job;
    private final long begun = System.nanoTime();
    private final int failedBefore;
    private final long bytesBefore;

    private TreeRoot mirror;
    private TreeRoot output;
    private int done;
    /** Folders that could not be made. */
    private final java.util.Set<String> lost = new java.util.HashSet<>();

    TreeReading(Plan plan, Configuration conf, Job job) {
        this.plan = plan;
        this.conf = conf;
        this.job = job;
        failedBefore = job.failed();
        bytesBefore = job.bytes();
    }

    void read(Inputs.Folder folder) throws Failure {
        StoredManifest manifest;
        TreeNode there;
        try {
            mirror = TreeRoot.of(folder.path(), conf);
            output = folder.output() == null ? null : TreeRoot.of(folder.output(), conf);
            refuseOutput();
            manifest = StoredManifest.read(mirror, Held.keys(conf).provider());
            there = mirror.list(Excludes.NONE, (path, why) -> {
                if (why != null) {
                    job.fail(Hadoop.at(mirror.shown(path), why));
                }
            });
        } catch (IOException e) {
            throw Hadoop.at(folder.name(), e);
        }
        TreeNode root = manifest == null ? unlisted(there, "") : manifest.root();
        Map<String, TreeEntry.File> files = new TreeMap<>();
        if (manifest == null) {
            lackManifest();
            collect(root, "", files);
            if (files.isEmpty()) {
                throw failure(Failure.Code.INPUT_OUTPUT, "there is no protected file in it");
            }
        } else {
            checkAge(manifest);
            TreeCheck check = TreeCheck.of(mirror, manifest.root(), there, plan.isQuick(), job);
            check.findings().forEach(job::fail);
            files.putAll(check.right());
        }
        if (plan.what == Plan.What.UNPROTECT) {
            restore(root, files);
            return;
        }
        if (!plan.isQuick()) {
            files(files, manifest != null);
        }
        tell(manifest, files.size());
    }

    private Failure failure(Failure.Code code, String line) {
        return Failure.of(code, Text.shown(mirror.shown("")) + ": " + line);
    }

    private void refuseOutput() throws IOException, Failure {
        if (output == null) {
            return;
        }
        FileStatus there = output.status();
        String name = Text.shown(output.shown(""));
        if (there != null && !there.isDirectory()) {
            throw Failure.of(Failure.Code.INPUT_OUTPUT, name + ": not a folder");
        }
        if (there != null && !plan.replaces() && !plan.resumes()) {
            throw Failure.of(Failure.Code.INPUT_OUTPUT, name + ": it is a folder already").hint("--force overwrites files in it and deletes nothing");
        }
        if (output.isWithin(mirror)) {
            throw Failure.usage(name + ": the output is within the input");
        }
    }

    private void lackManifest() throws Failure {
        if (plan.isQuick() || plan.atLeast().isPresent() || plan.expects().isPresent()) {
            throw failure(Failure.Code.NOT_AUTHENTIC, "it has no manifest");
        }
        Terminal.complain(Text.shown(mirror.shown("")) + ": no manifest, so nothing is known of what is missing or older");
    }

    /** What the names in a folder without a manifest say. */
    private TreeNode unlisted(TreeNode there, String path) {
        TreeNode folder = new TreeNode(there.entry());
        there.children().forEach((name, node) -> {
            String text = name.toString();
            boolean isStored = text.endsWith(".phx") && text.length() > ".phx".length();
            if (node.isFolder()) {
                folder.children().put(name, unlisted(node, path + name + "/"));
            } else if (node.entry() instanceof TreeEntry.Link) {
                folder.children().put(name, node);
            } else if (node.entry() instanceof TreeEntry.File && isStored) {
                phalanx.RawName plain = phalanx.RawName.of(text.substring(0, text.length() - ".phx".length()));
                TreeNode rival = there.children().get(plain);
                if (rival != null && rival.isFolder()) {
                    job.fail(Hadoop.at(mirror.shown(path + name), new IOException("a folder has the name that it would be unprotected to")));
                    return;
                }
                folder.children().put(plain, new TreeNode(
                        new TreeEntry.File(plain, node.entry().attributes(), 0, 1, 0, 0, null)));
            }
        });
        return folder;
    }

    private static void collect(TreeNode folder, String path, Map<String, TreeEntry.File> into) {
        folder.children().forEach((name, child) -> {
            if (child.entry() instanceof TreeEntry.File file) {
                into.put(path + name, file);
            }
            collect(child, path + name + "/", into);
        });
    }

    /** Compares the manifest with what the user demands. */
    private void checkAge(StoredManifest manifest) throws Failure {
        if (plan.expects().filter(digest -> !digest.equals(manifest.digest())).isPresent()) {
            throw failure(Failure.Code.NOT_AUTHENTIC,
                    "its manifest has the digest " + manifest.digest() + ", not " + plan.expects().orElseThrow());
        }
        OptionalLong least = plan.atLeast();
        long generation = manifest.head().generation();
        if (least.isPresent() && Long.compareUnsigned(least.getAsLong(), generation) > 0) {
            throw failure(Failure.Code.NOT_AUTHENTIC, "its manifest has generation " + Long.toUnsignedString(generation)
                    + ", which is before " + Long.toUnsignedString(least.getAsLong()));
        }
    }

    /** Lets the executors open all chunks of files. */
    private void files(Map<String, TreeEntry.File> files, boolean isListed) {
        List<Inputs.Place> places = new ArrayList<>();
        List<Map.Entry<String, TreeEntry.File>> numbered = new ArrayList<>();
        for (Map.Entry<String, TreeEntry.File> file : files.entrySet()) {
            String stored = file.getKey() + ".phx";
            try {
                FileStatus status = mirror.fs().getFileStatus(mirror.at(stored));
                Inputs.Listed listed = isListed ? new Inputs.Listed(file.getValue().contents(), file.getValue().length()) : null;
                places.add(new Inputs.Place(mirror.shown(stored), status, output == null ? null : output.at(file.getKey()), listed));
                numbered.add(file);
            } catch (IOException e) {
                job.fail(Hadoop.at(mirror.shown(stored), e));
            }
        }
        job.files(places, (number, progress) -> {
            synchronized (numbered) {
                done++;
            }
            if (output != null && isListed) {
                settle(numbered.get(number).getKey(), numbered.get(number).getValue().attributes());
            }
        });
    }

    private void settle(String path, TreeEntry.Attributes attributes) {
        try {
            output.settle(path, attributes, true);
        } catch (FileNotFoundException | java.nio.file.NoSuchFileException e) {
            // It was not made, and a failure has said so.
        } catch (IOException e) {
            job.fail(Hadoop.at(output.shown(path), new OutputException(e)));
        }
    }

    private void restore(TreeNode root, Map<String, TreeEntry.File> files) throws Failure {
        try {
            if (!output.hasParent()) {
                throw new FileNotFoundException();
            }
            output.makeFolder("");
            output.learnPermissions();
        } catch (IOException e) {
            throw Hadoop.at(output.shown(""), new OutputException(e));
        }
        folders(root, "", files);
        files(files, files.values().stream().allMatch(file -> file.contents() != null));
        settleFolders(root, "");
        double seconds = (System.nanoTime() - begun) / 1e9;
        long bytes = job.bytes() - bytesBefore;
        int failed = job.failed() - failedBefore;
        if (!plan.isQuiet()) {
            Terminal.complain(Text.shown(mirror.shown("")) + " → " + Text.shown(output.shown("")) + ": " + Text.count(done, "file")
                    + String.format(Locale.ROOT, ", %.1f MB in %.3f s, %.1f MB/s", bytes / 1e6, seconds, bytes / seconds / 1e6)
                    + (failed == 0 ? "" : "; " + failed + " failed"));
        }
    }

    /** Makes folders and links. Nothing is done below a folder that could not be made. */
    private void folders(TreeNode folder, String path, Map<String, TreeEntry.File> files) {
        folder.children().forEach((name, child) -> {
            String at = path + name;
            try {
                if (child.isFolder()) {
                    output.makeFolder(at);
                    folders(child, at + "/", files);
                } else if (child.entry() instanceof TreeEntry.Link link) {
                    restore(at, link);
                }
            } catch (IOException e) {
                lost.add(at);
                files.keySet().removeIf(within -> within.startsWith(at + "/"));
                job.fail(Hadoop.at(output.shown(at), e instanceof OutputException ? e : new OutputException(e)));
            }
        });
    }

    private void restore(String path, TreeEntry.Link link) throws IOException {
        if (!output.hasLinks()) {
            throw new OutputException(new IOException("its file system has no links"));
        }
        boolean isThere = java.nio.file.Files.exists(Hadoop.local(output.at(path)), java.nio.file.LinkOption.NOFOLLOW_LINKS);
        if (isThere && !plan.replaces() && !plan.resumes()) {
            throw new java.nio.file.FileAlreadyExistsException(path);
        }
        output.link(path, link.target());
    }

    private void settleFolders(TreeNode folder, String path) {
        if (lost.contains(path)) {
            return;
        }
        folder.children().forEach((name, child) -> {
            if (child.isFolder()) {
                settleFolders(child, path.isEmpty() ? name.toString() : path + "/" + name);
            }
        });
        settle(path, folder.entry().attributes());
    }

    private void tell(StoredManifest manifest, int inPlace) throws Failure {
        if (plan.isQuiet()) {
            return;
        }
        int failed = job.failed() - failedBefore;
        String rest = failed == 0 ? "" : "; " + failed + " failed";
        String age = manifest == null ? "" : Text.shown(mirror.shown("")) + ": generation "
                + Long.toUnsignedString(manifest.head().generation()) + ", digest " + manifest.digest();
        if (plan.isQuick()) {
            Terminal.say(age + ": " + Text.count(inPlace, "file") + " in place; content was not read" + rest);
            return;
        }
        if (manifest != null) {
            Terminal.say(age);
        }
        Terminal.say(Text.count(done, "file") + ", " + Text.count(job.bytes() - bytesBefore, "byte") + ": whole and authentic" + rest);
    }
}
