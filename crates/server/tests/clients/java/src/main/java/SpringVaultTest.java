import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

import org.springframework.http.client.ClientHttpRequestFactory;
import org.springframework.http.client.JdkClientHttpRequestFactory;
import org.springframework.http.client.SimpleClientHttpRequestFactory;
import org.springframework.vault.VaultException;
import org.springframework.vault.authentication.LifecycleAwareSessionManager;
import org.springframework.vault.authentication.SimpleSessionManager;
import org.springframework.vault.authentication.TokenAuthentication;
import org.springframework.vault.client.RestTemplateBuilder;
import org.springframework.vault.client.VaultEndpoint;
import org.springframework.vault.core.VaultTemplate;
import org.springframework.vault.core.VaultTransitOperations;
import org.springframework.vault.support.Ciphertext;
import org.springframework.vault.support.Plaintext;
import org.springframework.vault.support.VaultDecryptionResult;
import org.springframework.vault.support.VaultEncryptionResult;
import org.springframework.vault.support.VaultHealth;
import org.springframework.vault.support.VaultResponse;
import org.springframework.vault.support.VaultTransitContext;
import org.springframework.vault.support.VaultTransitKey;
import org.springframework.vault.support.VaultTransitKeyConfiguration;
import org.springframework.vault.support.VaultTransitKeyCreationRequest;

/** Spring Vault over the JDK's HTTP clients against a Transit server: VAULT_ADDR, VAULT_TOKEN, VAULT_CACERT. */
public class SpringVaultTest {

	public static void main(String[] args) throws Exception {
		SSLContext tls = SSLContext.getDefault();
		String ca = System.getenv("VAULT_CACERT");
		if (ca != null && !ca.isEmpty()) {
			tls = trusting(Path.of(ca));
			javax.net.ssl.HttpsURLConnection.setDefaultSSLSocketFactory(tls.getSocketFactory());
		}
		try {
			run(new JdkClientHttpRequestFactory(HttpClient.newBuilder().sslContext(tls).build()));
			run(new SimpleClientHttpRequestFactory()); // HttpURLConnection
			System.out.println("ok");
			System.exit(0);
		}
		catch (Throwable e) {
			e.printStackTrace();
			System.exit(1);
		}
	}

