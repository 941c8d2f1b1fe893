//! `phalanx` and `phalanx-server` with the programs between them. Both are taken from the folder of these programs, where
//! `cargo build -p phalanx -p phalanx-server` puts them.

use super::PROGRAM;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A program beside those of this crate. If there is none, prints a line, or fails if PHALANX_REQUIRE names it.
pub fn beside(name: &str) -> Option<PathBuf> {
    let path = Path::new(PROGRAM).with_file_name(name);
    if path.is_file() {
        return Some(path);
    }
    skip(name);
    None
}

/// Prints that something is missing, or fails if PHALANX_REQUIRE names it.
pub fn skip(name: &str) {
    let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
    assert!(!required.split([',', ' ']).any(|other| other == name), "PHALANX_REQUIRE names {name}, which is missing");
    println!("skipped: no {name}");
}

/// A server with the key `orders`. It is killed on drop.
struct Server {
    folder: tempfile::TempDir,
    program: PathBuf,
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(program: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("root.key"), [7; 32]).unwrap();
        let chmod = Command::new("chmod").arg("600").arg(folder.path().join("root.key")).status();
        assert!(chmod.unwrap().success());
        let command = |arguments: &[&str]| {
            let mut command = Command::new(&program);
            command.args(arguments).current_dir(folder.path()).env("PHALANX_SERVER_DIR", folder.path().join("srv"));
            command
        };
        for arguments in
            [&["init", "--key-file", "root.key"][..], &["key", "new", "orders", "--no-user", "--key-file", "root.key"]]
        {
            succeeded(command(arguments).output().unwrap());
        }
        let run = ["run", "--key-file", "root.key", "--listen", "127.0.0.1:0"];
        let mut child = command(&run).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("127.0.0.1:")).expect("a line with its address");
        std::thread::spawn(move || lines.count());
        let port: String = line.split_once("127.0.0.1:").unwrap().1.chars().take_while(char::is_ascii_digit).collect();
        Self { program, child, address: format!("http://127.0.0.1:{port}"), folder }
    }

    fn manage(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("PHALANX_SERVER_DIR", self.folder.path().join("srv"));
        succeeded(command.output().unwrap()).trim().to_owned()
    }
}

pub fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn files_are_protected_and_opened_through_the_server() {
    let (Some(phalanx), Some(server)) = (beside("phalanx"), beside("phalanx-server")) else { return };
    let server = Server::start(server);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), "precious").unwrap();
    let run = |token: &str, arguments: &[&str]| {
        let mut command = Command::new(&phalanx);
        command.args(arguments).current_dir(folder.path()).env("VAULT_ADDR", &server.address).env("VAULT_TOKEN", token);
        command.env("PHALANX_KEYRING", folder.path().join("keyring")).env("PHALANX_STATE", folder.path().join("state"));
        command.stdin(Stdio::null()).output().unwrap()
    };
    let token = |rights: &str| server.manage(&["token", "new", "--allow", rights]);
    let (sealing, both) = (token("seal:orders"), token("seal:orders,open:orders"));
    for uri in ["hashivault://orders", "phalanx://orders"] {
        succeeded(run(&sealing, &["protect", "f", "--kms", uri]));
        // Who may only wrap cannot open.
        let refused = run(&sealing, &["verify", "f.phx", "--kms", uri]);
        assert_eq!(refused.status.code(), Some(3));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains(&format!("the key service {uri}: {} answers 403 Forbidden", server.address)), "{said}");
        succeeded(run(&both, &["unprotect", "f.phx", "-o", "g", "--kms", uri]));
        assert_eq!(fs::read(folder.path().join("g")).unwrap(), b"precious");
        ["f.phx", "g"].iter().for_each(|name| fs::remove_file(folder.path().join(name)).unwrap());
    }
    // After a rotation old files open, until the old version is closed.
    succeeded(run(&both, &["protect", "f", "--kms", "phalanx://orders"]));
    server.manage(&["key", "rotate", "orders"]);
    succeeded(run(&both, &["verify", "f.phx", "--kms", "phalanx://orders"]));
    server.manage(&["key", "config", "orders", "--min-open", "2"]);
    assert_eq!(run(&both, &["verify", "f.phx", "--kms", "phalanx://orders"]).status.code(), Some(3));
}
