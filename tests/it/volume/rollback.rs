//! Volumes with protection against rollback, as their users see them.

use super::{init_as, is_sound, mount, unmount};
use crate::common::{Ended, Sandbox, skip, wait_for};
use crate::mount::{Mounted, is_fuse_here, required};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A volume with the files `file` and `other`, and where `file` is stored; `None` if this system does not allow mounts.
fn volume(s: &Sandbox) -> Option<PathBuf> {
    init_as(s, "vol", "4K", true);
    let mounted = mount(s, "vol")?;
    s.write("mnt/file", "one");
    s.write("mnt/other", "other");
    let inode = mounted.path("file").metadata().unwrap().ino();
    unmount(mounted);
    let mut entries = fs::read_dir(s.path("vol")).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.metadata().unwrap().ino() == inode)
}

fn change(s: &Sandbox, content: &str) {
    let mounted = mount(s, "vol").unwrap();
    s.write("mnt/file", content);
    unmount(mounted);
}

fn copy(s: &Sandbox, from: &str, to: &str) {
    assert!(s.succeeds("cp", &["-a", from, to]));
}

fn verify(s: &Sandbox, more: &[&str]) -> crate::common::Ended {
    s.run(&[&["verify", "vol", "--key-file", "key"], more].concat())
}

/// Reads a file of the mount, which is refused, and checks what the log says.
#[track_caller]
fn refused(s: &Sandbox, name: &str, why: &str) {
    let mut mounted = mount(s, "vol").unwrap();
    let error = fs::read(mounted.path(name)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    assert_eq!(fs::read(mounted.path("other")).unwrap(), b"other");
    mounted.unmount();
    mounted.ended();
    assert!(mounted.log().contains(why), "{}", mounted.log());
}

#[test]
fn a_file_put_back_is_refused_named_and_accepted() {
    let s = Sandbox::new();
    let Some(stored) = volume(&s) else { return };
    let shown = s.run(&["inspect", stored.to_str().unwrap()]).text();
    assert!(shown.contains("sums of the chunks of a volume's file, 17 bytes"), "{shown}");
    let old = fs::read(&stored).unwrap();
    change(&s, "two");
    is_sound(&s, "vol");
    let config = fs::read(s.path("vol/phalanx.volume")).unwrap();
    fs::write(&stored, old).unwrap();
    refused(&s, "file", "it is not the last version of this file");
    let named = verify(&s, &["-q"]).fails(3);
    assert!(named.contains("vol/file: ") && named.contains("not the last version"), "{named}");
    // What it is read by without a mount refuses it too, unless the stored file itself is named.
    let output = s.run(&["unprotect", "-R", "vol", "--output", "plain", "--key-file", "key"]);
    assert!(!output.0.status.success() && output.error().contains("file: "), "{}", output.error());
    assert_eq!(fs::read(s.path("plain/other")).unwrap(), b"other");
    assert!(!s.path("plain/file").exists());
    let path = stored.to_str().unwrap();
    s.run(&["-q", "unprotect", "--volume", "vol", path, "--output", "old", "--key-file", "key"]).ok();
    assert_eq!(fs::read(s.path("old")).unwrap(), b"one");
    let accepted = verify(&s, &["--accept"]);
    accepted.ok();
    is_sound(&s, "vol");
    assert_eq!(fs::read(s.path("vol/phalanx.volume")).unwrap(), config);
    let mounted = mount(&s, "vol").unwrap();
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"one");
    unmount(mounted);
}

#[test]
fn a_deleted_file_that_comes_back_is_refused_and_a_missing_one_is_counted() {
    let s = Sandbox::new();
    let Some(stored) = volume(&s) else { return };
    copy(&s, "vol", "kept");
    let mounted = mount(&s, "vol").unwrap();
    fs::remove_file(mounted.path("file")).unwrap();
    unmount(mounted);
    is_sound(&s, "vol");
    let kept = s.path("kept").join(stored.file_name().unwrap());
    fs::copy(kept, &stored).unwrap();
    refused(&s, "file", "it was removed before");
    verify(&s, &["-q"]).fails(3);
    verify(&s, &["--accept"]).ok();
    is_sound(&s, "vol");
    fs::remove_file(&stored).unwrap();
    let missing = verify(&s, &["-q"]);
    assert!(missing.error().contains("1 file of its last state is not there"), "{}", missing.error());
    assert_eq!(missing.0.status.code(), Some(3));
    verify(&s, &["--accept"]).ok();
    is_sound(&s, "vol");
}

