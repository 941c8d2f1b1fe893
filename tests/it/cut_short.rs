//! Interrupted runs lose nothing and leave nothing half done, wherever and however they are interrupted.

use crate::common::{Ended, Mounted, Sandbox, has, is_exhaustive, is_ignored, painted, skip, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn kill(child: &std::process::Child, signal: Signal) {
    // It may have ended already.
    let _ = kill_process(Pid::from_child(child), signal);
}

/// Runs the command `times` times, and stops each run a little later than the one before, from its start to beyond its
/// end. Calls `check` after each run. Unless PHALANX_EXHAUSTIVE is set, there are only a quarter as many runs. On a
/// busy machine the first run, which is not stopped, may take many times as long as the others. So a run that ends
/// before it is stopped shortens the delays.
pub fn stop_everywhere(s: &Sandbox, args: &[&str], signal: Signal, times: u32, mut check: impl FnMut()) {
    if is_ignored(signal.as_raw()) {
        return;
    }
    let times = if is_exhaustive() { times } else { times / 4 };
    let started = Instant::now();
    s.run(args).ok();
    let mut length = started.elapsed();
    check();
    stop_at_work(s, args, signal, "", &mut check);
    for i in 0..times {
        let mut child = s.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let delay = length.mul_f64(1.2 * f64::from(i) / f64::from(times));
        sleep(delay);
        kill(&child, signal);
        let status = child.wait().unwrap();
        if status.success() {
            length = length.min(delay);
        } else {
            assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        }
        check();
    }
}

/// Stops a run when it has begun to write its temporary file in this folder. If it ends before it is stopped, another one is
/// started. Calls `check` after each run.
fn stop_at_work(s: &Sandbox, args: &[&str], signal: Signal, folder: &str, mut check: impl FnMut()) {
    // A file that an earlier run has left may be written to again.
    let temporary = || {
        let entries = fs::read_dir(s.path(folder)).unwrap().flatten();
        let found = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".phalanx-"));
        found.filter_map(|entry| entry.metadata().ok()).map(|meta| (meta.ino(), meta.modified().unwrap())).next()
    };
    for _ in 0..100 {
        let before = temporary();
        let mut child = s.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let is_at_work = || temporary().is_some_and(|now| before != Some(now));
        while !is_at_work() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        kill(&child, signal);
        let status = child.wait().unwrap();
        check();
        if !status.success() {
            return assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        }
    }
    panic!("no run was stopped at its work: {args:?}");
}

#[test]
fn after_a_kill_the_old_or_the_new_file_is_whole() {
    let s = Sandbox::with_key();
    let plain = painted((3 << 20) + 5);
    s.write("f", &plain);
    s.run(&["protect", "f", "-k", "k", "--threads", "2"]).ok();
    stop_everywhere(&s, &["protect", "f", "-k", "k", "--force"], Signal::KILL, 120, || {
        assert!(s.read("f") == plain);
        s.run(&["verify", "f.phx", "-q"]).ok();
        assert!(s.leftovers().len() <= 1);
    });
    s.run(&["protect", "f", "-k", "k", "--force"]).ok();
    assert_eq!(s.names(), ["f", "f.phx"], "the next run removes what was left");

    let stored = s.read("f.phx");
    stop_everywhere(&s, &["unprotect", "f.phx", "-o", "g", "--force"], Signal::KILL, 120, || {
        assert!(s.read("f.phx") == stored && s.read("g") == plain);
    });
    s.run(&["unprotect", "f.phx", "-o", "g", "--force"]).ok();
    assert!(s.leftovers().is_empty());
}

