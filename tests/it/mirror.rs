//! `phalanx mirror`: what a run does, and what it refuses.

use crate::age::{data, public};
use crate::common::{Ended, Sandbox, difference, entries, has, painted, skip};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::process::Command;
use std::time::{Duration, SystemTime};

const MIRROR: [&str; 6] = ["mirror", "source", "m", "-k", "k", "--no-sync"];

fn then(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds)
}

/// Writes a file of the source with a time of its own.
fn put(s: &Sandbox, name: &str, content: &str, time: u64) {
    let path = s.path("source").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    File::open(path).unwrap().set_modified(then(time)).unwrap();
}

/// A source with the files a, b, f/c and f/g/d, and its mirror m.
fn mirrored() -> Sandbox {
    let s = Sandbox::with_key();
    for (time, name) in ["a", "b", "f/c", "f/g/d"].into_iter().enumerate() {
        put(&s, name, name, time as u64);
    }
    s.run(&MIRROR).ok();
    s
}

fn run(s: &Sandbox, more: &[&str]) -> Ended {
    s.run(&[&MIRROR[..], more].concat())
}

/// The last line of a run with --json, which must succeed.
#[track_caller]
fn summary(s: &Sandbox, more: &[&str]) -> Value {
    let text = run(s, &[more, &["--json"]].concat()).text();
    serde_json::from_str::<Value>(text.lines().last().unwrap()).unwrap()["summary"].take()
}

/// Checks that verify finds nothing, and that unprotect gives the source.
#[track_caller]
fn is_whole(s: &Sandbox) {
    let verified = s.run(&["verify", "-R", "m", "-k", "k"]);
    assert_eq!(verified.error(), "");
    verified.ok();
    s.run(&["unprotect", "-R", "m", "-o", "back", "-k", "k", "--no-sync"]).ok();
    let contents = |root| entries(&s.path(root)).into_iter().map(|(path, entry)| (path, entry.content));
    assert!(contents("source").eq(contents("back")));
    fs::remove_dir_all(s.path("back")).unwrap();
}

/// Checks that a run changes nothing in the mirror.
#[track_caller]
fn changes_nothing(s: &Sandbox, act: impl FnOnce()) {
    let before = entries(&s.path("m"));
    act();
    assert_eq!(difference(&before, &entries(&s.path("m"))), None);
}

fn inode(s: &Sandbox, name: &str) -> u64 {
    s.path(name).metadata().unwrap().ino()
}

#[test]
fn a_run_with_failures_deletes_nothing() {
    let s = mirrored();
    fs::remove_file(s.path("source/a")).unwrap();
    fs::remove_dir_all(s.path("source/f/g")).unwrap();
    // The name of this folder in the mirror is that of the file b.
    fs::create_dir(s.path("source/b.phx")).unwrap();
    let error = run(&s, &["--delete"]).fails_with_lines(4);
    assert!(error.contains("source/b.phx: "), "{error}");
    assert!(error.contains("something failed, so nothing more is deleted"), "{error}");
    assert!(s.exists("m/a.phx") && s.exists("m/f/g/d.phx"));
    s.run(&["verify", "-R", "m", "-k", "k"]).ok();
    fs::remove_dir(s.path("source/b.phx")).unwrap();
    assert_eq!(summary(&s, &["--delete"])["deleted"], 2);
    assert!(!s.exists("m/a.phx") && !s.exists("m/f/g"));
    is_whole(&s);
}

#[test]
fn without_delete_everything_stays_and_is_listed() {
    let s = mirrored();
    fs::remove_file(s.path("source/a")).unwrap();
    fs::remove_dir_all(s.path("source/f")).unwrap();
    assert_eq!(summary(&s, &[])["deleted"], 0);
    assert!(s.exists("m/a.phx") && s.exists("m/f/g/d.phx"));
    s.run(&["verify", "-R", "m", "-k", "k"]).ok();
    s.run(&["unprotect", "-R", "m", "-o", "back", "-k", "k"]).ok();
    assert_eq!((s.read("back/a"), s.read("back/f/g/d")), (b"a".to_vec(), b"f/g/d".to_vec()));
}

#[test]
fn more_deletions_than_max_delete_are_refused() {
    let s = mirrored();
    fs::remove_dir_all(s.path("source/f")).unwrap();
    for most in ["0", "1"] {
        changes_nothing(&s, || {
            let error = run(&s, &["--delete", "--max-delete", most]).fails(4);
            let line = format!("source: 2 files would be deleted, and --max-delete allows {most}: nothing was done");
            assert!(error.contains(&line), "{error}");
            assert!(error.ends_with("hint: --max-delete 2 insists"), "{error}");
        });
    }
    assert_eq!(summary(&s, &["--delete", "--max-delete", "2"])["deleted"], 2);
    is_whole(&s);
}

/// Puts files with these names into the mirror, which no manifest lists.
fn put_unlisted(s: &Sandbox, names: &[&str]) {
    for name in names {
        let path = s.path("m").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "not listed").unwrap();
    }
}

/// A mirror with 5 files and links that no manifest lists and that are deleted, and with others that stay.
fn with_unlisted() -> (Sandbox, [&'static str; 9]) {
    let s = mirrored();
    let goes = ["old/1.phx", "old/f/2.phx", "old/f/g/3.phx", "own/4.phx"];
    put_unlisted(&s, &goes);
    symlink("1.phx", s.path("m/old/link")).unwrap();
    fs::create_dir(s.path("m/empty")).unwrap();
    put_unlisted(&s, &["own/notes.txt", "other/phalanx.tree", "other/5.phx", "out/a.tmp.phx", "readme.txt"]);
    let lines =
        ["empty", "old", "old/1.phx", "old/f", "old/f/2.phx", "old/f/g", "old/f/g/3.phx", "old/link", "own/4.phx"];
    (s, lines)
}

/// The paths that a run says it deletes, in their order.
fn named(s: &Sandbox, more: &[&str]) -> Vec<String> {
    let text = run(s, more).text();
    let mut paths: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("deleted ")).map(str::to_owned).collect();
    paths.sort();
    paths
}

