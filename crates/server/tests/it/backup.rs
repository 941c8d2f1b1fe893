//! Backups, and restoring them.

use crate::common::folder::PROGRAM;
use crate::common::records::{Random, all_open, none_opens, rounds, seal, users};
use crate::common::{Folder, Server, kill_run, until};
use crate::store::failed;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

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
fn the_rows_and_buckets_of_two_backups_lose_users() {
    let server = server();
    let folder = server.folder.clone();
    let records = seal(&server, "orders", &users(0..20));
    let old = backup(&folder, "old");
    assert!(folder.run(["user", "shred", "orders", "user 3", "--yes"]).status.success());
    let new = backup(&folder, "new");
    server.kill();
    fs::copy(new.join("buckets.db"), old.join("buckets.db")).unwrap();
    let restored = folder.beside("restored");
    let output = restore(&folder, &old, &restored);
    failed(&output, 3, "old: damaged: 1 user in bucket");
    failed(&output, 3, "--skip-lost-users leaves these users out");
    let mix = [old.to_str().unwrap(), "--replace", "--skip-lost-users"];
    let output = folder.run(["restore"].into_iter().chain(mix));
    failed(&output, 0, "warning: left out, because their salts do not open: 1 user");
    failed(&output, 0, "with 2 keys and 19 users");
    let server = folder.start(&[]);
    none_opens(&server, &records[3..4]);
    all_open(&server, &records[4..]);
    assert!(folder.run(["check"]).status.success());
    server.kill();
    // The old backup as a whole brings the user back.
    fs::remove_dir_all(&old).unwrap();
    replace(&folder, &new);
    let server = folder.start(&[]);
    none_opens(&server, &records[3..4]);
    all_open(&server, &records[4..]);
}