#[test]
fn after_a_kill_a_new_file_is_whole_or_absent() {
    let s = Sandbox::with_key();
    s.write("f", painted(200_000));
    let is_whole_or_absent = || {
        if s.exists("f.phx") {
            s.run(&["verify", "f.phx"]).ok();
            fs::remove_file(s.path("f.phx")).unwrap();
        }
    };
    kill_everywhere(&s, &["protect", "f", "-k", "k"], "", 60, is_whole_or_absent);
    let is_a_key_or_absent = || {
        if !s.exists("keyring/new.key") {
            s.run(&["key", "new", "new"]).ok();
        }
        assert_eq!(s.read("keyring/new.key").len(), 32);
        fs::remove_file(s.path("keyring/new.key")).unwrap();
    };
    kill_everywhere(&s, &["key", "new", "new"], "keyring", 100, is_a_key_or_absent);
}

/// Kills runs that make something new, from their start to beyond their end, and one of them at its work in this folder.
/// Calls `check` after each, which deletes what the run has made.
fn kill_everywhere(s: &Sandbox, args: &[&str], folder: &str, times: u32, mut check: impl FnMut()) {
    let started = Instant::now();
    s.run(args).ok();
    let length = started.elapsed();
    check();
    stop_at_work(s, args, Signal::KILL, folder, &mut check);
    for i in 0..times {
        let mut child = s.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(length.mul_f64(1.2 * f64::from(i) / f64::from(times)));
        kill(&child, Signal::KILL);
        child.wait().unwrap();
        check();
    }
}

#[test]
fn a_run_stopped_by_a_signal_leaves_nothing() {
    let s = Sandbox::with_key();
    s.write("f", painted((3 << 20) + 5));
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        stop_everywhere(&s, &["protect", "f", "-k", "k", "--force"], signal, 25, || {
            assert!(s.leftovers().is_empty(), "{signal:?}: {:?}", s.leftovers());
            s.run(&["verify", "f.phx", "-q"]).ok();
        });
    }
}

#[test]
fn a_run_that_waits_for_a_pipe_is_stopped_too() {
    let s = Sandbox::with_key();
    let mut child = s.command(&["protect", "-", "-o", "f.phx", "-k", "k"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&painted(3 << 20)).unwrap();
    wait_for(|| s.leftovers().len() == 1);
    // Two runs with the same target do not collide.
    assert!(s.run_with_input(b"x", &["protect", "-", "-o", "f.phx", "-k", "k"]).fails(4).contains("another run"));
    kill(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    assert!(s.names().is_empty());
}

#[test]
fn an_ignored_signal_stays_ignored() {
    if !has("nohup") {
        return;
    }
    let s = Sandbox::with_key();
    let mut child = Command::new("nohup")
        .args([env!("CARGO_BIN_EXE_phalanx"), "protect", "-", "-o", "f.phx", "-k", "k"])
        .current_dir(s.path(""))
        .env("PHALANX_KEYRING", s.path("keyring"))
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&painted(100_000)).unwrap();
    wait_for(|| s.leftovers().len() == 1);
    kill(&child, Signal::HUP);
    sleep(Duration::from_millis(50));
    drop(stdin);
    assert!(child.wait().unwrap().success());
    s.run(&["verify", "f.phx"]).ok();
}

#[test]
fn renames_during_a_run_do_not_redirect_its_output() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("out")).unwrap();
    fs::create_dir(s.path("trap")).unwrap();
    s.write("victim", "precious");
    let begin = |args: &[&str]| {
        let mut child = s.command(args).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&painted(100_000)).unwrap();
        let temporary = |folder: &str| {
            fs::read_dir(s.path(folder)).is_ok_and(|mut entries| {
                entries.any(|e| e.unwrap().file_name().to_string_lossy().starts_with(".phalanx-"))
            })
        };
        wait_for(|| temporary("out"));
        (child, stdin)
    };
    // The target becomes a link to a precious file. Without --force it is refused, and with it the link is replaced.
    let args = ["protect", "-", "-o", "out/a.phx", "-k", "k", "--force"];
    for force in [false, true] {
        let (child, stdin) = begin(&args[..if force { 7 } else { 6 }]);
        symlink("../victim", s.path("out/a.phx")).unwrap();
        drop(stdin);
        let ended = Ended(child.wait_with_output().unwrap());
        if force {
            drop(ended.ok())
        } else {
            drop(ended.fails(4))
        }
        assert_eq!(s.read("victim"), b"precious");
        assert_eq!(fs::symlink_metadata(s.path("out/a.phx")).unwrap().is_symlink(), !force);
        fs::remove_file(s.path("out/a.phx")).unwrap();
    }
    // The folder becomes a link to another one. The output goes to the original folder.
    let (child, stdin) = begin(&args[..6]);
    fs::rename(s.path("out"), s.path("moved")).unwrap();
    symlink("trap", s.path("out")).unwrap();
    drop(stdin);
    Ended(child.wait_with_output().unwrap()).ok();
    assert!(s.exists("moved/a.phx") && fs::read_dir(s.path("trap")).unwrap().next().is_none());
    // The folder is removed.
    fs::remove_file(s.path("out")).unwrap();
    fs::create_dir(s.path("out")).unwrap();
    let (child, stdin) = begin(&args[..6]);
    fs::remove_dir_all(s.path("out")).unwrap();
    drop(stdin);
    Ended(child.wait_with_output().unwrap()).fails(4);
}