#[test]
fn all_files_of_a_folder_that_no_manifest_lists_count() {
    let (s, lines) = with_unlisted();
    let delete = ["--delete", "--exclude", "*.tmp"];
    for most in ["0", "4"] {
        changes_nothing(&s, || {
            let error = run(&s, &[&delete[..], &["--max-delete", most]].concat()).fails(4);
            let line = format!("source: 5 files would be deleted, and --max-delete allows {most}: nothing was done");
            assert!(error.contains(&line), "{error}");
            assert!(error.ends_with("hint: --max-delete 5 insists"), "{error}");
        });
    }
    changes_nothing(&s, || assert_eq!(named(&s, &[&delete[..], &["-n", "--max-delete", "5"]].concat()), lines));
    assert_eq!(named(&s, &[&delete[..], &["--max-delete", "5", "--verbose"]].concat()), lines);
    for name in ["own/notes.txt", "other/phalanx.tree", "other/5.phx", "out/a.tmp.phx", "readme.txt"] {
        assert!(s.exists(&format!("m/{name}")), "{name}");
    }
    assert!(lines.iter().all(|name| s.path("m").join(name).symlink_metadata().is_err()));
    run(&s, &[&delete[..], &["--max-delete", "0"]].concat()).ok();
}

#[test]
fn the_summary_counts_all_files_of_a_folder_that_no_manifest_lists() {
    let (s, _) = with_unlisted();
    assert_eq!(summary(&s, &["--delete", "--exclude", "*.tmp"])["deleted"], 5);
}

#[test]
fn a_run_that_would_delete_many_files_that_no_manifest_lists_is_refused() {
    let s = mirrored();
    let names: Vec<String> = (0..101).map(|i| format!("old/{i}.phx")).collect();
    put_unlisted(&s, &names.iter().map(|name| &**name).collect::<Vec<_>>());
    changes_nothing(&s, || {
        let error = run(&s, &["--delete"]).fails(4);
        let line =
            "source: 0 of the mirror's 4 files would be deleted, and 101 that no manifest lists: nothing was done";
        assert!(error.contains(line), "{error}");
        assert!(error.ends_with("hint: --max-delete 101 insists"), "{error}");
    });
    fs::rename(s.path("m/old/0.phx"), s.path("m/old/0.txt")).unwrap();
    assert_eq!(summary(&s, &["--delete"])["deleted"], 100);
    assert!(s.exists("m/old/0.txt") && !s.exists("m/old/1.phx"));
}

#[test]
fn a_source_without_the_mirrors_files_deletes_nothing_that_no_manifest_lists() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("source")).unwrap();
    run(&s, &[]).ok();
    put_unlisted(&s, &["old/1.phx"]);
    changes_nothing(&s, || {
        let error = run(&s, &["--delete"]).fails(4);
        assert!(error.contains("it has none of the mirror's files, and all 1 would be deleted"), "{error}");
    });
    assert_eq!(summary(&s, &["--delete", "--max-delete", "1"])["deleted"], 1);
}

#[test]
fn the_first_run_keeps_what_is_there_and_says_what_the_next_one_deletes() {
    let s = Sandbox::with_key();
    put(&s, "a", "a", 0);
    put_unlisted(&s, &["old/1.phx", "2.phx", "readme.txt"]);
    let warning = "warning: m: the next run with --delete deletes 2 files that no manifest lists";
    assert_eq!(named(&s, &["--delete", "-n"]), [""; 0]);
    let ended = run(&s, &["--delete", "--max-delete", "0"]);
    assert!(ended.error().contains("3 entries have no input and stay as they are"), "{}", ended.error());
    assert!(ended.error().contains(warning), "{}", ended.error());
    ended.ok();
    assert!(s.exists("m/old/1.phx") && s.exists("m/2.phx"));
    let ended = run(&s, &[]);
    assert!(!ended.error().contains("warning"), "{}", ended.error());
    run(&s, &["--delete", "--max-delete", "1"]).fails(4);
    assert_eq!(named(&s, &["--delete", "-n"]), ["2.phx", "old", "old/1.phx"]);
    let ended = run(&s, &["--delete"]);
    assert!(!ended.error().contains("warning"), "{}", ended.error());
    assert!(!s.exists("m/old") && !s.exists("m/2.phx") && s.exists("m/readme.txt"));
}

#[test]
fn what_comes_into_an_unlisted_folder_during_the_run_stays() {
    let s = mirrored();
    put_unlisted(&s, &["old/1.phx", "old/f/2.phx", "theirs/3.phx"]);
    put(&s, "new", "new", 10);
    // The run has counted when its first output has a name to give up.
    let is_temporary = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().as_encoded_bytes()[0] == b'.';
    let ready = || fs::read_dir(s.path("m")).unwrap().any(is_temporary);
    let come = || put_unlisted(&s, &["old/f/4.phx", "theirs/phalanx.tree"]);
    let args = [&MIRROR[..], &["--delete", "--max-delete", "3", "--threads", "1"]].concat();
    let Some(ended) = s.meanwhile("rename,renameat,renameat2:when=1", &args, ready, come) else { return };
    ended.ok();
    assert!(!s.exists("m/old/1.phx") && !s.exists("m/old/f/2.phx"));
    assert!(s.exists("m/old/f/4.phx") && s.exists("m/theirs/3.phx"));
    assert_eq!(summary(&s, &["--delete"])["deleted"], 1);
}

