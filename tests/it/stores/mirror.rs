//! Mirrors of folders in stores.

use super::proxy::{self, Does};
use super::servers::{Kind, Server};
use super::{Store, make_container};
use crate::common::{Ended, Sandbox, painted, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const URL: &str = "s3://bucket/some dir/tree.phx";
const MIRROR: [&str; 5] = ["mirror", "src", URL, "-k", "k"];

/// A source with files, links, folders and an empty folder.
fn make_source(s: &Sandbox) {
    fs::create_dir_all(s.path("src/a/b/ü ö")).unwrap();
    fs::create_dir_all(s.path("src/nothing")).unwrap();
    for (name, len) in [("x", 100), ("a/empty", 0), ("a/b/y.txt", 70_000), ("a/b/ü ö/%20 #?", 5), ("large", 20 << 20)]
    {
        s.write(&format!("src/{name}"), painted(len));
    }
    symlink("../x", s.path("src/a/link")).unwrap();
    symlink("nowhere", s.path("src/b.phx")).unwrap();
}

/// The names of the objects, as versitygw keeps them.
fn objects(s: &Sandbox) -> BTreeSet<String> {
    fn find(folder: &Path, root: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => find(&path, root, found),
                path => drop(found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned())),
            }
        }
    }
    let mut found = BTreeSet::new();
    let root = s.path("store/bucket/some dir/tree.phx");
    find(&root, &root, &mut found);
    found
}

fn said(ended: Ended) -> String {
    let text = String::from_utf8_lossy(&ended.0.stderr).into_owned();
    assert_eq!(ended.0.status.code(), Some(0), "{text}");
    text
}

/// Asserts that the stored files hold what the files of the source hold.
#[track_caller]
fn assert_same_files(store: &Store) {
    let stored = "store/bucket/some dir/tree.phx";
    let _ = fs::remove_dir_all(store.s.path("back"));
    store.s.run(&["unprotect", "-Rq", stored, "--ignore-manifest", "-o", "back"]).ok();
    for name in objects(&store.s).iter().filter_map(|name| name.strip_suffix(".phx")) {
        assert!(store.s.read(&format!("back/{name}")) == store.s.read(&format!("src/{name}")), "{name}");
    }
}

#[test]
fn each_store_has_mirrors() {
    for kind in [Kind::Versity, Kind::Moto, Kind::Azurite] {
        let Some(store) = Store::start(kind) else { continue };
        if kind == Kind::Azurite && !make_container(&store) {
            continue;
        }
        let url = if kind == Kind::Azurite { "az://bucket/tree.phx" } else { URL };
        make_source(&store.s);
        let mirror = |more: &[&str]| said(store.run(&[&["mirror", "src", url, "-k", "k"], more].concat()));
        let first = mirror(&[]);
        assert!(first.contains("7 files new, 0 unchanged"), "{kind:?} {first}");
        let again = mirror(&[]);
        assert!(again.contains("0 files new, 7 unchanged"), "{kind:?} {again}");
        store.s.write("src/x", painted(101));
        fs::rename(store.s.path("src/a/b/y.txt"), store.s.path("src/moved.txt")).unwrap();
        fs::remove_file(store.s.path("src/a/empty")).unwrap();
        let changed = mirror(&["--delete"]);
        assert!(changed.contains("0 files new, 1 changed, 1 moved, 1 deleted, 4 unchanged"), "{kind:?} {changed}");
        let again = mirror(&["--delete", "--checksum"]);
        assert!(again.contains("0 files new, 6 unchanged"), "{kind:?} {again}");
        store.s.write("src/a/.nobackup", b"");
        let marked = ["--delete", "--exclude-if-present", ".nobackup", "--delete-excluded"];
        let stays = mirror(&marked[..3]);
        assert!(stays.contains("1 file new, 6 unchanged"), "{kind:?} {stays}");
        let goes = mirror(&marked);
        assert!(goes.contains("0 files new, 2 deleted, 5 unchanged"), "{kind:?} {goes}");
    }
}

#[test]
fn a_mirror_has_an_object_for_each_file_and_a_manifest() {
    let Some(store) = Store::start(Kind::Versity) else { return };
    make_source(&store.s);
    said(store.run(&MIRROR));
    let names = ["a/b/y.txt.phx", "a/b/ü ö/%20 #?.phx", "a/empty.phx", "large.phx", "phalanx.tree", "x.phx"];
    assert_eq!(objects(&store.s), names.map(String::from).into());
    assert_same_files(&store);
    // What no manifest lists is named, and deleted only if it is a protected file.
    for name in ["stray.phx", "a/notes.txt", "gone/z.phx", "other/phalanx.tree", "other/y.phx"] {
        store.s.write("plain", b"");
        let path = store.s.path("store/bucket/some dir/tree.phx").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(store.s.path("plain"), path).unwrap();
    }
    let text = said(store.run(&MIRROR));
    assert!(text.contains("4 entries have no input") && text.contains("stray.phx"), "{text}");
    let text = said(store.run(&[&MIRROR[..], &["--delete"]].concat()));
    assert!(text.contains("2 deleted") && text.contains("notes.txt") && !text.contains("stray.phx"), "{text}");
    let left: BTreeSet<String> =
        names.into_iter().chain(["a/notes.txt", "other/phalanx.tree", "other/y.phx"]).map(String::from).collect();
    assert_eq!(objects(&store.s), left);
}