#[test]
fn a_closed_pipe_and_a_full_device_are_errors() {
    let s = Sandbox::with_key();
    s.write("f", painted(20 << 20));
    s.run(&["protect", "f", "-k", "k"]).ok();
    for args in [["protect", "f", "-k", "k", "-o", "-"], ["unprotect", "f.phx", "-k", "k", "-o", "-"]] {
        let mut child = s.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut some = [0; 1000];
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut some).unwrap();
        drop(stdout);
        Ended(child.wait_with_output().unwrap()).fails(4);
        let full = File::options().write(true).open("/dev/full").unwrap();
        Ended(s.command(&args).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap())
            .fails(4);
    }
    // The message is lost, but the exit code shows the failure.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let status = s.command(&["verify", "missing.phx"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(4));
}

#[test]
fn a_full_standard_output_is_reported_once() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    for name in ["t/a", "t/b", "t/c"] {
        s.write(name, "x");
    }
    s.run(&["protect", "-R", "t", "-k", "k"]).ok();
    let run = |args: &[&str]| {
        let full = File::options().write(true).open("/dev/full").unwrap();
        Ended(s.command(args).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap())
    };
    let files = ["t.phx/a.phx", "t.phx/b.phx", "t.phx/c.phx"];
    for args in [&["verify"][..], &["inspect"], &["inspect", "--json"]] {
        let line = run(&[args, &files].concat()).fails(4);
        assert!(line.contains("cannot write: No space left on device"), "{line}");
    }
    run(&["verify", "-R", "t.phx"]).fails(4);
    // A file that is not authentic is still reported.
    s.write("t.phx/b.phx", "not ours");
    for args in [&[&["verify"][..], &files].concat()[..], &["verify", "-R", "t.phx"]] {
        let reported = run(args).fails_with_lines(3);
        assert!(reported.contains("t.phx/b.phx: not a Phalanx file") && reported.lines().count() == 2, "{reported}");
    }
    // So is what could not be saved of one.
    s.write("f", vec![1; 3 << 20]);
    s.run(&["protect", "f", "-k", "k"]).ok();
    let mut damaged = s.read("f.phx");
    damaged[(2 << 20) + 1000] ^= 1;
    s.write("f.phx", damaged);
    let reported = run(&["unprotect", "f.phx", "--salvage", "-o", "saved", "-k", "k"]).fails_with_lines(3);
    assert!(reported.contains("f.phx: damaged") && s.exists("saved"), "{reported}");
}

/// Mounts a small file system in memory. If that is not allowed, prints a line and returns `None`.
fn small_disk(s: &Sandbox, kib: usize) -> Option<Mounted> {
    let point = s.path("disk");
    fs::create_dir_all(&point).unwrap();
    if !has("mount") || !s.succeeds("mount", &["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs", "disk"]) {
        skip("tmpfs");
        return None;
    }
    Some(Mounted(point))
}

