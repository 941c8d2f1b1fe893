//! The folder of a server, and its store: who may use it, and what happens when it is damaged.

use crate::common::records::{Random, all_open, rounds, seal, users};
use crate::common::{Folder, Server, kill_run, skipped};
use rusqlite::Connection;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).permissions().mode() & 0o777
}

/// Asserts that a command failed with this exit code, and with this text in its lines.
pub fn failed(output: &Output, code: i32, text: &str) {
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}");
    assert!(line.contains(text), "{text:?} is not in {line:?}");
}

#[test]
fn who_asks_as_clients_of_vault_do_learns_that_nothing_is_served() {
    let server = Server::start(&["--audit", "required", "--audit-file", "/dev/full"]);
    assert_eq!(server.get("/v1/sys/health").status, 200, "nobody has found out yet");
    assert_eq!(server.get("/v1/nothing").status, 503);
    for path in ["/v1/sys/health", "/v1/sys/health?activecode=200", "/healthz"] {
        assert_eq!(server.get(path).status, 503, "{path}");
    }
    assert_eq!(server.request("HEAD", "/v1/sys/health", &[], b"").status, 503);
    assert_eq!(server.get("/v1/sys/seal-status").status, 200);
}

/// Moves what is in the write-ahead log of a server that has ended to its database.
pub fn settle(folder: &Folder) {
    let database = Connection::open(folder.dir().join("server.db")).unwrap();
    let busy: i64 = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    assert_eq!(busy, 0);
}

/// A folder with a server that has ended, and two keys with records.
fn used() -> std::sync::Arc<Folder> {
    let server = Server::start(&[]);
    let folder = server.folder.clone();
    assert!(folder.run(["key", "new", "notes"]).status.success());
    assert!(folder.run(["key", "new", "orders", "--mode", "shreddable"]).status.success());
    seal(&server, "orders", &users(0..10));
    assert!(server.terminate().success());
    settle(&folder);
    folder
}

#[test]
fn all_files_are_private() {
    let server = Server::start(&[]);
    assert!(server.folder.run(["key", "new", "orders"]).status.success());
    let dir = server.folder.dir();
    assert_eq!(mode(&dir), 0o700);
    for name in ["root.phx", "server.db", "server.db-wal"] {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
}

#[test]
fn a_store_that_others_may_change_is_refused() {
    let folder = used();
    let store = folder.dir().join("server.db");
    fs::set_permissions(&store, Permissions::from_mode(0o644)).unwrap();
    failed(&folder.run(["run"]), 4, "other users may read or write it");
    fs::set_permissions(&store, Permissions::from_mode(0o600)).unwrap();
    let elsewhere = folder.beside("elsewhere.db");
    fs::rename(&store, &elsewhere).unwrap();
    symlink(&elsewhere, &store).unwrap();
    failed(&folder.run(["run"]), 4, "it is no regular file");
    fs::remove_file(&store).unwrap();
    failed(&folder.run(["run"]), 4, "server.db: ");
    fs::rename(&elsewhere, &store).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&store, Some(12345), None).unwrap();
        failed(&folder.run(["run"]), 4, "it belongs to another user");
    } else {
        skipped("root");
    }
}

#[test]
fn init_takes_only_an_empty_folder() {
    let folder = used();
    failed(&folder.run(["init"]), 4, "it has a server already");
    let other = folder.beside("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("notes.txt"), "mine").unwrap();
    let init = folder.command(["init", "--dir", other.to_str().unwrap()]).output().unwrap();
    failed(&init, 4, "it is not empty: it has notes.txt in it");
    assert_eq!(fs::read_dir(&other).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != "lock").count(), 1);
}

#[test]
fn a_store_without_its_root_key_is_never_replaced() {
    let folder = used();
    fs::remove_file(folder.dir().join("root.phx")).unwrap();
    failed(&folder.run(["init"]), 4, "it is not empty");
    assert!(folder.dir().join("server.db").exists());
}

#[test]
fn an_interrupted_init_is_made_again() {
    // Killed while it wrote, between its two renames, and after both.
    for moved in 0..3 {
        let folder = Folder::new();
        let (dir, inner) = (folder.dir(), folder.dir().join(".init"));
        fs::create_dir(&inner).unwrap();
        for name in ["server.db", "root.phx"].into_iter().skip(moved) {
            fs::rename(dir.join(name), inner.join(name)).unwrap();
        }
        let init = folder.run(["init"]);
        if moved == 2 {
            failed(&init, 4, "it has a server already");
        } else {
            assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
            assert!(!inner.exists());
        }
        assert!(folder.run(["check"]).status.success());
    }
}

