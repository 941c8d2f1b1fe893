package phalanx.flink;

import java.io.IOException;
import java.net.URI;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.FileSystemFactory;

/** One class for each scheme, since Flink asks a factory for its only one. */
public abstract class Schemes implements FileSystemFactory {
    private final String scheme;
    private Settings settings = new Settings(new Configuration());

    private Schemes(String inner) {
        scheme = Names.PREFIX + inner;
    }

    @Override
    public final String getScheme() {
        return scheme;
    }

    @Override
    public final void configure(Configuration conf) {
        settings = new Settings(conf);
    }

    @Override
    public final FileSystem create(URI uri) throws IOException {
        return new ProtectedFileSystem(uri, settings);
    }

    /** {@code phalanx+file}. */
    public static final class File extends Schemes {
        /** One that is to be configured. */
        public File() {
            super("file");
        }
    }

    /** {@code phalanx+hdfs}. */
    public static final class Hdfs extends Schemes {
        /** One that is to be configured. */
        public Hdfs() {
            super("hdfs");
        }
    }

    /** {@code phalanx+s3}. */
    public static final class S3 extends Schemes {
        /** One that is to be configured. */
        public S3() {
            super("s3");
        }
    }

    /** {@code phalanx+s3a}. */
    public static final class S3a extends Schemes {
        /** One that is to be configured. */
        public S3a() {
            super("s3a");
        }
    }

    /** {@code phalanx+gs}. */
    public static final class Gs extends Schemes {
        /** One that is to be configured. */
        public Gs() {
            super("gs");
        }
    }

    /** {@code phalanx+abfs}. */
    public static final class Abfs extends Schemes {
        /** One that is to be configured. */
        public Abfs() {
            super("abfs");
        }
    }

    /** {@code phalanx+abfss}. */
    public static final class Abfss extends Schemes {
        /** One that is to be configured. */
        public Abfss() {
            super("abfss");
        }
    }

    /** {@code phalanx+oss}. */
    public static final class Oss extends Schemes {
        /** One that is to be configured. */
        public Oss() {
            super("oss");
        }
    }
}
