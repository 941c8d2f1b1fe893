package phalanx.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.security.alias.CredentialProvider;
import org.apache.hadoop.security.alias.CredentialProviderFactory;
import org.junit.jupiter.api.Test;
import phalanx.Keyring;
import phalanx.PhalanxKey;

/** Where keys come from, and where they are not shown. */
class KeysTest extends Fixture {
    /** The key 00 01 … 1f. */
    private static final String TEXT = "phalanx-key-1-AAAQE-AYEAU-DAOCA-JBIFQ-YDIOB-4IBCE-QTCQK-RMFYY-DENBW-HA5DY-PWQAM-QBYAQ";

    private static PhalanxKey keyOfText() throws IOException {
        return PhalanxKey.ofText(TEXT.toCharArray());
    }

    private Configuration with(String keys) {
        Configuration other = new Configuration(conf);
        other.set(Keys.KEYS, keys);
        return other;
    }

    /** Writes with some keys, and reads with others. */
    private void passes(Configuration writer, Configuration reader) throws IOException {
        byte[] plaintext = bytes(100);
        try (FileSystem writing = open("phalanx+file", writer); FileSystem reading = open("phalanx+file", reader)) {
            try (FSDataOutputStream out = writing.create(path("a"))) {
                out.write(plaintext);
            }
            try (FSDataInputStream in = reading.open(path("a"))) {
                assertArrayEquals(plaintext, in.readAllBytes());
            }
        }
    }

    private String refused(Configuration writer) throws IOException {
        try (FileSystem writing = open("phalanx+file", writer)) {
            String message = assertThrows(IOException.class, () -> writing.create(path("refused"))).getMessage();
            assertFalse(stored().stream().anyMatch(each -> !each.equals("a.phx")));
            return message;
        }
    }

