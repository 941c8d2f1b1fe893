//! Faults of the system, odd streams, and other users who change files during a run. Each run ends with the right error
//! and leaves nothing.

use crate::common::{Delay, Ended, Paused, Sandbox, has, is_ignored, painted, skip, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// Runs a shell line in which `phalanx` is the program.
pub fn shell(s: &Sandbox, line: &str) -> Ended {
    let line = line.replace("phalanx", env!("CARGO_BIN_EXE_phalanx"));
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(s.path("")).env("PHALANX_KEYRING", s.path("keyring"));
    Ended(command.env_remove("PHALANX_PASSWORD").output().unwrap())
}

#[test]
fn a_file_is_not_appended_to_itself() {
    let s = Sandbox::with_key();
    s.write("f", painted(100_000));
    for line in ["phalanx protect - -k k <f >>f", "phalanx protect f -k k -o - >>f"] {
        let ended = shell(&s, &format!("ulimit -f 1000; timeout 60 {line}"));
        assert!(ended.fails(2).contains("input and output are the same file"), "{line}");
        assert!(s.read("f") == painted(100_000), "{line}");
    }
}

#[test]
fn an_empty_file_that_is_written_to_during_the_run_is_refused() {
    let s = Sandbox::with_key();
    s.write("e", "");
    let ready = || !s.leftovers().is_empty();
    let write = || drop(s.write("e", "new"));
    let Some(ended) = s.meanwhile("pwrite64:when=1", &["protect", "e", "-k", "k"], ready, write) else { return };
    assert!(ended.fails(4).contains("changed while it was read"));
    assert_eq!(s.names(), ["e"]);
}

#[test]
fn a_file_from_a_pipe_is_private_until_it_is_complete() {
    let s = Sandbox::with_key();
    let mut child = s.command(&["protect", "-", "-o", "f.phx", "-k", "k"]).stdin(Stdio::piped()).spawn().unwrap();
    wait_for(|| !s.leftovers().is_empty());
    let mode = |name: &str| fs::metadata(s.path(name)).unwrap().mode() & 0o777;
    assert_eq!(mode(&s.leftovers()[0]), 0o600);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let umask = shell(&s, "umask").text();
    assert_eq!(mode("f.phx"), 0o666 & !u32::from_str_radix(umask.trim(), 8).unwrap());
}

#[test]
fn a_leftover_is_opened_for_writing_and_never_changed_by_its_name() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    s.write(&Sandbox::temporary("f.phx"), "left");
    if !has("strace") {
        return;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "trace", "-e", "trace=openat,fchmodat", env!("CARGO_BIN_EXE_phalanx")]);
    command.args(["protect", "f", "-k", "k"]).current_dir(s.path("")).env("PHALANX_KEYRING", s.path("keyring"));
    Ended(command.output().unwrap()).ok();
    let trace = String::from_utf8(s.read("trace")).unwrap();
    let opened: Vec<_> = trace.lines().filter(|line| line.contains(".tmp\"") && !line.contains("O_CREAT")).collect();
    assert!(!opened.is_empty() && opened.iter().all(|line| line.contains("O_RDWR")), "{opened:?}");
    assert!(!trace.contains("fchmodat"), "{trace}");
}

/// Writes a file of the user nobody.
pub fn nobodys(s: &Sandbox, name: &str, content: &[u8], mode: u32) {
    s.write(name, content);
    std::os::unix::fs::chown(s.path(name), Some(65534), Some(65534)).unwrap();
    fs::set_permissions(s.path(name), Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_leftover_that_becomes_a_link_changes_no_other_file() {
    // Root can open everything, so the test needs another user.
    if !rustix::process::getuid().is_root() || !has("setpriv") || !has("strace") {
        return skip("root");
    }
    let s = Sandbox::new();
    let program = s.copy_of_the_program();
    fs::set_permissions(s.path(""), Permissions::from_mode(0o777)).unwrap();
    let nobodys = |name: &str, content, mode| nobodys(&s, name, content, mode);
    let temporary = Sandbox::temporary("f.phx");
    nobodys("raw", &[1; 32], 0o600);
    nobodys("f", b"x", 0o600);
    nobodys("victim", b"x", 0o400);
    nobodys(&temporary, b"left", 0);
    let start = |options: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "strace", "-f", "-qq"]).args(options);
        command.arg(&program).args(["protect", "f", "--key-file", "raw"]).current_dir(s.path(""));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Some(command)
    };
    let exchange = || {
        fs::remove_file(s.path(&temporary)).unwrap();
        symlink("victim", s.path(&temporary)).unwrap();
    };
    let ended = Paused::begin(Delay::Enter, "chmod,fchmodat", start).unwrap().meanwhile(|| true, exchange);
    assert!(matches!(ended.0.status.code(), Some(0 | 4)), "{}", ended.error());
    assert_eq!(fs::metadata(s.path("victim")).unwrap().mode() & 0o777, 0o400);
}

