import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.HexFormat;
import java.util.Optional;
import phalanx.AuthenticationException;
import phalanx.KeyDerivationException;
import phalanx.KeyProvider;
import phalanx.MalformedHeaderException;
import phalanx.MalformedManifestException;
import phalanx.Manifest;
import phalanx.ManifestWriter;
import phalanx.NotPhalanxException;
import phalanx.Password;
import phalanx.PhalanxException;
import phalanx.PhalanxKey;
import phalanx.Protector;
import phalanx.Recipients;
import phalanx.Suite;
import phalanx.TreeEntry;
import phalanx.UnsupportedVersionException;
import phalanx.Unprotector;
import phalanx.WrongKeyException;

/**
 * Java's part of the differential fuzzer (src/bin/differential.rs): reads requests, and answers each with a verdict and with
 * what came out. A request is what to do (1 byte), which keys to use or the suite (1 byte), a length (4 bytes) and bytes.
 * Arguments: two keys and the password, in hexadecimal digits.
 */
final class Differential {
    private static final int OPEN = 0;
    private static final int SEAL = 1;
    private static final int MANIFEST = 2;

    private final PhalanxKey[] keys = new PhalanxKey[2];
    private final Unprotector[] unprotectors = new Unprotector[8];

    private Differential(String[] arguments) {
        HexFormat hex = HexFormat.of();
        for (int i = 0; i < keys.length; i++) {
            keys[i] = PhalanxKey.of(hex.parseHex(arguments[i]));
        }
        for (int hand = 0; hand < unprotectors.length; hand++) {
            KeyProvider provider = id -> Optional.empty();
            for (int i = 0; i < keys.length; i++) {
                provider = (hand >> i & 1) == 1 ? provider.or(KeyProvider.of(keys[i])) : provider;
            }
            if ((hand & 4) != 0) {
                provider = provider.or(KeyProvider.of(Password.of(hex.parseHex(arguments[2]))));
            }
            unprotectors[hand] = new Unprotector(provider).on(Runnable::run, 1);
        }
    }

    public static void main(String[] arguments) throws IOException {
        Differential differential = new Differential(arguments);
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 20));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 20));
        for (int what = in.read(); what >= 0; what = in.read()) {
            int how = in.readUnsignedByte();
            byte[] input = in.readNBytes(in.readInt());
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            out.writeByte(differential.verdict(what, how, input, output));
            out.writeInt(output.size());
            output.writeTo(out);
            if (in.available() == 0) {
                out.flush();
            }
        }
    }

    private int verdict(int what, int how, byte[] input, ByteArrayOutputStream output) {
        try {
            ByteArrayInputStream in = new ByteArrayInputStream(input);
            switch (what) {
                case OPEN -> unprotectors[how].unprotect(in, output);
                case SEAL -> new Protector(Recipients.of(keys[0]))
                        .withSuite(Suite.of(how).orElseThrow())
                        .withChunkLog2(12)
                        .on(Runnable::run, 1)
                        .protect(in, output);
                case MANIFEST -> rewrite(in, output);
                default -> throw new IOException("unknown request");
            }
            return 0;
        } catch (NotPhalanxException e) {
            return 1;
        } catch (UnsupportedVersionException e) {
            return 2;
        } catch (MalformedHeaderException | MalformedManifestException e) {
            return 3;
        } catch (KeyDerivationException e) {
            return 4;
        } catch (WrongKeyException e) {
            return 5;
        } catch (AuthenticationException e) {
            return 6;
        } catch (IOException | RuntimeException e) {
            e.printStackTrace();
            return e instanceof PhalanxException ? 7 : 8;
        }
    }

    /** Reads a manifest to its end, and writes it again. */
    private static void rewrite(ByteArrayInputStream in, ByteArrayOutputStream output) throws IOException {
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        Manifest manifest = Manifest.read(in);
        ManifestWriter writer = new ManifestWriter(written, manifest.head());
        while (!manifest.isAtEnd()) {
            Optional<TreeEntry> entry = manifest.next();
            if (entry.isPresent()) {
                writer.entry(entry.get());
            } else {
                writer.endFolder();
            }
        }
        writer.finish();
        written.writeTo(output);
    }
}