#[test]
fn a_source_that_vanished_does_not_empty_the_mirror() {
    let s = mirrored();
    fs::remove_dir_all(s.path("source")).unwrap();
    changes_nothing(&s, || drop(run(&s, &["--delete"]).fails(4)));
    fs::create_dir(s.path("source")).unwrap();
    changes_nothing(&s, || {
        let error = run(&s, &["--delete"]).fails(4);
        let line = "source: it has none of the mirror's files, and all 4 would be deleted: nothing was done";
        assert!(error.contains(line), "{error}");
        assert!(error.ends_with("hint: --max-delete 4 insists"), "{error}");
    });
    assert_eq!(summary(&s, &["--delete", "--max-delete", "4"])["deleted"], 4);
    is_whole(&s);
}

#[test]
fn a_run_that_would_delete_most_of_many_files_is_refused() {
    let s = Sandbox::with_key();
    (0..150).for_each(|i| put(&s, &format!("{i}"), "x", i));
    s.run(&MIRROR).ok();
    (0..101).for_each(|i| fs::remove_file(s.path(&format!("source/{i}"))).unwrap());
    changes_nothing(&s, || {
        let error = run(&s, &["--delete"]).fails(4);
        assert!(error.contains("source: 101 of the mirror's 150 files would be deleted"), "{error}");
        assert!(error.ends_with("hint: --max-delete 101 insists"), "{error}");
    });
    put(&s, "100", "x", 100);
    assert_eq!(summary(&s, &["--delete"])["deleted"], 100);
    is_whole(&s);
}

#[test]
fn what_is_replaced_or_deleted_goes_to_the_backup() {
    let s = mirrored();
    symlink("a", s.path("source/link")).unwrap();
    run(&s, &[]).ok();
    let back = |name: &str| {
        s.run(&["unprotect", &format!("kept/{name}"), "-k", "k", "-o", "opened", "-f"]).ok();
        String::from_utf8(s.read("opened")).unwrap()
    };
    put(&s, "a", "second", 10);
    fs::remove_file(s.path("source/link")).unwrap();
    fs::remove_dir_all(s.path("source/f")).unwrap();
    run(&s, &["--delete", "--backup-dir", "kept"]).ok();
    assert_eq!((back("a.phx"), back("f/c.phx"), back("f/g/d.phx")), ("a".into(), "f/c".into(), "f/g/d".into()));
    assert_eq!(fs::read_link(s.path("kept/link")).unwrap().to_str(), Some("a"));
    assert!(!s.exists("kept/b.phx"));
    is_whole(&s);
    // Nothing in it is replaced.
    put(&s, "a", "third", 11);
    run(&s, &["--delete", "--backup-dir", "kept"]).ok();
    fs::remove_file(s.path("source/a")).unwrap();
    run(&s, &["--delete", "--backup-dir", "kept"]).ok();
    assert_eq!((back("a.phx"), back("a.~1~.phx"), back("a.~2~.phx")), ("a".into(), "second".into(), "third".into()));
    is_whole(&s);
    changes_nothing(&s, || {
        let error = run(&s, &["--backup-dir", "m/kept"]).fails(4);
        assert!(error.contains("the folder for backups is within the mirror"), "{error}");
    });
}

#[test]
fn a_dry_run_says_what_would_be_done_and_changes_nothing() {
    let s = Sandbox::with_key();
    put(&s, "a", "a", 0);
    put(&s, "f/b", "b", 1);
    let text = run(&s, &["-n"]).text();
    assert!(text.lines().eq(["new a", "new f", "new f/b"]), "{text}");
    assert_eq!(s.names().into_iter().filter(|name| name != "cache").collect::<Vec<_>>(), ["source"]);
    assert!(!s.exists("state"), "it remembers nothing");

    for (time, name) in ["changed", "deleted", "old", "permissions", "same"].into_iter().enumerate() {
        put(&s, name, name, 10 + time as u64);
    }
    run(&s, &[]).ok();
    put(&s, "changed", "now", 20);
    put(&s, "new", "new", 21);
    fs::remove_file(s.path("source/deleted")).unwrap();
    fs::rename(s.path("source/old"), s.path("source/f/moved")).unwrap();
    fs::set_permissions(s.path("source/permissions"), Permissions::from_mode(0o600)).unwrap();
    s.write("m/stray.phx", "not ours");
    let (source, mirror, state) = (entries(&s.path("source")), entries(&s.path("m")), entries(&s.path("state")));
    let mut lines: Vec<String> = run(&s, &["-n", "--delete"]).text().lines().map(str::to_owned).collect();
    lines.sort();
    let mut expected = [
        "changed changed",
        "deleted deleted",
        "deleted stray.phx",
        "moved f/moved (was old)",
        "new new",
        "permissions permissions",
    ];
    expected.sort();
    assert_eq!(lines, expected);
    assert_eq!(difference(&source, &entries(&s.path("source"))), None);
    assert_eq!(difference(&mirror, &entries(&s.path("m"))), None);
    assert_eq!(difference(&state, &entries(&s.path("state"))), None);
    run(&s, &["--delete"]).ok();
    is_whole(&s);
}

#[test]
fn a_moved_file_is_renamed_in_the_mirror() {
    let s = mirrored();
    let (a, d) = (inode(&s, "m/a.phx"), inode(&s, "m/f/g/d.phx"));
    fs::rename(s.path("source/a"), s.path("source/f/moved")).unwrap();
    fs::rename(s.path("source/f/g"), s.path("source/h")).unwrap();
    let done = summary(&s, &["--delete"]);
    assert_eq!((&done["moved"], &done["new"], &done["deleted"]), (&2.into(), &0.into(), &0.into()), "{done}");
    assert_eq!((inode(&s, "m/f/moved.phx"), inode(&s, "m/h/d.phx")), (a, d));
    is_whole(&s);
    // Without --delete too.
    fs::rename(s.path("source/h/d"), s.path("source/d")).unwrap();
    assert_eq!(summary(&s, &[])["moved"], 1);
    assert_eq!(inode(&s, "m/d.phx"), d);
    is_whole(&s);
}

