//! Kills, power cuts and full disks at every call that changes something.

use crate::store::disk::{Fault, Faulty};
use crate::store::{Change, Random, Volume, content};
use phalanx_core::Suite;
use phalanx_volume::{Backing, Store, StoreOptions};
use rustix::fs::OFlags;
use std::sync::Arc;

/// A file, and what it may hold after a crash.
struct Tracked {
    name: String,
    now: Vec<u8>,
    /// All states since the last commit that succeeded, and since the last sync.
    since_commit: Vec<Vec<u8>>,
    since_sync: Option<Vec<Vec<u8>>>,
}

impl Tracked {
    fn new(name: &str, now: Vec<u8>, is_synced: bool) -> Self {
        let since_sync = is_synced.then(|| vec![now.clone()]);
        Self { name: name.into(), since_commit: vec![now.clone()], since_sync, now }
    }

    fn changed(&mut self) {
        self.since_commit.push(self.now.clone());
        if let Some(states) = &mut self.since_sync {
            states.push(self.now.clone());
        }
    }

    fn committed(&mut self) {
        self.since_commit = vec![self.now.clone()];
    }

    fn synced(&mut self) {
        self.committed();
        self.since_sync = Some(vec![self.now.clone()]);
    }
}

fn prepared(suite: Suite, protected: bool) -> (Volume, Vec<Tracked>) {
    let volume = if protected { Volume::protected(suite, 4096) } else { Volume::new(suite, 4096) };
    let store = volume.store();
    let mut files = Vec::new();
    for (name, len) in [("old", 30_000), ("sparse", 500_000)] {
        let file = volume.create(&store, name);
        let mut now = Vec::new();
        for change in [Change::Write(100, vec![7; 20_000]), Change::SetLen(len)] {
            change.make(&file).unwrap();
            change.apply(&mut now);
        }
        files.push(Tracked::new(name, now, true));
    }
    store.close().unwrap();
    (volume, files)
}

/// Works until the disk fails.
fn work(
    volume: &Volume,
    store: &Store,
    files: &mut Vec<Tracked>,
    seed: u64,
    steps: usize,
) -> phalanx_volume::Result<()> {
    let mut random = Random(seed);
    let mut open: Vec<Option<Arc<Backing>>> = files.iter().map(|_| None).collect();
    for step in 0..steps {
        if step % 9 == 4 {
            let name = format!("new{step}");
            let created = store.create(volume.file(&name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL))?;
            files.push(Tracked::new(&name, Vec::new(), false));
            open.push(Some(created));
        }
        let which = random.below(files.len() as u64) as usize;
        let file = &mut files[which];
        let backing = match open[which].take() {
            Some(backing) => backing,
            None => store.open_file(volume.file(&file.name, OFlags::RDWR))?,
        };
        match random.below(8) {
            0 | 1 => {
                backing.commit(&backing.witness())?;
                file.committed();
            }
            2 => {
                backing.sync(&backing.witness(), false)?;
                file.synced();
            }
            _ => {
                let change = Change::random(&mut random, file.now.len() as u64, 600_000);
                change.apply(&mut file.now);
                // Whether it succeeds or not, it may have been committed.
                file.changed();
                change.make(&backing)?;
            }
        }
        if random.below(3) > 0 {
            open[which] = Some(backing);
        }
    }
    store.close()?;
    files.iter_mut().for_each(Tracked::synced);
    Ok(())
}

fn options(volume: &Volume, disk: Arc<Faulty>) -> StoreOptions {
    // Memory is short, so that the store commits by itself too.
    StoreOptions { dirty_limit: 700 << 10, disk, ..volume.options() }
}

/// Runs the workload until the call `at`. Returns the volume as it is left, what may be in it, and the number of calls.
fn run(suite: Suite, protected: bool, seed: u64, steps: usize, at: usize) -> (Volume, Vec<Tracked>, Arc<Faulty>) {
    let (volume, mut files) = prepared(suite, protected);
    let disk = Arc::new(Faulty::new(Fault::KilledAt(at)));
    let table = protected.then_some("phalanx.versions");
    for name in ["old", "sparse", "phalanx.journal"].into_iter().chain(table) {
        disk.know(volume.file(name, OFlags::RDWR));
    }
    if let Ok(store) = Store::open(&volume.root(), volume.config.clone(), options(&volume, disk.clone())) {
        let done = work(&volume, &store, &mut files, seed, steps);
        // The last calls give space back, which may fail.
        assert!(done.is_ok() || disk.calls() > at, "{done:?}");
    }
    (volume, files, disk)
}

fn is_one_of(found: &[u8], states: &[Vec<u8>]) -> bool {
    states.iter().any(|state| state == found)
}

fn is_exhaustive() -> bool {
    std::env::var_os("PHALANX_EXHAUSTIVE").is_some()
}

/// The calls to try: all of them, or at most `most`.
fn every(calls: usize, most: usize) -> impl Iterator<Item = usize> {
    let exhaustive = is_exhaustive();
    if !exhaustive && calls > most {
        println!("skipped: exhaustive sweep (PHALANX_EXHAUSTIVE=1)");
    }
    let step = if exhaustive { 1 } else { calls.div_ceil(most).max(1) };
    (0..calls).step_by(step)
}

