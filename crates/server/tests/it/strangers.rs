//! Those who have no token, or who want more than their share: they harm themselves alone.

use crate::common::{Client, Folder, Server, base64, until};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use std::fs::{OpenOptions, Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

/// A server that listens at a port, with other options.
fn server(options: &[&str]) -> Server {
    Server::start(&[&["--listen", "127.0.0.1:0"], options].concat())
}

fn is_served(client: &mut Client, token: &str) -> bool {
    let answer = client.try_request("GET", "/v1/auth/token/lookup-self", &[("X-Vault-Token", token)], b"");
    answer.is_ok_and(|answer| answer.status == 200)
}

#[test]
fn a_stranger_has_one_request_a_connection() {
    let server = server(&[]);
    let token = server.token(&["seal:orders"]);
    for path in ["/healthz", "/metrics", "/v2/limits", "/v1/sys/health", "/v1/sys/seal-status", "/v1/a", "/%zz"] {
        let mut stranger = Client::tcp(&server.address());
        let answer = stranger.request("GET", path, &[], b"");
        assert_eq!(answer.header("connection"), Some("close"), "{path}");
        assert!(stranger.is_closed(), "{path}");
    }
    let mut wrong = Client::tcp(&server.address());
    assert_eq!(
        wrong.request("GET", "/healthz", &[("X-Vault-Token", "wrong")], b"").header("connection"),
        Some("close")
    );
    let mut known = Client::tcp(&server.address());
    for _ in 0..3 {
        assert_eq!(known.request("GET", "/healthz", &[("X-Vault-Token", &token)], b"").header("connection"), None);
        assert!(is_served(&mut known, &token));
    }
    assert_eq!(known.request("GET", "/healthz", &[], b"").status, 200, "a connection of somebody else by now");
    assert!(known.is_closed());
    let mut own = server.client();
    (0..3).for_each(|_| assert_eq!(own.request("GET", "/healthz", &[], b"").header("connection"), None));
}

#[test]
fn strangers_make_no_known_caller_go_and_leave_room() {
    let server = server(&["--max-connections", "40"]);
    let token = server.token(&["seal:orders"]);
    let address = server.address();
    let mut known: Vec<Client> = (0..10).map(|_| Client::tcp(&address)).collect();
    assert!(known.iter_mut().all(|client| is_served(client, &token)));
    // They come again and again, ask for something long, and read nothing.
    let mut strangers: Vec<Client> = Vec::new();
    for _ in 0..100 {
        let mut stranger = Client::tcp(&address);
        let _ = stranger.raw(&b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100));
        strangers.push(stranger);
    }
    until("a new client is served", || is_served(&mut Client::tcp(&address), &token));
    assert!(known.iter_mut().all(|client| is_served(client, &token)), "a known caller was made to go");
}

