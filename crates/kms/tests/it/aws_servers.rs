//! The program for AWS, and `phalanx` with it, against two servers that others have written: moto's and local-kms.

use super::aws::PROGRAM;
use super::by_phalanx::{beside, skip, succeeded};
use super::{ask_with, error, request};
use base64ct::{Base64, Encoding};
use serde_json::{Value, json};
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const CONTEXT: &str = "phalanx v1 run key";
const REGION: &str = "us-east-1";

/// A server with a key, which also has the alias `alias/orders`. It is killed on drop.
struct Server {
    child: Child,
    address: SocketAddr,
    /// The id and the ARN of its key.
    id: String,
    arn: String,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of this machine that nobody else has: nobody takes its port before the server does.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    let ip = Ipv4Addr::new(127, 128 + NEXT.fetch_add(1, Ordering::Relaxed) % 127, high, low);
    TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap()
}

impl Server {
    /// Those that are installed. For others a line is printed.
    fn all() -> Vec<Self> {
        ["moto_server", "local-kms"].into_iter().filter_map(Self::start).collect()
    }

    fn start(name: &str) -> Option<Self> {
        let program = installed(name)?;
        let folder = tempfile::tempdir().unwrap();
        let address = own_address();
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let mut command = Command::new(program);
        match name {
            "moto_server" => command.args(["-H", &host, "-p", &port]),
            _ => command.env("PORT", &port).env("KMS_REGION", REGION).env("KMS_DATA_PATH", folder.path()),
        };
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let mut server = Self { child, address, id: String::new(), arn: String::new(), _folder: folder };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert_eq!(server.child.try_wait().unwrap(), None, "{name} has ended");
            assert!(started.elapsed() < Duration::from_secs(60), "{name} has not started");
            sleep(Duration::from_millis(20));
        }
        (server.id, server.arn) = server.new_key();
        server.manage("CreateAlias", &json!({ "AliasName": "alias/orders", "TargetKeyId": server.id }));
        Some(server)
    }

    /// The id and the ARN of a new key.
    fn new_key(&self) -> (String, String) {
        let made = self.manage("CreateKey", &json!({}));
        let text = |field: &str| made["KeyMetadata"][field].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        (text("KeyId"), text("Arn"))
    }

    /// What the server answers to its owner.
    fn manage(&self, action: &str, body: &Value) -> Value {
        let (address, body) = (self.address, body.to_string());
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/x-amz-json-1.1\r\nX-Amz-Target: TrentService.{action}\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=AKID/20200101/{REGION}/kms/aws4_request, SignedHeaders=host, Signature=00\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{action}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        if body.is_empty() { Value::Null } else { serde_json::from_str(body).unwrap() }
    }

    fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ACCESS_KEY_ID", "AKID".into()),
            ("AWS_SECRET_ACCESS_KEY", "secret".into()),
            ("AWS_REGION", REGION.into()),
            ("AWS_ENDPOINT_URL_KMS", format!("http://{}", self.address)),
        ]
    }

    fn ask(&self, operation: &str, uri: &str, bytes: &[u8]) -> Value {
        let field = if operation == "wrap" { "plaintext" } else { "ciphertext" };
        let variables = self.variables();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        ask_with(PROGRAM, &request(operation, uri, field, bytes).to_string(), &variables)
    }

    fn wrapped(&self, uri: &str, bytes: &[u8]) -> Vec<u8> {
        let answer = self.ask("wrap", uri, bytes);
        Base64::decode_vec(answer["ciphertext"].as_str().unwrap_or_else(|| panic!("{answer}"))).unwrap()
    }

    /// Something that its owner has encrypted under a context.
    fn encrypted(&self, context: &Value) -> Vec<u8> {
        let plaintext = Base64::encode_string(&[7; 32]);
        let body = json!({ "KeyId": self.id, "Plaintext": plaintext, "EncryptionContext": context });
        Base64::decode_vec(self.manage("Encrypt", &body)["CiphertextBlob"].as_str().unwrap()).unwrap()
    }

    /// Why it unwraps nothing.
    fn refusal(&self, uri: &str, wrapped: &[u8]) -> String {
        let answer = self.ask("unwrap", uri, wrapped);
        let said = answer["error"].as_str().unwrap_or_else(|| panic!("{}: {uri} unwraps {wrapped:?}", self.arn));
        let address = format!("http://{} answers 400 Bad Request: ", self.address);
        said.strip_prefix(&address).unwrap_or_else(|| panic!("{said}")).to_owned()
    }
}

