package phalanx.hadoop;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import software.amazon.awssdk.core.interceptor.Context;
import software.amazon.awssdk.core.interceptor.ExecutionAttributes;
import software.amazon.awssdk.core.interceptor.ExecutionInterceptor;
import software.amazon.awssdk.services.s3.model.GetObjectRequest;
import software.amazon.awssdk.services.s3.model.HeadObjectRequest;

/** What S3A itself asks of a store. */
class S3aRequestsTest extends RequestChecks {
    private static final List<String> ASKED = new ArrayList<>();

    private Path folder;

    /** S3A makes one for each of its clients. */
    public static final class Observer implements ExecutionInterceptor {
        @Override
        public void beforeExecution(Context.BeforeExecution context, ExecutionAttributes attributes) {
            synchronized (ASKED) {
                if (context.request() instanceof GetObjectRequest get) {
                    ASKED.add(get.range().substring("bytes=".length()));
                } else if (context.request() instanceof HeadObjectRequest) {
                    ASKED.add("HEAD");
                }
            }
        }
    }

    @Override
    String folder(Configuration conf) throws Exception {
        Versity server = Versity.get();
        server.configure(conf);
        conf.set("fs.s3a.audit.execution.interceptors", Observer.class.getName());
        String name = UUID.randomUUID().toString();
        folder = server.bucket().resolve(name);
        return "phalanx+s3a://" + Versity.BUCKET + "/" + name;
    }

    @Override
    Path stored(String name) {
        return folder.resolve(name);
    }

    @Override
    List<String> asked() {
        synchronized (ASKED) {
            List<String> asked = List.copyOf(ASKED);
            ASKED.clear();
            return asked;
        }
    }
}
