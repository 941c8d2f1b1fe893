package phalanx.command;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import phalanx.KeyService;
import phalanx.KeyServices;
import phalanx.Keyring;
import phalanx.Needs;
import phalanx.PhalanxKey;
import phalanx.Protector;
import phalanx.Recipients;
import phalanx.Vectors;

/** The command has the same output and exit codes as the program {@code phalanx}. */
class CommandTest {
    /** Command lines that both programs understand, grouped by topic. */
    private static final String[] LINES = {
        "protect",
        "protct f",
        "-q",
        "photos.tar",
        "protect f -x",
        "protect f -t 0",
        "verify f --threads=x",
        "protect f -o",
        "protect f -q -v",
        "protect f -o a -o b",
        "protect f --force=yes",
        "protect f --password=hunter2",
        "protect f --password hunter2",
        "protect f -phunter2",
        "protect f --cipher rot13",
        "protect f --cipher",
        "protect f --chunk-size 5K",
        "protect AGE-SECRET-KEY-1QQQQQQQQQ",
        "protect nope --key work",
        "protect fifo --key work",
        "protect f --key work -o exists",
        "protect f --key work -o folder",
        "protect f --key work -o /nonexist/x",
        "protect f --key work -o f",
        "protect good.phx --key work",
        "protect f --key-file open.key -o q",
        "protect f --key-file short.key -o q",
        "protect f --key-file nope.key -o q",
        "protect f --key-file cut.key -o q",
        "protect f --key-file other.key -o other.key --force",
        "protect f --key-file other.key -o ring/work.key --force",
        "protect f --key-file top.key -o mid.key --force",
        "protect f --key work -o linked --force",
        "protect f --key work -o linked",
        "protect f --key nokey -o q",
        "protect f --key ../x -o q",
        "protect f --key pipe -o q",
        "protect f --key locked -o q",
        "protect f --password-file empty -o q",
        "protect f f -o q --key work",
        "protect f f --output-dir folder --key work",
        "protect f --output-dir nodir --key work",
        "protect f -o q/ --key work",
        "protect - - --key work",
        "protect - --recipients-file -",
        "protect f --recipients-file - --recipients-file -",
        "unprotect - --identity - -o q",
        "verify - -i -",
        "protect f --output-dir= --key work",
        "protect f --output= --key work",
        "protect f --key-file= -o q",
        "protect f -k= -o q",
        "protect f --cipher= --key work",
        "unprotect good.phx --output-dir=",
        "inspect  --json",
        "protect folder --key work",
        "protect f -r age1damaged -o q",
        "protect f -r AGE-SECRET-KEY-1QQQ -o q",
        "protect f --recipients-file nope -o q",
        "protect f --recipients-file damaged -o q",
        "protect f --recipients-file identity -o q",
        "protect f --recipients-file none -o q",
        "protect f -i identity -o q",
        "protect f --recipients-file short.pub -o q",
        "protect f --recipients-file ecdsa.pub -o q",
        "protect f --recipients-file ed25519 -o q",
        "verify ssh.phx -i ed25519",
        "verify ssh.phx ssh.phx -i rsa -i ed25519",
        "verify ssh.phx -i pem",
        "verify ssh.phx -i ecdsa",
        "verify ssh.phx -i ed25519.pub",
        "verify ssh.phx -i ecdsa.pub",
        "verify ssh.phx -i recipients",
        "verify ssh.phx -i cut",
        "verify ssh.phx -i rounds",
        "verify ssh.phx -i cipher",
        "verify ssh.phx -i oldpem",
        "verify locked-ssh.phx -i ed25519-locked",
        "inspect ssh.phx",
        "inspect --json ssh.phx age.phx",
        "unprotect age.phx -o q",
        "unprotect age.phx -o q --identity nope",
        "unprotect age.phx -o q --key work",
        "verify age.phx --identity identity",
        "verify age.phx age.phx -qi identity",
        "verify age.phx age.phx -i identity -i identity",
        "verify age.phx age.phx -i identity --key work",
        "verify age.phx -i open",
        "unprotect f",
        "unprotect f -o q",
        "unprotect nope.phx",
        "unprotect good.phx -o exists",
        "unprotect version.phx",
        "unprotect suite.phx",
        "unprotect header.phx",
        "unprotect good.phx --key-file other.key -o q",
        "unprotect good.phx -o - -q --key-file other.key",
        "verify good.phx",
        "verify good.phx nope f",
        "verify good.phx good.phx",
        "verify folder",
        "verify fifo",
        "verify -q good.phx",
        "inspect good.phx",
        "inspect --json good.phx",
        "inspect two.phx f nope folder",
        "inspect --json two.phx",
        "inspect service.phx",
        "inspect --json service.phx",
        "verify locked.phx --key locked",
        "inspect suite.phx",
        "inspect short.phx",
        "--version",
    };

