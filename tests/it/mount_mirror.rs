//! `phalanx mount` of a mirror with a manifest: what does not belong to it gives an error.

use crate::common::{Ended, Sandbox, painted};
use crate::mount::Mounted;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A source and its mirror under the key k. The state folder is the sandbox's own.
fn mirrored() -> Sandbox {
    let s = Sandbox::with_key();
    fs::create_dir_all(s.path("source/folder")).unwrap();
    for name in ["a", "b", "c", "d", "folder/e"] {
        s.write(&format!("source/{name}"), painted(5000 + name.len()));
    }
    for link in ["source/right", "source/bent"] {
        symlink("folder/e", s.path(link)).unwrap();
    }
    run(&s, &["mirror", "source", "mirror", "-k", "k", "-q"]).ok();
    s
}

fn run(s: &Sandbox, args: &[&str]) -> Ended {
    Ended(s.command(args).env("PHALANX_STATE", s.path("state")).output().unwrap())
}

fn mount(s: &Sandbox) -> Option<Mounted> {
    mount_of(s, "mirror")
}

fn mount_of(s: &Sandbox, tree: &str) -> Option<Mounted> {
    let mut command = s.command(&["mount", tree, "mnt", "-k", "k"]);
    command.env("PHALANX_STATE", s.path("state"));
    Mounted::start_by(s, command)
}

#[track_caller]
fn is_refused<T>(done: std::io::Result<T>, name: &str) {
    let error = done.err().unwrap_or_else(|| panic!("{name} is shown"));
    assert_eq!(error.raw_os_error(), Some(5), "{name}: {error}");
}

#[test]
fn what_does_not_belong_to_a_mirror_gives_an_error() {
    let s = mirrored();
    let old = s.read("mirror/d.phx");
    s.write("source/d", painted(5001));
    fs::remove_file(s.path("mirror/d.phx")).unwrap();
    run(&s, &["mirror", "source", "mirror", "-k", "k", "-q"]).ok();
    s.write("mirror/d.phx", old);
    let at = |name: &str| s.path(&format!("mirror/{name}"));
    fs::rename(at("a.phx"), at("x")).unwrap();
    fs::rename(at("b.phx"), at("a.phx")).unwrap();
    fs::rename(at("x"), at("b.phx")).unwrap();
    fs::remove_file(at("c.phx")).unwrap();
    fs::copy(at("folder/e.phx"), at("folder/more.phx")).unwrap();
    fs::remove_file(at("bent")).unwrap();
    symlink("/elsewhere", at("bent")).unwrap();
    symlink("folder/e", at("strange")).unwrap();

    let Some(mounted) = mount(&s) else { return };
    for name in ["a", "b", "c", "d", "folder/more"] {
        is_refused(fs::read(mounted.path(name)), name);
    }
    for name in ["bent", "strange"] {
        is_refused(fs::read_link(mounted.path(name)), name);
    }
    assert!(fs::read(mounted.path("folder/e")).unwrap() == s.read("source/folder/e"));
    assert_eq!(fs::read_link(mounted.path("right")).unwrap(), Path::new("folder/e"));
    assert_eq!(fs::read(mounted.path("none")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    let shown: BTreeSet<_> = fs::read_dir(mounted.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(shown, ["a", "b", "bent", "d", "folder", "right", "strange"].map(Into::into).into());
    let log = mounted.log();
    for line in [
        "mirror/a.phx: another version",
        "mirror/b.phx: another version",
        "mirror/d.phx: another version",
        "mirror/folder/more.phx: additional",
        "mirror/bent: another version: the manifest lists another target",
        "mirror/strange: additional",
        "mirror/c.phx: missing: the manifest lists it",
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
}

#[test]
fn what_is_missing_is_named_when_its_folder_is_listed() {
    let s = mirrored();
    fs::remove_file(s.path("mirror/folder/e.phx")).unwrap();
    let Some(mounted) = mount(&s) else { return };
    assert_eq!(fs::read_dir(mounted.path("folder")).unwrap().count(), 0);
    assert!(mounted.log().contains("mirror/folder/e.phx: missing"), "{}", mounted.log());
}

#[test]
fn a_folder_of_a_mirror_is_compared_with_the_manifest_above() {
    let s = mirrored();
    fs::create_dir_all(s.path("source/folder/deep")).unwrap();
    for name in ["f", "g", "deep/h"] {
        s.write(&format!("source/folder/{name}"), name);
    }
    run(&s, &["mirror", "source", "mirror", "-k", "k", "-q"]).ok();
    let at = |name: &str| s.path(&format!("mirror/folder/{name}"));
    fs::copy(s.path("mirror/a.phx"), at("e.phx")).unwrap();
    fs::remove_file(at("g.phx")).unwrap();
    fs::copy(at("f.phx"), at("deep/more.phx")).unwrap();
    fs::create_dir(s.path("mirror/strange")).unwrap();
    fs::copy(at("f.phx"), s.path("mirror/strange/f.phx")).unwrap();

    let Some(mounted) = mount_of(&s, "mirror/folder") else { return };
    for name in ["e", "g", "deep/more"] {
        is_refused(fs::read(mounted.path(name)), name);
    }
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"f");
    assert_eq!(fs::read(mounted.path("deep/h")).unwrap(), b"deep/h");
    let log = mounted.log();
    for line in [
        "mirror/folder/e.phx: another version",
        "mirror/folder/g: missing: the manifest lists it",
        "mirror/folder/deep/more.phx: additional",
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
    drop(mounted);

    let mounted = mount_of(&s, "mirror/strange").unwrap();
    let line = "warning: mirror/strange: the manifest of mirror does not list it";
    assert!(mounted.log().contains(line), "{}", mounted.log());
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"f");
    drop(mounted);

    fs::rename(s.path("mirror/phalanx.tree"), s.path("gone")).unwrap();
    let mounted = mount_of(&s, "mirror/folder").unwrap();
    assert!(mounted.log().contains("its manifest is gone"), "{}", mounted.log());
    assert_eq!(fs::read(mounted.path("e")).unwrap(), s.read("source/a"));
}

#[test]
fn a_manifest_that_no_key_opens_is_reported() {
    let s = mirrored();
    run(&s, &["key", "new", "other"]).ok();
    run(&s, &["rekey", "mirror/phalanx.tree", "--add-key", "other", "--remove-key", "k", "-q"]).ok();
    fs::copy(s.path("mirror/a.phx"), s.path("mirror/more.phx")).unwrap();
    let Some(mounted) = mount(&s) else { return };
    assert!(mounted.log().contains("mirror/phalanx.tree: no key at hand opens it"), "{}", mounted.log());
    assert!(fs::read(mounted.path("more")).unwrap() == s.read("source/a"));
}

#[test]
fn a_mirror_that_was_set_back_is_shown_with_a_warning() {
    let s = mirrored();
    assert!(s.succeeds("cp", &["-a", "mirror", "before"]));
    s.write("source/a", "new");
    run(&s, &["mirror", "source", "mirror", "-k", "k", "-q"]).ok();
    fs::remove_dir_all(s.path("mirror")).unwrap();
    fs::rename(s.path("before"), s.path("mirror")).unwrap();
    let Some(mounted) = mount(&s) else { return };
    assert!(mounted.log().contains("was seen before"), "{}", mounted.log());
    assert!(fs::read(mounted.path("a")).unwrap() == painted(5001));
}
