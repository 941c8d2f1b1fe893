package phalanx.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import phalanx.Excludes;
import phalanx.Manifest;
import phalanx.Recipients;
import phalanx.TreeNode;

/** How a manifest gets into a folder that others may write to. */
class StoredManifestTest extends Fixture {
    /** Somebody puts a link to a file of the user in the manifest's place, as often and as fast as that goes. */
    @Test
    void noLinkInItsPlaceIsFollowed() throws Exception {
        Configuration conf = new Configuration();
        Path secret = Files.write(top.resolve("secret"), bytes(10));
        Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("rw-------"));
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
        TreeRoot tree = TreeRoot.of(new org.apache.hadoop.fs.Path("file:" + folder), conf);
        TreeNode root = tree.list(Excludes.NONE, (path, why) -> {});
        Plan plan = Plan.of(List.of("mirror", "--no-sync", "-k", "work", folder.toString(), folder.toString()));
        AtomicBoolean ends = new AtomicBoolean();
        Thread attacker = new Thread(() -> attack(secret, ends));
        attacker.start();
        try {
            for (int i = 0; i < 300; i++) {
                write(tree, root, plan, conf);
            }
        } finally {
            ends.set(true);
            attacker.join();
        }
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(secret)));
        Files.delete(folder.resolve("phalanx.tree"));
        write(tree, root, plan, conf);
        assertEquals("rw-r--r--", PosixFilePermissions.toString(Files.getPosixFilePermissions(folder.resolve("phalanx.tree"))));
    }

    private void write(TreeRoot tree, TreeNode root, Plan plan, Configuration conf) {
        try {
            StoredManifest.write(tree, root, Manifest.Head.first(""), Recipients.of(key), plan, conf);
        } catch (IOException e) {
            // What the attacker has put there is no manifest.
        }
    }

    private void attack(Path secret, AtomicBoolean ends) {
        while (!ends.get()) {
            try {
                Path link = Files.createSymbolicLink(folder.resolve("link"), secret);
                Files.move(link, folder.resolve("phalanx.tree"), StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
            } catch (IOException e) {
                // The next time.
            }
        }
    }
}
