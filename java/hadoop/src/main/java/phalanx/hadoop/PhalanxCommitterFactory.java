package phalanx.hadoop;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitterFactory;

/**
 * Commits jobs by the committer of the inner file system, such as those of S3A, which do not copy. Set
 * {@code mapreduce.outputcommitter.factory.scheme.phalanx+s3a} to this class, and {@code fs.s3a.committer.name} as for S3A itself.
 * Without it Hadoop's usual committer is used, which renames.
 */
public final class PhalanxCommitterFactory extends PathOutputCommitterFactory {
    /** One that Hadoop makes. */
    public PhalanxCommitterFactory() {}

    @Override
    public PathOutputCommitter createOutputCommitter(Path output, TaskAttemptContext context) throws IOException {
        Configuration conf = context.getConfiguration();
        Path outer = output.getFileSystem(conf).makeQualified(output);
        Path inner = new Path(Names.inner(outer.toUri()));
        PathOutputCommitter committer = getCommitterFactory(inner, conf).createOutputCommitter(inner, context);
        boolean marks = conf.getBoolean(FileOutputCommitter.SUCCESSFUL_JOB_OUTPUT_DIR_MARKER, true);
        return new InnerCommitter(outer, committer, marks, context);
    }
}
