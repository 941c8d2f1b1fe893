//! Files that root makes in the volume of somebody else.

use crate::store::Volume;
use crate::tree::is_root;
use phalanx_core::Suite;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

#[test]
fn what_root_makes_belongs_to_the_owner_of_the_volume() {
    if !is_root() {
        return;
    }
    for volume in [Volume::new(Suite::default(), 4096), Volume::protected(Suite::default(), 4096)] {
        chown(volume.path(), Some(1234), Some(1235)).unwrap();
        let owners = || {
            let journal = fs::metadata(volume.path().join("phalanx.journal")).unwrap();
            (journal.uid(), journal.gid(), journal.mode() & 0o777)
        };
        let store = volume.store();
        assert_eq!(owners(), (1234, 1235, 0o600));
        store.close().unwrap();
        assert_eq!(owners(), (1234, 1235, 0o600), "it stays when the volume is unmounted");
    }
}