#[test]
fn a_volume_without_its_table_is_refused() {
    let s = Sandbox::new();
    if volume(&s).is_none() {
        return;
    }
    let table = s.path("vol/phalanx.versions");
    let whole = fs::read(&table).unwrap();
    let refused = |what: &str| {
        for args in [&["verify", "vol", "--key-file", "key"][..], &["mount", "vol", "mnt", "--key-file", "key"]] {
            let ended = s.run(args);
            assert_eq!(ended.0.status.code(), Some(3), "{what}: {args:?}");
            assert!(ended.error().contains("its table of versions"), "{}", ended.error());
            assert!(ended.error().contains("hint: phalanx verify --accept"), "{}", ended.error());
        }
    };
    fs::remove_file(&table).unwrap();
    refused("missing");
    fs::write(&table, &whole[1..]).unwrap();
    refused("altered");
    verify(&s, &["--accept"]).ok();
    is_sound(&s, "vol");
    let mounted = mount(&s, "vol").unwrap();
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"one");
    unmount(mounted);
}

#[test]
fn a_whole_volume_put_back_is_told_where_it_was_seen() {
    let s = Sandbox::new();
    if volume(&s).is_none() {
        return;
    }
    copy(&s, "vol", "kept");
    change(&s, "two");
    fs::remove_dir_all(s.path("vol")).unwrap();
    copy(&s, "kept", "vol");
    for _ in 0..2 {
        let ended = verify(&s, &[]);
        assert!(ended.0.status.success());
        assert!(ended.error().contains("the whole volume may have been put back"), "{}", ended.error());
    }
    let mut mounted = mount(&s, "vol").unwrap();
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"one");
    mounted.unmount();
    mounted.ended();
    assert!(mounted.log().contains("the whole volume may have been put back"), "{}", mounted.log());
    verify(&s, &["--accept"]).ok();
    is_sound(&s, "vol");
}

#[test]
fn accept_is_for_volumes_with_a_table_and_for_mirrors() {
    let s = Sandbox::new();
    init_as(&s, "plain", "4K", false);
    s.run(&["verify", "plain", "--accept", "--key-file", "key"]).fails(2);
    assert!(!Path::new(&s.path("plain/phalanx.versions")).exists());
    s.write("file.phx", "");
    s.run(&["verify", "-R", "plain", "--accept", "--key-file", "key"]).fails(2);
    s.run(&["verify", "-R", "file.phx", "--accept", "--key-file", "key"]).fails(2);
}

#[test]
fn a_volume_that_is_mounted_is_not_accepted() {
    let s = Sandbox::new();
    if volume(&s).is_none() {
        return;
    }
    let mounted = mount(&s, "vol").unwrap();
    verify(&s, &["--accept"]).fails(4);
    unmount(mounted);
}

/// It goes to the folder /, and notes the last generation there at the end.
#[test]
fn a_daemon_notes_the_last_generation_in_a_folder_with_a_relative_path() {
    if !is_fuse_here() {
        return;
    }
    let s = Sandbox::new();
    init_as(&s, "vol", "4K", true);
    fs::create_dir(s.path("mnt")).unwrap();
    let mounted = Mounted::at(s.path("mnt"));
    let mut command = s.command(&["-q", "mount", "--daemon", "vol", "mnt", "--key-file", "key"]);
    let ended = Ended(command.env("PHALANX_STATE", "state").output().unwrap());
    if ended.error().contains("Operation not permitted") {
        skip("FUSE");
        return required();
    }
    ended.ok();
    let noted = || {
        let mut entries = fs::read_dir(s.path("state/volumes")).unwrap().map(|entry| entry.unwrap().path());
        fs::read_to_string(entries.find(|path| path.extension().is_some_and(|end| end == "json")).unwrap()).unwrap()
    };
    let before = noted();
    s.write("mnt/file", "one");
    mounted.unmount();
    wait_for(|| noted() != before);
    is_sound(&s, "vol");
}
