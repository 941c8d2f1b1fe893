//! `phalanx rekey -R` of a mirror: its manifest changes with its files.

use crate::common::{Ended, Sandbox, painted};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// A source and its mirror under the key a; there are also keys b and c. The state folder is the sandbox's own.
fn mirrored(files: usize) -> Sandbox {
    let s = Sandbox::new();
    for name in ["a", "b", "c"] {
        s.run(&["key", "new", name]).ok();
    }
    fs::create_dir_all(s.path("source/sub/deep")).unwrap();
    for i in 0..files {
        s.write(&format!("source/{i}"), painted(1000 + i));
    }
    s.write("source/sub/deep/large", painted((2 << 20) + 5));
    s.write("source/sub/empty", "");
    symlink("sub/empty", s.path("source/link")).unwrap();
    run(&s, &["mirror", "source", "mirror", "-k", "a", "-q"]).ok();
    s
}

fn run(s: &Sandbox, args: &[&str]) -> Ended {
    Ended(s.command(args).env("PHALANX_STATE", s.path("state")).output().unwrap())
}

/// Asserts that the mirror is whole, and restores the source, with a key.
#[track_caller]
fn is_whole(s: &Sandbox, key: &str) {
    run(s, &["verify", "-R", "mirror", "-k", key]).ok();
    run(s, &["unprotect", "-R", "mirror", "-o", "restored", "-k", key, "-q"]).ok();
    assert!(s.succeeds("diff", &["-r", "--no-dereference", "source", "restored"]), "{key}");
    fs::remove_dir_all(s.path("restored")).unwrap();
}

/// Asserts that `mirror` has nothing to do, and leaves the manifest as it is.
#[track_caller]
fn is_up_to_date(s: &Sandbox, key: &str) {
    let manifest = s.read("mirror/phalanx.tree");
    let ended = run(s, &["mirror", "source", "mirror", "-k", key]);
    let line = ended.error();
    ended.ok();
    assert!(line.contains(": 0 files new, ") && !line.contains(" changed"), "{line}");
    assert!(s.read("mirror/phalanx.tree") == manifest, "{key}");
}