#[test]
fn a_kill_at_any_call_loses_nothing_that_was_committed() {
    let turbo = Suite::Aes256CtrTurboShake;
    for (suite, protected, seed) in [
        (Suite::default(), false, 11),
        (turbo, false, 12),
        (Suite::default(), false, 13),
        (Suite::default(), true, 14),
        (turbo, true, 15),
    ] {
        let calls = run(suite, protected, seed, 40, usize::MAX).2.calls();
        assert!(calls > 60, "{calls}");
        for at in every(calls, 15) {
            let (volume, files, _) = run(suite, protected, seed, 40, at);
            volume.told.lock().unwrap().clear();
            let store = volume.store();
            for file in &files {
                let found = content(&volume.open(&store, &file.name));
                assert!(is_one_of(&found, &file.since_commit), "seed {seed}, call {at}, {}", file.name);
            }
            assert!(volume.told.lock().unwrap().is_empty());
            // The volume can be used.
            let file = volume.open(&store, "old");
            file.write_at(5, b"after").unwrap();
            store.close().unwrap();
        }
    }
}

#[test]
fn a_power_cut_at_any_call_loses_nothing_that_was_synced() {
    for (protected, seed) in [(false, 21), (false, 22), (false, 23), (true, 24), (true, 25), (true, 26)] {
        let calls = run(Suite::default(), protected, seed, 40, usize::MAX).2.calls();
        for at in every(calls, 15) {
            let (volume, files, disk) = run(Suite::default(), protected, seed, 40, at);
            let mut random = Random(seed * 1000 + at as u64 + 1);
            disk.cut_power(|| random.below(2) == 0);
            let store = volume.store();
            for file in &files {
                let Some(states) = &file.since_sync else { continue };
                let found = content(&volume.open(&store, &file.name));
                assert!(is_one_of(&found, states), "seed {seed}, call {at}, {}", file.name);
            }
            store.close().unwrap();
        }
    }
}

#[test]
fn a_kill_while_the_journal_is_applied_loses_nothing() {
    for protected in [false, true] {
        kill_while_the_journal_is_applied(protected);
    }
}

fn kill_while_the_journal_is_applied(protected: bool) {
    let suite = Suite::default();
    let calls = run(suite, protected, 31, 40, usize::MAX).2.calls();
    for at in [calls / 3, calls / 2, calls - 4] {
        let step = if is_exhaustive() { 1 } else { 9 };
        for again in (0..).step_by(step) {
            let (volume, files, _) = run(suite, protected, 31, 40, at);
            let disk = Arc::new(Faulty::new(Fault::KilledAt(again)));
            let opened = Store::open(&volume.root(), volume.config.clone(), options(&volume, disk.clone()));
            drop(opened);
            let store = volume.store();
            for file in &files {
                let found = content(&volume.open(&store, &file.name));
                assert!(is_one_of(&found, &file.since_commit), "call {at}, then {again}, {}", file.name);
            }
            if disk.calls() <= again {
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_at_any_call_drops_changes_and_reports_it() {
    for protected in [false, true] {
        fill(protected);
    }
}

fn fill(protected: bool) {
    let (seed, steps) = (41, 40);
    let full = |at: usize, count: usize| {
        let (volume, mut files) = prepared(Suite::default(), protected);
        let disk = Arc::new(Faulty::new(Fault::FullAt(at, count)));
        let store = Store::open(&volume.root(), volume.config.clone(), options(&volume, disk.clone())).unwrap();
        let mut random = Random(seed);
        let mut errors = 0;
        for _ in 0..steps {
            let which = random.below(files.len() as u64) as usize;
            let file = &mut files[which];
            let backing = store.open_file(volume.file(&file.name, OFlags::RDWR)).unwrap();
            if random.below(4) == 0 {
                let witness = backing.witness();
                match backing.sync(&witness, true) {
                    Ok(()) => assert!(content(&backing) == file.now, "call {at}"),
                    Err(e) => {
                        assert_eq!(e.errno(), rustix::io::Errno::NOSPC, "{e}");
                        errors += 1;
                        file.now = content(&backing);
                        let states = file.since_sync.as_ref().unwrap();
                        assert!(is_one_of(&file.now, states), "call {at}");
                        if backing.sync(&witness, true).is_err() {
                            continue;
                        }
                    }
                }
                file.synced();
            } else {
                let change = Change::random(&mut random, file.now.len() as u64, 600_000);
                let made = change.make(&backing);
                file.now = content(&backing);
                file.changed();
                if let Err(e) = made {
                    assert_eq!(e.errno(), rustix::io::Errno::NOSPC, "{e}");
                }
            }
        }
        drop(store);
        let store = volume.store();
        for file in &files {
            let found = content(&volume.open(&store, &file.name));
            assert!(is_one_of(&found, file.since_sync.as_ref().unwrap()), "call {at}, {}", file.name);
        }
        store.close().unwrap();
        (errors, disk.calls())
    };
    let (errors, calls) = full(usize::MAX - 1000, 0);
    assert_eq!(errors, 0);
    let mut all = 0;
    for at in every(calls, 12) {
        all += full(at, 3).0 + full(at, 1000).0;
    }
    assert!(all > 0, "the disk was never full");
}