#[test]
fn a_backup_is_of_the_user_who_makes_it() {
    let server = server();
    let folder = server.folder.clone();
    seal(&server, "orders", &users(0..20));
    let running = backup(&folder, "running");
    assert!(!folder.dir().join(".backup").exists());
    assert!(server.terminate().success());
    let alone = folder.beside("alone");
    let made = folder.run(["backup", alone.to_str().unwrap(), "--key-file", folder.key_file().to_str().unwrap()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for dir in [&running, &alone] {
        assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700);
        for name in ["rows.db", "buckets.db", "root.phx"] {
            assert_eq!(fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        }
        assert_eq!(fs::read(dir.join("root.phx")).unwrap(), fs::read(folder.dir().join("root.phx")).unwrap());
        let restored = folder.beside("restored");
        assert!(restore(&folder, dir, &restored).status.success());
        fs::remove_dir_all(restored).unwrap();
    }
}

#[test]
fn paths_may_have_links_in_them() {
    let folder = Folder::new();
    std::os::unix::fs::symlink(folder.beside(""), folder.beside("link")).unwrap();
    let path = |name: &str| folder.beside("link").join(name).to_str().unwrap().to_owned();
    let (dir, key) = (path("dir"), path("key"));
    let run = |arguments: &[&str]| {
        let output = folder.run(arguments.iter().copied());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["backup", "--dir", &dir, "--key-file", &key, &path("alone")]);
    let server = folder.start(&["--dir", &dir]);
    run(&["backup", "--dir", &dir, &path("running")]);
    server.kill();
    for backup in ["alone", "running"] {
        run(&["restore", "--replace", "--dir", &dir, &path(backup)]);
        run(&["restore", "--dir", &path(&format!("{backup}-restored")), &path(backup)]);
    }
    run(&["check", "--dir", &path("running-restored")]);
}

#[test]
fn a_server_sends_its_backup_and_leaves_nothing() {
    let server = server();
    // What a server that was killed has left.
    let left = server.folder.dir().join(".backup");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("rows.db"), "old").unwrap();
    let answer = server.request("POST", "/v2/manage/backup", &[], b"");
    assert_eq!(answer.status, 200);
    assert!(answer.body.starts_with(b"phalanx backup 1\x07rows.db"));
    assert!(!left.exists());
    fs::create_dir(&left).unwrap();
    let folder = server.kill();
    assert!(folder.run(["check"]).status.success());
    assert!(!left.exists());
}

#[test]
fn the_content_of_a_folder_is_replaced() {
    let server = server();
    let folder = server.folder.clone();
    let before = seal(&server, "orders", &users(0..20));
    let to = backup(&folder, "backup");
    let later = seal(&server, "orders", &users(100..120));
    let replace = ["restore", to.to_str().unwrap(), "--replace"];
    failed(&folder.run(replace), 4, "another server runs in this folder");
    // With a write-ahead log.
    server.kill();
    failed(&folder.run(["restore", to.to_str().unwrap()]), 4, "it has a server already");
    assert!(folder.run(replace).status.success());
    assert!(!folder.dir().join(".old").exists() && !folder.dir().join(".init").exists());
    let server = folder.start(&[]);
    all_open(&server, &before);
    none_opens(&server, &later);
    server.kill();
    // A folder without a server is made.
    let fresh = folder.beside("fresh");
    let output = folder.run(["restore", to.to_str().unwrap(), "--replace", "--dir", fresh.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The content of a file with the URL of a store that nobody reaches.
const NOWHERE: &str = "postgresql:///nothing?user=nobody&host=/no/such/folder\n";

/// Writes a file as `init --store` does.
fn write_url(path: &Path) {
    fs::write(path, NOWHERE).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_restored_store_takes_the_place_of_one_of_several_servers() {
    let server = server();
    let folder = server.folder.clone();
    let records = seal(&server, "orders", &users(0..20));
    let to = backup(&folder, "backup");
    server.kill();
    fs::remove_file(folder.dir().join("server.db")).unwrap();
    for has_run in [true, false] {
        if !has_run {
            // As after root.phx and store were copied to a new folder.
            fs::remove_file(folder.dir().join("lock")).unwrap();
        }
        write_url(&folder.dir().join("store"));
        let output = folder.run(["restore", to.to_str().unwrap(), "--replace"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!folder.dir().join("store").exists());
        all_open(&folder.start(&[]), &records);
    }
}

#[test]
fn a_folder_with_a_store_of_several_servers_is_made_again() {
    let server = server();
    let folder = server.folder.clone();
    let to = backup(&folder, "backup");
    server.kill();
    // What an interrupted `init --store` has left.
    let half = folder.beside("half");
    fs::create_dir_all(half.join(".init")).unwrap();
    fs::copy(folder.dir().join("root.phx"), half.join(".init/root.phx")).unwrap();
    write_url(&half.join("store"));
    let output = restore(&folder, &to, &half);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(half.join("server.db").exists() && !half.join("store").exists());
}

#[test]
fn a_replacement_that_is_interrupted_is_undone() {
    for step in 0..5 {
        let server = server();
        let records = seal(&server, "orders", &users(0..20));
        let folder = server.kill();
        let (dir, old) = (folder.dir(), folder.dir().join(".old"));
        let mv = |name: &str| fs::rename(dir.join(name), old.join(name)).unwrap();
        fs::create_dir(&old).unwrap();
        if step > 0 {
            mv("root.phx");
        }
        if step > 1 {
            mv("server.db-wal");
        }
        if step > 2 {
            mv("server.db");
        }
        if step > 3 {
            fs::write(dir.join("server.db"), "the new one").unwrap();
        }
        let server = folder.start(&[]);
        all_open(&server, &records);
        assert!(!old.exists(), "{step}");
    }
}

#[test]
fn a_replacement_is_killed_at_any_moment() {
    let mut random = Random::new();
    let server = server();
    let before = seal(&server, "orders", &users(0..20));
    let folder = server.folder.clone();
    let to = backup(&folder, "backup");
    server.kill();
    let replace = ["restore", to.to_str().unwrap(), "--replace"];
    let began = Instant::now();
    assert!(folder.run(replace).status.success());
    let most = began.elapsed().mul_f64(1.2).as_micros() as u64;
    let is_at_work = || [".init", ".old"].iter().any(|name| folder.dir().join(name).exists());
    let (rounds, mut cut) = (rounds(10, 300), 0);
    for round in 0..rounds + 100 {
        // More of them only if none was cut.
        if round >= rounds && cut > 0 {
            break;
        }
        let mut child = folder.command(replace).spawn().unwrap();
        let after = (round % 2 == 1).then(|| Duration::from_micros(random.below(most)));
        cut += usize::from(kill_run(&mut child, after, is_at_work));
        assert!(folder.run(["check"]).status.success());
        assert!(!folder.dir().join(".init").exists(), "it has a second store in it");
    }
    println!("{cut} runs were cut");
    assert!(cut > 0, "no run was killed at its work");
    all_open(&folder.start(&[]), &before);
}

#[test]
fn what_an_interrupted_replacement_has_left_is_cleared_up() {
    let server = server();
    let folder = server.folder.clone();
    let to = backup(&folder, "backup");
    server.kill();
    let left = folder.dir().join(".init");
    for command in [&["check"][..], &["restore", to.to_str().unwrap(), "--replace"]] {
        fs::create_dir(&left).unwrap();
        fs::write(left.join("server.db"), "with the keys of users").unwrap();
        assert!(folder.run(command.iter().copied()).status.success());
        assert!(!left.exists());
    }
    fs::create_dir(&left).unwrap();
    let _server = folder.start(&[]);
    assert!(!left.exists());
}

/// The hidden folders in which backups are written.
fn hidden(folder: &Folder) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.beside("")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with('.')).collect()
}

#[test]
fn a_backup_that_is_interrupted_leaves_nothing() {
    let server = server();
    let folder = server.folder.clone();
    // Each backup makes its folder, and then waits for the server.
    server.signal(Signal::STOP);
    let begin = |name: &str| {
        let before = hidden(&folder);
        let child = folder.command(["backup", folder.beside(name).to_str().unwrap()]).spawn().unwrap();
        let mut new = Vec::new();
        until("a hidden folder that has its mark", || {
            new = hidden(&folder).into_iter().filter(|path| !before.contains(path)).collect();
            new.first().is_some_and(|path| path.join("unfinished").exists())
        });
        fs::write(new[0].join("buckets.db"), "the keys of users").unwrap();
        (child, new.remove(0))
    };
    let end = |(mut child, _): (Child, PathBuf), signal: Signal| {
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
        assert!(!child.wait().unwrap().success());
    };
    end(begin("backup"), Signal::TERM);
    assert_eq!(hidden(&folder), Vec::<PathBuf>::new());
    // What was killed is cleared up by the next one of this name, and not what somebody still writes.
    end(begin("another"), Signal::KILL);
    end(begin("backup"), Signal::KILL);
    let left = hidden(&folder);
    let first = begin("backup");
    assert_eq!((left.len(), hidden(&folder).len()), (2, 2));
    let second = begin("backup");
    assert!(first.1.join("buckets.db").exists());
    end(second, Signal::TERM);
    end(first, Signal::KILL);
    server.signal(Signal::CONT);
    backup(&folder, "backup");
    assert!(hidden(&folder).iter().all(|path| path.to_str().unwrap().contains(".another.")));
    backup(&folder, "another");
    assert_eq!(hidden(&folder), Vec::<PathBuf>::new());
}

#[test]
fn a_finished_backup_is_no_left_one_whatever_it_is_called() {
    let server = server();
    let folder = server.folder.clone();
    let finished = backup(&folder, "a");
    let renamed = folder.beside(".b.0123456789abcdef");
    fs::rename(&finished, &renamed).unwrap();
    backup(&folder, "b");
    fs::rename(&renamed, &finished).unwrap();
    let output = folder.run(["check", "--dir", finished.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A root key's file that gives something else the second time.
#[test]
fn the_root_key_that_is_checked_is_the_one_that_is_restored() {
    let server = server();
    let folder = server.folder.clone();
    seal(&server, "orders", &users(0..3));
    let to = backup(&folder, "backup");
    let root = to.join("root.phx");
    // Another server's, which the same key opens.
    let readings = [fs::read(Folder::new().dir().join("root.phx")).unwrap(), fs::read(&root).unwrap()];
    fs::remove_file(&root).unwrap();
    mknodat(CWD, &root, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::thread::spawn({
        let root = root.clone();
        move || {
            for bytes in readings {
                let _ = fs::write(&root, bytes);
                // Until whoever reads has found the end.
                sleep(Duration::from_millis(500));
            }
        }
    });
    let restored = folder.beside("restored");
    failed(&restore(&folder, &to, &restored), 3, "damaged");
    assert!(!restored.exists());
}

#[test]
fn a_key_that_does_not_open_is_blamed_on_the_backup() {
    let server = server();
    let folder = server.folder.clone();
    let to = backup(&folder, "backup");
    server.kill();
    fs::write(folder.key_file(), [8; 32]).unwrap();
    let restored = folder.beside("restored");
    let root = to.join("root.phx");
    let output = restore(&folder, &to, &restored);
    failed(&output, 3, &format!("does not open {}", root.display()));
    assert!(!restored.exists());
    let without = Command::new(PROGRAM)
        .args(["restore", to.to_str().unwrap(), "--dir", restored.to_str().unwrap()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    failed(&without, 3, &format!("{}: what opens it is needed", root.display()));
    failed(&without, 3, "--key-file");
    assert!(!restored.exists());
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
fn a_backup_is_checked_and_not_changed() {
    let server = server();
    let folder = server.folder.clone();
    seal(&server, "orders", &users(0..20));
    server.token(&["seal:orders"]);
    let to = backup(&folder, "backup");
    let dir = to.to_str().unwrap();
    let counts = folder.run(["check"]).stdout;
    assert!(String::from_utf8_lossy(&counts).starts_with("2 keys, 2 versions, "));
    let content = || {
        let entries = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<_> = entries.map(|path| (fs::read(&path).unwrap(), path)).collect();
        all.sort();
        all
    };
    let before = content();
    let output = folder.run(["check", "--dir", dir]);
    assert_eq!((output.status.code(), output.stdout), (Some(0), counts), "{}", String::from_utf8_lossy(&output.stderr));
    let refused =
        format!("{dir}: it is a backup, and no server's folder\nhint: phalanx-server restore {dir} --dir DIR");
    for command in [&["run"][..], &["status"], &["key", "list"], &["backup", "b"]] {
        failed(&folder.run(command.iter().copied().chain(["--dir", dir])), 4, &refused);
    }
    failed(&folder.run(["init", "--dir", dir]), 4, "it has a server already");
    failed(&folder.run(["restore", dir, "--dir", dir, "--replace"]), 4, "it has a server already");
    assert_eq!(content(), before);
    // What restore would refuse.
    assert!(folder.run(["user", "shred", "orders", "user 3", "--yes"]).status.success());
    let new = backup(&folder, "new");
    fs::copy(new.join("buckets.db"), to.join("buckets.db")).unwrap();
    let output = folder.run(["check", "--dir", dir]);
    failed(&output, 3, "backup: damaged: 1 user in bucket");
    failed(&output, 3, "restore --skip-lost-users leaves these users out");
    fs::write(to.join("rows.db"), "no database, and longer than the head of one".repeat(9)).unwrap();
    failed(&folder.run(["check", "--dir", dir]), 3, "rows.db: it is damaged");
    fs::remove_file(to.join("buckets.db")).unwrap();
    fs::copy(new.join("rows.db"), to.join("rows.db")).unwrap();
    failed(&folder.run(["check", "--dir", dir]), 4, "buckets.db: ");
    fs::write(folder.key_file(), [8; 32]).unwrap();
    failed(&folder.run(["check", "--dir", dir]), 3, &format!("does not open {dir}/root.phx"));
}

#[test]
fn a_backup_is_not_in_the_servers_own_folder() {
    let server = server();
    let folder = &server.folder;
    fs::create_dir(folder.dir().join("inner")).unwrap();
    std::os::unix::fs::symlink(folder.dir(), folder.beside("link")).unwrap();
    for to in ["dir/backup", "dir/inner/backup", "link/backup", "dir/inner"] {
        let to = folder.beside(to);
        let line = format!(": {}: it is in the server's own folder\n", to.display());
        failed(&folder.run(["backup", to.to_str().unwrap()]), 2, &line);
        assert!(to.ends_with("inner") || !to.exists());
    }
    // The name begins alike.
    backup(folder, "dir-backup");
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
