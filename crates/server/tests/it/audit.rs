//! The audit log: what is in it, and that nothing is answered without it where it is required.

use crate::common::{Answer, Client, Folder, Server, Small, base64, skipped, until};
use crate::records::{OCTETS, record};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// The lines of a log, each of which must be JSON.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}"))).collect()
}

fn log(folder: &Folder) -> PathBuf {
    folder.dir().join("audit.log")
}

/// Waits for the line of an identity.
fn line(path: &Path, id: &str) -> Value {
    let mut found = None;
    until("the line of a request", || {
        found = lines(path).into_iter().find(|line| line["id"] == id);
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_line_says_who_asked_for_what() {
    let server = Server::start(&["--listen", "127.0.0.1:0"]);
    let log = log(&server.folder);
    let answer = server.get("/v1/nothing/a");
    let own = line(&log, answer.header("x-request-id").unwrap());
    let uid = format!("uid:{}", rustix::process::geteuid().as_raw());
    assert_eq!((own["caller"].as_str(), own["remote"].as_str()), (Some(uid.as_str()), Some(uid.as_str())));
    assert_eq!((&own["method"], &own["status"], &own["items"]), (&"GET".into(), &404.into(), &0.into()));
    assert!(own["micros"].is_u64() && own["time"].as_str().unwrap().ends_with('Z'));

    let mut client = Client::tcp(&server.address());
    let denied = client.request("GET", "/v1/nothing/a", &[("X-Vault-Token", "phx.secret")], b"");
    let denied = line(&log, denied.header("x-request-id").unwrap());
    assert_eq!(
        (&denied["action"], &denied["caller"], &denied["status"]),
        (&"denied".into(), &"none".into(), &403.into())
    );
    assert!(denied["remote"].as_str().unwrap().starts_with("127.0.0.1:"));
    let malformed = Client::tcp(&server.address()).request("GET", "/v1//a", &[], b"");
    assert_eq!(line(&log, malformed.header("x-request-id").unwrap())["status"], 400);
    assert!(!std::fs::read_to_string(&log).unwrap().contains("phx."), "a token is in the log");
}

#[test]
fn strangers_do_not_fill_the_log() {
    let server = Server::start(&[]);
    let begun = Instant::now();
    let denied = |_| server.request("GET", "/v1/nothing", &[("X-Vault-Token", "phx.nobody")], b"").status == 403;
    let malformed = |_| server.request("GET", "/v1//a", &[], b"").status == 400;
    assert!((0..300).all(denied) && (0..50).all(malformed));
    let many = 1 + begun.elapsed().as_secs() / 10;
    // Those who are known have all their lines.
    assert!((0..200).all(|_| server.get("/v1/nothing").status == 404));
    let folder = server.folder.clone();
    assert!(server.terminate().success());
    let lines = lines(&log(&folder));
    let count = |wanted: &dyn Fn(&Value) -> bool| lines.iter().filter(|line| wanted(line)).count() as u64;
    let written = count(&|line| line["action"] == "denied" || line["action"] == "malformed");
    assert!((100..=100 * many).contains(&written), "{written}");
    let left_out: u64 =
        lines.iter().filter(|line| line["action"] == "strangers").map(|line| line["left_out"].as_u64().unwrap()).sum();
    assert_eq!(written + left_out, 350);
    assert_eq!(count(&|line| line["status"] == 404), 200);
}

#[test]
fn there_is_no_log_if_none_is_wanted() {
    let server = Server::start(&["--audit", "off"]);
    assert_eq!(server.get("/v1/nothing").status, 404);
    let log = log(&server.folder);
    assert!(server.terminate().success());
    assert!(!log.exists());
}

#[test]
fn all_lines_are_written_before_the_end() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for _ in 0..200 {
        client.request("GET", "/v1/nothing", &[], b"");
    }
    let folder = server.folder.clone();
    assert!(server.terminate().success());
    assert_eq!(lines(&log(&folder)).len(), 200);
}

#[test]
fn a_log_may_go_to_standard_output_and_to_pipes() {
    let folder = Folder::new();
    let mut command = folder.command(["run", "--audit-file", "-", "--audit", "required"]);
    command.stdout(Stdio::piped());
    let mut server = Server::by(folder, command);
    let mut output = BufReader::new(server.stdout());
    let answer = server.get("/v1/nothing");
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["id"], answer.header("x-request-id").unwrap());
}

#[test]
fn a_log_is_no_link_and_nobody_elses() {
    let folder = Folder::new();
    let (target, path) = (folder.beside("target"), folder.beside("link"));
    std::fs::write(&target, "").unwrap();
    symlink(&target, &path).unwrap();
    let refuses = |path: &Path, why: &str| {
        let output = folder.run(["run", "--audit-file", path.to_str().unwrap()]);
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(4) && line.contains(why), "{line}");
    };
    refuses(&path, "it is a link");
    refuses(&folder.dir(), "directory");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&target, Some(12_345), None).unwrap();
        refuses(&target, "another user's");
    } else {
        skipped("root");
    }
}

