//! The servers that are measured: `phalanx-server`, and Vault in its mode for development.

use super::client::{Address, Client};
use super::place::Place;
use super::processes::{Process, output};
use super::transit;
use crate::measure::programs::first_line;
use crate::measure::setup::ServiceOptions;
use crate::measure::{Error, Result, Scratch};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The key of both modes of `phalanx-server`, and that of Vault.
pub const KEY: &str = "bench";
pub const SHREDDABLE: &str = "bench-shreddable";

/// What is written for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audit {
    Off,
    /// The line is written soon after the answer.
    On,
    /// The line is written before the answer, and by `phalanx-server` it is on the disk too.
    Required,
}

/// A running server.
pub struct Server {
    pub scheme: String,
    pub process: Process,
    /// Where it listens with a token.
    pub address: Address,
    pub token: String,
    /// The socket of this machine, if it has one.
    pub socket: Option<Address>,
    dir: PathBuf,
}

/// Where programs are, and where servers have their folders.
#[derive(Clone, Copy)]
pub struct Programs<'a> {
    pub options: &'a ServiceOptions,
    pub scratch: &'a Scratch,
    pub place: Place,
}

/// A server's certificate, and what makes clients trust it.
pub struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    config: Arc<ClientConfig>,
}

/// A certificate for this machine, not for others.
const CERTIFICATE: &str = "[req]\nprompt = no\ndistinguished_name = name\nx509_extensions = more\n[name]\nCN = localhost\n[more]\n\
                           basicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1, DNS:localhost\n";

impl Certificate {
    /// Makes one by `openssl`.
    pub fn make(scratch: &Scratch) -> Result<Self> {
        let settings = scratch.path("certificate.cnf");
        fs::write(&settings, CERTIFICATE).map_err(Error::at(&settings))?;
        let (chain, key) = (scratch.path("certificate.pem"), scratch.path("certificate.key"));
        let mut command = Command::new(crate::measure::programs::require("openssl")?);
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
        command.arg("-config").arg(&settings).arg("-out").arg(&chain).arg("-keyout").arg(&key);
        output("openssl req", command)?;
        let broken = |e: String| Error::NotRun(format!("no certificate: {e}"));
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(&chain).map_err(|e| broken(e.to_string()))?;
        roots.add(certificate).map_err(|e| broken(e.to_string()))?;
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Ok(Self { chain, key, config: Arc::new(config) })
    }
}

