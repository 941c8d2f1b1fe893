//! After a crash, deeply nested folders do not prevent a volume from being opened.

use crate::store::{Volume, content};
use phalanx_core::Suite;
use phalanx_volume::{Store, StoreOptions, VolumeError};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, mkdirat, openat, renameat, renameat_with, unlinkat};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Set in a separate process, which may open few files.
const FEW: &str = "PHALANX_TEST_FEW_FILES";
const TEST: &str = "store::deep::a_journal_is_applied_beneath_folders_of_any_depth";

/// The limit of open files holds for a whole process, so this runs in another one.
#[test]
fn a_journal_is_applied_beneath_folders_of_any_depth() {
    if std::env::var_os(FEW).is_some() {
        for depth in [1000, 3000] {
            recover_beneath(depth);
        }
        return;
    }
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 48 && exec \"$0\" --exact \"$1\" --nocapture"])
        .arg(std::env::current_exe().unwrap());
    let run = command.arg(TEST).env(FEW, "1").output().unwrap();
    assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(String::from_utf8_lossy(&run.stdout).contains("1 passed"));
}

/// A killed run has changed a file that lies this deep, and one that is deleted.
fn recover_beneath(depth: usize) {
    let volume = Volume::new(Suite::Aes256CtrSha3, 4096);
    let bottom = make(volume.root(), depth);
    let store = volume.store();
    let kept = volume.create(&store, "kept");
    kept.write_at(0, &[1; 9000]).unwrap();
    kept.sync(&kept.witness(), false).unwrap();
    let before = std::fs::read(volume.path().join("kept")).unwrap();
    store.close().unwrap();
    drop((kept, store));

    let store = volume.store();
    let (kept, gone) = (volume.open(&store, "kept"), volume.create(&store, "gone"));
    gone.write_at(0, &[2; 9000]).unwrap();
    kept.write_at(0, &[3; 9000]).unwrap();
    for file in [&gone, &kept] {
        file.sync(&file.witness(), false).unwrap();
    }
    drop((kept, gone, store));
    unlinkat(volume.root(), "gone", AtFlags::empty()).unwrap();
    // What the journal holds of this file was not written to its place.
    std::fs::write(volume.path().join("kept"), before).unwrap();
    renameat(volume.root(), "kept", &bottom, "kept").unwrap();
    drop(bottom);
    // A folder that even its owner may not read or enter.
    let shut = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(volume.path().join("d/d"), shut).unwrap();

    let read_only = StoreOptions { read_only: true, ..volume.options() };
    let refused = Store::open(&volume.root(), volume.config.clone(), read_only);
    assert!(matches!(refused.err(), Some(VolumeError::Unfinished)));
    let store = Store::open(&volume.root(), volume.config.clone(), volume.options());
    let store = store.unwrap_or_else(|why| panic!("{depth} folders deep: {why}"));
    assert_eq!(std::fs::metadata(volume.path().join("d/d")).unwrap().permissions().mode() & 0o777, 0);
    std::fs::set_permissions(volume.path().join("d/d"), std::fs::Permissions::from_mode(0o700)).unwrap();
    remove(volume.root(), depth);
    let kept = volume.open(&store, "kept");
    assert!(content(&kept) == [3; 9000], "{depth}");
    store.close().unwrap();
    assert!(volume.told.lock().unwrap().is_empty());
}

fn enter(dir: &OwnedFd, name: &str) -> OwnedFd {
    openat(dir, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

/// Makes folders in each other, and opens the last one.
fn make(root: OwnedFd, depth: usize) -> OwnedFd {
    (0..depth).fold(root, |dir, _| {
        mkdirat(&dir, "d", Mode::RWXU).unwrap();
        enter(&dir, "d")
    })
}

/// Removes the folders again, beginning with the last, and moves the file in it to the root.
fn remove(root: OwnedFd, depth: usize) {
    let mut dir = (0..depth).fold(root.try_clone().unwrap(), |dir, _| enter(&dir, "d"));
    renameat_with(&dir, "kept", &root, "kept", RenameFlags::NOREPLACE).unwrap();
    for _ in 0..depth {
        dir = enter(&dir, "..");
        unlinkat(&dir, "d", AtFlags::REMOVEDIR).unwrap();
    }
}