#[test]
fn a_torn_line_does_not_spoil_the_next_one() {
    let folder = Folder::new();
    std::fs::write(log(&folder), "{\"whole\":1}\n{\"torn\":").unwrap();
    let server = folder.start(&[]);
    let answer = server.get("/v1/nothing");
    let id = answer.header("x-request-id").unwrap().to_owned();
    assert!(server.terminate().success());
    let text = std::fs::read_to_string(log(&folder)).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["id"], id.as_str());
    assert_eq!(text.lines().nth(1), Some("{\"torn\":"));
}

#[test]
fn a_hangup_opens_the_log_again() {
    let server = Server::start(&[]);
    let log = log(&server.folder);
    let first = server.get("/v1/nothing");
    line(&log, first.header("x-request-id").unwrap());
    let old = server.folder.beside("audit.log.1");
    std::fs::rename(&log, &old).unwrap();
    server.signal(Signal::HUP);
    until("the new log", || log.exists());
    assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let second = server.get("/v1/nothing");
    line(&log, second.header("x-request-id").unwrap());
    assert_eq!(lines(&old).len(), 1);
    assert_eq!(lines(&log).len(), 1);
}

#[test]
fn nothing_is_served_without_a_log_that_is_required() {
    let server = Server::start(&["--audit", "required", "--audit-file", "/dev/full"]);
    assert_eq!(server.get("/healthz").status, 200, "nobody has found out yet");
    for _ in 0..3 {
        let answer = server.get("/v1/nothing");
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
        assert_eq!(server.get("/healthz").status, 503);
    }
    let denied = server.request("GET", "/v1/nothing", &[("X-Vault-Token", "wrong")], b"");
    assert_eq!(denied.status, 503);
    let warning = server.line("the audit log cannot be written");
    assert_eq!(server.stderr().matches(&warning).count(), 1);
    assert!(!server.get("/metrics").text().contains("audit_failures_total 0\n"));
}

