//! Listening, who may connect, and what every answer has.

use crate::common::{Client, Folder, PATIENCE, Server, program, skipped, until};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::Signal;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

fn mode(path: &Path) -> u32 {
    path.metadata().expect("a file").permissions().mode() & 0o7777
}

/// What a command that must fail says.
fn failure(output: &Output) -> (i32, String) {
    (output.status.code().expect("a code"), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_server_serves_and_ends() {
    let server = Server::start(&[]);
    let answer = server.get("/healthz");
    assert_eq!((answer.status, answer.text().as_str()), (200, "ok\n"));
    let health = server.get("/v1/sys/health").json();
    assert_eq!(health["sealed"], false);
    let head = server.request("HEAD", "/v1/sys/health", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let folder = server.folder.clone();
    assert!(server.terminate().success());
    assert!(!folder.socket().exists(), "its socket is still there");
}

#[test]
fn the_folders_socket_is_for_its_own_user() {
    let server = Server::start(&[]);
    assert_eq!(mode(&server.folder.socket()), 0o600);
    assert_eq!(mode(&server.folder.dir().join("audit.log")), 0o600);
    assert_eq!(mode(&server.folder.dir().join("lock")), 0o600);
}

#[test]
fn a_client_whose_own_path_fills_its_address_stops_nobody() {
    let server = Server::start(&[]);
    // 108 bytes, so that there is no room for a null. Linux then gives a length beyond the address.
    let mut own = server.folder.beside("").into_os_string().into_vec();
    own.resize(108, b'x');
    let own = SocketAddrUnix::new(own).expect("an address");
    let there = SocketAddrUnix::new(server.folder.socket()).expect("an address");
    let client = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&client, &own).expect("a name");
    rustix::net::connect(&client, &there).expect("a connection");
    let mut answer = Vec::new();
    let _ = UnixStream::from(client).read_to_end(&mut answer);
    assert_eq!(server.get("/healthz").status, 200);
    assert!(server.terminate().success());
}

#[test]
fn a_server_listens_wherever_it_is_told_to() {
    let folder = Folder::new();
    let other = folder.beside("other.sock");
    let place = format!("unix:{}", other.display());
    let listen = ["--listen", &place, "--socket-mode", "660", "--listen", "127.0.0.1:0", "--listen", "localhost:0"];
    let server = folder.start(&listen);
    let addresses = server.addresses(2);
    assert_ne!(addresses[0], addresses[1]);
    for mut client in
        addresses.iter().map(|address| Client::tcp(address)).chain([Client::unix(&other), server.client()])
    {
        assert_eq!(client.request("GET", "/healthz", &[], b"").status, 200);
    }
    assert_eq!(mode(&other), 0o660);
    assert!(server.terminate().success());
    assert!(!other.exists());
}

#[test]
fn two_servers_do_not_share_a_folder() {
    let server = Server::start(&[]);
    let (code, line) = failure(&server.folder.run(["run"]));
    assert_eq!(code, 4);
    assert!(line.contains("another server runs in this folder") && line.lines().count() == 1, "{line}");
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_folder_that_is_no_servers_is_left_alone() {
    let folder = Folder::new();
    let other = folder.beside("other");
    std::fs::create_dir(&other).unwrap();
    for dir in [&other, &folder.beside("absent")] {
        let (code, lines) = failure(&folder.run(["run", "--dir", dir.to_str().unwrap()]));
        assert!(code == 4 && lines.contains("not a server's folder"), "{lines}");
        assert!(lines.contains("phalanx-server init --dir"), "{lines}");
    }
    assert_eq!(other.read_dir().unwrap().count(), 0);
}

#[test]
fn a_killed_server_starts_again() {
    let folder = Server::start(&[]).kill();
    assert!(folder.socket().exists(), "nobody removed it");
    let server = folder.start(&[]);
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn what_is_no_stale_socket_is_never_replaced() {
    let folder = Folder::new();
    let path = folder.beside("there");
    let place = format!("unix:{}", path.display());
    let run = || failure(&folder.run(["run", "--listen", &place]));

    std::fs::write(&path, "dear").unwrap();
    assert!(run().1.contains("not a socket"), "{:?}", run());
    assert_eq!(std::fs::read(&path).unwrap(), b"dear");
    std::fs::remove_file(&path).unwrap();

    symlink("/nowhere", &path).unwrap();
    assert!(run().1.contains("not a socket"), "{:?}", run());
    std::fs::remove_file(&path).unwrap();

    let listener = UnixListener::bind(&path).unwrap();
    assert!(run().1.contains("another program listens there"), "{:?}", run());
    drop(listener);
    // A process that another test starts has a copy of it for a moment.
    until("nobody listens there", || UnixStream::connect(&path).is_err());
    assert!(path.symlink_metadata().unwrap().file_type().is_socket());
    let server = folder.start(&["--listen", &place]);
    assert_eq!(Client::unix(&path).request("GET", "/healthz", &[], b"").status, 200);
    drop(server);
}

#[test]
fn the_socket_of_another_server_is_not_removed_at_the_end() {
    let folder = Folder::new();
    let path = folder.beside("there");
    let server = folder.start(&["--listen", &format!("unix:{}", path.display())]);
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    assert!(server.terminate().success());
    assert!(path.exists());
}

#[test]
fn a_network_needs_tls_or_insistence() {
    let folder = Folder::new();
    for place in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8200"] {
        let (code, lines) = failure(&folder.run(["run", "--listen", place]));
        assert_eq!(code, 2, "{lines}");
        assert!(lines.contains("without TLS") && lines.contains("--insecure-plaintext"), "{lines}");
        assert_eq!(lines.lines().count(), 2, "{lines}");
    }
    let server = folder.start(&["--listen", "0.0.0.0:0", "--insecure-plaintext"]);
    let port = server.address().rsplit(':').next().unwrap().to_owned();
    assert_eq!(Client::tcp(&format!("127.0.0.1:{port}")).request("GET", "/healthz", &[], b"").status, 200);
}

#[test]
fn places_that_are_none_are_usage_errors() {
    let folder = Folder::new();
    for options in [
        ["--listen", "8200"],
        ["--listen", "unix:"],
        ["--listen", "example.org:80"],
        ["--peer", "bob=admin"],
        ["--peer", "1000=sail:x"],
        ["--socket-mode", "9"],
        ["--audit", "maybe"],
        ["--tls-cert", "only.pem"],
        ["--max-in-flight", "7"],
        ["--max-connections", "0"],
    ] {
        let (code, lines) = failure(&folder.run(["run", options[0], options[1]]));
        assert_eq!(code, 2, "{options:?}: {lines}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, line) = failure(&folder.run(["run", "--listen", &address]));
    assert!(code == 4 && line.contains(&address) && line.lines().count() == 1, "{code} {line}");
}

#[test]
fn a_port_needs_a_token() {
    let server = Server::start(&["--listen", "127.0.0.1:0"]);
    for path in ["/v1/transit/keys/a", "/v1/sys/mounts", "/v2/seal", "/", "/nothing"] {
        let answer = Client::tcp(&server.address()).request("GET", path, &[], b"");
        assert_eq!((answer.status, answer.text().as_str()), (403, "{\"errors\":[\"permission denied\"]}"), "{path}");
    }
    // The server's own user has all rights, so this path is looked for.
    assert_eq!(server.get("/v1/nothing/a").status, 404);
}

#[test]
fn a_wrong_token_is_refused_whoever_sends_it() {
    let server = Server::start(&[]);
    for header in [
        ("X-Vault-Token", "phx.wrong"),
        ("Authorization", "Bearer phx.wrong"),
        ("X-Vault-Token", "\u{e4}"),
        ("X-Vault-Token", "root"),
    ] {
        assert_eq!(server.request("GET", "/v1/nothing/a", &[header], b"").status, 403, "{header:?}");
    }
    for header in [("X-Vault-Token", ""), ("Authorization", "Basic x"), ("X-Vault-Namespace", "root")] {
        assert_eq!(server.request("GET", "/v1/nothing/a", &[header], b"").status, 404, "{header:?}");
    }
    let health = server.request("GET", "/v1/sys/health", &[("X-Vault-Token", "phx.wrong")], b"");
    assert_eq!(health.status, 200, "nobody asks who wants to know this");
}

#[test]
fn users_of_this_machine_have_the_rights_that_they_are_given() {
    let Some(curl) = program("curl") else { return };
    if !rustix::process::geteuid().is_root() {
        return skipped("root");
    }
    let open = tempfile::Builder::new().permissions(Permissions::from_mode(0o711)).tempdir().unwrap();
    let socket = open.path().join("server.sock");
    let place = format!("unix:{}", socket.display());
    let peers = ["--peer", "12345=seal:orders", "--peer", "12346=seal:*,user=ada"];
    let server = Server::start(&[&["--listen", &place, "--socket-mode", "666"], &peers[..]].concat());
    let status = |uid: u32, path: &str| {
        let mut command = Command::new(&curl);
        command.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket"]).arg(&socket);
        let output =
            command.arg(format!("http://localhost{path}")).uid(uid).gid(uid).current_dir("/").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(status(12_345, "/v1/nothing/a"), "404", "it is known");
    assert_eq!(status(12_346, "/v1/nothing/a"), "404", "it is known");
    assert_eq!(status(12_347, "/v1/nothing/a"), "403", "nobody gave it rights");
    assert_eq!(status(0, "/v1/nothing/a"), "404", "root has all rights");
    assert_eq!(status(12_347, "/healthz"), "200");
    assert!(server.terminate().success());
}

#[test]
fn answers_have_an_identity() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let mut ids: Vec<String> = Vec::new();
    for path in ["/healthz", "/v1/nothing", "/%zz", "/v2/limits"] {
        let answer = client.request("GET", path, &[], b"");
        let id = answer.header("x-request-id").expect("an identity").to_owned();
        assert!(id.len() == 36 && !ids.contains(&id), "{id}");
        ids.push(id);
    }
}

#[test]
fn what_two_programs_could_read_differently_is_refused() {
    let server = Server::start(&[]);
    for path in [
        "//v1/transit",
        "/v1//transit",
        "/v1/../v1/transit",
        "/v1/%2e%2e/x",
        "/v1/%zz",
        "/v1/%00",
        "/v1/a%0a",
        "/v1/%ff",
    ] {
        assert_eq!(server.get(path).status, 400, "{path}");
    }
    let slash = server.request("POST", "/v1/transit/encrypt/a/", &[], b"{}");
    assert_eq!(slash.json()["errors"][0], "cannot write to a path ending in '/'");
    let list = server.get("/v1/transit/keys?list=maybe");
    assert_eq!((list.status, list.text().as_str()), (400, "{\"errors\":[]}"));
    assert_eq!(server.get("/v1/transit/keys?a=%zz").status, 400);
}

#[test]
fn wrapped_answers_are_refused() {
    let server = Server::start(&[]);
    let wrapped = |ttl: &str| server.request("GET", "/v1/nothing/a", &[("X-Vault-Wrap-TTL", ttl)], b"");
    assert_eq!(wrapped("60").status, 400);
    assert_eq!(wrapped("1h").status, 400);
    assert_eq!(wrapped("0").status, 404);
    assert_eq!(wrapped("").status, 404);
}

#[test]
fn unusual_methods_are_refused_and_help_is_given() {
    let server = Server::start(&[]);
    for method in ["OPTIONS", "TRACE", "BREW"] {
        assert_eq!(server.request(method, "/v1/transit/keys/a", &[], b"").status, 405, "{method}");
    }
    assert!(server.get("/v1/transit?help=1").json()["help"].as_str().unwrap().contains("docs/server.md"));
    assert_eq!(server.request("HELP", "/v1/transit", &[], b"").status, 200);
}

#[test]
fn limits_and_metrics_are_published() {
    let options = ["--listen", "127.0.0.1:0", "--max-connections", "77", "--max-in-flight", "9", "--head-timeout", "3"];
    let server = Server::start(&options);
    let mut stranger = Client::tcp(&server.address());
    let limits = stranger.request("GET", "/v2/limits", &[], b"").json();
    assert!(stranger.is_closed());
    assert_eq!(
        (&limits["connections"], &limits["in_flight"], &limits["head_seconds"]),
        (&77.into(), &(9 << 20).into(), &3.into())
    );
    Client::tcp(&server.address()).request("GET", "/v1/nothing", &[], b"");
    until("strangers are gone", || server.get("/metrics").text().contains("phalanx_server_connections 1\n"));
    let metrics = Client::tcp(&server.address()).request("GET", "/metrics", &[], b"");
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    for line in [
        "phalanx_server_requests_total{action=\"denied\",status=\"4xx\"} 1",
        "phalanx_server_in_flight_bytes 0",
        "phalanx_server_store_failures_total 0",
    ] {
        assert!(metrics.text().lines().any(|own| own == line), "{line}\n{}", metrics.text());
    }
}

#[test]
fn a_signal_lets_running_requests_finish() {
    let mut server = Server::start(&["--listen", "127.0.0.1:0"]);
    let mut idle = server.client();
    assert_eq!(idle.request("GET", "/healthz", &[], b"").status, 200);
    // Half a head: its request runs, as far as a client can tell.
    let mut running = UnixStream::connect(server.folder.socket()).unwrap();
    running.set_read_timeout(Some(PATIENCE)).unwrap();
    running.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n").unwrap();
    let address = server.address();
    until("its bytes are read", || server.get("/metrics").text().contains("phalanx_server_connections 3"));
    server.signal(Signal::TERM);
    assert!(idle.is_closed());
    until("nobody can connect any more", || std::net::TcpStream::connect(&address).is_err());
    running.write_all(b"\r\n").unwrap();
    let mut answer = String::new();
    running.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("draining\n"), "{answer}");
    assert!(server.wait().success());
}

#[test]
fn a_request_that_never_ends_is_not_waited_for() {
    let mut server = Server::start(&["--drain-seconds", "1"]);
    let mut stuck = server.client();
    stuck.raw(b"GET /healthz HTTP/1.1\r\n").unwrap();
    until("its bytes are read", || server.get("/metrics").text().contains("phalanx_server_connections 2"));
    // Not SIGINT: a shell starts background jobs with it ignored.
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let mut server = Server::start(&["--drain-seconds", "1000", "--listen", "127.0.0.1:0"]);
    let mut stuck = server.client();
    stuck.raw(b"GET /healthz HTTP/1.1\r\n").unwrap();
    until("its bytes are read", || server.get("/metrics").text().contains("phalanx_server_connections 2"));
    let address = server.address();
    server.signal(Signal::TERM);
    until("it drains", || std::net::TcpStream::connect(&address).is_err());
    server.signal(Signal::TERM);
    assert!(!server.wait().success());
    let folder: Arc<Folder> = server.folder.clone();
    drop(server);
    assert_eq!(folder.start(&[]).get("/healthz").status, 200, "it starts again");
}