#[test]
fn one_caller_leaves_room_for_the_bodies_of_others() {
    let server = server(&["--max-in-flight", "20"]);
    assert!(server.post("/v1/transit/keys/orders", &json!({})).status < 300);
    let [greedy, other] = [(); 2].map(|()| server.token(&["seal:orders"]));
    let gauge = || {
        let text = server.get("/metrics").text();
        let value = text.lines().find_map(|line| line.strip_prefix("phalanx_server_in_flight_bytes "));
        value.unwrap().parse::<u64>().unwrap()
    };
    let mut held = Vec::new();
    for _ in 0..6 {
        let mut client = Client::tcp(&server.address());
        let head = format!("POST /v1/transit/encrypt/orders HTTP/1.1\r\nHost: x\r\nX-Vault-Token: {greedy}\r\n");
        client.raw(format!("{head}Content-Length: 2500000\r\n\r\n").as_bytes()).unwrap();
        let _ = client.raw(&vec![b' '; 100_000]);
        // The others wait for the turn of the first one.
        until("one has its room", || gauge() >= 7_500_000);
        held.push(client);
    }
    assert!(gauge() <= 8 << 20, "{}", gauge());
    let body = json!({ "plaintext": base64(vec![b'a'; 100_000]), "context": base64("ada") });
    let answer = server.post_by(&other, "/v1/transit/encrypt/orders", &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let longer = json!({ "plaintext": base64(vec![b'a'; 300_000]), "context": base64("ada") });
    assert_eq!(server.post_by(&greedy, "/v1/transit/encrypt/orders", &longer).status, 429);
    assert_eq!(server.post_by(&other, "/v1/transit/encrypt/orders", &longer).status, 200);
}

#[test]
fn the_children_of_a_token_count_as_that_one() {
    let server = server(&["--max-rate", "20"]);
    // An administrator's tokens are others' tokens.
    let admin = server.token(&["admin"]);
    let new = |by: &str| {
        let answer = server.post_by(by, "/v1/auth/token/create", &json!({ "policies": ["seal:orders"] }));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["auth"]["client_token"].as_str().unwrap().to_owned()
    };
    let (one, other) = (new(&admin), new(&admin));
    let children = [new(&one), new(&one)];
    let mut client = Client::tcp(&server.address());
    let mut status =
        |token: &str| client.request("GET", "/v1/auth/token/lookup-self", &[("X-Vault-Token", token)], b"").status;
    let is_refused = (0..1000).any(|_| status(&children[0]) == 429);
    assert!(is_refused, "1,000 requests take less than 50 seconds");
    // Another child may have a request again after a twentieth of a second, and the first one too.
    assert!((0..1000).any(|_| status(&children[1]) == 429 && status(&one) == 429));
    assert_eq!(status(&other), 200);
}

#[test]
fn metrics_are_for_this_machine_and_for_known_callers() {
    let server = server(&[]);
    let token = server.token(&["seal:orders"]);
    let ask = |host: &str, headers: &str| {
        let mut client = Client::tcp(&server.address());
        client.raw(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n").as_bytes()).unwrap();
        client.answer().unwrap().status
    };
    let known = format!("X-Vault-Token: {token}\r\n");
    assert_eq!([ask("localhost", ""), ask("127.0.0.1:1", ""), ask("[::1]:1", "")], [200; 3]);
    assert_eq!([ask("evil.example", ""), ask("evil.example", "X-Vault-Token: wrong\r\n")], [403; 2]);
    assert_eq!(ask("proxy.example", &known), 200);
}

#[test]
fn a_page_of_another_site_does_nothing_without_a_token() {
    let server = server(&[]);
    let token = server.token(&["seal:orders"]);
    let origin = ("Origin", "https://evil.example");
    assert_eq!(server.request("POST", "/v1/transit/keys/a", &[origin], b"").status, 403);
    assert_eq!(server.get("/v1/transit/keys/a").status, 404);
    let headers = [origin, ("X-Vault-Token", token.as_str())];
    assert_eq!(server.request("GET", "/v1/auth/token/lookup-self", &headers, b"").status, 200);
}

#[test]
fn a_method_that_nobody_knows_is_not_written() {
    let server = server(&["--audit", "required"]);
    let method = "A".repeat(60_000);
    let answer = Client::tcp(&server.address()).request(&method, "/v1/transit/keys/a", &[], b"");
    assert_eq!(answer.status, 405);
    let id = answer.header("x-request-id").unwrap().to_owned();
    let log = std::fs::read_to_string(server.folder.dir().join("audit.log")).unwrap();
    let line: Value = serde_json::from_str(log.lines().find(|line| line.contains(&id)).unwrap()).unwrap();
    assert_eq!(line["method"], "OTHER");
    assert!(log.len() < 4096);
}

#[test]
fn a_folder_that_others_can_write_to_is_refused() {
    let folder = Folder::new();
    let server = folder.start(&[]);
    let set = |mode| set_permissions(folder.dir(), Permissions::from_mode(mode)).unwrap();
    for mode in [0o777, 0o1777, 0o720] {
        set(mode);
        for command in ["run", "key"] {
            let output = folder.run([command].into_iter().chain((command == "key").then_some("list")));
            let line = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && line.contains("other users may write to it"), "{command} {line}");
        }
    }
    set(0o755);
    assert!(folder.run(["key", "list"]).status.success());
    drop(server);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder.dir(), Some(12_345), None).unwrap();
        let output = folder.run(["run"]);
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && line.contains("it belongs to another user"), "{line}");
    } else {
        crate::common::skipped("root");
    }
}

#[test]
fn the_log_of_the_store_is_gone_after_the_end() {
    let server = server(&[]);
    assert!(server.post("/v1/transit/keys/orders", &json!({})).status < 300);
    let folder = server.folder.clone();
    assert!(folder.dir().join("server.db-wal").exists());
    assert!(server.terminate().success());
    assert!(!folder.dir().join("server.db-wal").exists());
    let server = folder.start(&[]);
    assert_eq!(server.get("/v1/transit/keys/orders").status, 200);
}

#[test]
fn a_server_waits_for_a_command_that_has_the_folder() {
    let folder = Folder::new();
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(folder.dir().join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let server = Server::begin(folder.clone(), folder.command(["run"]));
    let waits = || {
        let held = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
        held.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|path| path.ends_with("lock")))
    };
    until("it tries to lock the folder", waits);
    drop(lock);
    server.line("listening on unix:");
    assert_eq!(server.get("/healthz").status, 200);
}
