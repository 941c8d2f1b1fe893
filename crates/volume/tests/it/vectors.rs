//! The volumes of `vectors/volume`, which another implementation wrote: each is laid into a real folder, opened as a mount
//! opens it, and compared with what the vectors say.

pub mod model;

use crate::mounted::{AtHand, Mounted, Refused, Unsynced, mount, walk};
use model::{Model, Want, hex, pieces};
use phalanx_core::{Error, SecretKey};
use phalanx_kernels::keccak::sha3_256;
use phalanx_volume::verify::{Findings, verify};
use phalanx_volume::{JOURNAL, VolumeError};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Fewer files mean that something was lost.
const SCENARIOS: usize = 177;

/// The word of the vectors for what a volume was refused for.
fn word(refused: &Refused) -> &'static str {
    match refused {
        Refused::Volume(VolumeError::Refused(Errno::NOENT | Errno::LOOP | Errno::ISDIR)) => "no-config",
        Refused::Volume(VolumeError::Core(error)) => match error {
            Error::NotPhalanx => "not-phalanx",
            Error::Version(_) => "version",
            Error::Header(_) | Error::Volume => "header",
            Error::KdfLimit(_) => "kdf-limit",
            Error::NoKey { .. } | Error::WrongKey => "no-key",
            Error::Altered { .. } | Error::Truncated(_) | Error::Extended(_) => "altered",
            other => panic!("{other:?}"),
        },
        Refused::Tree(VolumeError::Damaged(_)) => "root",
        Refused::Store(VolumeError::Io { .. }) => "journal",
        other => panic!("{other:?}"),
    }
}

fn open(at: &Path, model: &Model, read_only: bool) -> Result<Mounted, Refused> {
    let at_hand = AtHand {
        key: model.key.as_ref().map(|key| SecretKey::from_slice(key).unwrap()),
        password: model.password.clone(),
    };
    mount(at, at_hand, read_only, Arc::new(Unsynced))
}

#[test]
fn every_scenario_is_read_as_it_says() {
    let (mut seen, mut opened, mut journals) = (0, 0, 0);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/volume");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut model = Model::load(&path);
        seen += 1;
        let name = path.file_stem().unwrap().to_str().unwrap();
        let at = tempfile::tempdir().unwrap();
        if !model.lay(at.path()) {
            println!("skipped: no extended attributes here: {name}");
            continue;
        }
        if model.transactions > 0 {
            let refused = open(at.path(), &model, true).err();
            assert!(matches!(refused, Some(Refused::Store(VolumeError::Unfinished))), "{name}: {refused:?}");
        }
        let mounted = match open(at.path(), &model, false) {
            Ok(mounted) => mounted,
            Err(refused) => {
                assert_eq!(word(&refused), model.expect, "{name}: {refused:?}");
                continue;
            }
        };
        assert_eq!(model.expect, "ok", "{name}");
        opened += 1;
        journals += usize::from(model.transactions > 0);
        check_applied(name, at.path(), &model, &mounted);
        check_tree(name, &model, &mounted);
        drop(mounted);
        // The journal has been dealt with, and nothing is written any more.
        let again = open(at.path(), &model, true).unwrap_or_else(|refused| panic!("{name}: {refused:?}"));
        check_tree(name, &model, &again);
    }
    assert!(seen >= SCENARIOS, "only {seen} scenarios");
    assert!(opened > 100 && journals > 20, "only {opened} opened, {journals} with a journal");
}

/// What applying the journal has made of the stored files, and what it has reported.
fn check_applied(name: &str, at: &Path, model: &Model, mounted: &Mounted) {
    for (path, bytes) in model.files() {
        if path == JOURNAL {
            continue; // how much of it is overwritten is left to the reader
        }
        let found = fs::read(at.join(path)).unwrap();
        match model.after.get(path) {
            Some(digest) => assert_eq!(hex(&sha3_256(&found)), *digest, "{name}: {path}"),
            None => assert!(found == bytes, "{name}: {path} was changed"),
        }
    }
    let told = std::mem::take(&mut *mounted.told.lock().unwrap());
    assert_eq!(told.len(), model.left_out.len(), "{name}: {told:?}");
    for (index, line) in model.left_out.iter().zip(&told) {
        assert!(line.ends_with(&format!("in chunk {index}")), "{name}: {line}");
    }
}

/// What is in a tree, by its path as the vectors have it.
fn check_tree(name: &str, model: &Model, mounted: &Mounted) {
    let mut found = walk(&mounted.tree, &mounted.store);
    for want in found.values_mut() {
        if let Want::File { content: Some(chunks), .. } = want {
            *chunks = pieces(chunks);
        }
    }
    let paths = |tree: &BTreeMap<String, Want>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(&found), paths(&model.tree), "{name}");
    for (path, want) in &model.tree {
        assert!(found[path] == *want, "{name}: {path}: {:?}, not {want:?}", found[path]);
    }
    let told = mounted.told.lock().unwrap().len();
    let damaged = model.tree.values().filter(|want| want.is_damaged()).count();
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
