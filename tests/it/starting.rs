//! The system calls of a start, which a script for 10,000 small files makes each time, and what the program inherits
//! from its parent.

use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities};
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// All system calls of a run that ends in success, of all its threads, one on a line. `None` if there is no strace.
fn calls(s: &Sandbox, args: &[&str]) -> Option<Vec<String>> {
    let trace = s.path("trace");
    let mut command = s.traced(&["-o", trace.to_str().unwrap()], args)?;
    // Cargo sets this variable, and the loader then looks for each library in many folders.
    Ended(command.env_remove("LD_LIBRARY_PATH").output().unwrap()).ok();
    let text = fs::read_to_string(trace).unwrap();
    let is_call = |line: &&str| !line.contains(" resumed>") && !line.contains(" +++ ") && !line.contains(" --- ");
    Some(text.lines().filter(is_call).map(Into::into).collect())
}

/// The loader's calls are counted too, and differ between systems. Where this was written, they were about 50 of 85
/// calls for the first command, and 50 of 190 for the second.
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
    match calls.iter().rposition(|line| line.contains("mlock")) {
        Some(locked) => assert!(locked < key),
        None => skip("mlock"),
    }
}

#[test]
fn all_memory_that_can_hold_a_secret_is_locked() {
    let may_lock = |sets: CapabilitySets| sets.effective.contains(CapabilitySet::IPC_LOCK | CapabilitySet::SYS_PTRACE);
    if !capabilities(None).is_ok_and(may_lock) {
        return skip("capabilities");
    }
    let s = Sandbox::with_key();
    let mut child = s.command(&["protect", "-", "-o", "f.phx", "-k", "k"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&painted(100_000)).unwrap();
    wait_for(|| s.leftovers().len() == 1);
    let smaps = fs::read_to_string(format!("/proc/{}/smaps", child.id())).unwrap();
    // Each mapping begins with a line of addresses and permissions, and ends with its flags.
    let mappings: Vec<&str> = smaps.split_inclusive("VmFlags:").collect();
    let flags = mappings.iter().skip(1).map(|text| text.lines().next().unwrap());
    let writable = |(mapping, _): &(&&str, &str)| mapping.contains(" rw-p ");
    let writable: Vec<_> = mappings.iter().zip(flags).filter(writable).collect();
    for (mapping, flags) in &writable {
        assert!(flags.split(' ').any(|flag| flag == "lo"), "{mapping}{flags}");
    }
    for name in ["[heap]", "[stack]"] {
        assert!(writable.iter().any(|(mapping, _)| mapping.contains(name)), "{smaps}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn signals_that_the_parent_ignores_or_blocks_end_no_run() {
    if !Command::new("env").arg("--block-signal=HUP").arg("true").output().unwrap().status.success() {
        return skip("env-signals");
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
    // Other signals still end it.
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

/// A folder with a file f and a plugin that runs these shell lines. Returns it with a PATH that finds the plugin.
fn with_plugin(does: &str) -> (Sandbox, String) {
    let s = Sandbox::new();
    s.write("f", "x");
    fs::create_dir(s.path("plugins")).unwrap();
    s.script("plugins/age-plugin-test", &format!("#!/bin/sh\n{does}\n"));
    let path = format!("{}:{}", s.path("plugins").display(), std::env::var("PATH").unwrap_or_default());
    (s, path)
}

const FOR_PLUGIN: [&str; 4] = ["protect", "f", "-r", "age1test1qqqqqqqqgsf9kn"];

/// The program blocks signals. Programs that it starts block and ignore only the signals that it was started with as
/// blocked or ignored.
#[test]
fn started_programs_inherit_the_original_signal_masks() {
    if !Command::new("env").arg("--block-signal=HUP").arg("true").output().unwrap().status.success() {
        return skip("env-signals");
    }
    // The shell reads its own status, because it would start another program with an empty mask.
    let status = r#"while read -r line; do case $line in Sig*) echo "$line" ;; esac; done </proc/self/status"#;
    let (s, path) = with_plugin(&format!("cd \"${{PATH%%/plugins:*}}\" && {status} >masks"));
    let bit = |signal: Signal| 1u64 << (signal.as_raw() - 1);
    // The C library may ignore other signals, which it reserves for itself.
    let looked_at = bit(Signal::HUP) | bit(Signal::INT) | bit(Signal::USR1) | bit(Signal::TERM) | bit(Signal::XFSZ);
    let blocked_and_ignored = |given: &[&str]| {
        let mut command = Command::new("env");
        command.arg("--default-signal").args(given).arg(env!("CARGO_BIN_EXE_phalanx")).args(FOR_PLUGIN);
        command.current_dir(s.path("")).env("PHALANX_KEYRING", s.path("keyring")).env("PATH", &path);
        let said = Ended(command.stdin(Stdio::null()).output().unwrap()).error();
        let masks = fs::read_to_string(s.path("masks")).unwrap_or_else(|e| panic!("{e}: {said}"));
        ["SigBlk:", "SigIgn:"].map(|name| {
            let mask = masks.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(mask.trim(), 16).unwrap() & looked_at
        })
    };
    assert_eq!(blocked_and_ignored(&[]), [0, 0]);
    assert_eq!(blocked_and_ignored(&["--block-signal=TERM"]), [bit(Signal::TERM), 0]);
    assert_eq!(blocked_and_ignored(&["--ignore-signal=HUP"]), [0, bit(Signal::HUP)]);
}

/// The thread that starts a program does not block signals during the start.
#[test]
fn a_signal_during_the_start_of_a_program_ends_the_run_cleanly() {
    if is_ignored(Signal::TERM.as_raw()) {
        return;
    }
    // The run ends when the plugin has ended.
    let (s, path) = with_plugin("kill -TERM $PPID && cat >/dev/null");
    for _ in 0..200 {
        let status = s.command(&FOR_PLUGIN).env("PATH", &path).output().unwrap().status;
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status}");
        assert_eq!(s.leftovers(), [""; 0]);
    }
}
