//! The volumes of `vectors/volume`, which another implementation wrote. Each is written to a real folder, opened as a
//! mount does it, and compared with the vectors.

pub mod model;

use crate::mounted::{AtHand, Mounted, Refused, Unsynced, mount, walk};
use model::{Want, files, lay, wanted};
use phalanx_core::{Error, SecretKey};
use phalanx_kernels::keccak::sha3_256;
use phalanx_vectors::volume::{Volume, joined};
use phalanx_vectors::{Expect, volumes};
use phalanx_volume::verify::{Findings, verify};
use phalanx_volume::versions::VERSIONS;
use phalanx_volume::{JOURNAL, VolumeError};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The word of the vectors for the reason why a volume was refused.
fn word(refused: &Refused) -> Expect {
    match refused {
        Refused::Volume(VolumeError::Refused(Errno::NOENT | Errno::LOOP | Errno::ISDIR)) => Expect::NoConfig,
        Refused::Volume(VolumeError::Core(error)) => match error {
            Error::NotPhalanx => Expect::NotPhalanx,
            Error::Version(_) => Expect::Version,
            Error::Header(_) | Error::Volume => Expect::Header,
            Error::KdfLimit(_) => Expect::KdfLimit,
            Error::NoKey { .. } | Error::WrongKey => Expect::NoKey,
            Error::Altered { .. } | Error::Truncated(_) | Error::Extended(_) => Expect::Altered,
            other => panic!("{other:?}"),
        },
        Refused::Tree(VolumeError::Damaged(_)) => Expect::Root,
        Refused::Store(VolumeError::Versions(_)) => Expect::Versions,
        Refused::Store(VolumeError::Io { .. }) => Expect::Journal,
        other => panic!("{other:?}"),
    }
}

fn open(at: &Path, volume: &Volume, read_only: bool) -> Result<Mounted, Refused> {
    let at_hand = AtHand {
        key: volume.key.as_ref().map(|key| SecretKey::from_slice(key).unwrap()),
        password: volume.password.as_ref().map(|password| password.to_vec()),
    };
    mount(at, at_hand, read_only, Arc::new(Unsynced))
}

#[test]
fn every_scenario_is_read_as_expected() {
    let (mut opened, mut journals) = (0, 0);
    for (name, volume) in volumes() {
        let at = tempfile::tempdir().unwrap();
        if !lay(&volume, at.path()) {
            println!("skipped: no extended attributes here: {name}");
            continue;
        }
        if volume.transactions > 0 {
            let refused = open(at.path(), &volume, true).err();
            assert!(matches!(refused, Some(Refused::Store(VolumeError::Unfinished))), "{name}: {refused:?}");
        }
        let mounted = match open(at.path(), &volume, false) {
            Ok(mounted) => mounted,
            Err(refused) => {
                assert_eq!(word(&refused), volume.expect, "{name}: {refused:?}");
                continue;
            }
        };
        assert_eq!(volume.expect, Expect::Ok, "{name}");
        opened += 1;
        journals += usize::from(volume.transactions > 0);
        check_applied(&name, at.path(), &volume, &mounted);
        check_tree(&name, &wanted(&volume), &mounted);
        drop(mounted);
        // The journal has been applied or discarded, and nothing more is written.
        let again = open(at.path(), &volume, true).unwrap_or_else(|refused| panic!("{name}: {refused:?}"));
        check_tree(&name, &wanted(&volume), &again);
    }
    assert!(opened > 100 && journals > 20, "only {opened} opened, {journals} with a journal");
}

/// Checks the stored files after the journal was applied, and the reports.
fn check_applied(name: &str, at: &Path, volume: &Volume, mounted: &Mounted) {
    for (path, bytes) in files(volume) {
        if path == JOURNAL {
            continue; // how much of it is overwritten is left to the reader
        }
        if path == VERSIONS && volume.transactions > 0 {
            continue; // a batch with random bytes was appended
        }
        let found = fs::read(at.join(path)).unwrap();
        match volume.after.get(path) {
            Some(digest) => assert_eq!(sha3_256(&found)[..], **digest, "{name}: {path}"),
            None => assert!(found == bytes, "{name}: {path} was changed"),
        }
    }
    let told = std::mem::take(&mut *mounted.told.lock().unwrap());
    assert_eq!(told.len(), volume.left_out.len(), "{name}: {told:?}");
    for (chunk, line) in volume.left_out.iter().zip(&told) {
        assert!(line.ends_with(&format!("in chunk {}", chunk.index)), "{name}: {line}");
    }
}

/// Compares a tree with what the vectors say, by path.
fn check_tree(name: &str, wanted: &BTreeMap<String, Want>, mounted: &Mounted) {
    let mut found = walk(&mounted.tree, &mounted.store);
    for want in found.values_mut() {
        if let Want::File { content: Some(chunks), .. } = want {
            *chunks = joined(std::mem::take(chunks));
        }
    }
    let paths = |tree: &BTreeMap<String, Want>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(&found), paths(wanted), "{name}");
    for (path, want) in wanted {
        assert!(found[path] == *want, "{name}: {path}: {:?}, not {want:?}", found[path]);
    }
    let told = mounted.told.lock().unwrap().len();
    let damaged = wanted.values().filter(|want| want.is_damaged()).count();
    assert!(told >= damaged, "{name}: {told} lines for {damaged} entries");

    let failed = Failed::default();
    let verified = verify(&mounted.tree, &mounted.store, 1, &failed);
    assert_eq!(verified.failed, damaged as u64, "{name}");
    assert_eq!(failed.0.into_inner(), damaged, "{name}");
}

#[derive(Default)]
struct Failed(AtomicUsize);

impl Findings for Failed {
    fn whole(&self, _: &Path, _: u64) {}
    fn failed(&self, _: &Path, error: &VolumeError) {
        assert_eq!(error.errno(), Errno::IO, "{error:?}");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn advance(&self, _: u64) {}
}