#[test]
fn protect_writes_a_new_folder_of_objects() {
    let Some(store) = Store::start(Kind::Versity) else { return };
    make_source(&store.s);
    let protect = ["protect", "-R", "src", "-k", "k", "-o", URL];
    said(store.run(&protect));
    assert_same_files(&store);
    let before = store.s.read("store/bucket/some dir/tree.phx/phalanx.tree");
    assert!(store.run(&protect).fails(4).contains("it is a folder already"));
    assert!(store.s.read("store/bucket/some dir/tree.phx/phalanx.tree") == before);
    said(store.run(&[&protect[..], &["-f"]].concat()));
    let again = said(store.run(&MIRROR));
    assert!(again.contains("0 files new, 7 unchanged"), "{again}");
}

#[test]
fn only_what_is_new_is_sent() {
    let puts = Arc::new(Mutex::new(Vec::new()));
    let notes = puts.clone();
    let store = Store::behind(move |request| {
        if request.method != "GET" {
            notes.lock().unwrap().push(format!("{} {}", request.method, request.target));
        }
        Does::Pass
    });
    let Some(store) = store else { return };
    make_source(&store.s);
    said(store.run(&MIRROR));
    puts.lock().unwrap().clear();
    said(store.run(&MIRROR));
    assert_eq!(*puts.lock().unwrap(), Vec::<String>::new());
    store.s.write("src/x", b"changed");
    said(store.run(&MIRROR));
    let sent = puts.lock().unwrap().clone();
    let is_of = |end: &str| sent.iter().filter(|line| line.starts_with("PUT") && line.contains(end)).count();
    assert_eq!((is_of("x.phx"), is_of("phalanx.tree")), (1, 1), "{sent:?}");
    // The manifest that is replaced is looked at.
    assert_eq!(sent.len(), 3, "{sent:?}");
}

#[test]
fn a_dry_run_and_a_refused_one_change_nothing() {
    let Some(store) = Store::start(Kind::Versity) else { return };
    make_source(&store.s);
    let text = String::from_utf8(store.run(&[&MIRROR[..], &["-n"]].concat()).ok()).unwrap();
    assert!(text.contains("new a/b/y.txt"), "{text}");
    assert!(objects(&store.s).is_empty());
    assert!(store.run(&[&MIRROR[..], &["--backup-dir", "old"]].concat()).fails(2).contains("--backup-dir"));
    said(store.run(&MIRROR));
    let before = objects(&store.s);
    fs::remove_dir_all(store.s.path("src")).unwrap();
    fs::create_dir(store.s.path("src")).unwrap();
    let refused = store.run(&[&MIRROR[..], &["--delete"]].concat()).fails(4);
    assert!(refused.contains("all 7 would be deleted"), "{refused}");
    assert_eq!(objects(&store.s), before);
    fs::remove_file(store.s.path("store/bucket/some dir/tree.phx/phalanx.tree")).unwrap();
    let refused = store.run(&MIRROR).fails(4);
    assert!(refused.contains("its manifest is") && refused.contains("--new"), "{refused}");
    said(store.run(&[&MIRROR[..], &["--new"]].concat()));
}

#[test]
fn a_name_that_is_no_text_is_left_out() {
    let Some(store) = Store::start(Kind::Versity) else { return };
    make_source(&store.s);
    let name = store.s.path("src").join(std::ffi::OsStr::from_bytes(b"\xff"));
    fs::write(&name, b"x").unwrap();
    let text = store.run(&MIRROR).fails_with_lines(4);
    assert!(text.contains("not UTF-8"), "{text}");
    fs::remove_file(name).unwrap();
    let again = said(store.run(&MIRROR));
    assert!(again.contains("0 files new, 7 unchanged"), "{again}");
}

