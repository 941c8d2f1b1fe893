package phalanx.spark;

import java.io.BufferedInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import phalanx.Contents;
import phalanx.Header;
import phalanx.KeyProvider;
import phalanx.MalformedHeaderException;
import phalanx.Manifest;
import phalanx.NotPhalanxException;
import phalanx.Output;
import phalanx.PhalanxFile;
import phalanx.PhalanxTree;
import phalanx.Protector;
import phalanx.Recipients;
import phalanx.Suite;
import phalanx.TreeNode;
import phalanx.UnsupportedVersionException;
import phalanx.hadoop.Inner;

/**
 * The manifest of a tree, wherever it lies.
 *
 * @param head what precedes the entries
 * @param digest its digest, in hexadecimal digits
 * @param root what it lists
 */
record StoredManifest(Manifest.Head head, String digest, TreeNode root) {
    static final String NAME = PhalanxTree.MANIFEST.toString();

    /** Whether a name in the root belongs to no entry. */
    static boolean isOf(String entry) {
        return entry.equals(NAME) || entry.equals(PhalanxTree.SIGNATURE.toString());
    }

    /** Whether a tree is a mirror, whoever can open it. */
    static boolean isIn(TreeRoot tree) throws IOException {
        try (InputStream in = tree.fs().open(tree.at(NAME))) {
            Header.read(in);
            return true;
        } catch (FileNotFoundException | NotPhalanxException | UnsupportedVersionException | MalformedHeaderException e) {
            return false;
        }
    }

    /** Reads all of it, or returns null if there is none. What is digested is what is opened: a copy in a folder of this machine. */
    static StoredManifest read(TreeRoot tree, KeyProvider keys) throws IOException {
        java.nio.file.Path copy = Files.createTempFile("phalanx-", ".tree");
        try {
            try (InputStream in = tree.fs().open(tree.at(NAME)); OutputStream out = Files.newOutputStream(copy)) {
                in.transferTo(out);
            } catch (FileNotFoundException e) {
                if (!Hadoop.isAbsent(tree.fs(), tree.at(NAME))) {
                    throw new IOException(NAME + ": " + e.getMessage(), e);
                }
                return null;
            }
            try (PhalanxFile file = PhalanxFile.open(copy, keys); InputStream in = new BufferedInputStream(file.inputStream(), 1 << 16)) {
                Manifest manifest = Manifest.read(in);
                return new StoredManifest(manifest.head(), Contents.read(copy).toString(), TreeNode.read(manifest));
            }
        } finally {
            Files.deleteIfExists(copy);
        }
    }

    /** Writes one in the place of the old one, at once. Returns its digest. */
    static String write(TreeRoot tree, TreeNode root, Manifest.Head head, Recipients recipients, Plan plan, Configuration conf)
            throws IOException {
        // Tags of suite 4 do not commit to what they authenticate, so no manifest is in it.
        Suite suite = plan.suite == Suite.AES_256_GCM ? Suite.AES_256_CTR_SHA3 : plan.suite;
        Protector protector = new Protector(recipients).withSuite(suite);
        Path path = tree.at(NAME);
        if (tree.hasLinks()) {
            String mode = mode(root.entry().attributes().mode());
            try (Output out = Output.create(Hadoop.local(path), true)) {
                protector.protect(root.manifest(head), Channels.newOutputStream(out.channel()));
                // Others may exchange what its names lead to, the temporary one too.
                out.permit(PosixFilePermissions.fromString(mode));
                String digest = Contents.read(out.channel()).toString();
                out.commit(plan.syncs());
                return digest;
            }
        }
        java.nio.file.Path copy = Files.createTempFile("phalanx-", ".tree");
        try {
            protector.replacing().withoutSync().protect(root.manifest(head), copy);
            upload(tree, copy, path, conf);
            return Contents.read(copy).toString();
        } finally {
            Files.deleteIfExists(copy);
        }
    }

    /** Whoever may read the folder may read it. */
    private static String mode(int folder) {
        return "rw-" + ((folder & 040) != 0 ? "r" : "-") + "--" + ((folder & 04) != 0 ? "r" : "-") + "--";
    }

    private static void upload(TreeRoot tree, java.nio.file.Path copy, Path path, Configuration conf) throws IOException {
        if (tree.isStore()) {
            // An object appears when it is closed, so one that is cut short is given up before.
            try (FSDataOutputStream out = tree.fs().create(path, true)) {
                try {
                    Files.copy(copy, out);
                } catch (IOException e) {
                    out.abort();
                    throw e;
                }
            }
            return;
        }
        Path temporary = new Path(path.getParent(), new RenamedPlace(path, new Place.Rules(true, true)).joined());
        try (OutputStream out = tree.fs().create(temporary, false)) {
            Files.copy(copy, out);
        }
        try (Inner inner = Inner.of(path.toUri(), conf)) {
            inner.publish(temporary, path, true);
        }
    }
}