#[test]
fn a_log_that_is_not_required_stops_nobody() {
    let server = Server::start(&["--audit-file", "/dev/full"]);
    for _ in 0..50 {
        assert_eq!(server.get("/v1/nothing").status, 404);
    }
    server.line("the audit log cannot be written");
    assert_eq!(server.stderr().matches("cannot be written").count(), 1, "{}", server.stderr());
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_full_disk_stops_the_server_until_there_is_room() {
    let folder = Folder::new();
    let Some(small) = Small::new(folder.beside("small"), "64k") else { return };
    let file = small.0.join("audit.log");
    let server = folder.start(&["--audit", "required", "--audit-file", file.to_str().unwrap()]);
    let mut served = Vec::new();
    let mut client = server.client();
    loop {
        let answer = client.request("GET", "/v1/nothing", &[], b"");
        if answer.status == 503 {
            break;
        }
        served.push(answer.header("x-request-id").unwrap().to_owned());
        assert!(served.len() < 10_000, "the disk is never full");
    }
    // All that was answered is there, in whole lines, and nothing else.
    let written: Vec<String> = lines(&file).iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(written, served);
    assert!(std::fs::read(&file).unwrap().ends_with(b"\n"));
    assert_eq!(client.request("GET", "/v1/nothing", &[], b"").status, 503);
    assert_eq!(server.get("/healthz").status, 503);
    // What an administrator does.
    std::fs::rename(&file, small.0.join("old")).unwrap();
    std::fs::File::options().write(true).open(small.0.join("old")).unwrap().set_len(0).unwrap();
    let answer = client.request("GET", "/v1/nothing", &[], b"");
    assert_eq!(answer.status, 404, "the old file has room again");
    assert_eq!(server.get("/healthz").status, 200);
    let lines = lines(&small.0.join("old"));
    assert_eq!(lines[0]["action"], "audit-gap");
    assert!(lines[0]["lost"].as_u64().unwrap() > 0);
    assert_eq!(lines.last().unwrap()["id"], answer.header("x-request-id").unwrap());
}

#[test]
fn whatever_was_answered_before_a_kill_has_its_line() {
    let folder = Folder::new();
    for _ in 0..3 {
        let before = lines(&log(&folder)).len();
        let server = folder.start(&["--audit", "required"]);
        let ends = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let (mut client, ends) = (server.client(), ends.clone());
                thread::spawn(move || {
                    let mut answered = Vec::new();
                    while !ends.load(Ordering::Relaxed) {
                        let Ok(answer) = client.try_request("GET", "/v1/nothing", &[], b"") else { break };
                        answered.push(answer.header("x-request-id").unwrap().to_owned());
                    }
                    answered
                })
            })
            .collect();
        until("some lines", || lines(&log(&folder)).len() > before + 50);
        server.kill();
        ends.store(true, Ordering::Relaxed);
        let text = std::fs::read_to_string(log(&folder)).unwrap();
        let answered: Vec<String> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        assert!(!answered.is_empty());
        assert!(answered.iter().all(|id| text.contains(id.as_str())), "an answered request is not in the log");
    }
}

/// A batch that seals for these users.
fn batch(users: &[&str]) -> Value {
    let item = |user: &&str| serde_json::json!({ "plaintext": "QQ==", "context": base64(user) });
    serde_json::json!({ "batch_input": users.iter().map(item).collect::<Vec<_>>() })
}

#[test]
fn whose_records_they_were_is_written_for_every_way_in() {
    let server = Server::start(&["--audit-users"]);
    let log = log(&server.folder);
    for key in ["a", "b"] {
        assert!(server.post(&format!("/v2/manage/keys/{key}"), &serde_json::json!({})).status < 300);
    }
    let written = |answer: &Answer| {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let line = line(&log, answer.header("x-request-id").unwrap());
        [&line["key"], &line["keys"], &line["user"], &line["users"]].map(Clone::clone)
    };
    let (null, ada, both) = (Value::Null, Value::from("YWRh"), serde_json::json!(["YWRh", "Ym9i"]));
    let json = |users: &[&str]| server.post("/v1/transit/encrypt/a", &batch(users));
    assert_eq!(written(&json(&["ada", "ada"])), ["a".into(), null.clone(), ada.clone(), null.clone()]);
    assert_eq!(written(&json(&["bob", "ada", "bob"])), ["a".into(), null.clone(), null.clone(), both.clone()]);
    let stream = |records: &[[&str; 2]]| {
        let records: Vec<u8> =
            records.iter().flat_map(|[key, user]| record([key.as_bytes(), user.as_bytes(), b"", b"text"])).collect();
        server.request("POST", "/v2/seal", &[OCTETS], &records)
    };
    assert_eq!(written(&stream(&[["a", "ada"], ["a", "ada"]])), ["a".into(), null.clone(), ada.clone(), null.clone()]);
    let mixed = stream(&[["a", "bob"], ["b", "ada"], ["a", "bob"]]);
    assert_eq!(written(&mixed), ["*".into(), serde_json::json!(["a", "b"]), null.clone(), both]);
    // What stands where a key's name should be may be a text.
    let misframed = stream(&[["a", "ada"], ["a-secret-text", "ada"]]);
    assert_eq!(written(&misframed), ["a".into(), null.clone(), ada, null]);
    assert!(!std::fs::read_to_string(&log).unwrap().contains("a-secret-text"));
}

