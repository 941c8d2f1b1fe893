package phalanx.hadoop;

import java.io.File;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;

/** The server versitygw, which keeps objects as files of a folder. One serves all tests of a JVM. */
final class Versity {
    static final String BUCKET = "bucket";
    private static final String ID = "someone";
    private static final String SECRET = "not a secret, but long enough";
    private static Versity only;

    private final Path folder;
    private final String address;

    private Versity(Path folder, String address) {
        this.folder = folder;
        this.address = address;
    }

    /** Starts it, or skips the test. */
    static synchronized Versity get() throws IOException, InterruptedException {
        if (only == null) {
            Path program = Needs.program("versitygw");
            Path folder = Files.createTempDirectory(Path.of("target").toAbsolutePath(), "versity");
            Files.createDirectory(folder.resolve(BUCKET));
            // An address of this machine that nobody else has: nobody takes its port before the server does.
            long id = ProcessHandle.current().pid();
            String host = "127.128." + (id >> 8 & 255) + "." + (id & 255);
            int port;
            try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getByName(host))) {
                port = free.getLocalPort();
            }
            File nothing = new File("/dev/null");
            ProcessBuilder builder = new ProcessBuilder(
                    program.toString(), "--port", host + ":" + port, "posix", folder.toString());
            builder.environment().put("ROOT_ACCESS_KEY", ID);
            builder.environment().put("ROOT_SECRET_KEY", SECRET);
            Process process = builder.redirectInput(nothing).redirectOutput(nothing).redirectError(nothing).start();
            Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
            only = new Versity(folder, host + ":" + port);
            only.await(process);
        }
        return only;
    }

    private void await(Process process) throws IOException, InterruptedException {
        while (process.isAlive()) {
            try {
                HttpURLConnection connection = (HttpURLConnection) URI.create("http://" + address).toURL().openConnection();
                connection.getResponseCode();
                return;
            } catch (IOException e) {
                process.waitFor(50, TimeUnit.MILLISECONDS);
            }
        }
        throw new IOException("versitygw does not start");
    }

    /** The objects of the bucket, as files. */
    Path bucket() {
        return folder.resolve(BUCKET);
    }

    /** Lets S3A find it. */
    void configure(Configuration conf) {
        conf.set("fs.s3a.endpoint", "http://" + address);
        conf.set("fs.s3a.endpoint.region", "us-east-1");
        conf.set("fs.s3a.path.style.access", "true");
        conf.set("fs.s3a.connection.ssl.enabled", "false");
        conf.set("fs.s3a.access.key", ID);
        conf.set("fs.s3a.secret.key", SECRET);
        conf.set("fs.s3a.fast.upload.buffer", "bytebuffer");
        conf.set("hadoop.tmp.dir", folder.resolveSibling("s3a").toString());
    }
}
