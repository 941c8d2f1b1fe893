//! TLS: versions, certificates of clients, and certificates that are replaced while the server runs.

use crate::common::{Folder, Server, program, until};
use crate::store::failed;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Certificates that `openssl` makes.
pub struct Authority<'a> {
    folder: &'a Folder,
    openssl: PathBuf,
}

impl<'a> Authority<'a> {
    /// An authority, if this machine has `openssl` and `curl`.
    pub fn new(folder: &'a Folder) -> Option<Self> {
        program("curl")?;
        let authority = Self { folder, openssl: program("openssl")? };
        let extra = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"];
        let own = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
        authority.run(&[&own[..], &["-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"], &extra].concat());
        Some(authority)
    }

    fn run(&self, arguments: &[&str]) {
        let output = Command::new(&self.openssl).args(arguments).current_dir(self.folder.beside("")).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes `NAME.pem` and `NAME.key`.
    pub fn issue(&self, name: &str) {
        let [key, request, pem] = ["key", "csr", "pem"].map(|end| format!("{name}.{end}"));
        let subject = format!("/CN={name}");
        let new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", &subject];
        self.run(&[&new[..], &["-keyout", &key, "-out", &request]].concat());
        fs::write(self.file("san"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
        let sign =
            ["x509", "-req", "-in", &request, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"];
        self.run(&[&sign[..], &["-extfile", "san", "-out", &pem]].concat());
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.beside(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }

    /// What openssl prints as the fingerprint of `NAME.pem`.
    fn printed_fingerprint(&self, name: &str) -> String {
        let pem = format!("{name}.pem");
        let arguments = ["x509", "-in", &pem, "-noout", "-fingerprint", "-sha256"];
        let output = Command::new(&self.openssl).args(arguments).current_dir(self.folder.beside("")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.trim().to_owned()
    }

    /// The fingerprint of `NAME.pem`.
    fn fingerprint(&self, name: &str) -> String {
        self.printed_fingerprint(name).split_once('=').unwrap().1.to_owned()
    }
}

/// Asks by `curl` with options.
fn curl(ca: &Path, url: &str, options: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["-sS", "-i", "--max-time", "60", "--noproxy", "*", "--cacert"]).arg(ca);
    command.args(options).arg(url).stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_port_speaks_tls_in_both_versions() {
    let folder = Folder::new();
    let Some(authority) = Authority::new(&folder) else { return };
    authority.issue("server");
    let (cert, key) = (authority.text("server.pem"), authority.text("server.key"));
    let server = folder.start(&["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key]);
    let url = format!("https://{}/healthz", server.address());
    assert!(server.line("listening on 127.0.0.1").ends_with("(TLS)"));
    for version in [&["--tlsv1.2", "--tls-max", "1.2"][..], &["--tlsv1.3"], &["--http2"]] {
        let output = curl(&authority.file("ca.pem"), &url, version);
        assert!(text(&output).starts_with("HTTP/1.1 200"), "{version:?}: {output:?}");
    }
    assert!(!curl(&authority.file("ca.pem"), &url, &["--tls-max", "1.1"]).status.success());
    let plain = format!("http://{}/healthz", server.address());
    assert!(!curl(&authority.file("ca.pem"), &plain, &[]).status.success());
    // The Unix socket is as before.
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn clients_need_a_certificate_if_the_server_says_so() {
    let folder = Folder::new();
    let Some(authority) = Authority::new(&folder) else { return };
    ["server", "client", "stranger"].iter().for_each(|name| authority.issue(name));
    let [ca, cert, key] = ["ca.pem", "server.pem", "server.key"].map(|name| authority.text(name));
    // As it is printed, with its heading.
    let rule = format!("cert:{}=admin", authority.printed_fingerprint("client"));
    let tls = ["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key, "--client-ca", &ca];
    let server = folder.start(&[&tls[..], &["--peer", &rule, "--audit", "required"]].concat());
    let url = format!("https://{}/v1/nothing/a", server.address());
    assert!(!curl(&authority.file("ca.pem"), &url, &[]).status.success(), "a client without a certificate");

    let by = |name: &str| {
        let (cert, key) = (authority.text(&format!("{name}.pem")), authority.text(&format!("{name}.key")));
        text(&curl(&authority.file("ca.pem"), &url, &["--cert", &cert, "--key", &key]))
    };
    let known = by("client");
    assert!(known.starts_with("HTTP/1.1 404"), "{known}");
    let other = by("stranger");
    assert!(other.starts_with("HTTP/1.1 403"), "{other}");
    let log = fs::read_to_string(folder.dir().join("audit.log")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fingerprint = authority.fingerprint("client").replace(':', "").to_lowercase();
    assert_eq!(lines[0]["caller"], format!("cert:{fingerprint}"));
    let stranger = authority.fingerprint("stranger").replace(':', "").to_lowercase();
    assert_eq!(lines[1]["caller"], format!("none cert:{stranger}"));
}

/// Shakes hands by `openssl`, goes on with the session in `session` if there is one, and keeps the new one there.
fn shake_hands(authority: &Authority, address: &str, version: &str) -> String {
    let session = authority.file("session");
    let mut command = Command::new(&authority.openssl);
    command.args(["s_client", "-connect", address, version, "-ign_eof", "-CAfile", "ca.pem", "-cert", "client.pem"]);
    command.args(["-key", "client.key", "-sess_out", "session"]).current_dir(authority.folder.beside(""));
    if session.exists() {
        command.args(["-sess_in", "session"]);
    }
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut client = piped.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    client.stdin.take().unwrap().write_all(request).unwrap();
    text(&client.wait_with_output().unwrap())
}

#[test]
fn a_clients_certificate_is_looked_at_each_time() {
    let folder = Folder::new();
    let Some(authority) = Authority::new(&folder) else { return };
    ["server", "client"].iter().for_each(|name| authority.issue(name));
    let [ca, cert, key] = ["ca.pem", "server.pem", "server.key"].map(|name| authority.text(name));
    let tls = ["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key];
    for (resumes, options) in [(true, &tls[..]), (false, &[&tls[..], &["--client-ca", &ca]].concat())] {
        let server = Server::start(options);
        for version in ["-tls1_2", "-tls1_3"] {
            let _ = fs::remove_file(authority.file("session"));
            let first = shake_hands(&authority, &server.address(), version);
            assert!(first.contains("New, TLS") && first.contains("HTTP/1.1 200"), "{first}");
            let second = shake_hands(&authority, &server.address(), version);
            assert!(second.contains("HTTP/1.1 200"), "{second}");
            assert_eq!(second.contains("Reused, TLS"), resumes, "{version}: {second}");
        }
    }
}

#[test]
fn a_certificate_is_replaced_by_a_hangup() {
    let folder = Folder::new();
    let Some(authority) = Authority::new(&folder) else { return };
    authority.issue("server");
    let (cert, key) = (authority.text("server.pem"), authority.text("server.key"));
    let server = folder.start(&["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key]);
    let url = format!("https://{}/healthz", server.address());
    let subject = || {
        let output = curl(&authority.file("ca.pem"), &url, &["-v"]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(subject().contains("CN=server"), "{}", subject());
    authority.issue("renewed");
    fs::rename(authority.file("renewed.pem"), authority.file("server.pem")).unwrap();
    // The new certificate does not fit the old key.
    server.signal(Signal::HUP);
    server.line("the old certificates stay");
    assert!(subject().contains("CN=server"));
    fs::rename(authority.file("renewed.key"), authority.file("server.key")).unwrap();
    server.signal(Signal::HUP);
    until("the new certificate", || subject().contains("CN=renewed"));
    fs::write(authority.file("server.key"), "nonsense").unwrap();
    server.signal(Signal::HUP);
    until("the second warning", || server.stderr().matches("the old certificates stay").count() == 2);
    assert!(subject().contains("CN=renewed"));
}

#[test]
fn files_that_are_no_certificates_are_refused() {
    let folder = Folder::new();
    let Some(authority) = Authority::new(&folder) else { return };
    authority.issue("server");
    authority.issue("other");
    fs::write(authority.file("empty"), "").unwrap();
    let refuses = |cert: &str, key: &str, ca: &str, why: &str| {
        let [cert, key, ca] = [cert, key, ca].map(|name| authority.text(name));
        let output = folder.run(["run", "--tls-cert", &cert, "--tls-key", &key, "--client-ca", &ca]);
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{line}");
        assert!(line.contains(why) && line.lines().count() == 1, "{line}");
    };
    refuses("empty", "server.key", "ca.pem", "it holds no certificate");
    refuses("server.pem", "empty", "ca.pem", "it holds no private key");
    refuses("server.pem", "server.key", "empty", "it holds no certificate");
    let unfit = format!(": {} is not the key of {}\n", authority.text("other.key"), authority.text("server.pem"));
    refuses("server.pem", "other.key", "ca.pem", &unfit);
    refuses("absent.pem", "server.key", "ca.pem", "absent.pem: ");
}

#[test]
fn rights_for_a_certificate_need_that_clients_have_one() {
    let folder = Folder::new();
    let rule = format!("cert:{}=admin", "ab".repeat(32));
    failed(&folder.run(["run", "--peer", &rule]), 2, "--peer cert: needs --client-ca\nhint: ");
}

#[test]
fn a_client_that_does_not_shake_hands_is_dropped() {
    let folder = Folder::new();
    let Some(authority) = Authority::new(&folder) else { return };
    authority.issue("server");
    let (cert, key) = (authority.text("server.pem"), authority.text("server.key"));
    let options = ["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key, "--head-timeout", "1"];
    let server: Server = folder.start(&options);
    let mut silent = crate::common::Client::tcp(&server.address());
    assert!(silent.is_closed());
    let mut nonsense = crate::common::Client::tcp(&server.address());
    nonsense.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(nonsense.answer().is_err(), "nothing is said in the clear");
}

#[test]
fn clients_that_do_not_shake_hands_count_and_make_room() {
    let folder = Folder::new();
    let Some(authority) = Authority::new(&folder) else { return };
    authority.issue("server");
    let (cert, key) = (authority.text("server.pem"), authority.text("server.key"));
    let tls = ["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key];
    let server = folder.start(&[&tls[..], &["--max-connections", "8", "--head-timeout", "300"]].concat());
    let url = format!("https://{}/healthz", server.address());
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.extend((0..10).map(|_| crate::common::Client::tcp(&server.address())));
        until("others are served", || curl(&authority.file("ca.pem"), &url, &[]).status.success());
    }
    let connections = || {
        let text = server.get("/metrics").text();
        let value = text.lines().find_map(|line| line.strip_prefix("phalanx_server_connections "));
        value.unwrap().parse::<u32>().unwrap()
    };
    until("those who made room are gone", || connections() <= 9);
}
