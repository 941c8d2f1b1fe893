//! `protect --recursive --remove` that fails or is killed: the next run's manifest lists also what was deleted before.

use crate::common::{Ended, Sandbox, painted};
use std::fs;
use std::os::unix::fs::symlink;

const AGAIN: [&str; 8] = ["protect", "-R", "t", "-k", "k", "--remove", "--force", "-q"];

/// A folder with four files, a link and an empty folder.
fn tree() -> Sandbox {
    let s = Sandbox::with_key();
    for folder in ["t/s/deep", "t/empty"] {
        fs::create_dir_all(s.path(folder)).unwrap();
    }
    for name in ["a", "b", "s/c", "s/deep/d"] {
        s.write(&format!("t/{name}"), painted(5000));
    }
    symlink("a", s.path("t/link")).unwrap();
    s
}

/// Protects the tree, and deletes all of it but its root: the manifest cannot be written.
fn interrupted() -> Sandbox {
    let s = tree();
    fs::create_dir_all(s.path("t.phx/phalanx.tree/in the way")).unwrap();
    s.run(&AGAIN).fails_with_lines(4);
    assert!(fs::read_dir(s.path("t")).unwrap().next().is_none(), "without its root nobody could run it again");
    fs::remove_dir_all(s.path("t.phx/phalanx.tree")).unwrap();
    s
}

/// How many records of removals are left.
fn notes(s: &Sandbox) -> usize {
    let found = fs::read_dir(s.path("state/trees")).unwrap();
    found.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".removals")).count()
}

#[test]
fn what_was_deleted_before_a_failure_is_listed() {
    let s = interrupted();
    assert_eq!(notes(&s), 1);
    // A new file is there meanwhile.
    s.write("t/new", "new");
    s.run(&AGAIN).ok();
    assert_eq!(notes(&s), 0);
    assert!(!s.exists("t"));
    let verified = s.run(&["verify", "-R", "t.phx", "-k", "k"]).text();
    assert!(verified.ends_with("\n5 files, 20003 bytes: whole and authentic\n"), "{verified}");
    s.run(&["unprotect", "-R", "t.phx", "-k", "k", "-q"]).ok();
    for name in ["a", "b", "s/c", "s/deep/d"] {
        assert_eq!(s.read(&format!("t/{name}")), painted(5000), "{name}");
    }
    assert_eq!(fs::read_link(s.path("t/link")).unwrap().to_str(), Some("a"));
    assert!(s.path("t/empty").is_dir());
}

#[test]
fn what_took_the_place_of_an_output_is_not_listed() {
    let s = interrupted();
    s.write("other", "other");
    s.run(&["protect", "other", "-k", "k", "-o", "t.phx/a.phx", "--force", "-q"]).ok();
    fs::remove_file(s.path("t.phx/link")).unwrap();
    symlink("b", s.path("t.phx/link")).unwrap();
    s.run(&AGAIN).ok();
    let ended = s.run(&["verify", "-R", "t.phx", "-k", "k"]);
    let lines = ended.fails_with_lines(3);
    for name in ["a.phx", "link"] {
        let line = format!("phalanx: t.phx/{name}: additional: the manifest does not list it");
        assert!(lines.contains(&line), "{lines:?}");
    }
}

#[test]
fn a_kill_at_any_removal_loses_no_entry_of_the_manifest() {
    for when in 1.. {
        let s = tree();
        let inject = format!("inject=unlinkat:signal=KILL:when={when}");
        let options = ["-e", "trace=unlinkat", "-e", &inject];
        let Some(mut command) = s.traced(&options, &["protect", "-R", "t", "-k", "k", "--remove", "-q"]) else {
            return;
        };
        let is_whole = command.output().unwrap().status.success();
        if s.exists("t") {
            s.run(&AGAIN).ok();
        }
        s.run(&["verify", "-R", "t.phx", "-k", "k"]).ok();
        s.run(&["unprotect", "-R", "t.phx", "-k", "k", "-o", "restored", "-q"]).ok();
        for name in ["a", "b", "s/c", "s/deep/d"] {
            assert_eq!(s.read(&format!("restored/{name}")), painted(5000), "{when}: {name}");
        }
        if is_whole {
            assert!(when > 8, "seven names are deleted, and the root");
            return;
        }
    }
}

#[test]
fn without_a_state_folder_inputs_are_deleted_all_the_same() {
    let s = tree();
    let mut command = s.command(&["protect", "-R", "t", "-k", "k", "--remove", "-q"]);
    Ended(command.env("PHALANX_STATE", "/dev/null/state").output().unwrap()).ok();
    assert!(!s.exists("t"));
    s.run(&["verify", "-R", "t.phx", "-k", "k"]).ok();
}

/// A disk that fails says nothing of the manifest. A new one would not list what was deleted at the source before.
#[test]
fn a_manifest_that_cannot_be_read_for_the_moment_is_not_replaced() {
    let s = tree();
    s.run(&["protect", "-R", "t", "-k", "k", "--remove", "-q"]).ok();
    fs::create_dir(s.path("t")).unwrap();
    s.write("t/new", "new");
    let manifest = s.read("t.phx/phalanx.tree");
    // Only what is read of this file is traced.
    let path = s.path("t.phx/phalanx.tree");
    let options = ["-P", path.to_str().unwrap(), "-e", "trace=pread64", "-e", "inject=pread64:error=EIO"];
    let Some(mut command) = s.traced(&options, &AGAIN) else { return };
    let error = Ended(command.output().unwrap()).fails(4);
    assert!(error.contains("t.phx/phalanx.tree") && error.contains("Input/output error"), "{error}");
    assert!(s.read("t.phx/phalanx.tree") == manifest && s.exists("t/new"));
    s.run(&AGAIN).ok();
    let verified = s.run(&["verify", "-R", "t.phx", "-k", "k"]).text();
    assert!(verified.contains("\n5 files, "), "{verified}");
}

#[test]
fn a_manifest_that_is_replaced_because_it_is_none_is_named() {
    let s = tree();
    s.run(&["protect", "-R", "t", "-k", "k", "-q"]).ok();
    s.write("t.phx/phalanx.tree", "no manifest");
    let ended = s.run(&["protect", "-R", "t", "-k", "k", "--force", "-q"]);
    let error = ended.error();
    assert!(error.starts_with("phalanx: warning: t.phx/phalanx.tree: "), "{error}");
    assert!(error.ends_with(": a new manifest takes its place\n") && error.lines().count() == 1, "{error}");
    ended.ok();
    s.run(&["verify", "-R", "t.phx", "-k", "k"]).ok();
}

#[test]
fn what_was_deleted_is_found_by_every_path_of_the_mirror() {
    for again in ["link/t", "x/../t", "./t"] {
        let s = interrupted();
        fs::create_dir(s.path("x")).unwrap();
        symlink(".", s.path("link")).unwrap();
        s.run(&["protect", "-R", again, "-k", "k", "--remove", "--force", "-q"]).ok();
        assert_eq!(notes(&s), 0, "{again}");
        let verified = s.run(&["verify", "-R", "t.phx", "-k", "k"]).text();
        assert!(verified.contains("\n4 files, "), "{again}: {verified}");
    }
}
