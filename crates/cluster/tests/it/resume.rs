//! A run with `--resume` goes on where an interrupted one ended.

use crate::common::{Job, has_ended, is_exhaustive, painted, ranks_below, signal, wait};
use phalanx_host::file::{Existing, Output};
use rustix::process::Signal;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A signal, and its receiver: the launcher (`true`), or all processes of the program, as from a batch system.
type How = (Signal, bool);

/// Whether this many bytes of an output have been written.
fn has_written(job: &Job, bytes: u64) -> bool {
    let written = |name: String| Some(job.path(&name).metadata().ok()?.blocks() * 512);
    job.leftovers().into_iter().filter_map(written).max() >= Some(bytes)
}

/// Stops a run and all its processes when this many bytes have been written. Returns whether its output does not exist.
fn stop(job: &Job, ranks: usize, args: &[&str], target: &str, written: u64, (how, by_launcher): How) -> bool {
    let mut child = job.spawn(ranks, args);
    let (started, mut below) = (Instant::now(), Vec::new());
    for bytes in [0, written] {
        while !has_written(job, bytes) && !has_ended(&mut child, started) {
            sleep(Duration::from_micros(200));
        }
        // Finding the processes takes a while, so it is done as soon as the run has begun.
        if bytes == 0 {
            below = ranks_below(child.id());
        }
    }
    let receivers = if by_launcher { &[child.id() as i32][..] } else { &below[..] };
    receivers.iter().for_each(|pid| signal(*pid, how));
    wait(&mut child, &below);
    // Killed ranks leave two files for the next job to remove: the mark of the folder, and the record of an output that
    // has just got its name. The launcher may kill them too after any signal. If the output exists, there is no next
    // job.
    let is_there = job.path(target).exists();
    if is_there {
        job.leftovers().iter().for_each(|name| fs::remove_file(job.path(name)).unwrap());
    }
    !is_there
}

#[test]
fn interrupted_runs_go_on() {
    let Some(job) = Job::new() else { return };
    let len = (100 << 20) + 12_345;
    job.write("f", &painted(len));
    let how = ["--key-file", "k", "--resume", "--engine", "serial", "--no-sync"];
    let protect = [&["protect", "f"], &how[..]].concat();
    let unprotect = [&["unprotect", "f.phx", "-o", "back"], &how[..]].concat();
    let times = if is_exhaustive() { 50 } else { 6 };
    let (mut stopped, mut continued) = (0, 0);
    let mut go_on = |ranks, args: &[&str], target: &str| {
        if !job.path(target).exists() {
            let ended = job.run(ranks, args).ok();
            continued += u32::from(ended.error.contains("going on: "));
        }
        let plaintext = if target == "back" { job.read(target) } else { job.opened(target) };
        assert!(plaintext == job.read("f"));
        assert_eq!(job.leftovers(), Vec::<String>::new());
        continued
    };
    for i in 0..times {
        let signals = [(Signal::KILL, false), (Signal::TERM, false), (Signal::USR1, false), (Signal::TERM, true)];
        let signal = signals[i % signals.len()];
        let ranks = 2 + i % 2;
        // A quarter of the plaintext is zeros, which may become holes.
        let written = (len * 3 / 4 * i / times) as u64;
        for (args, target) in [(&protect, "f.phx"), (&unprotect, "back")] {
            println!("{target}: stopped when {written} bytes were written");
            stopped += u32::from(stop(&job, ranks, args, target, written, signal));
            go_on(ranks, args, target);
        }
        fs::remove_file(job.path("f.phx")).unwrap();
        fs::remove_file(job.path("back")).unwrap();
    }
    // On a fast machine, it can happen that no run was stopped between its beginning and its end.
    interrupt(&job, 2, &["protect", "f", "--key-file", "k", "--resume", "--engine", "serial"]);
    let continued = go_on(2, &protect, "f.phx");
    assert!(continued > 0, "{stopped} of {} runs were stopped, and none went on", 2 * times);
    println!("{stopped} of {} runs were stopped, and {continued} went on with what was left", 2 * times);
}

#[test]
fn one_process_goes_on_where_several_ended_and_the_reverse() {
    let Some(job) = Job::new() else { return };
    job.write("f", &painted(100 << 20));
    let args = ["protect", "f", "--key-file", "k", "--resume", "--engine", "serial"];
    for (first, second) in [(3, 1), (1, 3)] {
        interrupt(&job, first, &args);
        let ended = job.run(second, &args).ok();
        assert!(ended.error.contains("going on: "), "{}", ended.error);
        assert!(job.opened("f.phx") == job.read("f"));
        fs::remove_file(job.path("f.phx")).unwrap();
    }
}

/// Stops runs that protect `f` until one leaves part of its output.
fn interrupt(job: &Job, ranks: usize, args: &[&str]) {
    for _ in 0..30 {
        if stop(job, ranks, args, "f.phx", 30 << 20, (Signal::KILL, false)) {
            return;
        }
        fs::remove_file(job.path("f.phx")).unwrap();
    }
    panic!("every run ended before it was stopped");
}

#[test]
fn a_changed_source_starts_over() {
    let Some(job) = Job::new() else { return };
    job.write("f", &painted(100 << 20));
    let args = ["protect", "f", "--key-file", "k", "--resume", "--engine", "serial"];
    interrupt(&job, 2, &args);
    job.write("f", &painted((100 << 20) - 1));
    let ended = job.run(2, &args).ok();
    assert!(ended.error.contains("it has changed since the interrupted run: starting over"), "{}", ended.error);
    assert!(job.opened("f.phx") == job.read("f"));
    assert_eq!(job.leftovers(), Vec::<String>::new());
}

#[test]
fn a_plaintext_is_never_written_into_a_file_that_is_open_elsewhere() {
    let Some(job) = Job::new() else { return };
    job.write("f", &painted(20 << 20));
    job.run(2, &["protect", "f", "--key-file", "k", "--no-sync"]).ok();
    // Another program has opened another file of the user, and renames it to the temporary name of an interrupted run.
    job.write("letter", b"old words");
    fs::set_permissions(job.path("letter"), Permissions::from_mode(0o600)).unwrap();
    let opened = File::open(job.path("letter")).unwrap();
    let output = Output::create(&job.path("back"), Existing::Keep).unwrap();
    let temporary = job.path(output.temporary_name().to_str().unwrap());
    drop(output);
    fs::rename(job.path("letter"), temporary).unwrap();
    let ended = job.run(2, &["unprotect", "f.phx", "-o", "back", "--key-file", "k", "--resume", "--no-sync"]).ok();
    assert!(ended.error.contains("no record proves"), "{}", ended.error);
    let mut there = Vec::new();
    (&opened).read_to_end(&mut there).unwrap();
    assert!(there == b"old words", "{} bytes of another file", there.len());
    assert!(job.read("back") == job.read("f"));
    assert_eq!(job.leftovers(), Vec::<String>::new());
}

#[test]
fn an_output_whose_input_has_changed_is_replaced_with_force() {
    let Some(job) = Job::new() else { return };
    job.write("t/f", b"old");
    let args = ["protect", "-R", "t", "--key-file", "k", "--resume"];
    job.run(2, &args).ok();
    job.write("t/f", b"newer");
    let ended = job.run(2, &args).fails(4);
    assert!(ended.error.contains("f.phx: exists already"), "{}", ended.error);
    job.run(2, &[&args[..], &["--force"]].concat()).ok();
    assert!(job.opened("t.phx/f.phx") == b"newer");
}
