//! The commands that manage a server, with and without one that runs.

use crate::common::records::{Record, all_open, seal, users};
use crate::common::{Client, Folder, Server, base64, until};
use crate::store::failed;
use rustix::fs::{FlockOperation, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::process::{Output, Stdio};
use std::sync::Arc;

/// Runs a command with the key file, which those need that find no server.
fn run(folder: &Arc<Folder>, arguments: &[&str]) -> Output {
    folder.command(arguments.iter().copied()).arg("--key-file").arg(folder.key_file()).output().unwrap()
}

fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(output: Output) -> Vec<Value> {
    succeeded(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asks for the same things with and without a server.
fn all_commands(folder: &Arc<Folder>) {
    let run = |arguments: &[&str]| run(folder, arguments);
    let orders = json(run(&["key", "new", "orders", "--mode", "shreddable", "--json"])).remove(0);
    assert_eq!((&orders["mode"], &orders["latest_version"]), (&"shreddable".into(), &1.into()));
    succeeded(run(&["key", "new", "notes", "--type", "aes-256-gcm", "--no-user"]));
    failed(&run(&["key", "new", "notes"]), 1, "there is a key notes already");
    failed(&run(&["key", "new", "../notes"]), 2, "a key's name has 1 to 128 letters");
    failed(&run(&["key", "new", "other", "--type", "rsa-2048"]), 2, "--type: one of aes256-ctr-sha3, ");
    failed(&run(&["key", "new", "other", "--mode", "shreddable", "--no-user"]), 2, "needs a user");
    let list = succeeded(run(&["key", "list"]));
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(
        lines,
        ["notes  derived  aes256-gcm96  version 1  no user needed", "orders  shreddable  aes256-ctr-sha3  version 1",]
    );
    succeeded(run(&["key", "rotate", "orders"]));
    let rotated = run(&["key", "rotate", "orders"]);
    assert!(String::from_utf8_lossy(&rotated.stderr).contains("orders: version 3 seals from now on"));
    let first = "hint: give phalanx-server key config orders --min-open 2 --min-seal 2 first";
    failed(&run(&["key", "trim", "orders", "2"]), 1, first);
    failed(&run(&["key", "trim", "orders", "4"]), 1, "the newest version of orders is 3");
    failed(&run(&["key", "trim", "orders", "0"]), 2, "from 1 on");
    failed(&run(&["key", "config", "orders"]), 2, "nothing says what to change");
    succeeded(run(&["key", "config", "orders", "--min-open", "2", "--min-seal", "3"]));
    failed(&run(&["key", "config", "orders", "--min-open", "9"]), 1, "--min-open 9: the newest version of orders is 3");
    failed(&run(&["key", "config", "orders", "--min-seal", "1"]), 1, "hint: give --min-seal 2 too");
    succeeded(run(&["key", "trim", "orders", "2"]));
    let keys = json(run(&["key", "list", "--json"]));
    let orders = keys.iter().find(|key| key["name"] == "orders").unwrap();
    let numbers = ["latest_version", "min_decryption_version", "min_encryption_version", "min_available_version"];
    assert_eq!(numbers.map(|name| orders[name].as_u64().unwrap()), [3, 2, 3, 2]);
    failed(&run(&["key", "config", "orders", "--min-open", "1"]), 1, "before 2 are destroyed");
    failed(&run(&["key", "trim", "orders", "1"]), 1, "before 2 are destroyed already");
    let allow = "hint: give phalanx-server key config notes --allow-deletion first";
    failed(&run(&["key", "delete", "notes"]), 1, allow);
    for command in [&["delete", "no"][..], &["rotate", "no"], &["show", "no"], &["trim", "no", "1"]] {
        failed(&run(&[&["key"], command].concat()), 1, "no key no");
    }
    let show = succeeded(run(&["key", "show", "orders"]));
    for line in [
        "type:      aes256-ctr-sha3",
        "user:      required",
        "min-open:  2",
        "min-seal:  3",
        "deletion:  forbidden",
        "users:     0",
    ] {
        assert!(show.lines().any(|own| own == line), "{line}: {show}");
    }
    assert!(show.contains("version:   3, created 20") && !show.contains("version:   1,"), "{show}");
    assert_eq!(json(run(&["key", "show", "orders", "--json"]))[0]["versions"].as_array().unwrap().len(), 2);
    succeeded(run(&["key", "config", "notes", "--allow-deletion"]));
    succeeded(run(&["key", "delete", "notes"]));
    assert_eq!(json(run(&["key", "list", "--json"])).len(), 1);
    failed(&run(&["user", "show", "orders", "ada"]), 1, "orders has no such user");
    failed(&run(&["user", "show", "nothing", "ada"]), 1, "no key nothing");
    let absent = run(&["user", "show", "orders", "ada", "--json"]);
    assert_eq!(absent.status.code(), Some(1));
    assert_eq!(serde_json::from_slice::<Value>(&absent.stdout).unwrap()["exists"], false);
    failed(&run(&["user", "shred", "orders", "ada"]), 2, "there is no terminal to ask at");
    failed(&run(&["user", "shred", "orders", "ada", "--yes"]), 1, "orders has no such user");
    let token = succeeded(run(&["token", "new", "--allow", "seal:orders,open:orders,user=ada", "--ttl", "2h"]));
    assert!(token.starts_with("phx.") && token.ends_with('\n') && token.lines().count() == 1);
    failed(&run(&["token", "new", "--allow", "steal:orders"]), 2, "is not a right");
    for rights in ["admin,user=ada", "seal:orders,root,user=ada", "user=ada,admin"] {
        failed(
            &run(&["token", "new", "--allow", rights]),
            2,
            "admin is for all users: leave out admin or user=\nhint: ",
        );
    }
    failed(&run(&["token", "new", "--allow", "seal:orders", "--ttl", "2w"]), 2, "a time such as");
    let tokens = json(run(&["token", "list", "--json"]));
    assert_eq!(tokens.len(), 1);
    assert!(!succeeded(run(&["token", "list"])).contains(token.trim()));
    let accessor = tokens[0]["accessor"].as_str().unwrap();
    succeeded(run(&["token", "revoke", accessor]));
    failed(&run(&["token", "revoke", accessor]), 1, "there is no such token");
    assert!(succeeded(run(&["token", "list"])).is_empty());
}

#[test]
fn commands_speak_to_the_running_server() {
    let server = Server::start(&[]);
    all_commands(&server.folder);
    let check = server.folder.run(["check"]);
    assert_eq!(succeeded(check), "1 key, 2 versions, 0 buckets, 0 users, 0 tokens\n");
}

#[test]
fn commands_work_without_a_server() {
    let folder = Folder::new();
    all_commands(&folder);
    let server = folder.start(&[]);
    assert_eq!(server.get("/v2/manage/keys/orders").json()["latest_version"], 3);
}

#[test]
fn commands_without_a_folder_or_its_key_say_so() {
    let folder = Folder::new();
    let nowhere = folder.beside("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    failed(
        &run(&folder, &["key", "list", "--dir", nowhere]),
        4,
        "nowhere: not a server's folder\nhint: phalanx-server init",
    );
    std::fs::write(folder.key_file(), [9; 32]).unwrap();
    let dir = folder.dir();
    let line = format!("{} does not open the root key of {}\n", folder.key_file().display(), dir.display());
    failed(&run(&folder, &["key", "list"]), 3, &line);
    failed(&folder.run(["run"]), 3, &line);
    let none =
        format!("{}: no server runs here, and its root key is needed\nhint: start the server, or ", dir.display());
    // Without a terminal no password is asked for.
    let output = folder.command(["key", "list"]).env("HOME", folder.beside("home")).output().unwrap();
    failed(&output, 3, &none);
    let nothing = folder.command(["key", "list"]).env_remove("PHALANX_SERVER_DIR").output().unwrap();
    failed(&nothing, 2, "no folder is named");
}

#[test]
fn a_token_of_the_command_does_what_it_allows() {
    let server = Server::start(&[]);
    succeeded(server.folder.run(["key", "new", "orders"]));
    let token = succeeded(server.folder.run(["token", "new", "--allow", "seal:orders,user=ada", "--ttl", "1h"]));
    let seal = |user: &str| {
        let body = serde_json::json!({ "plaintext": "", "context": base64(user) });
        server.post_by(token.trim(), "/v1/transit/encrypt/orders", &body).status
    };
    assert_eq!((seal("ada"), seal("bob")), (200, 403));
    let user = serde_json::json!({ "user": base64("ada") });
    let nothing = serde_json::json!({});
    let refused = [("keys/orders", &nothing), ("users/orders", &user), ("shred/orders", &user), ("tokens", &nothing)];
    for (path, body) in refused.into_iter().chain([("revoke", &nothing), ("check", &nothing), ("backup", &nothing)]) {
        assert_eq!(server.post_by(token.trim(), &format!("/v2/manage/{path}"), body).status, 403, "{path}");
    }
}

#[test]
fn a_user_is_any_bytes() {
    let server = Server::start(&[]);
    let folder = &server.folder;
    succeeded(folder.run(["key", "new", "orders", "--mode", "shreddable"]));
    seal(&server, "orders", &[("ada".into(), "text".into()), ("-".into(), "text".into())]);
    assert_eq!(succeeded(folder.run(["user", "show", "orders", "ada"])), "orders has this user\n");
    assert_eq!(json(folder.run(["user", "show", "orders", "--user-base64", "YWRh", "--json"]))[0]["exists"], true);
    failed(&folder.run(["user", "show", "orders", "--user-base64", "?"]), 2, "is not base64");
    failed(&folder.run(["user", "show", "orders", ""]), 2, "a user has a name");
    succeeded(folder.run(["user", "shred", "orders", "--user-base64", "YWRh", "--yes"]));
    succeeded(folder.run(["user", "shred", "orders", "--yes", "--", "-"]));
    succeeded(folder.run(["key", "new", "notes"]));
    failed(&folder.run(["user", "shred", "notes", "ada", "--yes"]), 1, "the key notes is not shreddable");
}

#[test]
fn both_names_of_a_type_are_understood() {
    let server = Server::start(&[]);
    let types = [("a", "aes-256-turbo"), ("b", "aes256-ctr-turboshake"), ("c", "aes-128"), ("d", "aes256-gcm96")];
    for (name, given) in types {
        succeeded(server.folder.run(["key", "new", name, "--type", given]));
        let body = serde_json::json!({ "type": given });
        assert_eq!(server.post(&format!("/v2/manage/keys/{name}2"), &body).status, 200);
        assert_eq!(server.post(&format!("/v1/transit/keys/{name}3"), &body).status, 200);
    }
    let shown: Vec<String> = json(server.folder.run(["key", "list", "--json"]))
        .iter()
        .map(|key| key["type"].as_str().unwrap().to_owned())
        .collect();
    let wanted = ["aes256-ctr-turboshake", "aes256-ctr-turboshake", "aes128-ctr-sha3", "aes256-gcm96"];
    assert_eq!(shown, wanted.map(|name| [name; 3]).concat());
    let read = server.get("/v1/transit/keys/a").json();
    assert_eq!(read["data"]["type"], "aes256-ctr-turboshake");
}

#[test]
fn a_token_is_named_revoked_by_its_text_and_never_repeated() {
    let server = Server::start(&[]);
    let folder = &server.folder;
    let new = folder.run(["token", "new", "--allow", "seal:orders", "--name", "shop"]);
    let accessor = String::from_utf8_lossy(&new.stderr).split("accessor ").nth(1).unwrap()[..18].to_owned();
    let text = succeeded(new).trim().to_owned();
    let list = succeeded(folder.run(["token", "list"]));
    assert!(list.starts_with(&format!("{accessor}  shop  seal:orders  created 20")), "{list}");
    assert!(list.contains("  ends 20"), "{list}");
    assert_eq!(server.get("/v2/manage/tokens").json()["tokens"][0]["name"], "shop");
    assert!(folder.run(["-q", "token", "new", "--allow", "open:orders"]).stderr.is_empty());
    let revoked = folder.run(["token", "revoke", &text]);
    assert!(String::from_utf8_lossy(&revoked.stderr).contains(&format!("{accessor}: revoked")));
    failed(&folder.run(["token", "revoke", &text]), 1, "there is no such token");
    let wrong: [&[&str]; 5] = [
        &["token", "revoke", &text],
        &["token", "revoke", "a", &text],
        &["token", &text],
        &["token", "new", "--allow", &text],
        &["token", "new", "--allow", "seal:a", "--ttl", &text],
    ];
    for command in wrong {
        let output = folder.run(command.iter().copied());
        assert!(!output.status.success());
        assert!(!String::from_utf8_lossy(&output.stderr).contains(&text), "{command:?}");
    }
}

#[test]
fn a_token_that_cannot_be_printed_does_not_live_on() {
    let server = Server::start(&[]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = server.folder.command(["token", "new", "--allow", "seal:orders"]);
    failed(&command.stdout(full).output().unwrap(), 4, "hint: the token is revoked again");
    assert_eq!(server.get("/v2/manage/tokens").json()["tokens"], serde_json::json!([]));
}

#[test]
fn nobody_who_reads_is_no_failure() {
    let server = Server::start(&[]);
    succeeded(server.folder.run(["key", "new", "orders"]));
    for arguments in [&["key", "list"][..], &["key", "show", "orders"], &["status"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = server.folder.command(arguments.iter().copied()).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn status_says_whether_a_server_runs() {
    let server = Server::start(&[]);
    let folder = server.folder.clone();
    let line = succeeded(folder.run(["status"]));
    assert!(line.contains(": serving, version ") && line.contains(", since 20"), "{line}");
    let mut other = server.client();
    assert_eq!(other.request("GET", "/healthz", &[], b"").status, 200);
    until("one is counted", || succeeded(folder.run(["status"])).ends_with(" UTC, 1 other connection\n"));
    server.signal(Signal::STOP);
    failed(&folder.run(["status"]), 4, "server.sock: the server there does not answer within 10 seconds");
    server.signal(Signal::CONT);
    let status = json(folder.run(["status", "--json"])).remove(0);
    assert_eq!((&status["serves"], &status["state"]), (&true.into(), &"serving".into()));
    assert!(server.terminate().success());
    failed(&folder.run(["status"]), 1, "no server runs here");
}

#[test]
fn status_ends_where_nobody_else_may_wait_for_a_server() {
    let folder = Folder::new();
    let listener = UnixListener::bind(folder.socket()).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let connect = || {
        let stream = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::io::ioctl_fionbio(&stream, true).unwrap();
        rustix::net::connect(&stream, &SocketAddrUnix::new(folder.socket()).unwrap()).map(|()| stream)
    };
    let waiting: Vec<_> = std::iter::from_fn(|| connect().ok()).collect();
    assert_eq!(connect().unwrap_err(), rustix::io::Errno::AGAIN, "after {}", waiting.len());
    let mut status = Server::begin(folder.clone(), folder.command(["status"]));
    status.line("server.sock: the server there does not answer within 10 seconds");
    assert_eq!(status.wait().code(), Some(4));
}

/// A server that ends as soon as a client sends the rest of its request, an empty line.
fn ending() -> (Server, Client) {
    let server = Server::start(&["--drain-seconds", "100000", "--head-timeout", "86400"]);
    let mut running = server.client();
    running.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n").unwrap();
    until("its bytes are read", || server.get("/metrics").text().contains("phalanx_server_connections 2"));
    server.signal(Signal::TERM);
    until("nobody can connect any more", || !server.folder.socket().exists());
    (server, running)
}

#[test]
fn a_server_that_ends_is_no_secret_and_is_waited_for() {
    let (mut server, mut running) = ending();
    let folder = server.folder.clone();
    failed(&folder.run(["status"]), 1, ": a server is ending here");
    let status = folder.run(["status", "--json"]);
    assert_eq!(status.status.code(), Some(1));
    let wanted = serde_json::json!({ "serves": false, "state": "draining" });
    assert_eq!(serde_json::from_slice::<Value>(&status.stdout).unwrap(), wanted);
    let next = Server::begin(folder.clone(), folder.command(["run", "--drain-seconds", "100000"]));
    next.line(": waiting for the server that is ending here");
    running.raw(b"\r\n").unwrap();
    assert!(server.wait().success());
    next.line("listening on unix:");
    assert!(succeeded(folder.run(["status"])).contains(": serving, version "));
    next.kill();
    // What a server has left that was killed while it ended.
    std::fs::write(folder.dir().join("lock"), "ending\n").unwrap();
    failed(&folder.run(["status"]), 1, "no server runs here");
}

#[test]
fn commands_wait_for_a_server_that_ends_and_say_so() {
    let (mut server, mut running) = ending();
    let folder = server.folder.clone();
    let key = folder.key_file();
    let begin = |options: &[&str]| {
        let waiting = Server::begin(folder.clone(), folder.command([&["key", "list"], options].concat()));
        waiting.line(": waiting for the server that is ending here");
        waiting
    };
    // It gives up in the end, and says what it has waited for once only.
    let mut patient = begin(&[]);
    assert_eq!(patient.wait().code(), Some(4));
    assert!(patient.stderr().ends_with(": a server is ending here"), "{}", patient.stderr());
    assert_eq!(patient.stderr().lines().count(), 2, "{}", patient.stderr());
    // When the server has ended, commands open the folder themselves.
    let (mut with_key, mut without) = (begin(&["--key-file", key.to_str().unwrap()]), begin(&[]));
    running.raw(b"\r\n").unwrap();
    assert!(server.wait().success());
    assert_eq!(with_key.wait().code(), Some(0), "{}", with_key.stderr());
    assert_eq!(without.wait().code(), Some(3), "{}", without.stderr());
    assert!(without.stderr().contains(": no server runs here, and its root key is needed"), "{}", without.stderr());
}

#[test]
fn commands_wait_for_a_command_that_has_the_folder_and_say_so() {
    let folder = Folder::new();
    let lock = std::fs::File::create(folder.dir().join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let command = folder.command(["key", "list", "--key-file", folder.key_file().to_str().unwrap()]);
    let mut waiting = Server::begin(folder.clone(), command);
    waiting.line(": waiting for the server or command that has this folder");
    drop(lock);
    assert!(waiting.wait().success());
}

#[test]
fn the_hint_of_init_can_be_run() {
    let folder = Folder::new();
    let (dir, key) = (folder.beside("a server"), folder.beside("a key"));
    std::fs::copy(folder.key_file(), &key).unwrap();
    let mut init = folder.command(["status"]);
    init = {
        let mut command = std::process::Command::new(init.get_program());
        command.args(["init", "--dir"]).arg(&dir).arg("--key-file").arg(&key);
        command
    };
    let output = init.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(": server created\n"), "{stderr}");
    let wanted =
        format!("hint: start it: phalanx-server run --dir '{}' --key-file '{}'\n", dir.display(), key.display());
    assert!(stderr.ends_with(&wanted), "{stderr}");
}

#[test]
fn messages_of_the_command_line_are_sentences() {
    let folder = Folder::new();
    failed(&folder.run(["run", "--max-connections", "0"]), 2, "--max-connections: a number from 1 to 100000, not 0");
    failed(&folder.run(["rewrap"]), 2, "missing: KEY");
    failed(&run(&folder, &["token", "new", "--allow", "admin", "--name", ""]), 2, "one line of 1 to 128 bytes");
    failed(&folder.run(["rewrap", "a", "--key", "a"]), 2, "cannot be combined with");
    failed(&run(&folder, &["rewrap", "orders"]), 1, "no key orders");
}

fn rewrap(folder: &Arc<Folder>, options: &[&str], input: impl AsRef<[u8]>) -> Output {
    let mut command = folder.command(["rewrap", "--key", "orders"].into_iter().chain(options.iter().copied()));
    command.arg("--key-file").arg(folder.key_file());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.as_ref().to_owned();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

#[test]
fn rewrapping_keeps_the_order_and_names_what_fails() {
    let server = Server::start(&[]);
    let folder = server.folder.clone();
    succeeded(folder.run(["key", "new", "orders"]));
    let records = seal(&server, "orders", &users(0..2500));
    succeeded(folder.run(["key", "rotate", "orders"]));
    let line = |record: &Record| {
        serde_json::json!({ "id": record.user, "ciphertext": record.ciphertext, "context": base64(&record.user) })
            .to_string()
    };
    let input: Vec<String> = records.iter().map(line).collect();
    let output = json(rewrap(&folder, &[], input.join("\n") + "\n"));
    assert_eq!(output.len(), records.len());
    let again: Vec<Record> = records
        .iter()
        .zip(&output)
        .map(|(record, line)| {
            assert_eq!(line["id"], record.user.as_str());
            Record { ciphertext: line["ciphertext"].as_str().unwrap().to_owned(), ..record.clone() }
        })
        .collect();
    assert!(again.iter().all(|record| record.ciphertext.starts_with("vault:v2:")));
    all_open(&server, &again);
    let mut broken = input.clone();
    broken[1200] = "{\"ciphertext\":\"vault:v1:AAAA\",\"context\":\"YQ==\"}".into();
    let output = rewrap(&folder, &[], broken.join("\n"));
    failed(&output, 3, "line 1201: ");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1200);
    // Without a server too.
    assert!(server.terminate().success());
    let output = rewrap(&folder, &["--keep-going"], broken.join("\n"));
    failed(&output, 3, "line 1201: ");
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 2500);
    assert_eq!(lines.lines().nth(1200), Some(broken[1200].as_str()));
}

#[test]
fn rewrapping_changes_nothing_but_the_ciphertext() {
    let server = Server::start(&[]);
    let folder = &server.folder;
    succeeded(folder.run(["key", "new", "orders"]));
    let old = seal(&server, "orders", &[("ada".into(), "text".into())]).remove(0);
    succeeded(folder.run(["key", "rotate", "orders"]));
    let line = |ciphertext: &str| {
        let around =
            (r#"{"z": 12345678901234567890, "n":1.10, "ciphertext" : ""#, r#"", "a":"\/","a":1,"context":"YWRh"}"#);
        format!("{}{ciphertext}{}", around.0, around.1)
    };
    let input = format!("\n{}\r\n  \n{}", line(&old.ciphertext), line(&old.ciphertext));
    let output = succeeded(rewrap(folder, &[], input));
    let lines: Vec<&str> = output.split('\n').collect();
    let new: Vec<Record> = [lines[1].trim_end_matches('\r'), lines[3]]
        .into_iter()
        .map(|text| {
            let fields: Value = serde_json::from_str(text).unwrap();
            let ciphertext = fields["ciphertext"].as_str().unwrap().to_owned();
            assert_eq!(text, line(&ciphertext));
            Record { ciphertext, ..old.clone() }
        })
        .collect();
    assert!(new.iter().all(|record| record.ciphertext.starts_with("vault:v2:")));
    all_open(&server, &new);
    assert_eq!((lines[0], lines[2], lines[4], lines.len()), ("", "  ", "", 5));
    assert!(lines[1].ends_with('\r'));
    // Nothing is sent when there is nothing to send.
    assert_eq!(succeeded(rewrap(folder, &[], "\n\n")), "\n\n");
    assert_eq!(succeeded(rewrap(folder, &[], "")), "");
}

#[test]
fn a_line_that_is_no_json_is_called_so() {
    let server = Server::start(&[]);
    let folder = &server.folder;
    succeeded(folder.run(["key", "new", "orders"]));
    let old = seal(&server, "orders", &[("ada".into(), "text".into())]).remove(0);
    let good = format!("{{\"ciphertext\":\"{}\",\"context\":\"YWRh\"}}", old.ciphertext);
    let twice = good.replace('}', ",\"context\":\"YWRh\"}");
    let broken = "{\"secret\": secret}";
    let output = rewrap(folder, &[], [broken, &good].join("\n"));
    failed(&output, 3, "line 1: it is not valid JSON: expected value at column 12\n");
    assert!(output.stdout.is_empty());
    let output = rewrap(folder, &["--keep-going"], [&good, broken, &twice, &good].join("\n"));
    failed(&output, 3, "line 2: it is not valid JSON: ");
    failed(&output, 3, "line 3: duplicate field `context`\n");
    failed(&output, 3, "2 lines were copied unchanged");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("secret"));
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().skip(1).take(2).collect::<Vec<_>>(), [broken, &twice]);
    assert_eq!(lines.lines().count(), 4);
}

#[test]
fn lines_before_one_that_is_no_text_come_out() {
    let server = Server::start(&[]);
    let folder = &server.folder;
    succeeded(folder.run(["key", "new", "orders"]));
    let old = seal(&server, "orders", &[("ada".into(), "text".into())]).remove(0);
    let good = format!("{{\"ciphertext\":\"{}\",\"context\":\"YWRh\"}}\n", old.ciphertext);
    let output = rewrap(folder, &[], [good.as_bytes(), b"\xff\n"].concat());
    failed(&output, 3, "line 2: it is no text");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}

#[test]
fn lines_that_are_no_text_or_too_long_are_copied_and_the_others_go_on() {
    let server = Server::start(&[]);
    let folder = &server.folder;
    succeeded(folder.run(["key", "new", "orders"]));
    let old = seal(&server, "orders", &[("ada".into(), "text".into())]).remove(0);
    let good = format!("{{\"ciphertext\":\"{}\",\"context\":\"YWRh\"}}\n", old.ciphertext).into_bytes();
    // Longer than two buffers, so that it comes in pieces.
    let long = [&b"x".repeat((33 << 20) + 7)[..], b"\n"].concat();
    succeeded(folder.run(["key", "rotate", "orders"]));
    let ends: [&[u8]; 3] = [b"\xff\n", &long, &long[..long.len() - 1]];
    let output = rewrap(folder, &["--keep-going"], [&good, ends[0], &good, ends[1], &good, ends[2]].concat());
    for line in ["line 2: it is no text\n", "line 4: it is longer than 16777216 bytes\n", "line 6: it is longer"] {
        failed(&output, 3, line);
    }
    failed(&output, 3, "3 lines were copied unchanged");
    let lines: Vec<&[u8]> = output.stdout.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 6);
    assert!(lines[1] == ends[0] && lines[3] == long && lines[5] == long, "they are not the same");
    for line in [lines[0], lines[2], lines[4]] {
        assert!(String::from_utf8_lossy(line).contains("vault:v2:"));
    }
    let output = rewrap(folder, &[], [&good, &long[..], &good].concat());
    failed(&output, 3, "line 2: it is longer than 16777216 bytes\n");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1);
}

#[test]
fn rewrapping_keeps_to_what_the_server_takes() {
    let server = Server::start(&[]);
    let folder = server.folder.clone();
    succeeded(folder.run(["key", "new", "orders"]));
    let texts: Vec<_> = users(0..1000).into_iter().map(|(user, _)| (user, "x".repeat(4000))).collect();
    let records = seal(&server, "orders", &texts);
    let long = seal(&server, "orders", &[("ada".into(), "x".repeat(1 << 20))]).remove(0);
    succeeded(folder.run(["key", "rotate", "orders"]));
    assert!(server.terminate().success());
    let line = |record: &Record| {
        serde_json::json!({ "ciphertext": record.ciphertext, "context": base64(&record.user) }).to_string() + "\n"
    };
    let input: String = records.iter().map(line).collect();
    assert!(input.len() > 5 << 20);
    // Few bytes at a time, and few requests a second.
    let server = folder.start(&["--max-in-flight", "8", "--max-rate", "3"]);
    let output = succeeded(rewrap(&folder, &[], &input));
    assert_eq!(output.lines().filter(|line| line.contains("vault:v2:")).count(), 1000);
    let two = &input[..input.match_indices('\n').nth(1).unwrap().0 + 1];
    let output = rewrap(&folder, &["--keep-going"], [two, &line(&long), two].concat());
    failed(&output, 3, "line 3: the server takes ");
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains("vault:v2:")).count(), 4);
    assert!(lines.contains(&line(&long)));
    drop(server);
}

#[test]
fn nothing_is_made_in_a_folder_that_is_no_servers() {
    let folder = Folder::new();
    let strange = folder.beside("strange");
    std::fs::create_dir(&strange).unwrap();
    let dir = strange.to_str().unwrap();
    for command in [&["key", "list"][..], &["run"], &["check"], &["backup", "b"], &["token", "list"]] {
        failed(&folder.run(command.iter().copied().chain(["--dir", dir])), 4, "not a server's folder");
        assert_eq!(std::fs::read_dir(&strange).unwrap().count(), 0, "{command:?}");
    }
    std::fs::write(strange.join("notes"), "mine").unwrap();
    failed(&folder.run(["init", "--dir", dir]), 4, "it is not empty: it has notes in it");
    assert_eq!(std::fs::read_dir(&strange).unwrap().count(), 1);
}

#[test]
fn hints_name_what_this_program_has() {
    let folder = Folder::new();
    let unknown = [
        ("encrypt", "clients do that by HTTP"),
        ("seal", "clients do that by HTTP"),
        ("serve", "did you mean run?"),
        ("start", "did you mean run?"),
        ("key remove", "did you mean delete?"),
        ("key rm", "did you mean delete?"),
        ("key create", "did you mean new?"),
        ("token create", "did you mean new?"),
        ("token rm", "did you mean revoke?"),
        ("token delete", "did you mean revoke?"),
    ];
    for (line, hint) in unknown {
        let output = folder.command(line.split(' ')).output().unwrap();
        failed(&output, 2, hint);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("protect"), "{line}");
    }
    let backup = folder.beside("backup");
    let backup = backup.to_str().unwrap();
    succeeded(run(&folder, &["backup", backup]));
    for command in [&["init"][..], &["restore", backup], &["backup", backup]] {
        let output = if command[0] == "backup" { run(&folder, command) } else { folder.run(command.iter().copied()) };
        failed(&output, 4, "");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("--force"), "{command:?}");
    }
    let file = folder.beside("file");
    std::fs::write(&file, "").unwrap();
    let output = folder.run(["init", "--dir", file.to_str().unwrap()]);
    failed(&output, 4, "");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("--force"));
    for line in ["help", "help key", "help key new", "token help", "--help"] {
        let help = succeeded(folder.command(line.split(' ')).output().unwrap());
        assert!(help.contains("Usage: phalanx-server"), "{line}: {help}");
    }
}
