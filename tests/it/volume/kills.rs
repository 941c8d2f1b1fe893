//! The mount is killed at random moments. The next mount must have everything that was stored before.

use super::workload::{Random, Stop, Worker};
use super::{init_as, is_sound, mount, unmount};
use crate::common::{Sandbox, is_exhaustive};
use crate::mount::{is_fuse_here, is_mounted};
use rustix::process::Signal;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A number that differs from run to run, unless PHALANX_SEED names one.
pub fn seed() -> u64 {
    let named = std::env::var("PHALANX_SEED").ok().and_then(|text| text.parse().ok());
    named.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 % 1_000_000_007)
}

/// How many rounds a test has: `short`, or `swept` if sweeps are exhaustive. If PHALANX_KILLS is set, `swept` is
/// multiplied by a sixtieth of it.
pub fn rounds(short: u64, swept: u64) -> u64 {
    let kills = || std::env::var("PHALANX_KILLS").ok().and_then(|text| text.parse().ok());
    if is_exhaustive() { (swept * kills().unwrap_or(SWEPT) / SWEPT).max(1) } else { short }
}

/// The number of kills in an exhaustive sweep.
const SWEPT: u64 = 60;

#[test]
fn stored_data_survives_kills() {
    survive(rounds(6, SWEPT), false);
}

#[test]
fn stored_data_survives_kills_with_rollback_protection() {
    survive(rounds(4, SWEPT / 2), true);
}

fn survive(rounds: u64, is_protected: bool) {
    if !is_fuse_here() {
        return;
    }
    let seed = seed();
    println!("PHALANX_SEED={seed}");
    // Each folder has a worker. Some volumes see many kills, others few.
    let (mut left, mut volume) = (rounds, 0);
    while left > 0 {
        let count = left.min(50);
        let chunk_size = ["4K", "4K", "64K", "16K"][volume as usize % 4];
        let steps = kill_a_volume(seed + volume, chunk_size, count, is_protected);
        println!("{count} kills, chunks of {chunk_size}: {steps} operations");
        (left, volume) = (left - count, volume + 1);
    }
}

fn kill_a_volume(seed: u64, chunk_size: &str, rounds: u64, is_protected: bool) -> u64 {
    let s = Sandbox::new();
    init_as(&s, "vol", chunk_size, is_protected);
    let mut random = Random::new(seed ^ 0x5eed);
    let mut workers: Vec<_> = (0..3).map(|i| Worker::new(&s.path(&format!("mnt/{i}")), seed * 3 + i)).collect();
    for round in 0..rounds {
        let Some(mut mounted) = mount(&s, "vol") else { return 0 };
        if round == 0 {
            workers.iter().for_each(|worker| std::fs::create_dir(&worker.root).unwrap());
        }
        let at = format!("PHALANX_SEED={seed}, round {round}");
        for worker in &mut workers {
            if let Err(why) = worker.check() {
                let kept = keep(&s);
                panic!("{at}: {}: {why}\nlog: {}\nkept in {kept}", worker.root.display(), mounted.log());
            }
        }
        assert_eq!(mounted.log(), "", "{at}");
        let wait = match random.below(10) {
            0 => random.below(1500),
            1..3 => random.below(20),
            _ => random.below(200),
        };
        thread::scope(|scope| {
            let working: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(|| worker.work(|_| false))).collect();
            thread::sleep(Duration::from_millis(wait));
            mounted.signal(Signal::KILL);
            for worker in working {
                let ended = worker.join().unwrap();
                assert!(matches!(ended, Err(Stop::Gone)), "{at}: {ended:?}");
            }
        });
        mounted.ended();
        assert_eq!(mounted.log(), "", "{at}");
        drop(mounted);
        // The next mount may be killed too, during recovery.
        while random.below(3) == 0 {
            kill_early(&s, random.below(25));
        }
        if random.below(16) == 0 {
            copy(&s);
        }
        if random.below(4) == 0 {
            let Some(mut mended) = mount(&s, "vol") else { return 0 };
            mended.unmount();
            assert_eq!((mended.ended().code(), mended.log()), (Some(0), String::new()), "{at}");
            is_sound(&s, "vol");
        }
    }
    let Some(mounted) = mount(&s, "vol") else { return 0 };
    workers.iter_mut().for_each(|worker| worker.check().unwrap());
    unmount(mounted);
    is_sound(&s, "vol");
    workers.iter().map(|worker| worker.steps).sum()
}

/// Mounts the volume, and kills the mount after some milliseconds.
fn kill_early(s: &Sandbox, after: u64) {
    let mut command = s.command(&["mount", "vol", "mnt", "--key-file", "key"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(after));
    child.kill().unwrap();
    child.wait().unwrap();
    while is_mounted(&s.path("mnt")) {
        let _ = Command::new("fusermount3").args(["-u", "-z"]).arg(s.path("mnt")).status();
    }
}

/// Continues with a copy of the volume, whose files have other inodes.
fn copy(s: &Sandbox) {
    assert!(s.succeeds("cp", &["-a", "vol", "copy"]));
    std::fs::remove_dir_all(s.path("vol")).unwrap();
    std::fs::rename(s.path("copy"), s.path("vol")).unwrap();
}

/// Keeps the failed volume for inspection.
fn keep(s: &Sandbox) -> String {
    let kept = std::env::temp_dir().join(format!("phalanx-kept-{}", std::process::id()));
    let _ = Command::new("cp").arg("-a").arg(s.path("vol")).arg(&kept).status();
    kept.display().to_string()
}
