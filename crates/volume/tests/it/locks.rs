//! A volume that is in use stays locked, even if its files are replaced.

use crate::mounted::{AtHand, Refused, Unsynced, mount};
use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};
use phalanx_volume::VolumeError;
use std::fs;
use std::sync::Arc;

#[test]
fn a_volume_whose_config_was_replaced_is_still_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let key = || SecretKey::from_slice(&[7; 32]).unwrap();
    phalanx_volume::create(dir.path(), Suite::default(), ChunkSize::default(), &[Recipient::key(&key())]).unwrap();
    let at = |read_only| mount(dir.path(), AtHand { key: Some(key()), password: None }, read_only, Arc::new(Unsynced));
    // As programs do that synchronize files: replaces the config by another file with the same content.
    let replace = || {
        fs::copy(dir.path().join("phalanx.volume"), dir.path().join("new")).unwrap();
        fs::rename(dir.path().join("new"), dir.path().join("phalanx.volume")).unwrap();
    };
    let mounted = at(false).unwrap();
    replace();
    assert!(matches!(at(true), Err(Refused::Volume(VolumeError::Busy))));
    drop(mounted);
    // Several processes may read.
    let readers = [at(true).unwrap(), at(true).unwrap()];
    replace();
    assert!(matches!(at(false), Err(Refused::Volume(VolumeError::Busy))));
    drop(readers);
    assert!(at(false).is_ok());
}