#[test]
fn two_runs_at_once_agree() {
    let (count, other) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (seen, done) = (count.clone(), other.clone());
    let store = Store::behind(move |request| {
        let is_manifest = request.method == "PUT" && request.target.contains("phalanx.tree");
        if is_manifest && seen.fetch_add(1, Ordering::SeqCst) == 1 {
            // The second manifest waits for a third one.
            wait_for(|| done.load(Ordering::SeqCst) > 0);
        }
        Does::Pass
    });
    let Some(store) = store else { return };
    make_source(&store.s);
    said(store.run(&MIRROR));
    store.s.write("src/x", painted(77));
    store.s.write("src/a/b/y.txt", painted(70_001));
    let slow = store.command(&MIRROR).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(|| count.load(Ordering::SeqCst) == 2);
    // The other run writes the same files again, and a third one, before the slow one writes its manifest.
    store.s.write("src/a/empty", b"not empty");
    let state = store.s.path("state of another machine");
    let mut quick = store.server.command(&store.s, store.server.address, &MIRROR);
    said(Ended(quick.env("PHALANX_STATE", state).output().unwrap()));
    other.store(1, Ordering::SeqCst);
    let text = said(Ended(slow.wait_with_output().unwrap()));
    assert!(text.contains("another run has written its manifest meanwhile"), "{text}");
    let again = said(store.run(&[&MIRROR[..], &["--checksum"]].concat()));
    assert!(again.contains("0 files new, 7 unchanged"), "{again}");
    Ended(store.command(&["verify", "-R", URL]).output().unwrap()).ok();
}

#[test]
fn a_run_after_a_killed_one_goes_on() {
    let (sent, held) = (Arc::new(Mutex::new(BTreeSet::new())), Arc::new(AtomicUsize::new(0)));
    let (notes, holds) = (sent.clone(), held.clone());
    let store = Store::behind(move |request| {
        if request.method == "PUT" {
            if request.target.contains("/x.phx") && holds.fetch_add(1, Ordering::SeqCst) == 0 {
                // Until the first run is killed.
                wait_for(|| holds.load(Ordering::SeqCst) > 1);
                return Does::Answer(503);
            }
            notes.lock().unwrap().insert(request.target.split('?').next().unwrap().to_owned());
        }
        Does::Pass
    });
    let Some(store) = store else { return };
    make_source(&store.s);
    fs::remove_file(store.s.path("src/large")).unwrap();
    let mut run = store.command(&MIRROR).stderr(Stdio::null()).spawn().unwrap();
    // All others are with the store, and noted.
    let journal = || {
        let entries = fs::read_dir(store.s.path("state/trees")).into_iter().flatten().flatten();
        let journals = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "journal"));
        journals.map(|entry| entry.metadata().map_or(0, |meta| meta.len())).sum::<u64>()
    };
    wait_for(|| held.load(Ordering::SeqCst) == 1 && journal() == 3 * 120);
    kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
    run.wait().unwrap();
    held.store(2, Ordering::SeqCst);
    sent.lock().unwrap().clear();
    said(store.run(&MIRROR));
    assert_eq!(sent.lock().unwrap().len(), 2, "{:?}", sent.lock().unwrap());
    assert_same_files(&store);
    assert_eq!(Server::unfinished_parts(&store.s), 0);
}

#[test]
fn a_store_that_fails_leaves_the_old_manifest() {
    let Some(mut store) = Store::start(Kind::Versity) else { return };
    make_source(&store.s);
    said(store.run(&MIRROR));
    let before = store.s.read("store/bucket/some dir/tree.phx/phalanx.tree");
    store.s.write("src/x", b"changed");
    store.s.write("src/a/b/y.txt", b"changed");
    let healthy = store.at;
    // It refuses one object, and all else goes on.
    store.at = proxy::start(healthy, |request| match request.method == "PUT" && request.target.contains("x.phx") {
        true => Does::Answer(403),
        false => Does::Pass,
    });
    assert!(store.run(&MIRROR).fails_with_lines(4).contains("denies access"));
    assert!(store.s.read("store/bucket/some dir/tree.phx/phalanx.tree") != before);
    // It has no list.
    let before = store.s.read("store/bucket/some dir/tree.phx/phalanx.tree");
    store.at = proxy::start(healthy, |request| match request.target.contains("list-type") {
        true => Does::Answer(403),
        false => Does::Pass,
    });
    assert!(store.run(&MIRROR).fails(4).contains("denies access"));
    assert!(store.s.read("store/bucket/some dir/tree.phx/phalanx.tree") == before);
    store.at = healthy;
    let text = said(store.run(&MIRROR));
    assert!(text.contains("1 changed, 6 unchanged"), "{text}");
    assert_same_files(&store);
}