/// A program in a folder of PATH. If there is none, prints a line, or fails if PHALANX_REQUIRE names it.
fn installed(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    let found = env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        skip(name);
    }
    found
}

#[test]
fn foreign_servers_unwrap_what_they_have_wrapped() {
    for server in Server::all() {
        let (key, blob) = ([9; 32], server.wrapped("awskms://alias/orders", &[9; 32]));
        assert!(!blob.windows(key.len()).any(|part| part == key));
        let (id, arn) = (format!("awskms://{}", server.id), format!("awskms:///{}", server.arn));
        for uri in ["awskms://alias/orders", "awskms://alias/orders?region=us-east-1", &id, &arn] {
            let answer = server.ask("unwrap", uri, &blob);
            assert_eq!(answer, json!({ "plaintext": Base64::encode_string(&key) }), "{uri}");
            assert_eq!(server.ask("unwrap", uri, &server.wrapped(uri, &key)), answer, "{uri}");
        }
        // The owner of the key sees the context that the documentation promises.
        let context = json!({ "purpose": CONTEXT });
        let body = json!({ "CiphertextBlob": Base64::encode_string(&blob), "EncryptionContext": context });
        assert_eq!(server.manage("Decrypt", &body)["Plaintext"], Base64::encode_string(&key));
        let answer = server.ask("unwrap", &id, &server.encrypted(&context));
        assert_eq!(answer, json!({ "plaintext": Base64::encode_string(&[7; 32]) }));
    }
}

/// A run key is unwrapped only by its own key and under its own context, so that a file cannot have anything else that the
/// key has encrypted unwrapped.
#[test]
fn foreign_servers_unwrap_nothing_else() {
    for server in Server::all() {
        let blob = server.wrapped("awskms://alias/orders", &[9; 32]);
        for context in [json!({}), json!({ "purpose": "another" }), json!({ "purpose": CONTEXT, "more": "x" })] {
            let refusal = server.refusal("awskms://alias/orders", &server.encrypted(&context));
            assert!(refusal.starts_with("InvalidCiphertextException"), "{context}: {refusal}");
        }
        // Before these bytes is the name of the key, which local-kms does not look at where the request names it.
        for at in [blob.len() - 32, blob.len() - 1] {
            let mut altered = blob.clone();
            altered[at] ^= 1;
            server.refusal("awskms://alias/orders", &altered);
        }
        let (other, _) = server.new_key();
        server.refusal(&format!("awskms://{other}"), &blob);
        let missing = server.refusal("awskms://alias/none", &blob);
        assert!(missing.starts_with("NotFoundException"), "{missing}");
        let gone = server.ask("wrap", "awskms://00000000-0000-0000-0000-000000000000", &[9; 32]);
        assert!(error(&gone).contains("NotFoundException"), "{gone}");
    }
}

#[test]
fn files_are_protected_and_opened_through_foreign_servers() {
    let Some(phalanx) = beside("phalanx") else { return };
    for server in Server::all() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f"), "precious").unwrap();
        let run = |arguments: &[&str]| {
            let mut command = Command::new(&phalanx);
            command.args(arguments).current_dir(folder.path()).envs(server.variables()).stdin(Stdio::null());
            // What often names a store does not count.
            command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
            command.env("PHALANX_KEYRING", folder.path().join("keyring")).output().unwrap()
        };
        let uri = format!("awskms:///{}", server.arn);
        succeeded(run(&["protect", "f", "--kms", &uri]));
        succeeded(run(&["unprotect", "f.phx", "-o", "g", "--kms", &uri]));
        assert_eq!(fs::read(folder.path().join("g")).unwrap(), b"precious");
        let (_, other) = server.new_key();
        let refused = run(&["protect", "f", "-o", "h", "--kms", &format!("awskms:///{other}-none")]);
        assert_eq!(refused.status.code(), Some(1));
        // The service is gone, and so is what it alone opens.
        let address = server.address;
        drop(server);
        let refused = Command::new(&phalanx)
            .args(["verify", "f.phx", "--kms", &uri])
            .current_dir(folder.path())
            .env("AWS_ACCESS_KEY_ID", "AKID")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_ENDPOINT_URL_KMS", format!("http://{address}"))
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(3));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(&format!("the key service {uri}: http://{address} cannot be asked: ")), "{said}");
    }
}
