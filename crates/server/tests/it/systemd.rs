//! What systemd does with the server: sockets that it passes on, and what it is told.

use crate::common::folder::PROGRAM;
use crate::common::{Client, Folder, PATIENCE, Server, port, program, skipped, until};
use crate::store::failed;
use rustix::process::Signal;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;

/// The next message.
fn next(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let len = socket.recv(&mut buffer).expect("nothing is told");
    String::from_utf8_lossy(&buffer[..len]).into_owned()
}

fn tells(folder: std::sync::Arc<Folder>, socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = folder.command(["run"]);
    command.env("NOTIFY_SOCKET", name);
    let mut server = Server::begin(folder.clone(), command);
    assert_eq!(next(socket), "READY=1");
    assert_eq!(server.get("/healthz").status, 200, "it was ready");
    server.signal(Signal::HUP);
    let reloading = next(socket);
    let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap_or_else(|| panic!("{reloading:?}"));
    assert!(time.parse::<u64>().unwrap() > 0);
    assert_eq!(next(socket), "READY=1");
    server.signal(Signal::TERM);
    assert_eq!(next(socket), "STOPPING=1");
    assert!(server.wait().success());
}

#[test]
fn systemd_is_told_how_the_server_is() {
    let folder = Folder::new();
    let path = folder.beside("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    tells(folder, &socket, path.to_str().unwrap());
}

#[test]
fn sockets_without_a_file_are_told_too() {
    let name = format!("phalanx-server-test-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    tells(Folder::new(), &socket, &format!("@{name}"));
}

#[test]
fn a_socket_that_nobody_reads_stops_nothing() {
    let folder = Folder::new();
    let mut command = folder.command(["run"]);
    command.env("NOTIFY_SOCKET", folder.beside("absent"));
    assert!(Server::by(folder, command).terminate().success());
}

#[test]
fn sockets_that_systemd_passes_on_are_served() {
    let Some(activate) = program("systemd-socket-activate") else { return };
    let folder = Folder::new();
    let unix = folder.beside("passed.sock");
    // A free port, which is taken again at once. No other test has this address.
    let port = std::net::TcpListener::bind("127.83.12.5:0").unwrap().local_addr().unwrap();
    let mut command = Command::new(activate);
    command.arg("-l").arg(&unix).arg("-l").arg(port.to_string());
    command.args(["-E", &format!("PHALANX_SERVER_DIR={}", folder.dir().display()), PROGRAM, "run", "--key-file"]);
    command.arg(folder.key_file()).env("SYSTEMD_LOG_LEVEL", "notice");
    let server = Server::begin(folder.clone(), command);
    // The first connection starts the server, and waits for it.
    let mut client = None;
    until("somebody listens", || {
        client = Client::try_unix(&unix).ok();
        client.is_some()
    });
    let mut client = client.unwrap();
    assert_eq!(client.request("GET", "/healthz", &[], b"").text(), "ok\n");
    assert_eq!(Client::tcp(&port.to_string()).request("GET", "/healthz", &[], b"").status, 200);
    assert_eq!(server.get("/healthz").status, 200, "its own socket");
    server.line(&format!("listening on unix:{}", unix.display()));
    assert!(server.terminate().success());
    assert!(unix.exists(), "it is systemd's");
}

#[test]
fn a_socket_of_a_network_that_is_passed_on_needs_tls_too() {
    let Some(activate) = program("systemd-socket-activate") else { return };
    let folder = Folder::new();
    let port = port();
    let mut command = Command::new(activate);
    command.args(["-l", &format!("0.0.0.0:{port}"), "-E", &format!("PHALANX_SERVER_DIR={}", folder.dir().display())]);
    command.args([PROGRAM, "run", "--key-file"]).arg(folder.key_file()).env("SYSTEMD_LOG_LEVEL", "notice");
    let mut server = Server::begin(folder, command);
    until("a connection", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert_eq!(server.wait().code(), Some(2));
    server.line("other machines could read what is sent there");
}

#[test]
fn a_credential_that_a_list_opens_to_the_user_is_a_key_file() {
    let Some(setfacl) = program("setfacl") else { return };
    let folder = Folder::new();
    let list = |entry: &str| Command::new(&setfacl).args(["-m", entry]).arg(folder.key_file()).output().unwrap();
    let user = rustix::process::geteuid().as_raw();
    std::fs::set_permissions(folder.key_file(), std::fs::Permissions::from_mode(0o400)).unwrap();
    if !list(&format!("u:{user}:r")).status.success() {
        return skipped("acl");
    }
    let mode = || std::fs::metadata(folder.key_file()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o440, "the mask of the list");
    assert!(folder.run(["check"]).status.success());
    for entry in ["u:12345:r", "g:12345:r", "g::r", "o::r"] {
        assert!(list(entry).status.success());
        failed(&folder.run(["check"]), 4, "it is open to other users");
        let args = ["-b", "-m", &format!("u::r,u:{user}:r,g::-,o::-")];
        assert!(Command::new(&setfacl).args(args).arg(folder.key_file()).status().unwrap().success());
        assert!(folder.run(["check"]).status.success(), "{entry}");
    }
}