#[test]
fn a_full_disk_at_any_stage_leaves_nothing() {
    let s = Sandbox::with_key();
    let plain = painted(150_000);
    s.write("f", &plain);
    s.run(&["protect", "f", "-k", "k"]).ok();
    let (mut failed, mut done) = (0, 0);
    for kib in (4..=200).step_by(8) {
        let Some(disk) = small_disk(&s, kib) else { return };
        for args in [["protect", "f", "-k", "k", "-o", "disk/g"], ["unprotect", "f.phx", "-k", "k", "-o", "disk/g"]] {
            let ended = s.run(&args);
            if ended.0.status.success() {
                done += 1;
                fs::remove_file(s.path("disk/g")).unwrap();
            } else {
                failed += 1;
                ended.fails(4);
                assert!(fs::read_dir(&disk.0).unwrap().next().is_none(), "{kib} KiB: something is left");
            }
        }
        // There is no room even for a key.
        let fill = fs::write(s.path("disk/fill"), vec![1; 4 << 20]);
        assert!(fill.is_err());
        let mut command = s.command(&["key", "new", "x"]);
        let ended = Ended(command.env("PHALANX_KEYRING", s.path("disk")).output().unwrap());
        ended.fails(4);
        assert!(!s.exists("disk/x.key"));
    }
    assert!(failed > 10 && done > 4, "{failed} failed, {done} done");
    assert!(s.read("f") == plain);
}

#[test]
fn a_limit_on_file_sizes_is_an_error() {
    let s = Sandbox::with_key();
    s.write("f", painted(3 << 20));
    let line = format!("ulimit -f 2000; exec {} protect f -k k", env!("CARGO_BIN_EXE_phalanx"));
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(s.path("")).env("PHALANX_KEYRING", s.path("keyring"));
    Ended(command.output().unwrap()).fails(4);
    assert_eq!(s.names(), ["f"]);
}

