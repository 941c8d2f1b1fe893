//! What a machine remembers of the places of mirrors, and what `phalanx mirror` takes for moved, whole or lost.

use crate::age::public;
use crate::common::{Ended, Sandbox, difference, entries, skip, without_inodes};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::time::{Duration, SystemTime};

const MIRROR: [&str; 6] = ["mirror", "source", "m", "-k", "k", "--no-sync"];

fn put(s: &Sandbox, name: &str, content: &str) {
    let path = s.path("source").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    // As tar and npm do: a time of its own for nothing.
    File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
}

/// A source with the files a, f/b and f/g/c, and its mirror m.
fn mirrored() -> Sandbox {
    let s = Sandbox::with_key();
    for name in ["a", "f/b", "f/g/c"] {
        put(&s, name, name);
    }
    run(&s, &[]).ok();
    s
}

fn run(s: &Sandbox, more: &[&str]) -> Ended {
    s.run(&[&MIRROR[..], more].concat())
}

fn verify(s: &Sandbox, path: &str, more: &[&str]) -> Ended {
    s.run(&[&["verify", "-R", path, "-k", "k"][..], more].concat())
}

/// Checks that what is unprotected from a path of the mirror is what the source has there.
#[track_caller]
fn restores(s: &Sandbox, path: &str) {
    let from = format!("m/{path}");
    s.run(&["unprotect", "-R", &from, "-o", "back", "-k", "k", "--no-sync"]).ok();
    let (source, back) = (entries(&s.path("source").join(path)), entries(&s.path("back")));
    assert_eq!(difference(&without_inodes(source), &without_inodes(back)), None);
    fs::remove_dir_all(s.path("back")).unwrap();
}

#[test]
fn a_new_file_with_the_inode_of_a_deleted_one_has_not_moved() {
    let s = Sandbox::with_key();
    for number in 0..20 {
        put(&s, &format!("old{number:02}"), "one content");
    }
    run(&s, &[]).ok();
    // Most file systems give the new files the old ones' inodes.
    for number in 0..20 {
        fs::remove_file(s.path("source").join(format!("old{number:02}"))).unwrap();
    }
    for number in 0..20 {
        put(&s, &format!("new{number:02}"), "new content");
    }
    run(&s, &["--delete", "--max-delete", "20"]).ok();
    restores(&s, "");
}

#[test]
fn a_mount_point_with_other_files_does_not_empty_the_mirror() {
    let s = mirrored();
    let before = entries(&s.path("m"));
    fs::create_dir(s.path("mountpoint")).unwrap();
    s.write("mountpoint/README", "the disk is not mounted");
    let ended = s.run(&["mirror", "mountpoint", "m", "-k", "k", "--no-sync", "--delete"]);
    let reported = ended.fails(4);
    assert!(reported.contains("it has none of the mirror's files, and all 3 would be deleted"), "{reported}");
    assert_eq!(difference(&before, &entries(&s.path("m"))), None);
}

