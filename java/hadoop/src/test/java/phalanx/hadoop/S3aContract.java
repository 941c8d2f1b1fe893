package phalanx.hadoop;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import org.junit.AssumptionViolatedException;
import org.opentest4j.TestAbortedException;

/** The contract over S3A. What it says of {@code phalanx+s3a} is in contract/phalanx-s3a.xml. */
final class S3aContract extends AbstractFSContract {
    S3aContract(Configuration conf) {
        super(conf);
        addConfResource("contract/phalanx-s3a.xml");
        LocalContract.configure(getConf());
        try {
            Versity.get().configure(getConf());
        } catch (TestAbortedException e) {
            // These tests are of JUnit 4, which has a word of its own for this.
            throw new AssumptionViolatedException(e.getMessage());
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public FileSystem getTestFileSystem() throws IOException {
        return getTestPath().getFileSystem(getConf());
    }

    @Override
    public String getScheme() {
        return "phalanx+s3a";
    }

    @Override
    public Path getTestPath() {
        return new Path("phalanx+s3a://" + Versity.BUCKET + "/test");
    }
}