impl Programs<'_> {
    fn program(&self) -> Result<&Path> {
        self.options.server.as_deref().ok_or_else(|| Error::NotRun("no phalanx-server".into()))
    }

    /// A new folder. Its name is short, because a path to a socket has at most 107 bytes.
    fn new_folder(&self) -> Result<PathBuf> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        self.scratch.folder(&format!("server-{}", COUNT.fetch_add(1, Relaxed)))
    }

    /// Starts `phalanx-server` in a new folder, on the core of servers, with both keys.
    pub fn phalanx(&self, scheme: &str, audit: Audit, certificate: Option<&Certificate>) -> Result<Server> {
        let program = self.program()?;
        let folder = self.new_folder()?;
        let key_file = self.scratch.secret("server.key", &[7; 32])?;
        let dir = folder.join("dir");
        let command = |words: &[&str]| {
            let mut command = Command::new(program);
            command.args(words).arg("--dir").arg(&dir).env_remove("NOTIFY_SOCKET").env_remove("LISTEN_FDS");
            command
        };
        let mut init = command(&["init"]);
        init.arg("--key-file").arg(&key_file);
        output("phalanx-server init", init)?;
        let audit = match audit {
            Audit::Off => "off",
            Audit::On => "on",
            Audit::Required => "required",
        };
        let mut run = command(&["run", "--listen", "127.0.0.1:0", "--audit", audit]);
        run.arg("--key-file").arg(&key_file);
        if let Some(Certificate { chain, key, .. }) = certificate {
            run.arg("--tls-cert").arg(chain).arg("--tls-key").arg(key);
        }
        let mut process = self.place.as_server(|| Process::start("phalanx-server", run))?;
        let at = process.wait_for_line(listening)?;
        let socket = Address::Unix(dir.join("server.sock"));
        process.wait_until(|| Client::connect(&socket))?;
        output("phalanx-server key new", command(&["key", "new", KEY]))?;
        let rights = format!("seal:{KEY},open:{KEY}");
        let token = output("phalanx-server token new", command(&["token", "new", "--allow", &rights, "--ttl", "24h"]))?;
        let address = match certificate {
            Some(certificate) => Address::Tls(at, certificate.config.clone()),
            None => Address::Tcp(at),
        };
        Ok(Server { scheme: scheme.into(), process, address, token, socket: Some(socket), dir })
    }

    /// Starts Vault on the core of servers, with a derived key, and with an audit device that writes a file if wanted.
    pub fn vault(&self, scheme: &str, audit: Audit) -> Result<Server> {
        let missing = || Error::NotRun("no vault (name one with --vault)".into());
        let program = self.options.vault.as_deref().ok_or_else(missing)?;
        let folder = self.new_folder()?;
        let at = free_port()?;
        let token = "phalanx-bench";
        let mut run = Command::new(program);
        run.args(["server", "-dev", "-dev-no-store-token", "-log-level=error"]);
        run.arg(format!("-dev-root-token-id={token}")).arg(format!("-dev-listen-address={at}"));
        // One core, as the server beside it has; and its files in the run's folder.
        run.env("GOMAXPROCS", "1").env("HOME", &folder);
        let mut process = self.place.as_server(|| Process::start("vault", run))?;
        let address = Address::Tcp(at);
        let mut client = process.wait_until(|| {
            let mut client = Client::connect(&address)?;
            client.ask(&transit::get("/v1/sys/health", token))?;
            Ok(client)
        })?;
        let mut post = |path: &str, body: &str| client.ask(&transit::post(path, token, body)).map(drop);
        post("/v1/sys/mounts/transit", r#"{"type":"transit"}"#)?;
        post(&format!("/v1/transit/keys/{KEY}"), r#"{"derived":true}"#)?;
        if audit != Audit::Off {
            let file = serde_json::json!({ "type": "file", "options": { "file_path": folder.join("audit.log") } });
            post("/v1/sys/audit/file", &file.to_string())?;
        }
        Ok(Server { scheme: scheme.into(), process, address, token: token.into(), socket: None, dir: folder })
    }

    /// Makes a key in shreddable mode.
    pub fn make_shreddable(&self, server: &Server) -> Result<()> {
        let mut command = Command::new(self.program()?);
        command.args(["key", "new", SHREDDABLE, "--mode", "shreddable", "--dir"]).arg(&server.dir);
        output("phalanx-server key new", command).map(drop)
    }
}

/// The address in a line such as "phalanx-server: listening on 127.0.0.1:41234".
fn listening(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("listening on ")?;
    rest.split_whitespace().find_map(|word| word.trim_end_matches([',', ';', '.']).parse().ok())
}

/// A port that nobody listens on now.
pub fn free_port() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map_err(|e| Error::NotRun(format!("no port: {e}")))
}

/// The versions of the servers.
pub fn versions(options: &ServiceOptions) -> Vec<String> {
    let of = |program: &Option<PathBuf>, argument| first_line(Command::new(program.as_ref()?).arg(argument));
    [of(&options.server, "--version"), of(&options.vault, "version")].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_a_line() {
        let at = listening("phalanx-server: listening on 127.0.0.1:41234, by TLS").unwrap();
        assert_eq!(at.port(), 41234);
        assert_eq!(listening("listening on /run/server.sock"), None);
        assert_eq!(listening("127.0.0.1:41234"), None);
    }

    #[test]
    fn a_certificate_is_made() {
        let out = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(out.path()).unwrap();
        match Certificate::make(&scratch) {
            Err(Error::NotRun(why)) if why == "no openssl" => println!("skipped: no openssl"),
            made => drop(made.unwrap()),
        }
    }
}