#[test]
fn missing_permissions_are_an_error() {
    // Root can read and write everything, so the test needs another user.
    if !has("setpriv") {
        return;
    }
    if !rustix::process::getuid().is_root() {
        skip("root");
        return;
    }
    let s = Sandbox::new();
    let program = s.copy_of_the_program();
    fs::set_permissions(s.path(""), Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(s.secret("raw", [1; 32]), Some(65534), Some(65534)).unwrap();
    s.write("f", "x");
    s.write("secret", "x");
    fs::set_permissions(s.path("secret"), Permissions::from_mode(0o600)).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(args);
        Ended(command.current_dir(s.path("")).output().unwrap())
    };
    assert!(run(&["protect", "secret", "--key-file", "raw", "-o", "never"]).fails(4).contains("secret"));
    assert!(run(&["protect", "f", "--key-file", "raw"]).fails(4).contains("f.phx"));
    assert!(run(&["key", "list"]).0.status.code().is_some());
    // A group that cannot be set gets no access either.
    fs::create_dir(s.path("open")).unwrap();
    fs::set_permissions(s.path("open"), Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(s.path("f"), Permissions::from_mode(0o644)).unwrap();
    run(&["protect", "f", "--key-file", "raw", "-o", "open/f.phx"]).ok();
    let mode = fs::metadata(s.path("open/f.phx")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o604, "the input's group is another");
}

#[test]
fn data_is_on_the_disk_before_it_has_its_name() {
    if !has("strace") {
        return;
    }
    let s = Sandbox::with_key();
    let trace = |args: &[&str]| {
        fs::write(s.path("f"), painted(3 << 20)).unwrap();
        let mut command = Command::new("strace");
        let calls = "trace=fadvise64,pwritev,pwrite64,fsync,fdatasync,syncfs,rename,renameat,renameat2,unlink,unlinkat";
        command.args(["-f", "-y", "-o", "trace", "-e", calls, env!("CARGO_BIN_EXE_phalanx")]);
        command.args(args).current_dir(s.path("")).env("PHALANX_KEYRING", s.path("keyring"));
        command.env("PHALANX_STATE", s.path("state"));
        Ended(command.output().unwrap()).ok();
        let text = String::from_utf8(s.read("trace")).unwrap();
        // The files of the tree are small, and the length of its manifest is not known before it is written.
        if !args.contains(&"-R") {
            let is_synced = !args.contains(&"--no-sync");
            assert_eq!(text.contains("fadvise64"), is_synced, "write-back begins early if, and only if, synced");
        }
        let short = |line: &str| match line.split_once(' ').unwrap().1.trim_start() {
            call if call.starts_with("pwrite") => "write",
            call if call.starts_with("fsync") && call.contains(".tmp>") => "sync file",
            call if call.starts_with("fsync") => "sync folder",
            call if call.starts_with("syncfs") => "sync all",
            call if call.starts_with("rename") => "rename",
            // A new output looks for a record of `--resume`, but there is none.
            call if call.starts_with("unlink") && call.contains("ENOENT") => "other",
            call if call.starts_with("unlink") => "remove",
            _ => "other",
        };
        let mut calls: Vec<&str> = text.lines().map(short).filter(|c| *c != "other").collect();
        calls.dedup();
        calls.join(", ")
    };
    assert_eq!(trace(&["protect", "f", "-k", "k"]), "write, sync file, rename, sync folder");
    assert_eq!(trace(&["protect", "f", "-k", "k", "--no-sync", "--force"]), "write, rename");
    assert_eq!(
        trace(&["protect", "f", "-k", "k", "--remove", "--force"]),
        "write, sync file, rename, sync folder, rename, remove",
        "the input is renamed aside before it is removed"
    );
    fs::create_dir(s.path("t")).unwrap();
    (0..10).for_each(|i| drop(s.write(&format!("t/{i}"), "x")));
    let calls = trace(&["protect", "-R", "t", "-k", "k", "--threads", "1"]);
    // Then what is remembered of the manifest before it is there, in a folder that is new, the manifest, and what is remembered
    // afterwards.
    let each = ", sync file, rename, sync folder".repeat(4);
    let listed = format!("write{each}");
    assert_eq!(calls, format!("write, sync all, rename, sync all, sync folder, write, sync folder{each}"));
    // With --remove each output is synced, because `syncfs` does not report all lost writes on all file systems. The root goes
    // after the manifest.
    let calls = trace(&["protect", "-R", "t", "-o", "u", "-k", "k", "--threads", "1", "--remove"]);
    let one_by_one = "sync file, rename, ".repeat(10);
    let removed = "rename, remove, ".repeat(10);
    assert_eq!(calls, format!("write, sync all, {one_by_one}sync folder, {removed}sync folder, {listed}, remove"));
}

#[test]
fn no_core_is_dumped_and_memory_is_locked() {
    let s = Sandbox::with_key();
    let mut child = s.command(&["protect", "-", "-o", "f.phx", "-k", "k"]).stdin(Stdio::piped()).spawn().unwrap();
    wait_for(|| s.leftovers().len() == 1);
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    // Only root can raise a limit of 0, as set by `ulimit -c 0`.
    let most = rustix::process::getrlimit(rustix::process::Resource::Core).maximum.map_or(1, |most| most.min(1));
    let core_limit: u64 = core.split_whitespace().nth(4).unwrap().parse().unwrap();
    assert!((most..=1).contains(&core_limit), "{core}");
    if rustix::process::getuid().is_root() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        let may_lock = u64::from_str_radix(&field("CapEff:"), 16).unwrap() >> 14 & 1 == 1;
        assert!(!may_lock || field("VmLck:") != "0 kB", "memory is not locked");
    } else {
        println!("skipped: no right to lock memory");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