    private static final String X25519 = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";

    @TempDir
    Path folder;

    private Path program;

    @BeforeEach
    void prepare() throws IOException, InterruptedException {
        program = Needs.phalanx();
        Keyring.in(folder.resolve("ring")).store("work", PhalanxKey.random());
        Files.write(folder.resolve("f"), new byte[5000]);
        Files.write(folder.resolve("exists"), new byte[5]);
        Files.createDirectory(folder.resolve("folder"));
        secret("empty", 0);
        secret("short.key", 31);
        secret("other.key", 32);
        Files.write(secret("cut.key", 32), "phalanx-key-1-AAAQE-AYEAU-DAOCA-".getBytes());
        secret("password", 10);
        Files.createSymbolicLink(folder.resolve("mid.key"), Path.of("other.key"));
        Files.createSymbolicLink(folder.resolve("top.key"), Path.of("mid.key"));
        Files.createSymbolicLink(folder.resolve("linked"), Path.of("ring"));
        Files.setPosixFilePermissions(secret("open.key", 32), PosixFilePermissions.fromString("rw-r--r--"));
        Needs.run(folder, List.of("mkfifo", "fifo", "ring/pipe.key")).ok();
        phalanx("protect", "f", "--key", "work", "--output", "good.phx").ok();
        phalanx("protect", "f", "--key", "work", "--password-file", "password", "--output", "two.phx").ok();
        // The URI has characters that JSON escapes.
        try (KeyServices services = KeyServices.of(new Service("test://a\"\\b"))) {
            new Protector(Recipients.of(services)).protect(folder.resolve("f"), folder.resolve("service.phx"));
        }
        String pq = phalanx("key", "new", "--identity", "identity").ok().out().strip().replace("Public key: ", "");
        Files.write(folder.resolve("recipients"), List.of("# mine", pq, "", pq));
        Files.write(folder.resolve("damaged"), List.of(pq, "age1damaged"));
        Files.write(folder.resolve("none"), List.of("# nobody"));
        Files.copy(folder.resolve("identity"), folder.resolve("open"));
        Files.setPosixFilePermissions(folder.resolve("open"), PosixFilePermissions.fromString("rw-r--r--"));
        phalanx("protect", "f", "--recipients-file", "recipients", "--output", "age.phx").ok();
        prepareSsh();
        phalanx("key", "new", "locked").ok();
        phalanx("protect", "f", "--key", "locked", "--output", "locked.phx").ok();
        phalanx("key", "lock", "locked", "--password-file", "password").ok();
        altered("version.phx", 7);
        altered("suite.phx", 12);
        altered("header.phx", 500);
        Files.write(folder.resolve("short.phx"), Arrays.copyOf(Files.readAllBytes(folder.resolve("good.phx")), 1030));
    }

    /** Keys of SSH, by names without "ssh-", and files that are protected for them. */
    private void prepareSsh() throws IOException, InterruptedException {
        Path data = Vectors.root().resolve("crates/age/tests/data");
        for (String name : List.of("ed25519", "rsa", "rsa-pem", "ecdsa", "rsa-short", "ed25519-locked")) {
            String ours = name.equals("rsa") || !name.startsWith("rsa-") ? name : name.substring("rsa-".length());
            String text = Files.readString(data.resolve("ssh-" + name));
            secretText(ours, text);
            Files.copy(data.resolve("ssh-" + name + ".pub"), folder.resolve(ours + ".pub"));
        }
        String locked = Files.readString(folder.resolve("ed25519-locked"));
        secretText("cut", locked.substring(0, 200));
        secretText("rounds", altered(locked, "bcrypt", 30, 0x7f));
        secretText("cipher", altered(locked, "aes256-ctr", 0, 'b'));
        secretText("oldpem", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n"
                + "-----END RSA PRIVATE KEY-----\n");
        phalanx("protect", "f", "--recipients-file", "ed25519.pub", "--recipients-file", "rsa.pub", "--output", "ssh.phx").ok();
        phalanx("protect", "f", "--recipients-file", "ed25519-locked.pub", "--output", "locked-ssh.phx").ok();
    }

    private void secretText(String name, String text) throws IOException {
        Path path = Files.writeString(folder.resolve(name), text);
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rw-------"));
    }

    /** A private key of OpenSSH with another byte, so many after the beginning of this text. */
    private static String altered(String key, String before, int after, int value) {
        String[] lines = key.split("\n");
        byte[] blob = Base64.getDecoder().decode(String.join("", List.of(lines).subList(1, lines.length - 1)));
        int at = new String(blob, StandardCharsets.ISO_8859_1).indexOf(before);
        blob[at + after] = (byte) value;
        String base64 = Base64.getMimeEncoder(70, new byte[] {'\n'}).encodeToString(blob);
        return lines[0] + "\n" + base64 + "\n" + lines[lines.length - 1] + "\n";
    }

