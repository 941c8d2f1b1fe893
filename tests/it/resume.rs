//! `--resume`: a run continues where an interrupted one ended.

use crate::common::{Sandbox, is_exhaustive, painted};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// The length in bytes of the input of interrupted runs.
const LEN: usize = (40 << 20) + 12_345;
const PROTECT: [&str; 9] = ["protect", "f", "-k", "k", "-f", "--resume", "--no-sync", "--engine", "serial"];
const UNPROTECT: [&str; 9] = ["unprotect", "f.phx", "-k", "k", "-f", "--resume", "--no-sync", "--engine", "serial"];

/// A plaintext whose second quarter is zeros.
fn plaintext() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..LEN).map(|i| (i / 7 % 253) as u8).collect();
    bytes[LEN / 4..LEN / 2].fill(0);
    bytes
}

fn record(target: &str) -> String {
    Sandbox::temporary(target).replace(".tmp", ".resume")
}

/// Stops a run when its output has this length. Returns whether this was before the output got its name.
fn stop(s: &Sandbox, args: &[&str], target: &str, len: u64, signal: Signal) -> bool {
    assert!(!s.exists(target));
    let temporary = s.path(&Sandbox::temporary(target));
    let mut child = s.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    loop {
        if temporary.metadata().is_ok_and(|meta| meta.len() >= len) {
            // It may have ended already.
            let _ = kill_process(Pid::from_child(&child), signal);
            break;
        }
        if child.try_wait().unwrap().is_some() {
            break;
        }
        sleep(Duration::from_micros(200));
    }
    let status = child.wait().unwrap();
    assert!(status.success() || status.signal() == Some(signal.as_raw()), "{status}");
    assert!(s.exists(target) || !status.success());
    !s.exists(target)
}

/// Stops runs until one leaves an unfinished output.
fn interrupt(s: &Sandbox, args: &[&str], target: &str) {
    for _ in 0..50 {
        if stop(s, args, target, LEN as u64 / 3, Signal::KILL) {
            assert!(s.exists(&Sandbox::temporary(target)));
            return;
        }
        fs::remove_file(s.path(target)).unwrap();
    }
    panic!("every run ended before it was stopped");
}

/// Finishes an interrupted `protect` by another run, and checks its message and its output.
#[track_caller]
fn ends(s: &Sandbox, args: &[&str], says: &str) {
    let ended = s.run(args);
    let error = ended.error();
    ended.ok();
    assert!(error.contains(says), "{error}");
    assert_eq!(s.leftovers(), Vec::<String>::new());
    s.run(&["unprotect", "f.phx", "-k", "k", "--output", "back"]).ok();
    assert!(s.read("back") == s.read("f"));
    fs::remove_file(s.path("back")).unwrap();
    fs::remove_file(s.path("f.phx")).unwrap();
}

#[test]
fn interrupted_runs_continue() {
    let s = Sandbox::with_key();
    s.write("f", plaintext());
    let times = if is_exhaustive() { 50 } else { 5 };
    for i in 0..times {
        let signal = [Signal::KILL, Signal::TERM, Signal::USR1][i % 3];
        let at = LEN as u64 * i as u64 / times as u64;
        if stop(&s, &PROTECT, "f.phx", at, signal) && at > 8 << 20 {
            assert_eq!(s.leftovers(), [record("f.phx"), Sandbox::temporary("f.phx")]);
            // The second run is stopped too, at a later point.
            stop(&s, &PROTECT, "f.phx", at + (LEN as u64 - at) / 2, signal);
        }
        s.run(&PROTECT).ok();
        assert_eq!(s.leftovers(), Vec::<String>::new());
        let plain = s.path("f").metadata().unwrap();
        fs::rename(s.path("f"), s.path("original")).unwrap();
        if stop(&s, &UNPROTECT, "f", at, signal) && at > 8 << 20 {
            assert_eq!(s.leftovers(), [record("f"), Sandbox::temporary("f")]);
            stop(&s, &UNPROTECT, "f", at + (LEN as u64 - at) / 2, signal);
        }
        s.run(&UNPROTECT).ok();
        assert_eq!(s.leftovers(), Vec::<String>::new());
        assert!(s.read("f") == s.read("original"), "stopped at {at}");
        assert_eq!(s.path("f").metadata().unwrap().mtime(), plain.mtime());
        fs::remove_file(s.path("original")).unwrap();
        fs::remove_file(s.path("f.phx")).unwrap();
    }
}