    private Path keyFile(String permissions) throws IOException {
        Path file = top.resolve("key");
        try (PhalanxKey of = keyOfText()) {
            Files.write(file, of.expose());
        }
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(permissions));
        return file;
    }

    @Test
    void filesAndKeyrings() throws IOException {
        Configuration both = with("work, file:" + keyFile("rw-------"));
        passes(both, with("file:" + top.resolve("key")));
        // Reading needs no name: the keyring has the key.
        passes(both, with(""));
        keyFile("rw-r--r--");
        assertTrue(refused(both).contains("refused"));
        assertTrue(refused(with("other")).contains("no key named other"));
        assertTrue(refused(with("")).contains(Keys.KEYS));
    }

    @Test
    void whoNamesKeysPinsThem() throws IOException {
        Keyring.in(top.resolve("ring")).store("old", keyOfText());
        passes(with("old"), with(""));
        try (FileSystem pinned = open("phalanx+file", with("work"))) {
            assertThrows(IOException.class, () -> pinned.open(path("a")));
        }
        Configuration both = with("work");
        both.set(Keys.OPEN_KEYS, "old");
        passes(with("old"), both);
        // It opens and does not protect.
        passes(both, with("work"));
        try (FileSystem old = open("phalanx+file", with("old"))) {
            assertThrows(IOException.class, () -> old.open(path("a")));
        }
    }

    @Test
    void credentialProviders() throws IOException {
        Configuration stored = with("credential:orders");
        stored.set(CredentialProviderFactory.CREDENTIAL_PROVIDER_PATH, "localjceks://file" + top.resolve("keys.jceks"));
        CredentialProvider provider = CredentialProviderFactory.getProviders(stored).get(0);
        provider.createCredentialEntry("orders", TEXT.toCharArray());
        provider.createCredentialEntry("other", "phalanx-key-1-AAAQE".toCharArray());
        provider.flush();
        passes(stored, stored);
        Keyring.in(top.resolve("other")).store("same", keyOfText());
        Configuration ring = with("");
        ring.set(Keys.KEYRING, top.resolve("other").toString());
        passes(stored, ring);
        stored.set(Keys.KEYS, "credential:other");
        assertTrue(refused(stored).contains("5 characters after phalanx-key-1 instead of 60"));
        // A configuration that has the key itself is no credential provider.
        Configuration clear = with("credential:orders");
        clear.set("orders", TEXT);
        assertTrue(refused(clear).contains("no credential provider has it"));
    }

    @Test
    void keyServices() throws Exception {
        Path bin = Files.createDirectory(top.resolve("bin"));
        Path script = Files.writeString(bin.resolve("phalanx-kms-test"), """
                #!/bin/sh
                read -r request
                case $request in
                *'"operation":"wrap"'*) text=${request##*'"plaintext":"'}; text=$(printf %s "${text%%\\"*}" | tr A-LM-X M-XA-L); echo "{\\"ciphertext\\":\\"$text\\"}" ;;
                *) text=${request##*'"ciphertext":"'}; text=$(printf %s "${text%%\\"*}" | tr A-LM-X M-XA-L); echo "{\\"plaintext\\":\\"$text\\"}" ;;
                esac
                """);
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String classes = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        ProcessBuilder builder = new ProcessBuilder(java, "-cp", classes, WithService.class.getName(), path("a").toString());
        builder.environment().put("PATH", bin + ":" + System.getenv("PATH"));
        builder.environment().put("HOME", top.toString());
        builder.environment().remove("PHALANX_KEYRING");
        Process process = builder.redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), said);
        assertTrue(said.contains("the service opened it"), said);
        // Nobody asks a service that only the file names.
        String why = assertThrows(IOException.class, () -> fs.open(path("a"))).getMessage();
        assertTrue(why.contains("test://orders"), why);
        assertTrue(refused(with("kms:no uri")).contains(Keys.KEYS));
    }

    /** Its {@code PATH} has the program of a key service. */
    static final class WithService {
        public static void main(String[] args) throws IOException {
            Configuration conf = new Configuration();
            conf.set(Keys.KEYS, "kms:test://orders");
            org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(args[0]);
            try (FileSystem fs = open("phalanx+file", conf); FSDataOutputStream out = fs.create(path)) {
                out.write("the service opened it".getBytes());
            }
            try (FileSystem fs = open("phalanx+file", conf); FSDataInputStream in = fs.open(path)) {
                System.out.println(new String(in.readAllBytes()));
            }
        }
    }

    @Test
    void aKeyInAConfigurationIsRefusedAndNotRepeated() throws IOException {
        for (String secret : List.of(TEXT, TEXT.toLowerCase(), "00".repeat(32), "AGE-SECRET-KEY-1QQPQQQQ", "a0/+x".repeat(9) + "=")) {
            String message = refused(with("work," + secret));
            assertFalse(message.contains(secret), message);
        }
    }

    @Test
    void nothingShowsAKey() throws IOException {
        passes(with("work,file:" + keyFile("rw-------")), conf);
        StringWriter dumped = new StringWriter();
        Configuration.dumpConfiguration(conf, dumped);
        String shown = dumped + fs.toString() + fs.getFileStatus(path("a"));
        try (FSDataInputStream in = fs.open(path("a"))) {
            shown += in.toString();
        }
        String hex = java.util.HexFormat.of().formatHex(key.expose());
        assertFalse(shown.contains(hex), shown);
        assertEquals("PhalanxFileSystem[phalanx+file:///]", fs.toString());
    }

    @Test
    void settingsAreChecked() {
        for (String[] wrong : new String[][] {{PhalanxFileSystem.CIPHER, "rot13"}, {PhalanxFileSystem.CHUNK_SIZE, "5000"},
            {PhalanxFileSystem.CHUNK_SIZE, "32M"}, {PhalanxFileSystem.CHUNK_SIZE, "2K"}}) {
            Configuration other = new Configuration(conf);
            other.set(wrong[0], wrong[1]);
            assertTrue(assertThrows(IOException.class, () -> open("phalanx+file", other)).getMessage().startsWith(wrong[0]));
        }
    }
}
