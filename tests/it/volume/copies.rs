//! Copies of a volume's folder that are made while it is mounted.

use super::workload::Random;
use super::{init_as, mount};
use crate::common::{Ended, Sandbox, has, painted};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const QUIET: usize = 120;
const BUSY: u64 = 12;

/// Changes, makes, renames and deletes files in a folder until it shall stop.
fn work(folder: &Path, seed: u64, done: &AtomicUsize, stop: &AtomicBool) {
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        let path = folder.join(format!("busy-{}", random.below(BUSY)));
        match random.below(6) {
            0 => drop(fs::remove_file(&path)),
            1 => drop(fs::rename(&path, folder.join(format!("busy-{}", random.below(BUSY))))),
            2 => drop(File::create(&path).map(|file| file.set_len(random.below(200_000)))),
            _ => {
                let (at, len) = (random.below(300_000), random.len());
                let bytes = random.bytes(len);
                let mut options = OpenOptions::new();
                // Another thread may remove the file at any moment.
                if let Ok(file) = options.write(true).create(true).truncate(false).open(&path) {
                    file.write_all_at(&bytes, at).unwrap();
                    if random.below(3) == 0 {
                        file.sync_all().unwrap();
                    }
                }
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Copies the folder of a volume as its page in the documentation says, while others work in it. At least so many steps
/// of work are done meanwhile.
fn copy_while(s: &Sandbox, done: &AtomicUsize, steps: usize) -> Output {
    let before = done.load(Ordering::Relaxed);
    loop {
        let mut command = Command::new("rsync");
        command.args(["-aHX", "--exclude=/phalanx.journal", "vol/", "copy/"]).current_dir(s.path(""));
        let output = command.output().unwrap();
        if done.load(Ordering::Relaxed) >= before + steps {
            return output;
        }
    }
}

#[test]
fn a_copy_made_while_it_is_mounted_has_all_files_that_did_not_change() {
    if !has("rsync") {
        return;
    }
    let s = Sandbox::new();
    // A copy is older than what this machine has seen of a volume with rollback protection.
    init_as(&s, "vol", "4K", false);
    let Some(mut mounted) = mount(&s, "vol") else { return };
    fs::create_dir_all(s.path("mnt/quiet/deeper")).unwrap();
    fs::create_dir(s.path("mnt/busy")).unwrap();
    let quiet = |number: usize| format!("quiet/{}{number}", if number.is_multiple_of(2) { "deeper/" } else { "" });
    for number in 0..QUIET {
        s.write(&format!("mnt/{}", quiet(number)), painted(number * 1500));
    }
    // Written again in place, and closed: this is not in the journal alone.
    for number in (0..QUIET).step_by(3) {
        let file = OpenOptions::new().write(true).open(mounted.path(&quiet(number))).unwrap();
        file.write_all_at(b"again", 0).unwrap();
    }
    let (done, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let copied = thread::scope(|scope| {
        for seed in 0..2 {
            let (folder, done, stop) = (mounted.path("busy"), &done, &stop);
            scope.spawn(move || work(&folder, seed, done, stop));
        }
        let copied = copy_while(&s, &done, 300);
        stop.store(true, Ordering::Relaxed);
        copied
    });
    // Code 24: a file has vanished before it was copied. Code 23: one has become shorter while it was read.
    assert!(matches!(copied.status.code(), Some(0 | 23 | 24)), "{copied:?}");
    let is_expected = |line: &str| {
        let shorter = line.contains("read errors mapping") && line.contains("No data available");
        shorter
            || line.starts_with("file has vanished: ")
            || line.starts_with("rsync warning: ")
            || line.starts_with("rsync error: ")
    };
    let said = String::from_utf8_lossy(&copied.stderr);
    assert!(said.lines().all(is_expected), "{said}");
    mounted.unmount();
    assert_eq!(mounted.ended().code(), Some(0));

    // What `verify` names was being changed.
    let verified: Ended = s.run(&["-q", "verify", "copy", "--key-file", "key"]);
    for line in verified.error().lines().filter(|line| !line.starts_with("hint: ")) {
        assert!(line.contains("busy") || line.contains("parts of it"), "{line}");
    }
    let mut mounted = mount(&s, "copy").unwrap();
    for number in 0..QUIET {
        let mut expected = painted(number * 1500);
        if number.is_multiple_of(3) {
            expected.resize(expected.len().max(5), 0);
            expected[..5].copy_from_slice(b"again");
        }
        assert!(fs::read(mounted.path(&quiet(number))).unwrap() == expected, "{number}");
    }
    for entry in fs::read_dir(mounted.path("busy")).unwrap() {
        // Its content, or an error.
        let _ = fs::read(entry.unwrap().path());
    }
    mounted.unmount();
    assert_eq!(mounted.ended().code(), Some(0));
}
