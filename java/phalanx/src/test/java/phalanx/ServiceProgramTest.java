package phalanx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Programs of key services: what they get, and answers of all kinds. */
class ServiceProgramTest {
    /** A service whose key exchanges letters of Base64. It notes each request and its environment beside it. */
    static final String SERVICE = """
            #!/bin/sh
            read -r request
            printf '%s\\n' "$request" >> "${0%/*}/asked"
            env > "${0%/*}/environment"
            pwd > "${0%/*}/folder"
            case $request in
            *'"operation":"wrap"'*) text=${request##*'"plaintext":"'}; text=$(printf %s "${text%%\\"*}" | tr A-LM-X M-XA-L); echo "{\\"ciphertext\\":\\"$text\\"}" ;;
            *'"operation":"unwrap"'*) text=${request##*'"ciphertext":"'}; text=$(printf %s "${text%%\\"*}" | tr A-LM-X M-XA-L); echo "{\\"plaintext\\":\\"$text\\"}" ;;
            esac
            """;
    private static final byte[] RUN_KEY = "the 32 bytes of a run's own key.".getBytes(StandardCharsets.US_ASCII);
    private static final String ENCODED = Base64.getEncoder().encodeToString(RUN_KEY);

    @TempDir
    Path folder;

    /** Installs a program of a service in a folder. */
    static void install(Path folder, String name, String script) throws IOException {
        Path file = Files.writeString(folder.resolve("phalanx-kms-" + name), script);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    private String path() {
        return folder + ":" + System.getenv("PATH");
    }

    private KeyService service() {
        return ServiceProgram.of("test://k", path());
    }

    /** What comes of a program that does this. */
    private byte[] unwrapped(String script) throws IOException {
        install(folder, "test", "#!/bin/sh\n" + script + "\n");
        return service().unwrap(new byte[3]);
    }

    private String refused(String script) {
        IOException e = assertThrows(IOException.class, () -> unwrapped(script), script);
        assertFalse(e.getMessage().contains(ENCODED), e.getMessage());
        return e.getMessage();
    }

    @Test
    void aProgramWrapsAndUnwraps() throws IOException {
        install(folder, "test", SERVICE);
        KeyService service = ServiceProgram.of("test://k\"\\", path());
        byte[] wrapped = service.wrap(RUN_KEY);
        assertFalse(Arrays.equals(RUN_KEY, wrapped));
        assertArrayEquals(RUN_KEY, service.unwrap(wrapped));
        String start = "{\"version\":1,\"operation\":\"%s\",\"uri\":\"test://k\\\"\\\\\",\"context\":{\"purpose\":\"phalanx v1 run key\"},\"%s\":\"%s\"}";
        String encoded = Base64.getEncoder().encodeToString(wrapped);
        assertEquals(List.of(start.formatted("wrap", "plaintext", ENCODED), start.formatted("unwrap", "ciphertext", encoded)),
                Files.readAllLines(folder.resolve("asked")));
        assertEquals(List.of("/"), Files.readAllLines(folder.resolve("folder")));
        for (String line : Files.readAllLines(folder.resolve("environment"))) {
            String name = line.substring(0, line.indexOf('='));
            // The shell sets these itself.
            assertTrue(ServiceProgram.isPassedOn(name) || List.of("PWD", "OLDPWD", "_", "SHLVL").contains(name), name);
        }
        // The longest that is in a file.
        byte[] longest = new byte[4096];
        Arrays.fill(longest, (byte) 7);
        assertEquals(4096, service.unwrap(longest).length);
        assertEquals("KeyService[test://k\"\\]", service.toString());
    }

    @Test
    void fewVariablesArePassedOn() {
        for (String name : List.of("PATH", "HOME", "VAULT_TOKEN", "AWS_REGION", "https_proxy", "NO_PROXY", "KMS_X", "LC_ALL")) {
            assertTrue(ServiceProgram.isPassedOn(name), name);
        }
        for (String name : List.of("PHALANX_PASSWORD", "PHALANX_KEYRING", "PATHS", "home", "vault_token", "MY_AWS_KEY", "LD_PRELOAD", "")) {
            assertFalse(ServiceProgram.isPassedOn(name), name);
        }
    }

    @Test
    void namesAreChecked() {
        for (String uri : List.of("k", "test:k", "test://", "://k", "../x://k", "Test://k", "-x://k", "a b://k", "test://a b", "test://ä",
                "test://k\n", "x".repeat(33) + "://k", "test://" + "x".repeat(1018))) {
            String message = assertThrows(IllegalArgumentException.class, () -> KeyService.program(uri), uri).getMessage();
            assertFalse(message.contains("\n"));
        }
        assertEquals("a-1://k", KeyService.program("a-1://k").uri());
    }

    @Test
    void theProgramIsInAnAbsoluteFolderOfPath() throws IOException {
        install(folder, "test", SERVICE);
        Path relative = Path.of("").toAbsolutePath().relativize(folder);
        Path empty = Files.createDirectory(folder.resolve("empty"));
        Files.createDirectory(empty.resolve("phalanx-kms-test"));
        Path plain = Files.createDirectory(folder.resolve("plain"));
        Files.writeString(plain.resolve("phalanx-kms-test"), SERVICE);
        for (String path : new String[] {null, "", relative.toString(), ".:", empty.toString(), plain.toString()}) {
            IOException e = assertThrows(ServiceProgram.AwayException.class, () -> ServiceProgram.of("test://k", path).wrap(RUN_KEY));
            assertEquals("it needs the program phalanx-kms-test, which is not in PATH", e.getMessage());
        }
        String path = relative + ":" + empty + ":" + plain + ":" + path();
        assertArrayEquals(RUN_KEY, ServiceProgram.of("test://k", path).unwrap(ServiceProgram.of("test://k", path).wrap(RUN_KEY)));
    }

    @Test
    void answersAreReadStrictly() throws IOException {
        String good = "\"plaintext\":\"" + ENCODED + "\"";
        for (String answer : List.of("{" + good + "}", " \t{ " + good.replace(":", " : ") + " } \r\n",
                "{\"a\":[1,-0.5e+7,{\"b\":[[],{},\"\\u00e9\\ud83d\\ude00\\n\",true,false,null]}]," + good + ",\"error\":null,\"c\":{}}",
                "{" + good.replace("\"plain", "\"\\u0070lain") + "}", "{" + good + ",\"ciphertext\":\"other\"}",
                "{\"plaintext\":\"\\u" + "%04x".formatted((int) ENCODED.charAt(0)) + ENCODED.substring(1) + "\"}")) {
            assertArrayEquals(RUN_KEY, unwrapped("printf %s '" + answer + "'"), answer);
        }
        String other = "phalanx-kms-test did not answer with a JSON object of texts";
        for (String answer : List.of("no", "[]", "\"" + ENCODED + "\"", "{" + good, "{" + good + "}x", "{" + good + "}{}",
                "{" + good + ",}", "{," + good + "}", "{" + good + "," + good + "}", "{plaintext:\"" + ENCODED + "\"}",
                "{\"plaintext\":1}", "{\"plaintext\":[]}", "{\"plaintext\":{}}", "{" + good + ",\"error\":true}",
                "{" + good + ",\"x\":01}", "{" + good + ",\"x\":1.}", "{" + good + ",\"x\":+1}", "{" + good + ",\"x\":.5}",
                "{" + good + ",\"x\":NaN}", "{" + good + ",\"x\":tru}", "{" + good + ",\"x\":\"\t\"}", "{" + good + ",\"x\":\"\\x\"}",
                "{" + good + ",\"x\":\"\\u12\"}", "{" + good + ",\"x\":\"\\ud800\"}", "{" + good + ",\"x\":\"\\udc00\\ud800\"}",
                "{" + good + ",\"x\":[}]}", "{" + good + ",\"x\":[1,]}", "{" + good + ",\"x\":{1:2}}", "{" + good + ",\"x\":\"\\",
                "{" + good + ",\"x\":" + "[".repeat(200) + "]".repeat(200) + "}", "{" + good + " \"x\":1}", "{\"plaintext\" \"x\"}",
                "\ufeff{" + good + "}", "//\n{" + good + "}")) {
            assertEquals(other, refused("printf %s '" + answer + "'"), answer);
        }
        assertEquals(other, refused("printf '{" + good + ",\"x\":\"\\377\"}'"));
        assertEquals("phalanx-kms-test answered without a plaintext", refused("echo '{}'"));
        assertEquals("phalanx-kms-test answered without a plaintext", refused("echo '{\"ciphertext\":\"AAAA\",\"plaintext\":null}'"));
        for (String text : List.of("A", "AA", "AAA", "AA=", "AB==", "AA==A", "A A=", "AA-_", "AA==AA==", "ä===", "AAAA\\n")) {
            assertEquals("phalanx-kms-test answered with a plaintext that is not Base64 with padding",
                    refused("printf %s '{\"plaintext\":\"" + text + "\"}'"), text);
        }
        assertArrayEquals(new byte[0], unwrapped("echo '{\"plaintext\":\"\"}'"));
    }

    @Test
    void failuresAreTold() throws IOException {
        assertEquals("phalanx-kms-test gave no answer", refused("exit 0"));
        assertEquals("phalanx-kms-test gave no answer", refused("echo; exit 3"));
        assertEquals("permission denied", refused("printf %s '{\"error\":\" permission denied\\n\"}'"));
        assertEquals("a\ufffdb", refused("printf %s '{\"error\":\"a\\nb\",\"plaintext\":\"" + ENCODED + "\"}'; exit 1"));
        assertEquals("x".repeat(300), refused("printf %s '{\"error\":\"" + "x".repeat(999) + "\"}'"));
        assertEquals("phalanx-kms-test ended with exit code 7", refused("echo '{\"plaintext\":\"" + ENCODED + "\"}'; exit 7"));
        assertEquals("phalanx-kms-test answered with more than 64 KiB", refused("head -c 65537 /dev/zero"));
        assertEquals("phalanx-kms-test answered with more than 64 KiB", refused("exec cat /dev/zero"));
        // 64 KiB are not too many.
        assertEquals("phalanx-kms-test did not answer with a JSON object of texts", refused("head -c 65536 /dev/zero"));
        IOException e = assertThrows(IOException.class, () -> unwrapped("for i in 1 2 3 4 5 6 7; do echo; echo line $i >&2; done"));
        assertEquals("phalanx-kms-test said: line 1; line 2; line 3; line 4; line 5", e.getSuppressed()[0].getMessage());
        // Much on standard error does not stop it.
        assertArrayEquals(RUN_KEY, unwrapped("head -c 300000 /dev/zero >&2; echo '{\"plaintext\":\"" + ENCODED + "\"}'"));
        // It need not read the request.
        assertArrayEquals(RUN_KEY, unwrapped("exec <&-; echo '{\"plaintext\":\"" + ENCODED + "\"}'"));
        install(folder, "test", "#!/no/such/interpreter\n");
        assertThrows(ServiceProgram.AwayException.class, () -> service().unwrap(new byte[3]));
    }

    @Test
    void nothingWaitsForAProgramThatHangs() throws IOException {
        install(folder, "test", "#!/bin/sh\nexec sleep 1000\n");
        assertTimeoutPreemptively(Duration.ofSeconds(60), () -> {
            IOException e = assertThrows(ServiceProgram.AwayException.class,
                    () -> ServiceProgram.of("test://k", path(), 1000).unwrap(new byte[3]));
            assertEquals("phalanx-kms-test took longer than 1 seconds", e.getMessage());
            // One that has answered is not waited for either.
            assertArrayEquals(RUN_KEY, unwrapped("echo '{\"plaintext\":\"" + ENCODED + "\"}'; exec >&- 2>&-; exec sleep 1000"));
        });
        // It is not asked again for a while.
        install(folder, "test", "#!/bin/sh\nexec sleep 1000\n");
        try (KeyServices services = KeyServices.of(ServiceProgram.of("test://k", path(), 1000))) {
            for (int i = 0; i < 3; i++) {
                byte[] wrapped = {(byte) i};
                String message = assertThrows(KeyException.class, () -> services.runKey("test://k", wrapped)).getMessage();
                assertEquals("the key service test://k: phalanx-kms-test took longer than 1 seconds", message);
                install(folder, "test", SERVICE);
            }
        }
        assertFalse(Files.exists(folder.resolve("asked")));
    }

    @Test
    void anInterruptEndsIt() throws IOException {
        install(folder, "test", "#!/bin/sh\nexec sleep 1000\n");
        KeyServices services = KeyServices.of(service());
        assertTimeoutPreemptively(Duration.ofSeconds(60), () -> {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedIOException.class, () -> services.runKey("test://k", new byte[1]));
            assertTrue(Thread.interrupted());
        });
    }
}