#[test]
fn closed_streams_are_errors() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    s.run(&["protect", "f", "-k", "k", "-o", "g.phx"]).ok();
    assert!(shell(&s, "exec phalanx protect - -o h.phx -k k <&-").fails(4).contains("standard input is closed"));
    assert!(shell(&s, "exec phalanx protect f -o - -k k >&-").fails(4).contains("standard output is closed"));
    assert!(shell(&s, "exec phalanx unprotect g.phx -o - >&-").fails(4).contains("standard output is closed"));
    assert!(shell(&s, "exec phalanx verify g.phx >&-").fails(4).contains("standard output is closed"));
    assert_eq!(shell(&s, "exec phalanx protect f -k k 2>&-").0.status.code(), Some(4));
    assert!(!s.exists("h.phx") && !s.exists("f.phx"));
    // It is no error if the user redirects input from or output to /dev/null.
    shell(&s, "exec phalanx protect - -o h.phx -k k </dev/null").ok();
    shell(&s, "exec phalanx unprotect g.phx -o - >/dev/null 2>/dev/null").ok();
}

#[test]
fn missing_memory_is_an_error() {
    let s = Sandbox::with_key();
    s.write("f", painted(40 << 20));
    // The least memory with which the loader can start this build.
    let starts = |kib: &u32| shell(&s, &format!("ulimit -v {kib}; exec phalanx version")).0.status.success();
    let least = (10_000..).step_by(250).find(starts).unwrap();
    let (mut failed, mut done) = (0, 0);
    for kib in (least..least + 10_000).step_by(250).chain((least + 10_000..300_000).step_by(20_000)) {
        let ended = shell(&s, &format!("ulimit -v {kib}; exec phalanx protect f -k k --threads 8 --no-sync"));
        assert!(s.leftovers().is_empty(), "{kib}: {}", ended.error());
        if ended.0.status.success() {
            done += 1;
            fs::remove_file(s.path("f.phx")).unwrap();
            continue;
        }
        assert!(!s.exists("f.phx"), "{kib}");
        // The C library may end the process by itself.
        if ended.error().contains("Fatal glibc error") {
            continue;
        }
        if ended.0.status.code().is_none_or(|code| code == 127) {
            assert!(kib < least + 10_000, "{kib}: {:?} {}", ended.0.status, ended.error());
            continue;
        }
        failed += 1;
        ended.fails(1);
    }
    assert!(failed > 5 && done > 0, "{failed} failed, {done} done");
}

#[test]
fn every_signal_that_ends_a_run_leaves_nothing() {
    let s = Sandbox::with_key();
    // The signals of a broken process, those that stop it or are ignored, and those that the C library keeps for
    // itself.
    let others = [4, 8, 9, 11, 7, 5, 31, 13, 17, 18, 19, 20, 21, 22, 23, 25, 28, 32, 33];
    for signal in (1..=64).filter(|signal| !others.contains(signal) && !is_ignored(*signal)) {
        let args = ["protect", "-", "-o", "f.phx", "-k", "k"];
        let mut child = s.command(&args).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        wait_for(|| !s.leftovers().is_empty());
        assert!(Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap().success());
        // `wait` would close its input, and then it could end by itself.
        let _open = child.stdin.take();
        let status = child.wait().unwrap();
        assert!(status.signal() == Some(signal) || status.code() == Some(128 + signal), "{signal}: {status}");
        assert!(s.names().is_empty(), "{signal}: {:?}", s.names());
    }
}

