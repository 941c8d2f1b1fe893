package phalanx.hadoop;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.AbstractFSContract;

/** The contract over HDFS. What it says of {@code phalanx+hdfs} is in contract/phalanx-hdfs.xml. */
final class HdfsContract extends AbstractFSContract {
    HdfsContract(Configuration conf) {
        super(conf);
        addConfResource("contract/phalanx-hdfs.xml");
        LocalContract.configure(getConf());
        getConf().setInt("dfs.blocksize", Hdfs.BLOCK);
        getTestPath();
    }

    @Override
    public FileSystem getTestFileSystem() throws IOException {
        return getTestPath().getFileSystem(getConf());
    }

    @Override
    public String getScheme() {
        return "phalanx+hdfs";
    }

    @Override
    public Path getTestPath() {
        try {
            return Hdfs.path("test");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
