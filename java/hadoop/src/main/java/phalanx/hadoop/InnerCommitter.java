package phalanx.hadoop;

import java.io.IOException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;
import org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter;

/**
 * A committer of the inner file system. Tasks write where it says, in protected files, wherever that is: also the local folder from
 * which some committers upload. It commits these files as they are.
 */
final class InnerCommitter extends PathOutputCommitter {
    private final Path output;
    private final PathOutputCommitter inner;
    private final boolean marks;

    InnerCommitter(Path output, PathOutputCommitter inner, boolean marks, TaskAttemptContext context) throws IOException {
        super(output, context);
        this.output = output;
        this.inner = inner;
        this.marks = marks;
    }

    @Override
    public Path getOutputPath() {
        return output;
    }

    @Override
    public Path getWorkPath() throws IOException {
        Path work = inner.getWorkPath();
        return work == null ? null : Names.withScheme(Names.PREFIX + work.toUri().getScheme(), work);
    }

    @Override
    public void setupJob(JobContext job) throws IOException {
        inner.setupJob(job);
    }

    @Override
    public void setupTask(TaskAttemptContext task) throws IOException {
        inner.setupTask(task);
    }

    @Override
    public boolean needsTaskCommit(TaskAttemptContext task) throws IOException {
        return inner.needsTaskCommit(task);
    }

    @Override
    public void commitTask(TaskAttemptContext task) throws IOException {
        inner.commitTask(task);
    }

    @Override
    public void abortTask(TaskAttemptContext task) throws IOException {
        inner.abortTask(task);
    }

    /** The inner committer's mark of success is not a protected file, and so not to be seen. This makes one that is. */
    @Override
    public void commitJob(JobContext job) throws IOException {
        inner.commitJob(job);
        if (marks) {
            FileSystem fs = output.getFileSystem(job.getConfiguration());
            fs.create(new Path(output, FileOutputCommitter.SUCCEEDED_FILE_NAME), true).close();
        }
    }

    @Override
    public void abortJob(JobContext job, JobStatus.State state) throws IOException {
        inner.abortJob(job, state);
    }

    @Override
    public boolean isCommitJobRepeatable(JobContext job) throws IOException {
        return inner.isCommitJobRepeatable(job);
    }

    @Override
    public boolean isRecoverySupported(JobContext job) throws IOException {
        return inner.isRecoverySupported(job);
    }

    @Override
    public void recoverTask(TaskAttemptContext task) throws IOException {
        inner.recoverTask(task);
    }

    @Override
    public String toString() {
        return "InnerCommitter[" + inner + "]";
    }
}