#[test]
fn a_refused_request_says_what_it_asked_for_and_no_token() {
    let server = Server::start(&["--listen", "127.0.0.1:0"]);
    let log = log(&server.folder);
    let denied = |path: &str| {
        let answer = Client::tcp(&server.address()).request("POST", path, &[("X-Vault-Token", "phx.wrong")], b"{}");
        assert_eq!(answer.status, 403);
        line(&log, answer.header("x-request-id").unwrap())["path"].clone()
    };
    assert_eq!(denied("/v1/transit/decrypt/orders?x=secret"), "/v1/transit/decrypt/orders");
    assert_eq!(denied("/v1/auth/token/lookup/phx.abc"), "/v1/auth/token/lookup/-");
    let token = server.token(&["seal:a"]);
    let misplaced = server.request("GET", &format!("/v2/manage/keys/{token}"), &[], b"");
    assert_eq!(line(&log, misplaced.header("x-request-id").unwrap())["key"], "");
    assert!(!std::fs::read_to_string(&log).unwrap().contains("phx."));
}

#[test]
fn an_action_has_one_name_and_whose_user_it_is_about() {
    let server = Server::start(&["--audit-users"]);
    let log = log(&server.folder);
    let user = serde_json::json!({ "user": "YWRh" });
    let (shreddable, token) =
        (serde_json::json!({ "mode": "shreddable" }), serde_json::json!({ "policies": ["seal:a"] }));
    let nothing = serde_json::json!({});
    let wanted = [
        ("POST", "/v1/transit/keys/a", &nothing, "key-new"),
        ("POST", "/v2/manage/keys/b", &shreddable, "key-new"),
        ("GET", "/v1/transit/keys/a", &nothing, "key-read"),
        ("GET", "/v2/manage/keys/a", &nothing, "key-read"),
        ("LIST", "/v1/transit/keys", &nothing, "key-list"),
        ("GET", "/v2/manage/keys", &nothing, "key-list"),
        ("POST", "/v1/transit/keys/a/rotate", &nothing, "key-rotate"),
        ("POST", "/v1/transit/keys/a/config", &nothing, "key-config"),
        ("POST", "/v1/transit/keys/a/trim", &nothing, "key-trim"),
        ("DELETE", "/v1/transit/keys/a", &nothing, "key-delete"),
        ("POST", "/v1/auth/token/create", &token, "token-new"),
        ("GET", "/v1/auth/token/lookup-self", &nothing, "token-lookup"),
        ("POST", "/v1/auth/token/renew-self", &nothing, "token-renew"),
        ("POST", "/v1/auth/token/revoke", &nothing, "token-revoke"),
        ("GET", "/v2/manage/tokens", &nothing, "token-list"),
        ("POST", "/v1/sys/tools/random/8", &nothing, "random"),
        ("POST", "/v2/manage/check", &nothing, "check"),
        ("POST", "/v2/manage/users/b", &user, "user-show"),
        ("POST", "/v2/manage/shred/b", &user, "user-shred"),
    ];
    for (method, path, body, action) in wanted {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let answer = server.request(method, path, &[], body.as_bytes());
        let line = line(&log, answer.header("x-request-id").unwrap());
        assert_eq!(line["action"], action, "{method} {path}");
        if action.starts_with("user-") {
            assert_eq!((&line["user"], &line["items"]), (&"YWRh".into(), &1.into()), "{line}");
        }
    }
    let names = server.get("/metrics").text();
    assert!(names.contains("action=\"user-shred\"") && !names.contains("action=\"list keys\""));
}

#[test]
fn signals_for_logs_do_not_end_a_server() {
    let mut server = Server::start(&[]);
    let log = log(&server.folder);
    server.get("/v1/nothing");
    std::fs::rename(&log, server.folder.beside("audit.log.1")).unwrap();
    server.signal(Signal::USR2);
    server.signal(Signal::USR1);
    until("the new log", || log.exists());
    assert_eq!(server.get("/healthz").status, 200);
    server.signal(Signal::ALARM);
    assert!(!server.wait().success(), "an alarm is no wish to end in good order");
}