#[test]
fn a_lost_manifest_is_no_older_mirror() {
    let s = mirrored();
    let manifest = s.path("m/phalanx.tree");
    let kept = fs::read(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    for more in [&[][..], &["--quick"], &["--at-least", "1"]] {
        verify(&s, "m", more).fails(3);
    }
    assert!(verify(&s, "m", &[]).fails(3).contains("its manifest is gone"));
    assert!(verify(&s, "m/f", &[]).fails(3).contains("m: its manifest is gone"));
    let unprotect = ["unprotect", "-R", "m", "-o", "back", "-k", "k"];
    assert!(s.run(&unprotect).fails(3).contains("--ignore-manifest"));
    s.run(&[&unprotect[..], &["--ignore-manifest"]].concat()).ok();
    assert!(run(&s, &[]).fails(4).contains("--new"));
    assert!(!manifest.exists());

    // Another machine knows nothing of it, and a new mirror may be made.
    let mut elsewhere = s.command(&["verify", "-R", "m", "-k", "k"]);
    Ended(elsewhere.env("PHALANX_STATE", s.path("another state")).output().unwrap()).ok();
    run(&s, &["--new"]).ok();
    verify(&s, "m", &["--quick"]).ok();
    // The old one is a second mirror of this place.
    fs::write(&manifest, kept).unwrap();
    let ended = verify(&s, "m", &["--quick"]);
    assert!(!ended.error().contains("another mirror"), "{}", ended.error());
    fs::remove_file(&manifest).unwrap();
    verify(&s, "m", &["--accept"]).ok();
    verify(&s, "m", &[]).ok();
}

/// What cannot be read is not gone, so what was seen there is still remembered.
#[test]
fn only_a_manifest_that_is_gone_is_forgotten() {
    let s = mirrored();
    s.run(&["key", "new", "other"]).ok();
    s.run(&["verify", "-R", "m/f", "-k", "other", "--accept"]).fails_with_lines(3);
    fs::remove_file(s.path("m/phalanx.tree")).unwrap();
    let unprotect = ["unprotect", "-R", "m", "-o", "back", "-k", "k"];
    assert!(s.run(&unprotect).fails(3).contains("its manifest is gone"));
    verify(&s, "m/f", &["--accept"]).ok();
    s.run(&unprotect).ok();
}

#[test]
fn a_mirror_whose_disk_is_not_mounted_is_not_made_again() {
    let s = mirrored();
    fs::rename(s.path("m"), s.path("unmounted")).unwrap();
    assert!(run(&s, &[]).fails(4).contains("the mirror that was there is gone"));
    assert!(!s.exists("m"));
    fs::create_dir(s.path("m")).unwrap();
    run(&s, &[]).fails(4);
    assert_eq!(fs::read_dir(s.path("m")).unwrap().count(), 0);
}

#[test]
fn another_mirror_in_its_place_brings_a_warning() {
    let s = mirrored();
    s.run(&["mirror", "source", "other", "-k", "k", "--no-sync"]).ok();
    fs::rename(s.path("m"), s.path("away")).unwrap();
    fs::rename(s.path("other"), s.path("m")).unwrap();
    for more in [&[][..], &["--quick", "--at-least", "1"]] {
        let ended = verify(&s, "m", more);
        assert!(ended.error().contains("another mirror than the one that was seen there"), "{}", ended.error());
        ended.ok();
    }
    let ended = run(&s, &["-n"]);
    assert!(ended.error().contains("another mirror"), "{}", ended.error());
    let line = verify(&s, "m", &["--quick", "--json"]).text();
    assert!(line.contains("\"warnings\":[\"m: it is another mirror"), "{line}");
    let ended = verify(&s, "m", &["--accept"]);
    assert_eq!(ended.error(), "");
    assert_eq!(verify(&s, "m", &[]).error(), "");
}

#[test]
fn what_pins_a_mirror_is_no_file_and_no_volume() {
    let s = mirrored();
    s.run(&["init", "volume", "-k", "k"]).ok();
    for path in ["m/a.phx", "volume", "m/f/g/c.phx"] {
        for more in [["--at-least", "1"], ["--expect", &"0".repeat(64)], ["--quick", "--quiet"]] {
            assert!(verify(&s, path, &more).fails(3).contains("no manifest"), "{path} {more:?}");
        }
    }
    // Nor is it something below a file that somebody has put there, which blocks nothing else.
    s.write("phalanx.tree", "no manifest");
    for more in [["--at-least", "1"], ["--quick", "--quiet"]] {
        assert!(verify(&s, "volume", &more).fails_with_lines(3).contains("volume: it has no manifest"), "{more:?}");
    }
    fs::create_dir(s.path("plain")).unwrap();
    fs::copy(s.path("m/a.phx"), s.path("plain/a.phx")).unwrap();
    let ended = verify(&s, "plain", &[]);
    assert!(ended.error().contains("warning: ") && ended.error().contains("phalanx.tree: "), "{}", ended.error());
    ended.ok();
}

#[test]
fn a_write_only_mirror_keeps_its_recipients() {
    let s = Sandbox::with_key();
    put(&s, "a", "a");
    let (alice, bob) = (public("alice.txt"), public("bob.txt"));
    let mirror = |more: &[&str]| s.run(&[&["mirror", "source", "w", "--no-sync"][..], more].concat());
    mirror(&["-r", &alice]).ok();
    put(&s, "b", "b");
    assert!(mirror(&["-r", &bob]).fails(4).contains("all recipients"));
    assert!(!s.exists("w/b.phx"));
    mirror(&["-r", &bob, "-r", &alice]).ok();
    put(&s, "c", "c");
    mirror(&["-r", &alice]).fails(4);
}

#[test]
fn something_named_like_a_volume_hides_nothing() {
    let s = mirrored();
    symlink("nowhere", s.path("source/f/phalanx.volume")).unwrap();
    fs::create_dir(s.path("source/f/g/phalanx.volume")).unwrap();
    symlink("nowhere", s.path("source/phalanx.volume")).unwrap();
    run(&s, &[]).ok();
    verify(&s, "m", &[]).ok();
    restores(&s, "");
    // A file that somebody puts there is named, and the folder is restored.
    fs::remove_dir(s.path("m/f/g/phalanx.volume")).unwrap();
    s.write("m/f/g/phalanx.volume", "");
    s.run(&["unprotect", "-R", "m", "-o", "back", "-k", "k", "--no-sync"]).fails_with_lines(3);
    assert_eq!(s.read("back/f/g/c"), b"f/g/c");
}

#[test]
fn a_folder_of_a_mirror_is_compared_with_its_manifest() {
    let s = mirrored();
    put(&s, "f/g/d", "d");
    run(&s, &[]).ok();
    restores(&s, "f/g");
    let ended = verify(&s, "m/f/g", &["--quick"]);
    assert!(ended.text().contains("2 files in place"));
    fs::remove_file(s.path("m/f/g/c.phx")).unwrap();
    fs::remove_file(s.path("m/a.phx")).unwrap();
    for more in [&[][..], &["--quick"]] {
        let reported = verify(&s, "m/f/g", more).fails_with_lines(3);
        assert!(reported.contains("c.phx: missing") && !reported.contains("a.phx"), "{reported}");
    }
    s.run(&["unprotect", "-R", "m/f/g", "-o", "back", "-k", "k"]).fails_with_lines(3);
    assert_eq!(s.read("back/d"), b"d");
    let ended = verify(&s, "m/f", &["-q"]);
    assert!(ended.fails_with_lines(3).contains("m/f/g/c.phx: missing"));
}

#[test]
fn the_sticky_bit_of_a_folder_stays_and_the_manifest_is_nobody_elses() {
    let s = mirrored();
    fs::set_permissions(s.path("source"), Permissions::from_mode(0o1777)).unwrap();
    fs::set_permissions(s.path("source/f"), Permissions::from_mode(0o1777)).unwrap();
    put(&s, "new", "new");
    run(&s, &[]).ok();
    let mode = |name: &str| s.path(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!([mode("m"), mode("m/f"), mode("m/phalanx.tree")], [0o1777, 0o1777, 0o644]);
}

#[test]
fn a_listed_path_through_a_link_is_an_error() {
    let s = mirrored();
    symlink("f", s.path("source/link")).unwrap();
    s.write("files", "link/b\n");
    let ended = s.run(&["mirror", "source", "other", "-k", "k", "--files-from", "files"]);
    assert!(ended.fails_with_lines(4).contains("is a link"));
}

/// Somebody who wants to restore a mirror may exchange the two names.
#[test]
fn a_mirror_is_no_source() {
    let s = mirrored();
    let before = s.names();
    let line = s.run(&["mirror", "m", "source", "-k", "k"]).fails(4);
    assert!(
        line.contains("m: it is a mirror itself") && line.contains("hint: unprotect --recursive restores it"),
        "{line}"
    );
    s.run(&["mirror", "m", "new", "-k", "k"]).fails(4);
    assert_eq!(s.names(), before);
    assert!(!s.exists("source/phalanx.tree"));
}

/// A mirror of public keys alone may get more recipients, and is opened by the copy of its manifest.
#[test]
fn a_mirror_of_public_keys_gets_a_key() {
    let s = Sandbox::with_key();
    put(&s, "a", "a");
    let recipient = public("alice.txt");
    let args = ["mirror", "source", "m", "--recipient", &recipient];
    s.run(&args).ok();
    put(&s, "b", "b");
    s.run(&[&args[..], &["-k", "k"]].concat()).ok();
    assert!(s.exists("m/b.phx"));
}

#[test]
fn another_key_is_said_to_be_missing() {
    let s = mirrored();
    s.run(&["key", "new", "other"]).ok();
    let line = s.run(&["mirror", "source", "m", "-k", "other"]).fails(3);
    assert!(line.contains("no key at hand") && !line.contains("--new"), "{line}");
}

#[test]
fn a_mirror_is_renewed_through_a_link_to_it() {
    let s = mirrored();
    symlink("m", s.path("link")).unwrap();
    put(&s, "new", "new");
    s.run(&["mirror", "source", "link", "-k", "k", "--no-sync"]).ok();
    restores(&s, "");
    // The disk that it leads to is gone.
    fs::rename(s.path("m"), s.path("elsewhere")).unwrap();
    let line = s.run(&["mirror", "source", "link", "-k", "k"]).fails(4);
    assert!(line.contains("link: ") && line.contains("what it leads to must be there"), "{line}");
}

#[test]
fn a_file_that_is_deleted_during_the_run_is_no_failure() {
    let s = mirrored();
    for number in 0..3 {
        put(&s, &format!("new{number}"), "new");
    }
    let gone = s.path("source/new1");
    // The run has scanned the source when the first output has a name to give up.
    let is_temporary = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().as_encoded_bytes()[0] == b'.';
    let ready = || fs::read_dir(s.path("m")).unwrap().any(is_temporary);
    let args = [&MIRROR[..], &["--threads", "1"]].concat();
    let act = || fs::remove_file(&gone).unwrap();
    let Some(ended) = s.meanwhile("rename,renameat,renameat2:when=1", &args, ready, act) else { return };
    assert!(ended.error().contains("new1: it was deleted during the run: left out"), "{}", ended.error());
    ended.ok();
    verify(&s, "m", &[]).ok();
}

#[test]
fn a_file_of_another_owner_is_written_again() {
    if !rustix::process::geteuid().is_root() {
        return skip("root");
    }
    let s = mirrored();
    // Somebody else's file of the same length and time, whose owner may not read the one before.
    fs::remove_file(s.path("source/a")).unwrap();
    put(&s, "a", "b");
    chown(s.path("source/a"), Some(65534), Some(65534)).unwrap();
    run(&s, &[]).ok();
    restores(&s, "");
    // The owner's own file with other permissions is not written again, but another file is.
    let (f, before) = (s.path("source/f/b"), s.read("m/f/b.phx"));
    fs::set_permissions(&f, Permissions::from_mode(0o600)).unwrap();
    run(&s, &[]).ok();
    assert!(s.read("m/f/b.phx") == before);
    fs::remove_file(&f).unwrap();
    put(&s, "f/b", "x/y");
    fs::set_permissions(&f, Permissions::from_mode(0o640)).unwrap();
    run(&s, &[]).ok();
    restores(&s, "");
}
