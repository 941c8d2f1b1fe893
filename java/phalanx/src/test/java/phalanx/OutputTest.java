package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A file that does not have its name yet, in a folder that others may write to. */
class OutputTest {
    private static final Set<PosixFilePermission> READABLE = PosixFilePermissions.fromString("rw-r--r--");

    @TempDir
    Path folder;

    private Path secret;

    @BeforeEach
    void makeSecret() throws IOException {
        secret = Files.writeString(folder.resolve("secret"), "mine");
        Files.setPosixFilePermissions(secret, PosixFilePermissions.fromString("rw-------"));
    }

    private String permissions(Path path) throws IOException {
        return PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
    }

    @Test
    void permissionsAreThoseOfTheFile() throws IOException {
        try (Output out = Output.create(folder.resolve("out"), false)) {
            out.permit(READABLE);
            out.commit(false);
        }
        assertEquals("rw-r--r--", permissions(folder.resolve("out")));
    }

    /** Somebody has put a second name of a file of the user, or a link to it, in the place of the temporary one. */
    @Test
    void whatIsPutInItsPlaceGetsNoPermissions() throws IOException {
        for (boolean isLink : new boolean[] {false, true}) {
            try (Output out = Output.create(folder.resolve("out"), false)) {
                Files.delete(out.temporary());
                if (isLink) {
                    Files.createSymbolicLink(out.temporary(), secret);
                } else {
                    Files.createLink(out.temporary(), secret);
                }
                assertThrows(OutputException.class, () -> out.permit(READABLE));
                assertThrows(OutputException.class, () -> out.commit(false));
            }
            assertEquals("rw-------", permissions(secret));
        }
    }

    @Test
    void theContentsOfAnOpenedFileAreItsOwn() throws IOException {
        Recipients recipients = Recipients.of(PhalanxKey.random());
        Path plain = Files.write(folder.resolve("plain"), new byte[100]);
        Path other = folder.resolve("other");
        new Protector(recipients).protect(plain, other);
        try (Output out = Output.create(folder.resolve("out"), false)) {
            new Protector(recipients).protect(new ByteArrayInputStream(new byte[50]), Channels.newOutputStream(out.channel()));
            Contents own = Contents.read(out.temporary());
            long position = out.channel().position();
            Files.move(other, out.temporary(), java.nio.file.StandardCopyOption.REPLACE_EXISTING);
            assertArrayEquals(own.root(), Contents.read(out.channel()).root());
            assertEquals(own.toString(), Contents.read(out.channel()).toString());
            assertEquals(position, out.channel().position());
        }
    }
}