#[test]
fn init_is_killed_at_any_moment() {
    let mut random = Random::new();
    let began = Instant::now();
    let _ = Folder::new();
    let most = began.elapsed().mul_f64(1.2).as_micros() as u64;
    let (rounds, mut cut) = (rounds(15, 500), 0);
    for round in 0..rounds + 100 {
        // More of them only if none was cut.
        if round >= rounds && cut > 0 {
            break;
        }
        let folder = Folder::new();
        let dir = folder.beside(format!("dir {round}"));
        let named = dir.to_str().unwrap();
        let mut child = folder.command(["init", "--dir", named]).spawn().unwrap();
        let after = (round % 2 == 1).then(|| Duration::from_micros(random.below(most)));
        cut += usize::from(kill_run(&mut child, after, || dir.join(".init").exists()));
        let was_whole = dir.join("root.phx").exists();
        let init = folder.run(["init", "--dir", named]);
        assert_eq!(init.status.success(), !was_whole, "{}", String::from_utf8_lossy(&init.stderr));
        let check = folder.run(["check", "--dir", named]);
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    }
    println!("{cut} runs were cut");
    assert!(cut > 0, "no run was killed at its work");
}

#[test]
fn a_folder_is_for_one_server() {
    let server = Server::start(&[]);
    failed(&server.folder.run(["run"]), 4, "another server runs in this folder");
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn another_root_key_is_refused() {
    let folder = used();
    fs::write(folder.key_file(), [8; 32]).unwrap();
    let run = folder.run(["run"]);
    assert_eq!(run.status.code(), Some(3), "{}", String::from_utf8_lossy(&run.stderr));
    fs::write(folder.key_file(), [7; 32]).unwrap();
    // That of another server, which the same key opens.
    fs::copy(Folder::new().dir().join("root.phx"), folder.dir().join("root.phx")).unwrap();
    failed(&folder.run(["run"]), 3, "version 1 of the key notes is damaged, or of another root key");
}

#[test]
fn a_damaged_store_is_refused_with_a_line() {
    let folder = used();
    let store = folder.dir().join("server.db");
    let whole = fs::read(&store).unwrap();
    let mut bytes = whole.clone();
    bytes[..100].fill(0x55);
    fs::write(&store, &bytes).unwrap();
    failed(&folder.run(["run"]), 3, "it is damaged");
    fs::write(&store, &whole).unwrap();
    let change = |sql: &str| assert!(Connection::open(&store).unwrap().execute_batch(sql).is_ok(), "{sql}");
    change("PRAGMA user_version = 7");
    failed(&folder.run(["run"]), 4, "its tables have version 7");
    change("PRAGMA user_version = 1; UPDATE versions SET sealed = randomblob(80) WHERE number = 1");
    failed(&folder.run(["run"]), 3, "version 1 of the key ");
    let check = folder.run(["check"]);
    let damaged = String::from_utf8_lossy(&check.stderr).into_owned();
    failed(&check, 3, "damaged: version 1 of key orders");
    assert!(damaged.matches("damaged: version 1 of key ").count() == 2, "{damaged}");
    assert!(String::from_utf8_lossy(&check.stdout).contains("2 keys, "), "the others are checked too");
    fs::write(&store, &whole).unwrap();
    // A secret of one place in another one.
    change("UPDATE buckets SET bucket = 5000 WHERE bucket = (SELECT min(bucket) FROM buckets)");
    failed(&folder.run(["check"]), 3, "damaged: bucket");
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let folder = used();
    let script = "ulimit -f \"$1\" && shift && exec \"$@\"";
    let run = folder.command(["run"]);
    // In units of 512 bytes or of 1 KiB, by the shell: little more than there is.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, "sh", "600"]).arg(run.get_program()).args(run.get_args());
    for (name, value) in run.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    let server = Server::by(folder.clone(), command);
    let mut sealed = Vec::new();
    let mut client = server.client();
    let mut was_full = false;
    for i in 0..40_000 {
        let (user, text) = (format!("new {i}"), format!("text {i}"));
        let body = serde_json::json!({
            "context": crate::common::base64(&user), "plaintext": crate::common::base64(&text)
        });
        let answer = client.request("POST", "/v1/transit/encrypt/orders", &[], body.to_string().as_bytes());
        if answer.status != 200 {
            assert_eq!(answer.status, 500, "{}", answer.text());
            was_full = true;
            break;
        }
        let ciphertext = answer.json()["data"]["ciphertext"].as_str().unwrap().to_owned();
        sealed.push(crate::common::records::Record { key: "orders".into(), user, text, ciphertext });
    }
    assert!(was_full, "{} users", sealed.len());
    // What needs no disk goes on.
    all_open(&server, &sealed[..1]);
    server.kill();
    let server = folder.start(&[]);
    all_open(&server, &sealed);
    assert!(folder.run(["check"]).status.success());
}
