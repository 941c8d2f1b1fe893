//! Runs of `phalanx mirror` that are killed or meet errors of the system, at any of their system calls. What is not on the
//! disk is never called whole, and the next run completes the mirror.

use crate::common::{Content, Ended, Sandbox, entries, is_exhaustive};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

const MIRROR: [&str; 8] = ["mirror", "source", "m", "-k", "k", "--delete", "--threads", "1"];
/// The calls that change something.
const CALLS: [&str; 7] = [
    "pwrite64",
    "write",
    "rename,renameat,renameat2",
    "unlink,unlinkat",
    "fsync,syncfs",
    "mkdirat,symlinkat",
    "fchmod",
];

fn put(s: &Sandbox, name: &str, content: &str, time: u64) {
    let path = s.path("source").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + time);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// A mirror, and a source in which something was changed, moved, deleted, added and exchanged for another kind since.
fn changed() -> Sandbox {
    let s = Sandbox::with_key();
    for (time, name) in ["a", "moved", "f/c", "f/g/d", "gone/e", "kind/file"].into_iter().enumerate() {
        put(&s, name, name, time as u64);
    }
    symlink("a", s.path("source/link")).unwrap();
    s.run(&MIRROR).ok();
    put(&s, "a", "second", 10);
    put(&s, "f/c", "second", 11);
    put(&s, "new/file", "new", 12);
    fs::rename(s.path("source/moved"), s.path("source/new/moved")).unwrap();
    fs::remove_dir_all(s.path("source/gone")).unwrap();
    fs::remove_dir_all(s.path("source/kind")).unwrap();
    put(&s, "kind", "a file", 13);
    fs::remove_file(s.path("source/link")).unwrap();
    symlink("f", s.path("source/link")).unwrap();
    s
}

/// The mirror and what is remembered of it, as they were before the runs.
struct Before {
    s: Sandbox,
}

impl Before {
    fn new() -> Self {
        let s = changed();
        assert!(s.succeeds("cp", &["-a", "m", "m.before"]) && s.succeeds("cp", &["-a", "state", "state.before"]));
        Self { s }
    }

    fn restore(&self) {
        for name in ["m", "state"] {
            fs::remove_dir_all(self.s.path(name)).unwrap();
            assert!(self.s.succeeds("cp", &["-a", &format!("{name}.before"), name]));
        }
    }
}

/// Runs `verify`. If it calls the mirror whole, unprotects it. No file has content that its source never had.
#[track_caller]
fn claims_nothing_wrong(s: &Sandbox, what: &str) {
    let verified = s.run(&["verify", "-R", "m", "-k", "k"]);
    let code = verified.0.status.code();
    assert!(matches!(code, Some(0 | 3)), "{what}: {code:?}: {}", verified.error());
    let unprotected = s.run(&["unprotect", "-R", "m", "-o", "back", "-k", "k", "--no-sync"]);
    assert_eq!(unprotected.0.status.code(), code, "{what}: {}", unprotected.error());
    for (path, entry) in entries(&s.path("back")) {
        let Content::File(bytes) = entry.content else { continue };
        let source = fs::read(s.path("source").join(&path));
        let is_new = source.is_ok_and(|source| source == bytes);
        assert!(is_new || bytes == path.as_os_str().as_encoded_bytes(), "{what}: {}", path.display());
    }
    fs::remove_dir_all(s.path("back")).unwrap();
}

/// Checks that the next run completes the mirror and leaves nothing else in it.
#[track_caller]
fn the_next_run_completes(s: &Sandbox, what: &str) {
    let ended = s.run(&MIRROR);
    assert!(ended.0.status.success(), "{what}: {}", ended.error());
    let verified = s.run(&["verify", "-R", "m", "-k", "k"]);
    assert!(verified.0.status.success() && verified.error().is_empty(), "{what}: {}", verified.error());
    s.run(&["unprotect", "-R", "m", "-o", "back", "-k", "k", "--no-sync"]).ok();
    let contents =
        |root: &str| entries(&s.path(root)).into_iter().map(|(path, entry)| (path, entry.content)).collect::<Vec<_>>();
    assert_eq!(contents("source"), contents("back"), "{what}");
    let stored = entries(&s.path("m"));
    assert_eq!(stored.len(), contents("source").len() + 1, "{what}: {:?}", stored.keys());
    let is_temporary = |path: &Path| path.to_string_lossy().contains(".phalanx-");
    assert!(!stored.keys().any(|path| is_temporary(path)), "{what}: {:?}", stored.keys());
    fs::remove_dir_all(s.path("back")).unwrap();
}

/// Runs the command once for each of its calls, which does what `effect` says, or for some of them. `check` gets how it
/// ended. Ends with the first run that has fewer calls.
fn at_every_call(effect: &str, mut check: impl FnMut(&Sandbox, &str, Ended)) {
    let before = Before::new();
    let s = &before.s;
    let step = if is_exhaustive() { 1 } else { 3 };
    for calls in CALLS {
        let mut reached = 0;
        for number in (1..).step_by(step) {
            before.restore();
            let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:{effect}:when={number}"));
            let trace_file = s.path("trace");
            let options = ["-o", trace_file.to_str().unwrap(), "-e", &trace, "-e", &inject];
            let Some(mut command) = s.traced(&options, &MIRROR) else { return };
            let ended = Ended(command.output().unwrap());
            let text = String::from_utf8_lossy(&s.read("trace")).into_owned();
            let was_met = text.contains("(INJECTED)") || ended.0.status.signal().is_some();
            let what = format!("{calls} {number}: {effect}");
            if !was_met {
                assert!(ended.0.status.success(), "{what}: {}", ended.error());
                break;
            }
            reached += 1;
            check(s, &what, ended);
        }
        assert!(reached > 0, "it makes none of these calls any more: {calls}");
        println!("{calls}: {effect} {reached} times");
    }
}

#[test]
fn after_a_kill_at_any_call_the_next_run_completes_the_mirror() {
    at_every_call("signal=KILL", |s, what, ended| {
        assert!(ended.0.status.signal() == Some(9) || ended.0.status.code() == Some(137), "{what}: {}", ended.error());
        claims_nothing_wrong(s, what);
        the_next_run_completes(s, what);
    });
}

#[test]
fn after_an_error_of_any_call_nothing_wrong_is_whole() {
    for error in ["EIO", "ENOSPC"] {
        at_every_call(&format!("error={error}"), |s, what, ended| {
            assert!(!ended.error().contains("internal error"), "{what}: {}", ended.error());
            let verified = s.run(&["verify", "-R", "m", "-k", "k"]);
            // What a failed call only tidies up, or adds for the next run, may end well.
            assert!(!ended.0.status.success() || verified.0.status.success(), "{what}: {}", verified.error());
            claims_nothing_wrong(s, what);
            the_next_run_completes(s, what);
        });
    }
}