#[test]
fn new_permissions_do_not_write_content_again() {
    let s = mirrored();
    let before = entries(&s.path("m"));
    fs::set_permissions(s.path("source/a"), Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(s.path("source/f"), Permissions::from_mode(0o700)).unwrap();
    let done = summary(&s, &[]);
    assert_eq!((&done["metadata"], &done["changed"], &done["unchanged"]), (&1.into(), &0.into(), &3.into()), "{done}");
    let after = entries(&s.path("m"));
    for (path, entry) in &before {
        let now = &after[path];
        if path.to_str() != Some("phalanx.tree") {
            assert_eq!((&now.content, now.inode, now.modified), (&entry.content, entry.inode, entry.modified));
        }
    }
    let mode = |name: &str| s.path(name).metadata().unwrap().mode() & 0o777;
    assert_eq!((mode("m/a.phx"), mode("m/f")), (0o600, 0o700));
    is_whole(&s);
}

#[test]
fn a_machine_with_public_keys_only_writes_what_changed() {
    let ssh = data("ssh-ed25519.pub").trim().to_owned();
    for (recipient, identity) in [(public("alice.txt"), "alice.txt"), (ssh, "ssh-ed25519")] {
        let s = Sandbox::new();
        for (time, name) in ["a", "b", "f/c"].into_iter().enumerate() {
            put(&s, name, name, time as u64);
        }
        let night = |more: &[&str]| {
            let ended = s.run(&[&["mirror", "source", "m", "-r", &recipient, "--delete", "--json"][..], more].concat());
            assert!(!ended.error().contains("warning"), "{}", ended.error());
            serde_json::from_str::<Value>(ended.text().lines().last().unwrap()).unwrap()["summary"].take()
        };
        assert_eq!(night(&[])["new"], 3);
        let before = entries(&s.path("m"));
        let done = night(&[]);
        assert_eq!((&done["unchanged"], &done["changed"]), (&3.into(), &0.into()), "{done}");
        assert_eq!(difference(&before, &entries(&s.path("m"))), None);
        put(&s, "b", "second", 10);
        fs::remove_file(s.path("source/a")).unwrap();
        let done = night(&[]);
        assert_eq!((&done["changed"], &done["unchanged"], &done["deleted"]), (&1.into(), &1.into(), &1.into()));
        assert_eq!(inode(&s, "m/f/c.phx"), before["f/c.phx".as_ref() as &std::path::Path].inode);
        // It opens nothing.
        for args in [&["verify", "-R", "m"][..], &["unprotect", "-R", "m", "-o", "back"], &["verify", "m/b.phx"]] {
            s.run(args).fails_with_lines(3);
        }
        assert!(!s.exists("back"));
        // The owner opens everything.
        s.secret("identity", data(identity));
        s.run(&["verify", "-R", "m", "-i", "identity"]).ok();
        s.run(&["unprotect", "-R", "m", "-o", "back", "-i", "identity"]).ok();
        assert_eq!((s.read("back/b"), s.read("back/f/c")), (b"second".to_vec(), b"f/c".to_vec()));
        fs::remove_file(s.path("identity")).unwrap();
        // Without what it remembers, it needs to be told that everything is to be written again.
        fs::remove_dir_all(s.path("state")).unwrap();
        let error = s.run(&["mirror", "source", "m", "-r", &recipient]).fails_with_lines(3);
        assert!(error.contains("the keys at hand do not open it") && error.contains("hint: move it away"), "{error}");
        fs::remove_file(s.path("m/phalanx.tree")).unwrap();
        s.run(&["mirror", "source", "m", "-r", &recipient, "--new"]).ok();
        s.secret("identity", data(identity));
        s.run(&["verify", "-R", "m", "-i", "identity"]).ok();
    }
}

#[test]
fn checksum_finds_a_change_that_length_and_time_do_not_show() {
    let s = mirrored();
    put(&s, "a", "A", 0);
    changes_nothing(&s, || assert_eq!(summary(&s, &[])["unchanged"], 4));
    let done = summary(&s, &["--checksum"]);
    assert_eq!((&done["changed"], &done["unchanged"], &done["metadata"]), (&1.into(), &3.into(), &0.into()), "{done}");
    is_whole(&s);
    changes_nothing(&s, || assert_eq!(summary(&s, &["--checksum"])["unchanged"], 4));
    // A stored file that was damaged is written again.
    let mut stored = s.read("m/b.phx");
    *stored.last_mut().unwrap() ^= 1;
    s.write("m/b.phx", stored);
    s.run(&["verify", "-R", "m", "-k", "k"]).fails_with_lines(3);
    assert_eq!(summary(&s, &["--checksum"])["changed"], 1);
    is_whole(&s);
    let recipient = public("alice.txt");
    let refused = s.run(&["mirror", "source", "m", "-r", &recipient, "--checksum"]).fails(2);
    assert!(refused.contains("--checksum needs a key or a password"), "{refused}");
}

#[test]
fn a_stored_file_that_is_gone_or_cut_is_written_again() {
    let s = mirrored();
    fs::remove_file(s.path("m/a.phx")).unwrap();
    fs::remove_dir_all(s.path("m/f/g")).unwrap();
    File::options().write(true).open(s.path("m/b.phx")).unwrap().set_len(10).unwrap();
    run(&s, &[]).ok();
    is_whole(&s);
}

#[test]
fn the_summary_counts_what_was_done() {
    let s = mirrored();
    put(&s, "new", "new", 10);
    put(&s, "b", "changed", 11);
    fs::remove_file(s.path("source/a")).unwrap();
    fs::rename(s.path("source/f/c"), s.path("source/moved")).unwrap();
    let done = summary(&s, &["--delete"]);
    for (field, number) in [("new", 1), ("changed", 1), ("moved", 1), ("metadata", 0), ("deleted", 1), ("unchanged", 1)]
    {
        assert_eq!(done[field], number, "{field}: {done}");
    }
    assert_eq!((&done["failed"], &done["left_out"], &done["exit_code"]), (&0.into(), &0.into(), &0.into()), "{done}");
    assert_eq!(done["plaintext_bytes"], 10, "{done}");
    assert!(done["generation"].as_u64().unwrap() > 0 && done["seconds"].is_number(), "{done}");
    let digest = done["digest"].as_str().unwrap();
    s.run(&["verify", "-R", "m", "-k", "k", "--expect", digest]).ok();
    let ended = run(&s, &[]);
    assert!(ended.error().contains(", 4 unchanged; 0 bytes"), "{}", ended.error());
    assert_eq!(summary(&s, &[])["digest"], digest);
    put(&s, "b", "again", 12);
    let next = summary(&s, &[]);
    assert!(next["generation"].as_u64() > done["generation"].as_u64() && next["digest"] != digest);
}

#[test]
fn a_damaged_manifest_stops_the_run_and_a_foreign_one_is_never_taken_for_the_mirror() {
    let s = mirrored();
    let whole = s.read("m/phalanx.tree");
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for bad in [&damaged, &whole[..whole.len() - 1].to_vec(), &b"not ours".to_vec(), &Vec::new()] {
        s.write("m/phalanx.tree", bad);
        changes_nothing(&s, || {
            let error = run(&s, &["--delete"]).fails(3);
            assert!(error.contains("m/phalanx.tree: "), "{error}");
            assert!(error.ends_with("hint: move it away, and --new writes all files again"), "{error}");
        });
    }
    s.lose_manifest("m");
    let done = summary(&s, &[]);
    assert_eq!((&done["new"], &done["unchanged"]), (&4.into(), &0.into()), "{done}");
    is_whole(&s);
    // The manifest of another key.
    s.run(&["key", "new", "other"]).ok();
    s.run(&["mirror", "source", "foreign", "-k", "other"]).ok();
    fs::copy(s.path("foreign/phalanx.tree"), s.path("m/phalanx.tree")).unwrap();
    let error = run(&s, &[]).fails(3);
    assert!(error.contains("no key at hand opens it: it needs key") && !error.contains("--new"), "{error}");
    s.lose_manifest("m");
    run(&s, &[]).ok();
    is_whole(&s);
    // The manifest of another mirror with the same key, in which all lengths and times are the same.
    s.run(&["mirror", "source", "another", "-k", "k"]).ok();
    fs::copy(s.path("another/phalanx.tree"), s.path("m/phalanx.tree")).unwrap();
    run(&s, &[]).ok();
    s.run(&["verify", "-R", "m", "-k", "k"]).fails_with_lines(3);
    run(&s, &["--checksum"]).ok();
    // The user alone says that it belongs there.
    s.run(&["verify", "-R", "m", "-k", "k", "--accept"]).ok();
    is_whole(&s);
}

#[test]
fn a_mirror_that_was_set_back_is_remembered_until_it_has_a_later_generation() {
    let s = mirrored();
    let older = s.read("m/phalanx.tree");
    let generation = || summary(&s, &[])["generation"].as_u64().unwrap();
    let modified = fs::metadata(s.path("source")).unwrap().modified().unwrap();
    put(&s, "new", "new", 20);
    let seen = generation();
    fs::remove_file(s.path("source/new")).unwrap();
    fs::remove_file(s.path("m/new.phx")).unwrap();
    fs::File::open(s.path("source")).unwrap().set_modified(modified).unwrap();
    s.write("m/phalanx.tree", &older);
    // Nothing has changed since the older manifest, and still it is not taken as the last one.
    let ended = run(&s, &[]);
    assert!(ended.error().contains(&format!("generation {seen} was seen before")), "{}", ended.error());
    ended.ok();
    assert!(generation() > seen);
    is_whole(&s);
    assert_eq!(s.run(&["verify", "-R", "m", "-k", "k"]).error(), "");
}

#[test]
fn two_runs_do_not_write_to_one_mirror() {
    let s = mirrored();
    put(&s, "a", "second", 10);
    let other = File::open(s.path("m")).unwrap();
    flock(&other, FlockOperation::LockExclusive).unwrap();
    changes_nothing(&s, || {
        let error = run(&s, &[]).fails(4);
        assert!(error.contains("m: another run writes to it"), "{error}");
    });
    run(&s, &["-n"]).ok();
    drop(other);
    run(&s, &[]).ok();
    is_whole(&s);
}

#[test]
fn what_a_killed_run_left_in_the_mirror_is_removed() {
    let s = mirrored();
    let name = |digit: &str, end: &str| format!(".phalanx-{}{end}", digit.repeat(32));
    let left = [name("1", ".tmp"), format!("f/{}", name("2", ".tmp"))];
    // A run holds one of them, another run can go on with the second, and without locks nobody knows about the third.
    let others = [
        name("3", ".tmp"),
        name("4", ".tmp"),
        name("4", ".resume"),
        name("5", "-0123456789abcdef.tmp"),
        name("6", ".rekey"),
    ];
    left.iter().chain(&others).for_each(|name| drop(s.write(&format!("m/{name}"), "left")));
    let held = File::open(s.path(&format!("m/{}", others[0]))).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    run(&s, &["-n"]).ok();
    assert!(left.iter().all(|name| s.exists(&format!("m/{name}"))), "a dry run changes nothing");
    run(&s, &[]).ok();
    assert!(left.iter().all(|name| !s.exists(&format!("m/{name}"))));
    assert!(others.iter().all(|name| s.exists(&format!("m/{name}"))));
    let modified = |folder: &str| fs::metadata(s.path(folder)).unwrap().modified().unwrap();
    assert_eq!(modified("source/f"), modified("m/f"));

    // It does not keep a folder that is gone.
    s.write(&format!("m/{}", left[1]), "left");
    fs::remove_dir_all(s.path("source/f")).unwrap();
    run(&s, &["--delete"]).ok();
    assert!(!s.exists("m/f"));
}

#[test]
fn a_mirror_in_its_source_is_refused() {
    let s = mirrored();
    let before = entries(&s.path("source"));
    symlink("source/f", s.path("link")).unwrap();
    for mirror in ["source", "source/f", "source/new", "source/f/new", "source/f/../new", "link/new"] {
        let error = s.run(&["mirror", "source", mirror, "-k", "k"]).fails(2);
        assert!(error.contains("the mirror is within the source"), "{mirror}: {error}");
    }
    assert_eq!(difference(&before, &entries(&s.path("source"))), None);
    s.run(&["mirror", "source/a", "n", "-k", "k"]).fails(4);
    assert!(!s.exists("n"));
}

#[test]
fn a_source_in_its_mirror_is_refused() {
    let s = Sandbox::with_key();
    fs::create_dir_all(s.path("disk/data/f/g")).unwrap();
    fs::create_dir_all(s.path("disk/data/empty")).unwrap();
    s.write("disk/data/f/g/a", "a");
    s.write("disk/data/own.phx", "somebody's own");
    symlink("f", s.path("disk/data/link")).unwrap();
    let before = entries(&s.path("disk"));
    for (source, mirror) in [("disk/data", "disk"), ("disk/data/f/g", "disk"), ("disk/data/link/g", "disk/data/f/..")] {
        for more in [&[][..], &["--new"], &["-n"], &["--delete"]] {
            let error = s.run(&[&["mirror", source, mirror, "-k", "k"], more].concat()).fails(2);
            assert!(error.contains(&format!("{mirror}: the source is within the mirror")), "{error}");
        }
    }
    let error = s.run(&["mirror", "disk/data", "m", "-k", "k", "--backup-dir", "disk"]).fails(2);
    assert!(error.contains("disk: the source is within the folder for backups"), "{error}");
    assert_eq!(difference(&before, &entries(&s.path("disk"))), None);
    assert!(!s.exists("m"));
    s.run(&["mirror", "disk/data", "disk/m", "-k", "k"]).ok();
    assert_eq!(s.read("disk/data/own.phx"), b"somebody's own");
}

#[test]
fn an_entry_whose_name_belongs_to_another_is_replaced() {
    // A link, a folder and a file have the place in the mirror that a file or a folder takes next.
    for old in ["link", "folder", "file"] {
        let s = mirrored();
        match old {
            "link" => symlink("a", s.path("source/x.phx")).unwrap(),
            "folder" => put(&s, "x.phx/in", "in", 10),
            _ => put(&s, "x", "x", 10),
        }
        run(&s, &[]).ok();
        if old == "file" {
            fs::remove_file(s.path("source/x")).unwrap();
            put(&s, "x.phx/in", "in", 11);
        } else {
            let path = s.path("source/x.phx");
            if old == "link" {
                fs::remove_file(path).unwrap()
            } else {
                fs::remove_dir_all(path).unwrap()
            }
            put(&s, "x", "x", 11);
        }
        let line = if old == "folder" { "it was a folder" } else { "it is gone at the source" };
        let error = run(&s, &[]).fails_with_lines(4);
        assert!(error.contains(&format!("m/x.phx: {line}")), "{old}: {error}");
        s.run(&["verify", "-R", "m", "-k", "k"]).ok();
        run(&s, &["--delete"]).ok();
        is_whole(&s);
    }
}

#[test]
fn a_folder_that_became_a_file_stays_without_delete() {
    let s = mirrored();
    fs::remove_dir_all(s.path("source/f")).unwrap();
    put(&s, "f", "a file", 10);
    put(&s, "a", "second", 11);
    let error = run(&s, &[]).fails_with_lines(4);
    assert!(error.contains("m/f: it was a folder, and is none at the source any more"), "{error}");
    assert!(error.contains("hint: --delete removes it, if nothing else fails"), "{error}");
    s.run(&["verify", "-R", "m", "-k", "k"]).ok();
    s.run(&["unprotect", "-R", "m", "-o", "back", "-k", "k"]).ok();
    assert_eq!((s.read("back/f/c"), s.read("back/a")), (b"f/c".to_vec(), b"second".to_vec()));
    fs::remove_dir_all(s.path("back")).unwrap();
    run(&s, &["--delete"]).ok();
    is_whole(&s);
}

/// Data that some tool has moved elsewhere, and left links to.
#[test]
fn files_that_became_links_are_not_replaced_all_at_once() {
    let s = mirrored();
    fs::create_dir(s.path("store")).unwrap();
    let files = ["a", "b", "f/c", "f/g/d"];
    for (number, file) in files.iter().enumerate() {
        fs::rename(s.path("source").join(file), s.path("store").join(number.to_string())).unwrap();
        symlink("../store", s.path("source").join(file)).unwrap();
    }
    changes_nothing(&s, || {
        for more in [&[][..], &["-n"]] {
            let error = run(&s, more).fails_with_lines(4);
            let line = "source: it has none of the mirror's files, and all 4 would be deleted: nothing was done";
            assert!(error.contains(line) && error.contains("hint: --max-delete 4 insists"), "{error}");
        }
        run(&s, &["--max-delete", "3"]).fails(4);
    });
    let lines = |more: &[&str]| {
        let mut lines: Vec<_> = run(&s, more).text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let planned = lines(&["-n", "--max-delete", "4"]);
    assert_eq!(planned.iter().filter(|line| line.starts_with("deleted ")).count(), 4, "{planned:?}");
    assert_eq!(lines(&["-v", "--max-delete", "4"]), planned);
    is_whole(&s);
}

/// What a run names is what a dry run has named.
#[test]
fn a_change_of_kind_is_named() {
    let s = mirrored();
    fs::remove_file(s.path("source/a")).unwrap();
    fs::create_dir(s.path("source/a")).unwrap();
    fs::remove_dir_all(s.path("source/f")).unwrap();
    put(&s, "f", "a file", 10);
    let lines = |more: &[&str]| {
        let text = run(&s, &[&["--delete", "--max-delete", "9"], more].concat()).text();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let planned = lines(&["-n"]);
    for line in ["deleted a", "new a", "deleted f", "deleted f/c", "deleted f/g", "deleted f/g/d", "new f"] {
        assert!(planned.iter().any(|planned| planned == line), "{line}: {planned:?}");
    }
    assert_eq!(lines(&["-v"]), planned);
    is_whole(&s);
}

#[test]
fn a_folder_that_became_a_file_stays_if_something_fails() {
    let s = mirrored();
    fs::remove_dir_all(s.path("source/f")).unwrap();
    put(&s, "f", "a file", 10);
    // The name of this folder in the mirror is that of the file b.
    fs::create_dir(s.path("source/b.phx")).unwrap();
    let error = run(&s, &["--delete"]).fails_with_lines(4);
    assert!(error.contains("m/f: it was a folder, and is none at the source any more"), "{error}");
    assert!(error.contains("hint: --delete removes it, if nothing else fails"), "{error}");
    assert!(error.contains("warning: something failed, so nothing more is deleted in the mirror"), "{error}");
    assert!(s.exists("m/f/c.phx") && s.exists("m/f/g/d.phx") && !s.exists("m/f.phx"));
    s.run(&["verify", "-R", "m", "-k", "k"]).ok();
    fs::remove_dir(s.path("source/b.phx")).unwrap();
    run(&s, &["--delete"]).ok();
    is_whole(&s);
}

#[test]
fn what_is_gone_stays_without_delete_where_another_entry_takes_its_place() {
    for is_link in [false, true] {
        let s = mirrored();
        fs::remove_file(s.path("source/a")).unwrap();
        match is_link {
            true => symlink("b", s.path("source/a.phx")).unwrap(),
            false => put(&s, "a.phx/f/in", "in", 10),
        }
        for _ in 0..2 {
            let error = run(&s, &[]).fails_with_lines(4);
            assert!(error.contains("m/a.phx: it is gone at the source, and another entry takes its place"), "{error}");
            assert_eq!(error.lines().filter(|line| line.contains("a.phx")).count(), 1, "{error}");
            let verified = s.run(&["verify", "-R", "m", "-k", "k"]);
            assert_eq!(verified.error(), "");
            verified.ok();
            s.run(&["unprotect", "m/a.phx", "-o", "opened", "-k", "k", "-f"]).ok();
            assert_eq!(s.read("opened"), b"a");
        }
        run(&s, &["--delete"]).ok();
        is_whole(&s);
    }
}

#[test]
fn what_is_not_written_takes_no_place() {
    let s = mirrored();
    put(&s, "a.phx", "another", 10);
    run(&s, &[]).ok();
    for name in ["a", "a.phx"] {
        fs::remove_file(s.path("source").join(name)).unwrap();
    }
    fs::create_dir(s.path("source/a.phx")).unwrap();
    // The folder would take the place of the first, and of the second by its name.
    let error = run(&s, &[]).fails_with_lines(4);
    assert!(error.contains("m/a.phx: it is gone at the source, and another entry takes its place"), "{error}");
    assert!(s.exists("m/a.phx") && s.exists("m/a.phx.phx"));
    s.run(&["verify", "-R", "m", "-k", "k"]).ok();
}

#[test]
fn a_journal_that_cannot_be_opened_is_named() {
    let s = mirrored();
    fs::remove_dir_all(s.path("state/trees")).unwrap();
    s.write("state/trees", "no folder");
    for content in ["second", "second"] {
        put(&s, "a", content, 10);
        let ended = run(&s, &[]);
        let error = ended.error();
        let named = error.matches("warning: the journal of the mirror could not be opened: ").count();
        assert_eq!(named, 1, "{error}");
        ended.ok();
    }
    fs::remove_file(s.path("state/trees")).unwrap();
    is_whole(&s);
    assert!(!run(&s, &[]).error().contains("journal"));
}

#[test]
fn a_deleted_empty_folder_is_not_listed_any_more() {
    let s = mirrored();
    fs::create_dir(s.path("source/empty")).unwrap();
    File::open(s.path("source")).unwrap().set_modified(then(0)).unwrap();
    run(&s, &[]).ok();
    fs::remove_dir(s.path("source/empty")).unwrap();
    // Nothing else shows that it is gone.
    File::open(s.path("source")).unwrap().set_modified(then(0)).unwrap();
    run(&s, &["--delete"]).ok();
    assert!(!s.exists("m/empty"));
    is_whole(&s);
}

#[test]
fn what_cannot_be_read_stays_in_the_mirror() {
    // Root can read everything, so the test needs another user.
    if !has("setpriv") {
        return;
    }
    if !rustix::process::getuid().is_root() {
        return skip("root");
    }
    let s = Sandbox::new();
    let program = s.copy_of_the_program();
    for (time, name) in ["a", "b", "f/c", "f/g/d"].into_iter().enumerate() {
        put(&s, name, name, time as u64);
    }
    s.secret("raw", painted(32));
    for name in ["", "source", "source/a", "source/b", "source/f", "source/f/c", "source/f/g", "source/f/g/d", "raw"] {
        chown(s.path(name), Some(65534), Some(65534)).unwrap();
    }
    let run = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(args);
        command.env("PHALANX_STATE", s.path("state")).env("PHALANX_CACHE", s.path("cache"));
        Ended(command.args(["--key-file", "raw"]).current_dir(s.path("")).output().unwrap())
    };
    let mirror = ["mirror", "source", "m", "--delete", "--no-sync"];
    run(&mirror).ok();
    let closed = |mode| {
        for name in ["source/a", "source/f/g"] {
            fs::set_permissions(s.path(name), Permissions::from_mode(mode)).unwrap();
        }
    };
    fs::remove_file(s.path("source/b")).unwrap();
    closed(0);
    put(&s, "f/c", "second", 10);
    chown(s.path("source/f/c"), Some(65534), Some(65534)).unwrap();
    let error = run(&mirror).fails_with_lines(4);
    assert!(error.contains("source/f/g: "), "{error}");
    assert!(s.exists("m/f/g/d.phx") && s.exists("m/b.phx"), "nothing is deleted");
    run(&["verify", "-R", "m"]).ok();
    closed(0o755);
    run(&mirror).ok();
    assert!(!s.exists("m/b.phx"));
    run(&["verify", "-R", "m"]).ok();
    run(&["unprotect", "-R", "m", "-o", "back"]).ok();
    assert_eq!((s.read("back/f/c"), s.read("back/f/g/d")), (b"second".to_vec(), b"f/g/d".to_vec()));
}

#[test]
fn a_stored_file_keeps_its_place_when_its_keys_change() {
    let s = mirrored();
    s.run(&["key", "new", "other"]).ok();
    s.run(&["rekey", "m/a.phx", "-k", "k", "--add-key", "other"]).ok();
    let verified = s.run(&["verify", "-R", "m", "-k", "k"]);
    assert_eq!(verified.error(), "");
    verified.ok();
}

#[test]
fn what_no_manifest_lists_does_not_keep_a_folder_that_is_gone() {
    let s = Sandbox::with_key();
    for (time, name) in ["a", "big/one", "big/in/two", "other/three"].into_iter().enumerate() {
        put(&s, name, name, time as u64);
    }
    run(&s, &[]).ok();
    // A run that was killed has written these.
    for name in ["big/new.phx", "big/in/new.phx", "big/more/new.phx"] {
        fs::create_dir_all(s.path("m").join(name).parent().unwrap()).unwrap();
        fs::copy(s.path("m/a.phx"), s.path("m").join(name)).unwrap();
    }
    let large = || fs::rename(s.path("source/big"), s.path("source/large")).unwrap();
    large();
    assert!(run(&s, &["-n", "--delete"]).text().contains("deleted big/new.phx"));
    run(&s, &["--delete"]).ok();
    assert!(!s.exists("m/big"));
    is_whole(&s);

    // A file takes the place of such a folder, and so does a link.
    fs::copy(s.path("m/a.phx"), s.path("m/large/new.phx")).unwrap();
    fs::remove_dir_all(s.path("source/large")).unwrap();
    put(&s, "large", "a file", 10);
    run(&s, &["--delete"]).ok();
    assert!(!s.exists("m/large"));
    is_whole(&s);
    fs::copy(s.path("m/a.phx"), s.path("m/other/new.phx")).unwrap();
    fs::remove_dir_all(s.path("source/other")).unwrap();
    symlink("a", s.path("source/other")).unwrap();
    run(&s, &["--delete"]).ok();
    is_whole(&s);
}

#[test]
fn a_foreign_file_in_a_folder_that_is_gone_stays_and_is_no_failure() {
    let s = mirrored();
    s.write("m/f/g/readme.txt", "somebody's own");
    fs::remove_dir_all(s.path("source/f")).unwrap();
    for _ in 0..2 {
        let ended = run(&s, &["--delete"]);
        assert!(ended.error().contains("1 entry has no input and stays as it is: m/f"), "{}", ended.error());
        ended.ok();
        assert_eq!(s.read("m/f/g/readme.txt"), b"somebody's own");
        assert!(!s.exists("m/f/c.phx"));
        let lines = s.run(&["verify", "-R", "m", "-k", "k"]).fails_with_lines(3);
        assert!(lines.contains("additional"), "{lines}");
    }
    fs::remove_file(s.path("m/f/g/readme.txt")).unwrap();
    run(&s, &["--delete"]).ok();
    assert!(!s.exists("m/f"));
    is_whole(&s);
}

#[test]
fn a_volume_in_the_mirror_loses_nothing_to_delete() {
    let s = mirrored();
    s.run(&["init", "m/vault", "-k", "k"]).ok();
    s.run(&["init", "m/f/vault", "-k", "k"]).ok();
    for vault in ["m/vault", "m/f/vault"] {
        symlink("somewhere", s.path(vault).join("link")).unwrap();
        fs::create_dir_all(s.path(vault).join("folder/empty")).unwrap();
        s.write(&format!("{vault}/stored.phx"), "stored");
    }
    let before = ["m/vault", "m/f/vault"].map(|vault| entries(&s.path(vault)));
    run(&s, &["--delete"]).ok();
    for (vault, before) in ["m/vault", "m/f/vault"].into_iter().zip(before) {
        assert_eq!(difference(&before, &entries(&s.path(vault))), None);
    }
}

#[test]
fn a_file_that_is_exchanged_while_it_is_renamed_is_not_taken_for_the_moved_one() {
    let s = mirrored();
    fs::rename(s.path("source/a"), s.path("source/moved")).unwrap();
    let swap = || {
        fs::copy(s.path("m/b.phx"), s.path("m/swapped")).unwrap();
        fs::rename(s.path("m/swapped"), s.path("m/a.phx")).unwrap();
    };
    let args = [&MIRROR[..], &["--delete"]].concat();
    let ready = || true;
    let Some(ended) = s.meanwhile("renameat2:when=1", &args, ready, swap) else { return };
    ended.ok();
    is_whole(&s);
}
