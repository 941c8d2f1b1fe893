package phalanx.hadoop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS of one name node and three data nodes, in this JVM. One serves all its tests. */
final class Hdfs {
    static final int BLOCK = 1 << 20;
    private static MiniDFSCluster only;

    private Hdfs() {}

    static synchronized MiniDFSCluster get() throws IOException {
        if (only == null) {
            Path folder = Files.createTempDirectory(Path.of("target").toAbsolutePath(), "hdfs");
            Configuration conf = new Configuration();
            conf.set("hadoop.tmp.dir", folder.toString());
            conf.setInt("dfs.blocksize", BLOCK);
            // The contract's tests have blocks of a kilobyte.
            conf.setInt("dfs.namenode.fs-limits.min-block-size", 0);
            only = new MiniDFSCluster.Builder(conf, folder.toFile()).numDataNodes(3).racks(new String[] {"/a", "/b", "/c"})
                    .hosts(new String[] {"host1", "host2", "host3"}).build();
            only.waitActive();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> only.shutdown(true)));
        }
        return only;
    }

    /** The settings of a client that has the key of {@link LocalContract}. */
    static Configuration conf() throws IOException {
        Configuration conf = new Configuration(get().getConfiguration(0));
        LocalContract.configure(conf);
        return conf;
    }

    /** A name of the protected side. */
    static org.apache.hadoop.fs.Path path(String name) throws IOException {
        return new org.apache.hadoop.fs.Path("phalanx+" + get().getURI() + "/" + name);
    }
}
