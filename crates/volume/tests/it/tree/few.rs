//! In a process that may open few files, open files can still be synced.

use super::{Volume, open, owner};
use phalanx_volume::tree::{ROOT, RenameMode};
use phalanx_volume::{Store, StoreOptions};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::process::Command;

/// Set in a separate process, to which the limit applies.
const FEW: &str = "PHALANX_TEST_FEW_FILES";

#[test]
fn an_open_file_is_synced_when_no_more_can_be_opened() {
    with_few("tree::few::an_open_file_is_synced_when_no_more_can_be_opened", &["64", "256"], open_all_and_sync);
}

#[test]
fn removed_links_of_known_files_take_no_descriptors() {
    with_few("tree::few::removed_links_of_known_files_take_no_descriptors", &["64"], link_and_unlink);
}

/// Runs a part of a test in processes of its own, which may open only so many files.
fn with_few(test: &str, limits: &[&str], run: fn()) {
    if std::env::var_os(FEW).is_some() {
        assert!(getrlimit(Resource::Nofile).current.is_some_and(|most| most <= 256));
        return run();
    }
    for most in limits {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n \"$0\" && exec \"$1\" --exact \"$2\" --nocapture", most]);
        let run = command.arg(std::env::current_exe().unwrap()).arg(test).env(FEW, "1").output().unwrap();
        let (said, error) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success() && said.contains("1 passed"), "{most}: {said}{error}");
    }
}

fn open_all_and_sync() {
    let volume = Volume::new();
    // Folders whose ids have not been synced: a sync of a file in them opens them, and what is in them.
    let mut parent = ROOT;
    for name in ["a", "b", "c"] {
        parent = volume.mkdir(parent, name).unwrap().number;
    }
    let store = Store::open(&open(volume.path()), volume.config.clone(), StoreOptions::default()).unwrap();
    let mut files = Vec::new();
    let refused = loop {
        let name = format!("{}", files.len());
        match volume.tree.create(parent, name.as_bytes(), 0o600, owner(), |file| store.create(file)) {
            Ok((attr, backing)) => files.push((attr.number, backing)),
            Err(error) => break error.errno(),
        }
    };
    assert_eq!(refused, Errno::MFILE);
    assert!(files.len() > 10, "{}", files.len());
    assert_eq!(volume.tree.open_file(files[0].0, true).unwrap_err().errno(), Errno::MFILE);
    // The limit does not apply to the folders that a sync opens.
    for (number, backing) in &files {
        backing.write_at(0, &[7; 9000]).unwrap();
        backing.sync(&backing.witness(), false).unwrap();
        volume.tree.sync_place(*number).unwrap();
    }
    // Names are removed while their files are open, until too many of these are held.
    let gone = (0..files.len()).take_while(|i| volume.tree.unlink(parent, i.to_string().as_bytes()).is_ok()).count();
    assert!(gone > 0);
    let (number, backing) = files.last().unwrap();
    backing.write_at(0, &[8; 9000]).unwrap();
    backing.sync(&backing.witness(), false).unwrap();
    volume.tree.sync_place(*number).unwrap();
    volume.tree.sync_folder(parent).unwrap();
    let last = files.len() - 1;
    drop(files);
    assert!(volume.tree.open_file(volume.find(&format!("a/b/c/{last}")).unwrap().number, true).is_ok());
    store.close().unwrap();
}

/// `cp -al a b; cp -al a c; rm -rf b c`, while the kernel knows all names in `a`.
fn link_and_unlink() {
    const COUNT: usize = 200;
    let volume = Volume::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| volume.mkdir(ROOT, name).unwrap().number);
    let name = |i: usize| format!("{i}").into_bytes();
    let files: Vec<u64> = (0..COUNT).map(|i| volume.file(a, &format!("{i}"), "x").unwrap().number).collect();
    for folder in [b, c] {
        for (i, file) in files.iter().enumerate() {
            volume.tree.link(*file, folder, &name(i)).unwrap();
        }
    }
    // Some first names go before the node comes back to them, or are others by then.
    volume.tree.unlink(a, &name(0)).unwrap();
    volume.tree.rename(a, &name(1), ROOT, b"moved", RenameMode::Replace).unwrap();
    for folder in [b, c] {
        for i in 0..COUNT {
            // Also by another file that replaces it.
            if i % 10 == 9 {
                volume.file(folder, "new", "new").unwrap();
                volume.tree.rename(folder, b"new", folder, &name(i), RenameMode::Replace).unwrap();
            } else {
                volume.tree.unlink(folder, &name(i)).unwrap();
            }
        }
    }
    for (i, file) in files.iter().enumerate() {
        // The last name of the first has gone, so it is held.
        assert_eq!(volume.tree.getattr(*file).unwrap().links, u32::from(i > 0), "{i}");
        if i > 0 {
            assert!(volume.tree.open_file(*file, true).is_ok(), "{i}");
        }
    }
}