fn generation(s: &Sandbox, key: &str) -> u64 {
    let text = run(s, &["verify", "-R", "--quick", "mirror", "-k", key]).text();
    let (_, rest) = text.split_once("generation ").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn the_manifest_gets_the_keys_of_the_files() {
    let s = mirrored(3);
    let before = generation(&s, "a");
    let listed = run(&s, &["rekey", "-R", "mirror", "-k", "a"]).text();
    assert!(listed.lines().any(|line| line == "mirror/phalanx.tree"), "{listed}");

    run(&s, &["rekey", "-R", "mirror", "-k", "a", "--add-key", "b"]).ok();
    is_whole(&s, "a");
    is_whole(&s, "b");
    is_up_to_date(&s, "b");
    assert_eq!(generation(&s, "b"), before);

    run(&s, &["rekey", "-R", "mirror", "-k", "b", "--remove-key", "a"]).ok();
    is_whole(&s, "b");
    is_up_to_date(&s, "b");
    run(&s, &["verify", "-R", "mirror", "-k", "a"]).fails_with_lines(3);
    run(&s, &["verify", "mirror/phalanx.tree", "-k", "a"]).fails_with_lines(3);
}

#[test]
fn fresh_files_get_a_new_manifest() {
    let s = mirrored(3);
    let before = generation(&s, "a");
    let old = s.read("mirror/0.phx");
    let args = ["rekey", "-R", "mirror", "-k", "a", "--fresh", "--add-key", "b", "--add-key", "c", "--remove-key", "a"];
    let ended = run(&s, &args);
    assert!(ended.error().contains("6 files, 6 changed"), "{}", ended.error());
    let text = ended.text();
    assert!(text.contains("mirror/phalanx.tree") && text.contains("under a new file key"), "{text}");
    for key in ["b", "c"] {
        is_whole(&s, key);
    }
    assert!(generation(&s, "b") > before);
    is_up_to_date(&s, "b");
    run(&s, &["verify", "-R", "mirror", "-k", "a"]).fails_with_lines(3);

    // An old file is found.
    s.write("mirror/0.phx", old);
    let ended = run(&s, &["verify", "-R", "mirror", "-k", "b", "-k", "a"]);
    assert!(ended.error().contains("mirror/0.phx: another version"), "{}", ended.error());
    assert!(!ended.error().contains("interrupted"), "{}", ended.error());
    ended.fails_with_lines(3);
}

#[test]
fn what_is_not_as_listed_is_not_written_again() {
    let s = mirrored(4);
    let foreign = s.read("mirror/0.phx");
    fs::remove_file(s.path("mirror/1.phx")).unwrap();
    fs::rename(s.path("mirror/2.phx"), s.path("mirror/0.phx")).unwrap();
    s.write("mirror/sub/more.phx", &foreign);
    let found = |ended: Ended| {
        for line in
            ["mirror/1.phx: missing", "mirror/2.phx: missing", "mirror/0.phx: exchanged", "more.phx: additional"]
        {
            assert!(ended.error().contains(line), "{line}: {}", ended.error());
        }
        ended.fails_with_lines(3);
    };
    found(run(&s, &["rekey", "-R", "mirror", "-k", "a", "--fresh", "--add-key", "b"]));
    assert!(s.read("mirror/sub/more.phx") == foreign);
    // They stay listed, so they are still found.
    found(run(&s, &["verify", "-R", "mirror", "-k", "b", "-k", "a"]));
    run(&s, &["verify", "mirror/3.phx", "-k", "b"]).ok();
}

#[test]
fn nothing_changes_if_the_manifest_cannot_be_written_again() {
    let s = mirrored(2);
    run(&s, &["rekey", "mirror/phalanx.tree", "-k", "a", "--add-key", "b", "--add-key", "c"]).ok();
    let before = s.read("mirror/0.phx");
    // The key c is not at hand.
    run(&s, &["rekey", "-R", "mirror", "-k", "a", "-k", "b", "--fresh"]).fails_with_lines(2);
    fs::write(s.path("mirror/phalanx.tree"), "no manifest").unwrap();
    run(&s, &["rekey", "-R", "mirror", "-k", "a", "--fresh"]).fails_with_lines(3);
    assert!(s.read("mirror/0.phx") == before);
}

/// Kills `rekey --fresh` when it has written some files, and not all.
fn interrupted() -> Sandbox {
    for _ in 0..10 {
        let s = mirrored(200);
        let manifest = s.read("mirror/phalanx.tree");
        let before: Vec<_> = (0..200).map(|i| s.read(&format!("mirror/{i}.phx"))).collect();
        let args = ["rekey", "-R", "mirror", "-k", "a", "--fresh", "--add-key", "b", "-q", "--json"];
        let mut command = s.command(&args);
        command.env("PHALANX_STATE", s.path("state")).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let done = || (0..200).filter(|i| s.read(&format!("mirror/{i}.phx")) != before[*i]).count();
        while done() < 5 && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        child.wait().unwrap();
        if s.read("mirror/phalanx.tree") == manifest && done() < 200 {
            return s;
        }
    }
    panic!("it always ends too early");
}

#[test]
fn an_interrupted_run_is_completed_by_the_next() {
    let s = interrupted();
    let ended = run(&s, &["verify", "-R", "mirror", "-k", "a"]);
    assert!(ended.error().contains("a rekey --fresh was interrupted"), "{}", ended.error());
    ended.fails_with_lines(3);
    run(&s, &["rekey", "-R", "mirror", "-k", "a", "-k", "b", "--fresh", "--add-key", "b", "-q"]).ok();
    is_whole(&s, "b");
    is_up_to_date(&s, "b");
    let left = fs::read_dir(s.path("state/trees")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().ends_with(".rewritten")));
}

#[test]
fn mirror_completes_an_interrupted_run_too() {
    let s = interrupted();
    let ended = run(&s, &["mirror", "source", "mirror", "-k", "a"]);
    assert!(ended.error().contains(": 0 files new, "), "{}", ended.error());
    ended.ok();
    is_whole(&s, "a");
    is_up_to_date(&s, "a");
}
