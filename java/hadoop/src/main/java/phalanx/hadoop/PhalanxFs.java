package phalanx.hadoop;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;

/**
 * The same for programs that use a {@code FileContext}: set {@code fs.AbstractFileSystem.phalanx+FS.impl} to
 * {@code phalanx.hadoop.PhalanxFs}.
 */
public final class PhalanxFs extends DelegateToFileSystem {
    /**
     * A file system.
     *
     * @param uri its URI, {@code phalanx+FS://…}
     * @param conf the configuration
     * @throws IOException if the inner file system cannot be made
     * @throws URISyntaxException if the URI is malformed
     */
    public PhalanxFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
        super(uri, new PhalanxFileSystem(), conf, uri.getScheme(), false);
    }
}
