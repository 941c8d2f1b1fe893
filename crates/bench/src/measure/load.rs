//! How busy the machine was with other work while a figure was measured.

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use std::fs;
use std::thread;
use std::time::Instant;

/// The system counts in ticks of 10 ms, so shorter work cannot be judged.
const SHORTEST: f64 = 0.1;
/// Ticks per second of the counters in /proc. It is the same for all processors that Linux supports.
const TICKS: f64 = 100.0;

/// Parts of the machine's processor time. 1 is all cores all the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The part that other work used: neither this program nor those that it started. It includes the kernel's own
    /// threads.
    pub others: f64,
    /// The part that the host of a virtual machine took.
    pub steal: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Sample {
    at: Instant,
    busy: f64,
    stolen: f64,
    own: f64,
}

impl Sample {
    /// Takes a sample now. `None` if the system does not count.
    pub fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let (busy, stolen) = of_all(&stat)?;
        Some(Self { at: Instant::now(), busy, stolen, own: own()? })
    }

    /// The load between two samples, unless they are too near.
    pub fn load_until(&self, later: &Self) -> Option<Load> {
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get()) as f64;
        let seconds = later.at.duration_since(self.at).as_secs_f64();
        load(seconds, cores, later.busy - self.busy, later.stolen - self.stolen, later.own - self.own)
    }
}

fn load(seconds: f64, cores: f64, busy: f64, stolen: f64, own: f64) -> Option<Load> {
    let part = |time: f64| (time / (seconds * cores)).clamp(0.0, 1.0);
    (seconds >= SHORTEST).then(|| Load { others: part(busy - own), steal: part(stolen) })
}

/// Busy and stolen seconds of all processors, by /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
fn of_all(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] else { return None };
    Some(((user + nice + system + irq + softirq) / TICKS, steal / TICKS))
}

/// The processor time of this process, of its children that have ended, and of those that run now.
fn own() -> Option<f64> {
    let this = getpid().as_raw_nonzero().get();
    let mut sum = Process::of(&fs::read_to_string("/proc/self/stat").ok()?)?.seconds;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        if entry.file_name().to_string_lossy().parse::<i32>().is_err() {
            continue;
        }
        // The process may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        sum += Process::of(&stat).filter(|process| process.parent == this).map_or(0.0, |process| process.seconds);
    }
    Some(sum)
}

/// A process in /proc.
struct Process {
    parent: i32,
    /// Its processor time, and that of its children that have ended.
    seconds: f64,
}

impl Process {
    fn of(stat: &str) -> Option<Self> {
        // The name is in brackets and may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11..15)?.iter().map(|ticks| ticks.parse::<f64>().ok()).sum::<Option<f64>>()?;
        Some(Self { parent: fields.get(1)?.parse().ok()?, seconds: ticks / TICKS })
    }
}

/// Makes programs that go to the background, such as mounts, children of this process, so that their time counts as
/// ours.
pub fn adopt() {
    // If this fails, their time counts as that of others.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Waits for a background program that has ended, if it is a child of this process.
pub fn reap(process: u32) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_is_not_ours_counts_as_that_of_others() {
        assert_eq!(load(2.0, 2.0, 3.0, 0.4, 1.0), Some(Load { others: 0.5, steal: 0.1 }));
        assert_eq!(load(2.0, 2.0, 1.0, 0.0, 1.5), Some(Load { others: 0.0, steal: 0.0 }));
        assert_eq!(load(0.05, 2.0, 1.0, 0.0, 0.0), None);
        let stat = "cpu  100 20 30 4000 500 6 4 250 0 0\ncpu0 1 2\n";
        assert_eq!(of_all(stat), Some((1.6, 2.5)));
        assert_eq!(of_all("cpu  1 2\n"), None);
        let process = Process::of("7 (a) b) S 5 7 7 0 -1 4194560 1 2 3 4 100 50 25 25 20 0").unwrap();
        assert_eq!((process.parent, process.seconds), (5, 2.0));
    }

    #[test]
    fn the_time_of_this_process_is_not_that_of_others() {
        let before = own().unwrap();
        // A tick is 10 ms.
        while own().unwrap() < before + 0.05 {
            std::hint::black_box((0..100_000u64).sum::<u64>());
        }
        assert!(Sample::now().unwrap().own >= before + 0.05);
    }
}
