//! `verify --accept`: taking a volume as it is.

use super::*;
use crate::store::disk::{Fault, Faulty};
use phalanx_core::{KdfLimit, Opener};
use phalanx_volume::versions::{self, Accepted};
use phalanx_volume::{Disk, StoreOptions, System, Volume};

pub fn accept(lab: &Lab) -> Accepted {
    accept_on(lab, Arc::new(System), 0).unwrap()
}

fn accept_on(lab: &Lab, disk: Arc<dyn Disk>, at_least: u64) -> phalanx_volume::Result<Accepted> {
    let at_hand = AtHand { key: Some(key()), password: None };
    let volume = Volume::open_to_accept(lab.path(), &Opener::new(at_hand, KdfLimit::default()))?;
    versions::accept(&volume.root, &volume.config, &StoreOptions { disk, ..StoreOptions::default() }, at_least)
}

#[test]
fn files_put_back_are_the_last_versions_from_now_on() {
    let lab = Lab::new();
    lab.put("file", b"one");
    lab.put("deleted", b"deleted");
    lab.put("lost", b"lost");
    lab.put("same", b"same");
    let old = lab.copy();
    let (file, deleted, lost) = (lab.stored("file"), lab.stored("deleted"), lab.stored("lost"));
    lab.put("file", b"two");
    let mounted = lab.mount();
    mounted.tree.unlink(ROOT, b"deleted").unwrap();
    mounted.store.close().unwrap();
    let before = mounted.store.generation().unwrap();
    drop(mounted);
    lab.put_back(&old, |path| path == file || path == deleted);
    fs::remove_file(lost).unwrap();
    let config = fs::read(lab.path().join("phalanx.volume")).unwrap();
    let accepted = accept(&lab);
    assert_eq!((accepted.files, accepted.new, accepted.missing), (3, 2, 1));
    assert!(accepted.generation.number > before.number);
    assert_eq!(lab.get("file").unwrap(), b"one");
    assert_eq!(lab.get("deleted").unwrap(), b"deleted");
    assert_eq!(lab.get("same").unwrap(), b"same");
    assert_eq!(fs::read(lab.path().join("phalanx.volume")).unwrap(), config);
    let again = accept(&lab);
    assert_eq!((again.files, again.new, again.missing), (3, 0, 0));
}

#[test]
fn a_missing_or_altered_table_is_made_anew() {
    let lab = Lab::new();
    lab.put("file", b"one");
    let table = lab.path().join(TABLE);
    fs::remove_file(&table).unwrap();
    assert_eq!(accept_on(&lab, Arc::new(System), 70).unwrap().generation.number, 71);
    assert_eq!(lab.get("file").unwrap(), b"one");
    fs::write(&table, b"altered").unwrap();
    accept(&lab);
    assert_eq!(lab.get("file").unwrap(), b"one");
    // What a link leads to is not touched.
    let elsewhere = lab.path().parent().unwrap().join("elsewhere");
    fs::remove_file(&table).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &table).unwrap();
    accept(&lab);
    assert!(!elsewhere.exists());
    assert_eq!(lab.get("file").unwrap(), b"one");
}

/// Whether the table is missing or not, what a killed run has committed is in the files afterwards, also if the acceptance
/// is killed at any call.
#[test]
fn an_acceptance_killed_at_any_call_loses_nothing() {
    for has_table in [true, false] {
        let mut calls = 0;
        for at in 0.. {
            let lab = Lab::new();
            lab.put("file", &painted(1, 9000));
            let mounted = lab.mount();
            put(&mounted, "file", &painted(2, 30_000));
            put(&mounted, "new", b"new");
            // The changes in place did not come to the disk, as after a power cut.
            let after = lab.copy();
            drop(mounted);
            let stored = longest(&after);
            let mut torn = after[&stored].clone();
            torn[HEADER + 60..].fill(0x55);
            fs::write(&stored, torn).unwrap();
            if !has_table {
                fs::remove_file(lab.path().join(TABLE)).unwrap();
            }
            let disk = Arc::new(Faulty::new(Fault::KilledAt(at)));
            let done = accept_on(&lab, disk.clone(), 0);
            if done.is_err() {
                accept(&lab);
            }
            assert_eq!(lab.get("file").unwrap(), painted(2, 30_000), "table {has_table}, call {at}");
            assert_eq!(lab.get("new").unwrap(), b"new", "table {has_table}, call {at}");
            calls = disk.calls();
            if done.is_ok() {
                break;
            }
        }
        assert!(calls > 4, "{calls}");
    }
}

/// The longest stored file of a copy.
fn longest(copy: &Copy) -> PathBuf {
    let is_entry = |path: &&PathBuf| !path.file_name().unwrap().to_string_lossy().contains('.');
    copy.keys().filter(is_entry).max_by_key(|path| copy[*path].len()).unwrap().clone()
}

#[test]
fn a_volume_without_a_table_gets_none() {
    let dir = tempfile::tempdir().unwrap();
    phalanx_volume::create(dir.path(), Suite::default(), ChunkSize::default(), &[Recipient::key(&key())]).unwrap();
    let lab = Lab { dir };
    assert_eq!(accept_on(&lab, Arc::new(System), 0).unwrap_err().errno(), Errno::OPNOTSUPP);
    assert!(!lab.path().join(TABLE).exists());
}