	static void run(ClientHttpRequestFactory http) throws Exception {
		VaultEndpoint endpoint = VaultEndpoint.from(URI.create(System.getenv("VAULT_ADDR")));
		TokenAuthentication auth = new TokenAuthentication(System.getenv("VAULT_TOKEN"));
		VaultTemplate vault = new VaultTemplate(endpoint, http, new SimpleSessionManager(auth));
		VaultTransitOperations transit = vault.opsForTransit();
		String id = UUID.randomUUID().toString();
		String name = "java-" + id, derived = "java-derived-" + id;

		VaultHealth health = vault.opsForSys().health();
		check(health.isInitialized() && !health.isSealed() && !health.isStandby(), "health");
		check(!vault.opsForSys().getUnsealStatus().isSealed() && vault.opsForSys().isInitialized(), "seal status");

		// keys: POST without a body, then with one
		transit.createKey(name);
		transit.createKey(derived, VaultTransitKeyCreationRequest.builder().derived(true).build());
		check(transit.getKeys().containsAll(List.of(name, derived)), "keys?list=true");
		check(vault.list("transit/keys").contains(name), "keys/?list=true");
		VaultTransitKey key = transit.getKey(name);
		check(key.getType().equals("aes256-ctr-sha3") && key.getLatestVersion() == 1 && !key.isDerived()
				&& key.supportsEncryption() && key.getKeys().containsKey("1"), "key");
		check(transit.getKey(derived).isDerived(), "derived key");
		check(transit.getKey("no-such-key") == null, "absent key");

		// encrypt and decrypt
		String ct = transit.encrypt(name, "hello");
		check(ct.startsWith("vault:v1:") && transit.decrypt(name, ct).equals("hello"), "round trip");
		fails(() -> transit.decrypt(name, "garbage"), "invalid ciphertext: no prefix");
		fails(() -> transit.encrypt(derived, "x"), "missing 'context' for key derivation");
		VaultTransitContext tenant = VaultTransitContext.builder().context("tenant".getBytes()).build();
		Ciphertext one = transit.encrypt(derived, Plaintext.of("one").with(tenant));
		check(transit.decrypt(derived, one).asString().equals("one"), "context");

		// batch with context; with a failing item the answer is 400, which Spring Vault raises as a whole
		List<Plaintext> in = List.of(Plaintext.of("a").with(tenant), Plaintext.of("b").with(tenant));
		List<Ciphertext> cts = new ArrayList<>();
		for (VaultEncryptionResult r : transit.encrypt(derived, in)) {
			cts.add(r.get());
		}
		List<VaultDecryptionResult> plain = transit.decrypt(derived, cts);
		check(plain.get(0).getAsString().equals("a") && plain.get(1).getAsString().equals("b"), "batch");
		cts.set(1, Ciphertext.of("nonsense").with(tenant));
		fails(() -> transit.decrypt(derived, cts), "invalid ciphertext: no prefix");
		VaultResponse partial = vault.write("transit/decrypt/" + derived,
				Map.of("batch_input",
						cts.stream().map(c -> Map.of("ciphertext", c.getCiphertext(), "context",
								Base64.getEncoder().encodeToString(c.getContext().getContext()))).toList(),
						"partial_failure_response_code", "200"));
		List<?> results = (List<?>) partial.getRequiredData().get("batch_results");
		check(((Map<?, ?>) results.get(1)).get("error").equals("invalid ciphertext: no prefix"), "partial failure");

		// rotate, rewrap (a batch with a failing item answers 200 here), config, trim
		transit.rotate(name);
		check(transit.rewrap(name, ct).startsWith("vault:v2:"), "rewrap");
		List<VaultEncryptionResult> re = transit.rewrap(name, List.of(Ciphertext.of(ct), Ciphertext.of("nonsense")));
		check(re.get(0).isSuccessful() && re.get(1).getCause().getMessage().contains("no prefix"), "batch rewrap");
		VaultTransitContext v1 = VaultTransitContext.builder().keyVersion(1).build(); // sent as the string "1"
		check(transit.encrypt(name, "x".getBytes(), v1).startsWith("vault:v1:"), "key_version");
		transit.configureKey(name, VaultTransitKeyConfiguration.builder().minDecryptionVersion(2)
			.minEncryptionVersion(2).deletionAllowed(true).build());
		fails(() -> transit.decrypt(name, ct), "disallowed by policy (too old)");
		vault.write("transit/keys/" + name + "/trim", Map.of("min_available_version", 2));
		check(transit.getKey(name).getKeys().keySet().equals(java.util.Set.of("2")), "trim");

		// data key, random
		Map<String, Object> dk = vault.write("transit/datakey/plaintext/" + name, null).getRequiredData();
		check(transit.decrypt(name, (String) dk.get("ciphertext"), VaultTransitContext.empty()).length == 32, "data key");
		Object rnd = vault.write("transit/random/8", Map.of("format", "hex")).getRequiredData().get("random_bytes");
		check(((String) rnd).length() == 16, "random");

		// tokens
		check(vault.read("auth/token/lookup-self").getRequiredData().get("id").equals(System.getenv("VAULT_TOKEN")), "lookup-self");
		VaultResponse created = vault.write("auth/token/create", Map.of("ttl", "1h", "policies", List.of("root")));
		TokenAuthentication child = new TokenAuthentication((String) created.getAuth().get("client_token"));
		LifecycleAwareSessionManager session = new LifecycleAwareSessionManager(child,
				new org.springframework.scheduling.concurrent.ConcurrentTaskScheduler(),
				RestTemplateBuilder.builder().endpoint(endpoint).requestFactory(http).build());
		check(session.getSessionToken() != null && session.renewToken(), "renew-self");
		VaultTemplate self = new VaultTemplate(endpoint, http, new SimpleSessionManager(child));
		check(self.write("auth/token/revoke-self", null) == null, "revoke-self");
		fails(() -> self.read("auth/token/lookup-self"), "permission denied");

		// delete
		fails(() -> transit.deleteKey(derived), "deletion is not allowed for this key");
		transit.configureKey(derived, VaultTransitKeyConfiguration.builder().deletionAllowed(true).build());
		transit.deleteKey(name);
		transit.deleteKey(derived);
		check(transit.getKey(name) == null, "deleted");
	}

	static SSLContext trusting(Path pem) throws Exception {
		KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
		store.load(null);
		try (InputStream in = Files.newInputStream(pem)) {
			int i = 0;
			for (var cert : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
				store.setCertificateEntry("ca" + i++, cert);
			}
		}
		TrustManagerFactory tmf = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
		tmf.init(store);
		SSLContext tls = SSLContext.getInstance("TLS");
		tls.init(null, tmf.getTrustManagers(), null);
		return tls;
	}

	interface VoidCall { void run(); }

	static void fails(VoidCall call, String message) {
		try {
			call.run();
		}
		catch (VaultException e) {
			check(e.getMessage().contains(message), e.getMessage());
			return;
		}
		throw new AssertionError("expected: " + message);
	}

	static void check(boolean ok, String what) {
		if (!ok) {
			throw new AssertionError(what);
		}
	}
}