/// The signals also arrive between the creation of the file and the record of its name.
#[test]
fn a_signal_while_a_file_begins_leaves_nothing() {
    let s = Sandbox::with_key();
    let name = Sandbox::temporary("f.phx");
    let options = ["-P", &name, "-e", "trace=openat", "-e", "inject=openat:delay_exit=1500000:when=1"];
    for signal in [Signal::TERM, Signal::ABORT] {
        let Some(mut command) = s.traced(&options, &["protect", "-", "-o", "f.phx", "-k", "k"]) else { return };
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        wait_for(|| !s.leftovers().is_empty());
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let traced = fs::read_to_string(children).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(traced).unwrap(), signal).unwrap();
        let _open = child.stdin.take();
        assert_eq!(child.wait().unwrap().signal(), Some(signal.as_raw()));
        assert!(s.names().is_empty(), "{signal:?}: {:?}", s.names());
    }
}

#[test]
fn an_output_that_vanishes_during_the_run_causes_no_panic() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    // It is looked at in its open folder.
    let folder = fs::canonicalize(s.path("")).unwrap();
    let in_folder = ["-P", folder.to_str().unwrap()];
    for (args, code) in [(&["protect", "f", "-k", "k"][..], 4), (&["protect", "f", "-k", "k", "--force"], 0)] {
        s.write("f.phx", "in the way");
        let start = |options: &[&str]| s.traced(&[options, &in_folder].concat(), args);
        let Some(paused) = Paused::begin(Delay::Exit, "newfstatat", start) else { return };
        let ended = paused.meanwhile(|| true, || fs::remove_file(s.path("f.phx")).unwrap());
        assert_eq!(ended.0.status.code(), Some(code), "{args:?}: {}", ended.error());
        assert!(!ended.error().contains("internal error"), "{}", ended.error());
        assert!(s.leftovers().is_empty());
    }
}

#[test]
fn a_failed_fstat_leaves_nothing() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    let path = s.path(&Sandbox::temporary("f.phx")).display().to_string();
    let options = ["-P", &path, "-e", "trace=fstat", "-e", "inject=fstat:error=EIO"];
    let Some(mut command) = s.traced(&options, &["protect", "f", "-k", "k"]) else { return };
    Ended(command.output().unwrap()).fails(4);
    assert_eq!(s.names(), ["f"]);
}

#[test]
fn the_error_says_that_an_unsynced_output_exists() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    let options = ["-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=2"];
    let Some(mut command) = s.traced(&options, &["protect", "f", "-k", "k", "--remove"]) else { return };
    let reported = Ended(command.output().unwrap()).fails(4);
    assert!(reported.contains("f.phx: it is written and has its name"), "{reported}");
    assert_eq!(s.names(), ["f", "f.phx"]);
}

#[test]
fn a_file_system_without_permissions_is_good_enough() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    for error in ["EPERM", "ENOSYS", "EOPNOTSUPP"] {
        let inject = format!("inject=fchmod,utimensat:error={error}");
        let options = ["-e", "trace=fchmod,utimensat", "-e", &inject];
        let Some(mut command) = s.traced(&options, &["protect", "f", "-k", "k", "--force"]) else { return };
        Ended(command.output().unwrap()).ok();
        assert_eq!(fs::metadata(s.path("f.phx")).unwrap().mode() & 0o777, 0o600, "as narrow as it was made");
    }
}

#[test]
fn odd_names_are_accepted() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    s.run(&["protect", "f", "-k", "k", "-o", "./-.phx"]).ok();
    assert!(s.run(&["unprotect", "--", "-.phx"]).ok().is_empty(), "nothing goes to standard output");
    assert_eq!(s.read("-"), b"x");
    // Only names of the exact form are temporary names.
    fs::create_dir(s.path("t")).unwrap();
    s.write("t/.phalanx-notes.tmp", "mine");
    let left = Sandbox::temporary("f.phx");
    s.write(&format!("t/{left}"), "left");
    let ended = s.run(&["protect", "-R", "t", "-k", "k"]);
    assert!(ended.error().contains(&format!("t/{left}: left by a run that was killed: left out")));
    ended.ok();
    let names: Vec<OsString> = fs::read_dir(s.path("t.phx")).unwrap().map(|e| e.unwrap().file_name()).collect();
    let names: Vec<_> = names.into_iter().filter(|name| name != "phalanx.tree").collect();
    assert_eq!(names, [".phalanx-notes.tmp.phx"]);
}