#[test]
fn a_run_with_other_keys_or_options_starts_over() {
    let s = Sandbox::with_key();
    s.run(&["key", "new", "other"]).ok();
    s.write("f", plaintext());
    let with = |more: &[&'static str]| [&PROTECT[..], more].concat();
    interrupt(&s, &PROTECT, "f.phx");
    ends(&s, &PROTECT, "going on: ");
    for more in [&["-k", "other"][..], &["--chunk-size", "64K"], &["--cipher", "aes-128"]] {
        interrupt(&s, &with(more), "f.phx");
        ends(&s, &PROTECT, "starting over");
        interrupt(&s, &with(more), "f.phx");
        ends(&s, &with(more), "going on: ");
    }
    // The other key alone does not open the leftovers.
    interrupt(&s, &PROTECT, "f.phx");
    let other = ["protect", "f", "-k", "other", "--resume"];
    let ended = s.run(&other);
    assert!(ended.error().contains("starting over"), "{}", ended.error());
    ended.ok();
    fs::remove_file(s.path("f.phx")).unwrap();
    interrupt(&s, &PROTECT, "f.phx");
    let file = OpenOptions::new().write(true).open(s.path("f")).unwrap();
    file.write_all_at(b"new", 5).unwrap();
    ends(&s, &PROTECT, "it has changed since the interrupted run: starting over");
    // A run without --resume starts over too, and leaves nothing.
    interrupt(&s, &PROTECT, "f.phx");
    s.run(&["protect", "f", "-k", "k"]).ok();
    assert_eq!(s.leftovers(), Vec::<String>::new());
}

#[test]
fn runs_with_passwords_continue_too() {
    let s = Sandbox::with_key();
    s.secret("password", "correct horse");
    s.secret("wrong", "battery");
    s.write("f", plaintext());
    let args = |file| ["protect", "f", "--password-file", file, "-k", "k", "--resume", "--engine", "serial"];
    interrupt(&s, &args("password"), "f.phx");
    ends(&s, &args("password"), "going on: ");
    interrupt(&s, &args("password"), "f.phx");
    ends(&s, &args("wrong"), "starting over");
}

#[test]
fn damaged_leftovers_do_no_harm() {
    let s = Sandbox::with_key();
    s.write("f", plaintext());
    let temporary = Sandbox::temporary("f.phx");
    let change = |name: &str, change: &dyn Fn(&File)| {
        change(&OpenOptions::new().read(true).write(true).open(s.path(name)).unwrap());
    };
    for damage in [
        &(|file: &File| file.write_all_at(b"damage", 5 << 20).unwrap()) as &dyn Fn(&File),
        &|file| file.set_len(6 << 20).unwrap(),
        &|file| file.set_len(LEN as u64 + (1 << 20)).unwrap(),
        &|file| file.write_all_at(&painted(9 << 20), LEN as u64 - 5).unwrap(),
    ] {
        interrupt(&s, &PROTECT, "f.phx");
        change(&temporary, damage);
        ends(&s, &PROTECT, "going on: ");
    }
    for name in [&temporary, &record("f.phx")] {
        interrupt(&s, &PROTECT, "f.phx");
        change(name, &|file| file.write_all_at(b"damage", 20).unwrap());
        ends(&s, &PROTECT, "starting over");
        interrupt(&s, &PROTECT, "f.phx");
        change(name, &|file| file.set_len(10).unwrap());
        ends(&s, &PROTECT, "");
    }
    s.run(&["protect", "f", "-k", "k"]).ok();
    let plain = s.read("f");
    for at in [3 << 20, LEN as u64 / 3] {
        fs::remove_file(s.path("f")).unwrap();
        interrupt(&s, &UNPROTECT, "f");
        // The second change is where zeros belong.
        change(&Sandbox::temporary("f"), &|file| file.write_all_at(&[9; 3_000_000], at).unwrap());
        s.run(&UNPROTECT).ok();
        assert!(s.read("f") == plain, "damaged at {at}");
    }
}

#[test]
fn a_run_that_cannot_support_resume_is_refused() {
    let s = Sandbox::with_key();
    s.write("f", "short");
    let recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    let line = s.run(&["protect", "f", "-r", recipient, "--resume"]).fails(2);
    assert!(line.contains("public keys cannot open"), "{line}");
    assert!(s.run(&["protect", "-", "-k", "k", "--resume"]).fails(2).contains("--resume does not work with -"));
    s.run(&["protect", "f", "-k", "k", "--resume", "-R"]).fails(2);
    s.run(&["unprotect", "f.phx", "--resume", "--range", "0-1", "-o", "x"]).fails(2);
    let line = s.run(&["protect", "f", "-k", "k", "--resume", "--cipher", "aes-256-gcm"]).fails(2);
    assert!(line.contains("aes-256-gcm"), "{line}");
    // A run that fails before it begins leaves nothing.
    s.write("large", plaintext());
    s.run(&["key", "new", "other"]).ok();
    s.run(&["protect", "large", "-k", "k"]).ok();
    s.run(&["unprotect", "large.phx", "-k", "other", "--resume", "-f"]).fails(3);
    assert_eq!(s.leftovers(), Vec::<String>::new());
    fs::remove_file(s.path("large")).unwrap();
    fs::remove_file(s.path("large.phx")).unwrap();
    // A short file needs no record.
    s.run(&["protect", "f", "-k", "k", "--resume"]).ok();
    assert_eq!(s.names(), ["f", "f.phx"]);
}

#[test]
fn files_of_others_are_left_alone() {
    let s = Sandbox::with_key();
    s.write("f", plaintext());
    s.write("victim", "only copy");
    fs::hard_link(s.path("victim"), s.path(&Sandbox::temporary("f.phx"))).unwrap();
    s.run(&PROTECT).ok();
    assert_eq!((s.read("victim"), s.leftovers()), (b"only copy".to_vec(), vec![]));
    fs::remove_file(s.path("f.phx")).unwrap();
    // Others were able to open this file.
    interrupt(&s, &PROTECT, "f.phx");
    fs::set_permissions(s.path(&Sandbox::temporary("f.phx")), fs::Permissions::from_mode(0o640)).unwrap();
    ends(&s, &PROTECT, "");
    // This file is the input itself.
    fs::rename(s.path("f"), s.path(&Sandbox::temporary("f.phx"))).unwrap();
    fs::set_permissions(s.path(&Sandbox::temporary("f.phx")), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(Sandbox::temporary("f.phx"), s.path("f")).unwrap();
    assert!(s.run(&PROTECT).fails(2).contains("the same file"));
    assert!(s.read("f") == plaintext());
    fs::remove_file(s.path("f")).unwrap();
    fs::rename(s.path(&Sandbox::temporary("f.phx")), s.path("f")).unwrap();
    std::os::unix::fs::symlink("victim", s.path(&Sandbox::temporary("f.phx"))).unwrap();
    s.run(&PROTECT).fails(4);
    assert_eq!(s.read("victim"), b"only copy");
}
