package phalanx.hadoop;

/**
 * One class for each scheme, since Hadoop's service loader asks a class for its only scheme before it has a URI. For another one, set
 * {@code fs.phalanx+FS.impl} to {@code phalanx.hadoop.PhalanxFileSystem}.
 */
public final class Schemes {
    private Schemes() {}

    /** {@code phalanx+file}. */
    public static final class File extends PhalanxFileSystem {
        /** One that is to be initialized. */
        public File() {}

        @Override
        public String getScheme() {
            return "phalanx+file";
        }
    }

    /** {@code phalanx+hdfs}. */
    public static final class Hdfs extends PhalanxFileSystem {
        /** One that is to be initialized. */
        public Hdfs() {}

        @Override
        public String getScheme() {
            return "phalanx+hdfs";
        }
    }

    /** {@code phalanx+webhdfs}. */
    public static final class WebHdfs extends PhalanxFileSystem {
        /** One that is to be initialized. */
        public WebHdfs() {}

        @Override
        public String getScheme() {
            return "phalanx+webhdfs";
        }
    }

    /** {@code phalanx+s3a}. */
    public static final class S3a extends PhalanxFileSystem {
        /** One that is to be initialized. */
        public S3a() {}

        @Override
        public String getScheme() {
            return "phalanx+s3a";
        }
    }

    /** {@code phalanx+abfs}. */
    public static final class Abfs extends PhalanxFileSystem {
        /** One that is to be initialized. */
        public Abfs() {}

        @Override
        public String getScheme() {
            return "phalanx+abfs";
        }
    }

    /** {@code phalanx+abfss}. */
    public static final class Abfss extends PhalanxFileSystem {
        /** One that is to be initialized. */
        public Abfss() {}

        @Override
        public String getScheme() {
            return "phalanx+abfss";
        }
    }

    /** {@code phalanx+gs}. */
    public static final class Gs extends PhalanxFileSystem {
        /** One that is to be initialized. */
        public Gs() {}

        @Override
        public String getScheme() {
            return "phalanx+gs";
        }
    }
}
