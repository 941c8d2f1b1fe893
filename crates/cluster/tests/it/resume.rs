//! A run goes on where an interrupted one ended.

use crate::common::{Job, has_ended, is_exhaustive, painted, ranks_below, signal, wait};
use rustix::process::Signal;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// When a run is stopped.
enum When {
    /// This long after its output was begun.
    Begun(Duration),
    /// When its output has this length, in bytes.
    Written(u64),
}

impl When {
    fn is_now(&self, job: &Job, begun: &mut Option<Instant>) -> bool {
        match self {
            When::Begun(time) => {
                if begun.is_none() && !job.leftovers().is_empty() {
                    *begun = Some(Instant::now());
                }
                begun.is_some_and(|begun| begun.elapsed() >= *time)
            }
            When::Written(bytes) => {
                let lens = job.leftovers().into_iter().filter_map(|name| Some(job.path(&name).metadata().ok()?.len()));
                lens.max() >= Some(*bytes)
            }
        }
    }
}

/// Stops a run, and all its processes. Returns whether its output is not there.
fn stop(job: &Job, ranks: usize, args: &[&str], target: &str, when: &When, how: Signal) -> bool {
    let mut child = job.spawn(ranks, args);
    let (started, mut begun) = (Instant::now(), None);
    while !when.is_now(job, &mut begun) && !has_ended(&mut child, started) {
        sleep(Duration::from_millis(1));
    }
    let below = ranks_below(child.id());
    if how == Signal::KILL {
        // As when all machines lose power.
        below.iter().for_each(|rank| signal(*rank, how));
    } else {
        signal(child.id() as i32, how);
    }
    wait(&mut child, &below);
    // Killed ranks leave to the next job the file by which they saw that they have the same folder, and the record of an output
    // that has just got its name. The launcher too may kill them, whatever signal it gets. Here there is no next job then.
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
    // A little longer than the work takes here.
    let mut whole = Duration::from_millis(300);
    let times = if is_exhaustive() { 50 } else { 6 };
    let (mut stopped, mut continued) = (0, 0);
    for i in 0..times {
        let signal = [Signal::KILL, Signal::TERM, Signal::USR1][i % 3];
        let ranks = 2 + i % 2;
        let after = whole * i as u32 / times as u32;
        let is_stopped = stop(&job, ranks, &protect, "f.phx", &When::Begun(after), signal);
        stopped += u32::from(is_stopped);
        // On a fast machine, runs are stopped sooner.
        whole = if is_stopped { whole } else { (whole * 3 / 4).max(Duration::from_millis(20)) };
        if !job.path("f.phx").exists() {
            let ended = job.run(ranks, &protect).ok();
            continued += u32::from(ended.error.contains("going on: "));
        }
        assert!(job.opened("f.phx") == job.read("f"), "stopped after {after:?}");
        assert_eq!(job.leftovers(), Vec::<String>::new());
        stopped += u32::from(stop(&job, ranks, &unprotect, "back", &When::Begun(after), signal));
        if !job.path("back").exists() {
            let ended = job.run(ranks, &unprotect).ok();
            continued += u32::from(ended.error.contains("going on: "));
        }
        assert!(job.read("back") == job.read("f"), "stopped after {after:?}");
        assert_eq!(job.leftovers(), Vec::<String>::new());
        fs::remove_file(job.path("f.phx")).unwrap();
        fs::remove_file(job.path("back")).unwrap();
    }
    assert!(stopped > 0 && continued > 0, "{stopped} of {} runs were stopped, {continued} went on", 2 * times);
    println!("{stopped} of {} runs were stopped, and {continued} went on with what was left", 2 * times);
}

#[test]
fn one_machine_goes_on_with_what_many_have_left_and_the_reverse() {
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
        if stop(job, ranks, args, "f.phx", &When::Written(30 << 20), Signal::KILL) {
            return;
        }
        fs::remove_file(job.path("f.phx")).unwrap();
    }
    panic!("every run ended before it was stopped");
}

#[test]
fn a_changed_source_starts_anew() {
    let Some(job) = Job::new() else { return };
    job.write("f", &painted(100 << 20));
    let args = ["protect", "f", "--key-file", "k", "--resume", "--engine", "serial"];
    interrupt(&job, 2, &args);
    job.write("f", &painted((100 << 20) - 1));
    let ended = job.run(2, &args).ok();
    assert!(ended.error.contains("it has changed since the interrupted run: starting anew"), "{}", ended.error);
    assert!(job.opened("f.phx") == job.read("f"));
    assert_eq!(job.leftovers(), Vec::<String>::new());
}
