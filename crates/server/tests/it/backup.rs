//! Backups, and restoring them.

use crate::common::records::{all_open, none_opens, seal, users};
use crate::common::{Folder, Server};
use crate::store::failed;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

fn server() -> Server {
    let server = Server::start(&[]);
    assert!(server.folder.run(["key", "new", "orders", "--mode", "shreddable"]).status.success());
    assert!(server.folder.run(["key", "new", "notes"]).status.success());
    server
}

fn backup(folder: &Folder, name: &str) -> PathBuf {
    let to = folder.beside(name);
    let made = folder.run(["backup", to.to_str().unwrap()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    to
}

fn restore(folder: &Folder, from: &Path, to: &Path) -> Output {
    folder.run(["restore", from.to_str().unwrap(), "--dir", to.to_str().unwrap()])
}

/// Puts a restored folder in the place of the old one.
fn replace(folder: &Arc<Folder>, from: &Path) {
    let restored = folder.beside("restored");
    let output = restore(folder, from, &restored);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::remove_dir_all(folder.dir()).unwrap();
    fs::rename(&restored, folder.dir()).unwrap();
}

#[test]
fn a_backup_of_a_running_server_is_restored() {
    let server = server();
    let folder = server.folder.clone();
    let orders = seal(&server, "orders", &users(0..500));
    let notes = seal(&server, "notes", &users(0..10));
    let token = server.token(&["seal:orders"]);
    let to = backup(&folder, "backup");
    let later = seal(&server, "orders", &users(1000..1010));
    let mut names: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["buckets.db", "root.phx", "rows.db"]);
    server.kill();
    replace(&folder, &to);
    let server = folder.start(&[]);
    all_open(&server, &orders);
    all_open(&server, &notes);
    none_opens(&server, &later);
    let answer =
        server.post_by(&token, "/v1/transit/encrypt/orders", &serde_json::json!({"plaintext": "", "context": "YQ=="}));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn old_rows_do_not_come_back_with_the_newest_buckets() {
    let server = server();
    let folder = server.folder.clone();
    let records = seal(&server, "orders", &users(0..20));
    let old = backup(&folder, "old");
    assert!(folder.run(["user", "shred", "orders", "user 3", "--yes"]).status.success());
    let new = backup(&folder, "new");
    server.kill();
    fs::copy(new.join("buckets.db"), old.join("buckets.db")).unwrap();
    failed(&restore(&folder, &old, &folder.beside("restored")), 3, "damaged: 1 user in bucket");
    replace(&folder, &new);
    let server = folder.start(&[]);
    none_opens(&server, &records[3..4]);
    all_open(&server, &records[4..]);
}

#[test]
fn a_damaged_backup_makes_no_server() {
    let server = server();
    let folder = server.folder.clone();
    seal(&server, "orders", &users(0..20));
    let to = backup(&folder, "backup");
    let restored = folder.beside("restored");
    for (name, code) in [("rows.db", 3), ("buckets.db", 3), ("root.phx", 3)] {
        let path = to.join(name);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[..200].fill(0x55);
        fs::write(&path, &bytes).unwrap();
        let output = restore(&folder, &to, &restored);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!restored.exists(), "{name}");
        fs::remove_file(&path).unwrap();
        assert_eq!(restore(&folder, &to, &restored).status.code(), Some(4), "{name}");
        assert!(!restored.exists(), "{name}");
        fs::write(&path, &whole).unwrap();
    }
    assert!(restore(&folder, &to, &restored).status.success());
    assert!(!restore(&folder, &to, &restored).status.success(), "it has a server in it now");
}

#[test]
fn a_backup_replaces_nothing() {
    let server = server();
    let folder = server.folder.clone();
    let to = backup(&folder, "backup");
    let path = to.to_str().unwrap();
    failed(&folder.run(["backup", path]), 4, "backup: ");
    let missing = folder.beside("no/such/folder");
    assert_eq!(folder.run(["backup", missing.to_str().unwrap()]).status.code(), Some(4));
    // Nothing else is left beside it.
    let hidden = fs::read_dir(to.parent().unwrap()).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.starts_with('.').then_some(name)
    });
    assert_eq!(hidden.collect::<Vec<_>>(), Vec::<String>::new());
    // The owner of a token cannot make the server write anywhere.
    let token = server.token(&["admin"]);
    let answer = server.post_by(&token, "/v2/manage/backup", &serde_json::json!({ "to": "/tmp" }));
    assert_eq!(answer.status, 403);
}
