//! What a start costs, in system calls: a script over 10,000 small files pays it each time. And what it takes over from the parent.

use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// All system calls of a run that ends in success, of all its threads, one on a line. `None` if there is no strace.
fn calls(s: &Sandbox, args: &[&str]) -> Option<Vec<String>> {
    let trace = s.path("trace");
    let mut command = s.traced(&["-o", trace.to_str().unwrap()], args)?;
    // With it, which cargo sets, the loader looks for each library in many folders.
    Ended(command.env_remove("LD_LIBRARY_PATH").output().unwrap()).ok();
    let text = fs::read_to_string(trace).unwrap();
    let is_call = |line: &&str| !line.contains(" resumed>") && !line.contains(" +++ ") && !line.contains(" --- ");
    Some(text.lines().filter(is_call).map(Into::into).collect())
}

/// The loader's calls are counted too, and differ by system: here they are about 50 of 85 and of 190.
#[test]
fn a_start_takes_few_system_calls() {
    let s = Sandbox::new();
    s.secret("raw", [7; 32]);
    s.write("f", painted(1024));
    for (args, most) in
        [(&["--version"][..], 200), (&["protect", "--no-sync", "--force", "--key-file", "raw", "f"], 400)]
    {
        let Some(calls) = calls(&s, args) else { return };
        assert!(calls.len() <= most, "{args:?}: {}", calls.len());
        let status = calls.iter().filter(|line| line.contains("\"/proc/self/status\"")).count();
        assert!(status <= 1, "{args:?} reads it {status} times");
        let threads = calls.iter().filter(|line| line.contains("CLONE_THREAD")).count();
        assert!(threads <= 1, "{args:?} starts {threads} threads");
    }
}

#[test]
fn memory_is_locked_before_a_key_is_read() {
    let s = Sandbox::new();
    s.secret("raw", [7; 32]);
    s.write("f", "x");
    let Some(calls) = calls(&s, &["protect", "--key-file", "raw", "f"]) else { return };
    let position = |what: &str| calls.iter().position(|line| line.contains(what));
    let key = position("\"raw\", O_RDONLY").expect("it opens the key");
    let hidden = position("SUID_DUMP_DISABLE").or_else(|| position("PR_SET_DUMPABLE")).expect("it hides from tracers");
    assert!(hidden < key);
    match position("mlockall") {
        Some(locked) => assert!(locked < key),
        None => println!("skipped: nobody may lock all memory here"),
    }
}

#[test]
fn what_the_parent_ignores_or_blocks_ends_nothing() {
    if !Command::new("env").arg("--block-signal=HUP").arg("true").output().unwrap().status.success() {
        return skip("env --block-signal");
    }
    let s = Sandbox::with_key();
    for (option, signal) in [("ignore", 1), ("block", 1), ("ignore", 15), ("block", 15), ("ignore", 40), ("block", 40)]
    {
        let mut child = Command::new("env")
            .arg(format!("--{option}-signal={signal}"))
            .args([env!("CARGO_BIN_EXE_phalanx"), "protect", "-", "-o", "f.phx", "-k", "k", "--force"])
            .current_dir(s.path(""))
            .env("PHALANX_KEYRING", s.path("keyring"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&painted(100_000)).unwrap();
        wait_for(|| s.leftovers().len() == 1);
        let number = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap();
        assert!(number.success());
        sleep(Duration::from_millis(50));
        drop(stdin);
        assert!(child.wait().unwrap().success(), "{option} {signal}");
    }
    // The others still end it.
    let mut child = Command::new("env")
        .args(["--block-signal=HUP", env!("CARGO_BIN_EXE_phalanx"), "protect", "-", "-o", "g.phx", "-k", "k"])
        .current_dir(s.path(""))
        .env("PHALANX_KEYRING", s.path("keyring"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take();
    stdin.as_mut().unwrap().write_all(&painted(100_000)).unwrap();
    wait_for(|| s.leftovers().len() == 1);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ignored = is_ignored(Signal::TERM.as_raw());
    if ignored {
        stdin = None;
    }
    let ended = child.wait().unwrap();
    drop(stdin);
    if !ignored {
        assert_eq!(ended.signal(), Some(Signal::TERM.as_raw()));
        assert!(s.leftovers().is_empty());
    }
}

/// The program blocks signals. What it starts does not.
#[test]
fn programs_that_it_starts_block_no_signals() {
    let s = Sandbox::new();
    s.write("f", "x");
    let plugin = s
        .write("age-plugin-test", format!("#!/bin/sh\ngrep SigBlk: /proc/self/status >{}\n", s.path("mask").display()));
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:{}", s.path("").display(), std::env::var("PATH").unwrap_or_default());
    let recipient = "age1test1qqqqqqqqgsf9kn";
    let said = Ended(s.command(&["protect", "f", "-r", recipient]).env("PATH", path).output().unwrap()).error();
    let mask = fs::read_to_string(s.path("mask")).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(mask.trim(), "SigBlk:\t0000000000000000");
}
