//! A folder of another user in a mirror gets nothing of what its original has.

use phalanx_host::file::Carry;
use phalanx_host::mirror::deletion::restore_times;
use phalanx_system::os::fs::{MetadataExt, PermissionsExt, chown};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

#[test]
fn folders_of_others_do_not_get_times_and_permissions() {
    if !phalanx_system::process::geteuid().is_root() {
        // Nobody else can make a folder of another user.
        return;
    }
    let disk = tempfile::tempdir().unwrap();
    let path = |name: &str| disk.path().join(name);
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for root in ["source", "m"] {
        fs::create_dir_all(path(root).join("f/g")).unwrap();
        fs::create_dir_all(path(root).join("own")).unwrap();
    }
    for name in ["f/g", "f", "own"] {
        let folder = path("source").join(name);
        fs::set_permissions(&folder, Permissions::from_mode(0o711)).unwrap();
        File::open(folder).unwrap().set_modified(then).unwrap();
    }
    // Everybody may write to the mirror, and somebody has put a folder there.
    fs::set_permissions(path("m"), Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(path("m/f"), Permissions::from_mode(0o700)).unwrap();
    chown(path("m/f"), Some(12345), Some(12345)).unwrap();
    fs::set_permissions(path("m/f/g"), Permissions::from_mode(0o700)).unwrap();

    let folders: BTreeSet<PathBuf> = ["f", "f/g", "own"].map(PathBuf::from).into();
    restore_times(&File::open(path("m")).unwrap(), &File::open(path("source")).unwrap(), &folders, Carry::All);
    let found = ["f", "f/g", "own"].map(|name| {
        let meta = path("m").join(name).metadata().unwrap();
        (meta.uid(), meta.mode() & 0o777, meta.modified().unwrap() == then)
    });
    assert_eq!(found, [(12345, 0o700, false), (0, 0o700, false), (0, 0o711, true)]);
}
