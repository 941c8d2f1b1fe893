package phalanx;

import java.io.IOException;

/**
 * A key service: AWS KMS, Transit of Vault, or any other that wraps a short secret under a key that it never gives away, and
 * decides who may have it unwrapped. Implement it with the library of your service, or let {@link #program} run the programs that
 * {@code phalanx --kms} runs. {@link KeyServices} are the services that a run may ask.
 *
 * <pre>{@code
 * KeyService orders = KeyService.program("hashivault://orders");
 * try (KeyServices services = KeyServices.of(orders)) {
 *     new Protector(Recipients.of(services).and(key)).protect(Path.of("run42.h5"), Path.of("run42.h5.phx"));
 *     new Unprotector(services).unprotect(Path.of("run42.h5.phx"), Path.of("again.h5"));
 * }
 * }</pre>
 *
 * <p>Where the service can bind a secret to a context, bind it to the one pair {@code purpose} = {@link #CONTEXT}
 * ({@code EncryptionContext} of AWS KMS), or where it is a single string, to {@link #CONTEXT}, and to nothing else. Other programs
 * read the files then. It also keeps the service from unwrapping for files what was wrapped for something else.
 *
 * <p>A call should take 30 seconds at most: a file can make a reader ask eight times. Failures are exceptions of any type. Their
 * messages are shown, so they must not have the run key.
 */
public interface KeyService {
    /** The context of run keys. */
    String CONTEXT = "phalanx v1 run key";

    /**
     * Names the service and its key, in files too. A file that names any other URI is never shown to this service.
     *
     * @return 1 to 1024 printable ASCII characters without spaces, by convention {@code NAME://KEY}
     */
    String uri();

    /**
     * Wraps a run key.
     *
     * @param runKey 32 bytes, which are overwritten once this returns
     * @return 1 to 4096 bytes, which the files show to everybody
     * @throws IOException if it does not wrap it
     */
    byte[] wrap(byte[] runKey) throws IOException;

    /**
     * Unwraps a run key.
     *
     * @param wrapped what a file has, which anybody can have made: 1 to 4096 bytes
     * @return the 32 bytes. They are overwritten soon, so they must not be an array that you keep
     * @throws IOException if it does not unwrap it
     */
    byte[] unwrap(byte[] wrapped) throws IOException;

    /**
     * The service {@code NAME://KEY} which the program {@code phalanx-kms-NAME} asks: docs/key-services.md. The program is looked
     * for in the absolute folders of {@code PATH} whenever it is needed, and has 30 seconds. It gets few environment variables: none
     * that begins with {@code PHALANX_}.
     *
     * @param uri the URI
     * @return the service
     * @throws IllegalArgumentException if it is not such a URI
     */
    static KeyService program(String uri) {
        return ServiceProgram.of(uri, System.getenv("PATH"));
    }
}