/// The objects that a mirror must not touch.
#[test]
fn objects_of_others_stay() {
    let Some(store) = Store::start(Kind::Versity) else { return };
    make_source(&store.s);
    let stored = store.s.path("store/bucket/some dir/tree.phx");
    // Where there are objects, and no manifest.
    fs::create_dir_all(&stored).unwrap();
    fs::write(stored.join("x.phx"), "precious").unwrap();
    let refused = store.run(&MIRROR).fails(4);
    assert!(refused.contains("it has objects already") && refused.contains("--new"), "{refused}");
    assert_eq!(fs::read(stored.join("x.phx")).unwrap(), b"precious");
    fs::remove_file(stored.join("x.phx")).unwrap();
    said(store.run(&MIRROR));
    // Within another mirror.
    for args in [["mirror", "src/a"], ["protect", "src/a"]] {
        let url = format!("{URL}/a");
        let output: &[&str] = if args[0] == "mirror" { &[&url] } else { &["-R", "-f", "-o", &url] };
        let refused = store.run(&[&args[..], output, &["-k", "k"]].concat()).fails(4);
        assert!(refused.contains("it lies in the mirror"), "{refused}");
    }
    // Another mirror in a folder that the source has too, and in one that it has not.
    for name in ["a/b", "other"] {
        fs::create_dir_all(stored.join(name)).unwrap();
        fs::write(stored.join(name).join("phalanx.tree"), "").unwrap();
        fs::write(stored.join(name).join("foreign.phx"), "").unwrap();
    }
    let text = said(store.run(&[&MIRROR[..], &["--delete"]].concat()));
    assert!(!text.contains("deleted"), "{text}");
    assert!(stored.join("a/b/foreign.phx").exists() && stored.join("other/foreign.phx").exists());
    // Each object counts.
    for number in 0..5 {
        fs::create_dir_all(stored.join("theirs")).unwrap();
        fs::write(stored.join(format!("theirs/{number}.phx")), "").unwrap();
    }
    let refused = store.run(&[&MIRROR[..], &["--delete", "--max-delete", "4"]].concat()).fails(4);
    assert!(refused.contains("5 files would be deleted"), "{refused}");
    let text = String::from_utf8(store.run(&[&MIRROR[..], &["--delete", "-n"]].concat()).ok()).unwrap();
    assert_eq!(text, (0..5).map(|number| format!("deleted theirs/{number}.phx\n")).collect::<String>());
    let text = said(store.run(&[&MIRROR[..], &["--delete", "--max-delete", "5"]].concat()));
    assert!(text.contains("5 deleted"), "{text}");
}

#[test]
fn what_a_journal_says_is_compared_with_the_object() {
    let Some(store) = Store::start(Kind::Versity) else { return };
    make_source(&store.s);
    let stored = store.s.path("store/bucket/some dir/tree.phx");
    said(store.run(&MIRROR));
    let old = fs::read(stored.join("a/b/y.txt.phx")).unwrap();
    // The run does not come to its manifest, and another machine puts its object there.
    let changed = vec![7; 70_000];
    store.s.write("src/a/b/y.txt", &changed);
    let refused =
        proxy::start(store.at, |request| match request.method == "PUT" && request.target.contains("phalanx.tree") {
            true => Does::Answer(403),
            false => Does::Pass,
        });
    let mut command = store.server.command(&store.s, refused, &MIRROR);
    Ended(command.output().unwrap()).fails(4);
    assert!(fs::read(stored.join("a/b/y.txt.phx")).unwrap() != old);
    fs::write(stored.join("a/b/y.txt.phx"), &old).unwrap();
    said(store.run(&MIRROR));
    assert_same_files(&store);
}

#[test]
fn an_unusable_manifest_is_replaced_by_force() {
    let Some(store) = Store::start(Kind::Versity) else { return };
    make_source(&store.s);
    said(store.run(&["protect", "-R", "src", "-k", "k", "-o", URL]));
    store.s.run(&["key", "new", "other"]).ok();
    said(store.run(&["protect", "-R", "src", "-k", "other", "-f", "-o", URL]));
    let again = said(store.run(&["mirror", "src", URL, "-k", "other"]));
    assert!(again.contains("0 files new, 7 unchanged"), "{again}");
}

#[test]
fn a_store_that_deletes_nothing_gets_moved_files() {
    let Some(mut store) = Store::start(Kind::Versity) else { return };
    make_source(&store.s);
    said(store.run(&MIRROR));
    let healthy = store.at;
    let deletes = |request: &proxy::Request| request.method == "DELETE" || request.target.contains("?delete");
    store.at = proxy::start(healthy, move |request| if deletes(request) { Does::Answer(403) } else { Does::Pass });
    fs::rename(store.s.path("src/x"), store.s.path("src/a/moved")).unwrap();
    let text = said(store.run(&MIRROR));
    assert!(text.contains("1 moved"), "{text}");
    assert!(objects(&store.s).contains("a/moved.phx") && objects(&store.s).contains("x.phx"));
    store.at = healthy;
    let text = said(store.run(&[&MIRROR[..], &["--delete"]].concat()));
    assert!(text.contains("1 deleted"), "{text}");
    assert!(!objects(&store.s).contains("x.phx"));
    assert_same_files(&store);
}