    /** A service that wraps anything. */
    private record Service(String uri) implements KeyService {
        @Override
        public byte[] wrap(byte[] runKey) {
            return new byte[7];
        }

        @Override
        public byte[] unwrap(byte[] wrapped) {
            throw new AssertionError("it is not asked");
        }
    }

    private Path secret(String name, int length) throws IOException {
        byte[] bytes = new byte[length];
        Arrays.fill(bytes, (byte) 'x');
        Path path = Files.write(folder.resolve(name), bytes);
        return Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rw-------"));
    }

    private void altered(String name, int at) throws IOException {
        byte[] bytes = Files.readAllBytes(folder.resolve("good.phx"));
        bytes[at] ^= 0x40;
        Files.write(folder.resolve(name), bytes);
    }

    private Needs.Ran phalanx(String... args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(program.toString()));
        command.addAll(List.of(args));
        return Needs.run(folder, command);
    }

    /** A pipe has no position. */
    @Test
    void readsListsFromPipes() throws IOException, InterruptedException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String line = "cat recipients | \"$0\" -cp \"$1\" phalanx.command.Main protect f --recipients-file - --output piped.phx";
        Needs.run(folder, List.of("sh", "-c", line, java, System.getProperty("java.class.path"))).ok();
        phalanx("verify", "piped.phx", "--identity", "identity").ok();
    }

    /** All lines run in one JVM, because starting one for each would take a minute. */
    @Test
    void hasTheOutputOfPhalanx() throws IOException, InterruptedException {
        Path script = folder.resolve("lines");
        Files.write(script, List.of(LINES));
        List<String> command = List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp", System.getProperty("java.class.path"), Lines.class.getName(), "lines");
        String ours = Needs.run(folder, command).ok().out();
        // The program knows its version only when run from its jar, and only the other program salvages and accepts
        // folders.
        String[] each = ours.replaceAll("phalanx \\(not from its jar\\)", phalanx("--version").out().strip())
                .replace("unprotect --salvage of the program phalanx", "unprotect --salvage")
                .replace("hint: the program phalanx takes folders", "hint: --recursive takes all that is in it")
                .split("(?=\\$ phalanx )");
        assertEquals(LINES.length, each.length);
        StringBuilder theirs = new StringBuilder();
        for (String line : LINES) {
            Needs.Ran ran = phalanx(line.split(" "));
            theirs.append(Lines.shown(line, ran.code(), ran.out(), ran.err()));
        }
        assertEquals(theirs.toString(), String.join("", each));
        assertFalse(Files.exists(folder.resolve("q")));
    }

    @Test
    void protectsForPublicKeys() throws IOException, InterruptedException {
        List<String> java = List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp", System.getProperty("java.class.path"), Main.class.getName());
        List<String> line = new ArrayList<>(java);
        line.addAll(List.of("protect", "f", "-r", X25519, "--recipients-file", "recipients", "-k", "work", "-o", "for.phx"));
        Needs.Ran ran = Needs.run(folder, line).ok();
        assertTrue(ran.err().startsWith("phalanx: warning: not all public keys are post-quantum"), ran.err());
        assertTrue(phalanx("inspect", "for.phx").ok().out().contains("slot 3     age recipient"));
        phalanx("verify", "for.phx", "--key", "work").ok();
        phalanx("unprotect", "for.phx", "--identity", "identity", "--output", "again").ok();
        assertArrayEquals(Files.readAllBytes(folder.resolve("f")), Files.readAllBytes(folder.resolve("again")));
        Path identity = Files.writeString(folder.resolve("x25519"), "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX" + "\n");
        Files.setPosixFilePermissions(identity, PosixFilePermissions.fromString("rw-------"));
        line.subList(java.size(), line.size()).clear();
        line.addAll(List.of("unprotect", "for.phx", "-i", "x25519", "-o", "third"));
        assertEquals("phalanx: opened by identity x25519 (" + X25519 + "); the sender is unknown\n", Needs.run(folder, line).ok().err());
        assertArrayEquals(Files.readAllBytes(folder.resolve("f")), Files.readAllBytes(folder.resolve("third")));
    }

    @Test
    void replacesNoKeyThatIsStandardInput() throws IOException, InterruptedException {
        byte[] before = Files.readAllBytes(folder.resolve("other.key"));
        Path java = Path.of(System.getProperty("java.home"), "bin", "java");
        String line = "\"$0\" -cp \"$1\" \"$2\" protect f --key-file - --output other.key --force < other.key";
        List<String> command =
                List.of("sh", "-c", line, java.toString(), System.getProperty("java.class.path"), Main.class.getName());
        Needs.Ran ran = Needs.run(folder, command);
        assertEquals(2, ran.code(), ran.err());
        assertTrue(ran.err().contains("other.key: it holds a key or password"), ran.err());
        assertArrayEquals(before, Files.readAllBytes(folder.resolve("other.key")));
    }

    /** Runs the command at a terminal, where this is typed. What it writes is the output. */
    private Needs.Ran typing(String typed, String locale, String line) throws IOException, InterruptedException {
        Needs.require("script", Files.isExecutable(Path.of("/usr/bin/script")));
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String command = "LC_ALL=" + locale + " '" + java + "' -cp '" + System.getProperty("java.class.path") + "' " + Main.class.getName();
        return Needs.run(folder, List.of("sh", "-c", "printf '" + typed + "' | script -qec \"$0 $1\" /dev/null", command, line));
    }

    /** Each byte outside of ASCII would be the same character: "ä" and "ö" would be one password. */
    @Test
    void refusesWhatTheLocaleLacks() throws IOException, InterruptedException {
        String a = "\\303\\244\\n";
        phalanx("protect", "f", "--password-file", "password", "--output", "typed.phx").ok();
        for (String line : List.of("protect f --password -o q", "verify typed.phx", "verify locked-ssh.phx -i ed25519-locked")) {
            Needs.Ran ran = typing(a + a, "C", line);
            assertEquals(2, ran.code(), ran.out());
            assertTrue(ran.out().contains("a character was typed that is not in this locale's character set"), ran.out());
            assertTrue(ran.out().contains("hint: LC_ALL=C.UTF-8 has all"), ran.out());
            assertFalse(Files.exists(folder.resolve("q")));
        }
        typing(a + a, "C.UTF-8", "protect f --password --force -o typed.phx").ok();
        secretText("typed", "\u00e4");
        phalanx("verify", "typed.phx", "--password-file", "typed").ok();
    }

    /** What is not a path in the locale C is a mistake, and not an error of the program. */
    @Test
    void pathsThatTheLocaleLacks() throws IOException, InterruptedException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String home = "HOME=$PWD/$(printf 'j\\303\\274rgen')";
        for (String variable : List.of(home, "XDG_CONFIG_HOME=/$(printf '\\303\\274')", "PHALANX_KEYRING=$(printf '\\303\\274')")) {
            String unset = variable.startsWith("PHALANX") ? "" : "unset PHALANX_KEYRING; ";
            String before = unset + "export LC_ALL=C \"" + variable + "\"; main=\"$0 -cp $1 phalanx.command.Main\"; ";
            List<String> command = List.of("sh", "-c", "", java, System.getProperty("java.class.path"));
            List<String> inspect = new ArrayList<>(command);
            inspect.set(2, before + "exec $main inspect good.phx");
            assertTrue(Needs.run(folder, inspect).ok().out().contains("(not in the keyring)"));
            List<String> verify = new ArrayList<>(command);
            verify.set(2, before + "exec $main verify good.phx --key work");
            Needs.Ran ran = Needs.run(folder, verify);
            assertEquals(2, ran.code(), ran.err());
            assertTrue(ran.err().startsWith("phalanx: the folder for keys cannot be a path here ("), ran.err());
            List<String> identity = new ArrayList<>(command);
            for (String option : List.of("--identity", "--key-file", "--password-file")) {
                identity.set(2, before + "exec $main verify good.phx " + option + " $(printf '\\303\\274')");
                ran = Needs.run(folder, identity);
                assertEquals(2, ran.code(), ran.err());
                assertTrue(ran.err().contains(": it cannot be a path here ("), ran.err());
            }
            identity.set(2, before + "exec $main protect f -o q --recipients-file $(printf '\\303\\274')");
            ran = Needs.run(folder, identity);
            assertEquals(2, ran.code(), ran.err());
            assertTrue(ran.err().contains(": it cannot be a path here ("), ran.err());
        }
    }

    @Test
    void helpNamesEveryOption() throws IOException, InterruptedException {
        for (String name : Options.commands()) {
            try (var page = Main.class.getResourceAsStream(name + ".txt")) {
                String help = new String(page.readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
                String theirs = phalanx(name, "--help").out();
                assertTrue(help.lines().allMatch(line -> line.length() <= 80), name);
                for (String line : help.lines().filter(line -> line.startsWith("  -") || line.startsWith("      --")).toList()) {
                    String option = line.strip().split("  ")[0];
                    assertTrue(theirs.contains(option), () -> name + ": phalanx has no " + option);
                }
            }
        }
    }
}
