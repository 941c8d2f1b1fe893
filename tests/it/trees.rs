//! Whole folders, and saving the intact parts of damaged files, with the command.

use crate::common::{Sandbox, has, painted};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Everything that a mirror keeps, by relative path.
fn listing(root: &Path) -> BTreeMap<String, (u32, SystemTime, Vec<u8>)> {
    fn walk(root: &Path, at: &Path, all: &mut BTreeMap<String, (u32, SystemTime, Vec<u8>)>) {
        let meta = fs::symlink_metadata(at).unwrap();
        let name = at.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        if meta.is_symlink() {
            let target = fs::read_link(at).unwrap().to_string_lossy().into_owned();
            all.insert(name, (0o777, SystemTime::UNIX_EPOCH, target.into_bytes()));
        } else if meta.is_dir() {
            all.insert(name, (meta.mode() & 0o777, meta.modified().unwrap(), Vec::new()));
            fs::read_dir(at).unwrap().for_each(|entry| walk(root, &entry.unwrap().path(), all));
        } else {
            all.insert(name, (meta.mode() & 0o777, meta.modified().unwrap(), fs::read(at).unwrap()));
        }
    }
    let mut all = BTreeMap::new();
    walk(root, root, &mut all);
    all
}

/// A folder with one of each kind of entry.
fn planted(s: &Sandbox) -> BTreeMap<String, (u32, SystemTime, Vec<u8>)> {
    for folder in ["tree", "tree/empty", "tree/a", "tree/a/b"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    for i in 0..300 {
        s.write(&format!("tree/a/{i}"), painted(i * 37));
    }
    s.write("tree/a/b/large", painted((17 << 20) + 3));
    s.write("tree/a/b/naïve name\n", "odd");
    File::create(s.path("tree/sparse")).unwrap().set_len(30 << 20).unwrap();
    symlink("a/b", s.path("tree/link")).unwrap();
    symlink("/nowhere", s.path("tree/dangling")).unwrap();
    fs::set_permissions(s.path("tree/a/7"), Permissions::from_mode(0o640)).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::open(s.path("tree/a/b/large")).unwrap().set_modified(then).unwrap();
    fs::set_permissions(s.path("tree/empty"), Permissions::from_mode(0o555)).unwrap();
    File::open(s.path("tree/a")).unwrap().set_modified(then).unwrap();
    listing(&s.path("tree"))
}

#[test]
fn a_folder_round_trips() {
    let s = Sandbox::with_key();
    let before = planted(&s);
    assert!(s.run(&["protect", "tree", "-k", "k"]).fails(4).contains("--recursive"));
    for engine in ["serial", "cpu"] {
        let ended = s.run(&["protect", "--recursive", "tree", "-k", "k", "--force", "--engine", engine]);
        assert!(ended.error().contains("303 files"), "a summary: {}", ended.error());
        ended.ok();
        assert_eq!(listing(&s.path("tree")), before, "the input stays");
        let back = format!("back-{engine}");
        s.run(&["unprotect", "--recursive", "tree.phx", "-o", &back, "--engine", engine]).ok();
        assert!(listing(&s.path(&back)) == before);
    }
    // A command always writes to the same place, whether something exists there or not. `--output` names the output,
    // and `--output-dir` the folder that contains it.
    fs::create_dir(s.path("shelf")).unwrap();
    let line = s.run(&["unprotect", "-R", "tree.phx", "-o", "shelf"]).fails(4);
    assert!(
        line.contains("shelf: it is a folder already\nhint: --force overwrites files in it and deletes nothing"),
        "{line}"
    );
    s.run(&["unprotect", "-R", "tree.phx", "-o", "shelf", "--force"]).ok();
    assert!(listing(&s.path("shelf")) == before);
    s.run(&["unprotect", "-R", "tree.phx", "--output-dir", "shelf"]).ok();
    assert!(listing(&s.path("shelf/tree")) == before);
    assert!(s.run(&["unprotect", "-R", "tree.phx", "--output-dir", "missing"]).fails(4).contains("no such folder"));
    s.run(&["unprotect", "-R", "tree.phx", "-o", "-"]).fails(2);
    assert!(!s.exists("-") && !s.exists("missing"));
    assert!(fs::metadata(s.path("back-cpu/sparse")).unwrap().blocks() < 2048, "holes stay holes");
    let line = s.run(&["protect", "-R", "tree", "-k", "k"]).fails(4);
    assert!(line.contains("tree.phx: it is a folder already\nhint: --force overwrites files"), "{line}");
    assert!(s.run(&["protect", "-R", "tree", "-k", "k", "-o", "tree/a/inside"]).fails(2).contains("within"));
    assert!(!s.exists("tree/a/inside"));
}

#[test]
fn one_password_derivation_serves_the_whole_folder() {
    let s = Sandbox::new();
    fs::create_dir(s.path("t")).unwrap();
    (0..40).for_each(|i| drop(s.write(&format!("t/{i}"), "x")));
    s.run_with_password("p", &["protect", "-R", "t"]).ok();
    let salt = |i: usize| s.read(&format!("t.phx/{i}.phx"))[21..37].to_vec();
    assert!((1..40).all(|i| salt(i) == salt(0)), "one salt in one run");
    s.run_with_password("p", &["unprotect", "-R", "t.phx", "-o", "u"]).ok();
    assert_eq!(listing(&s.path("t")), listing(&s.path("u")));
    let file_key_wrapped = |i: usize| s.read(&format!("t.phx/{i}.phx"))[46..86].to_vec();
    assert_ne!(file_key_wrapped(0), file_key_wrapped(1), "but a file key each");
}

#[test]
fn one_failure_does_not_stop_the_rest() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    (0..20).for_each(|i| drop(s.write(&format!("t/{i}"), painted(5000))));
    if has("mkfifo") {
        assert!(Command::new("mkfifo").arg(s.path("t/pipe")).status().unwrap().success());
        let ended = s.run(&["protect", "-R", "t", "-k", "k"]);
        assert!(ended.error().contains("t/pipe: a pipe: left out"), "{}", ended.error());
        assert!(ended.error().contains("20 files") && ended.error().contains("; 1 left out"), "{}", ended.error());
        ended.ok();
        fs::remove_file(s.path("t/pipe")).unwrap();
    } else {
        s.run(&["protect", "-R", "t", "-k", "k"]).ok();
    }
    let mut stored = s.read("t.phx/7.phx");
    let reported = s.run(&["verify", "-R", "t.phx"]).text();
    assert!(reported.ends_with("\n20 files, 100000 bytes: whole and authentic\n"), "{reported}");
    let reported = s.run(&["verify", "-R", "t.phx", "--verbose"]).text();
    assert!(
        reported.lines().count() == 22 && reported.contains("t.phx/7.phx: 5000 bytes: whole and authentic\n"),
        "{reported}"
    );
    *stored.last_mut().unwrap() ^= 1;
    s.write("t.phx/7.phx", stored);
    assert!(s.run(&["verify", "-R", "t.phx"]).fails(3).contains("t.phx/7.phx"));
    let reported = s.run(&["unprotect", "-R", "t.phx", "-o", "u"]).fails_with_lines(3);
    assert!(reported.contains("7.phx") && reported.contains("; 1 failed"), "{reported}");
    assert_eq!(listing(&s.path("u")).len(), 20, "the folder and 19 files");
}

#[test]
fn other_files_are_named_and_left_out() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    s.write("t/f", "x");
    s.run(&["protect", "-R", "t", "-k", "k"]).ok();
    s.write("t.phx/stray", "not ours");
    let additional = "t.phx/stray: additional: the manifest does not list it";
    assert!(s.run(&["verify", "-R", "t.phx"]).fails(3).contains(additional));
    s.lose_manifest("t.phx");
    let without = "phalanx: t.phx: no manifest, so nothing is known of what is missing or older\n";
    let line = "phalanx: t.phx/stray: the name does not end in .phx: left out\n";
    let ended = s.run(&["verify", "-R", "t.phx"]);
    assert_eq!(ended.error(), format!("{line}{without}"));
    assert_eq!(ended.text(), "1 file, 1 byte: whole and authentic; 1 left out\n");
    let ended = s.run(&["unprotect", "-R", "t.phx", "-o", "u"]);
    assert!(ended.error().contains(line) && ended.error().contains("; 1 left out\n"), "{}", ended.error());
    ended.ok();
    let names = |folder: &str| listing(&s.path(folder)).into_keys().collect::<Vec<_>>();
    assert_eq!((names("u"), s.read("u/f")), (names("t"), b"x".to_vec()));
    // A volume is verified as a whole.
    s.run(&["-q", "init", "t.phx/vault", "-k", "k"]).ok();
    let ended = s.run(&["verify", "-R", "t.phx"]);
    assert_eq!(ended.error(), format!("{line}{without}"));
    assert!(ended.text().contains("t.phx/vault: 0 files"));
    let ended = s.run(&["unprotect", "-R", "t.phx", "-o", "v"]);
    assert!(ended.error().contains("t.phx/vault: a volume: left out\n"), "{}", ended.error());
    assert!(ended.error().contains("; 2 left out\n"), "{}", ended.error());
    ended.ok();
    assert_eq!(names("v"), names("t"));
}

#[test]
fn a_volume_is_not_unprotected_as_a_folder() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    s.run(&["protect", "f", "-k", "k"]).ok();
    s.run(&["-q", "init", "vault", "-k", "k"]).ok();
    let before = s.names();
    let line = s.run(&["unprotect", "vault"]).fails(4);
    let ways = "vault: it is a volume\nhint: mount it, take all of it with --recursive, or single files with --volume";
    assert!(line.contains(ways), "{line}");
    let line = s.run(&["unprotect", "-R", "vault"]).fails(2);
    assert!(line.contains("vault: what is in a volume needs --output or --output-dir"), "{line}");
    assert_eq!(s.names(), before);
    fs::remove_file(s.path("f")).unwrap();
    s.run(&["unprotect", "vault", "f.phx"]).fails(4);
    assert_eq!(s.read("f"), b"x", "the others are done");
}

#[test]
fn entries_without_an_input_stay_in_the_mirror_and_are_named() {
    let s = Sandbox::with_key();
    for folder in ["t", "t/d", "t/gone"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    for name in ["t/a", "t/b", "t/d/c", "t/d/stays", "t/gone/e"] {
        s.write(name, "x");
    }
    symlink("a", s.path("t/link")).unwrap();
    let args = ["protect", "-R", "t", "-k", "k", "--force"];
    for _ in 0..2 {
        let ended = s.run(&args);
        assert!(ended.error().lines().count() == 1 && !ended.error().contains("no input"), "{}", ended.error());
        ended.ok();
    }
    fs::remove_dir_all(s.path("t/gone")).unwrap();
    let expect_line = |line: &str| {
        let ended = s.run(&args);
        assert!(ended.error().ends_with(line), "{}", ended.error());
        ended.ok();
    };
    expect_line("phalanx: t.phx: 1 entry has no input and stays as it is: t.phx/gone\n");
    for name in ["t/a", "t/b", "t/d/c"] {
        fs::remove_file(s.path(name)).unwrap();
    }
    s.write(&format!("t.phx/{}", Sandbox::temporary("x")), "left by a run");
    let named = "t.phx/a.phx, t.phx/b.phx, t.phx/gone and 1 more";
    expect_line(&format!("phalanx: t.phx: 4 entries have no input and stay as they are: {named}\n"));
    for name in ["a.phx", "b.phx", "d/c.phx", "gone/e.phx"] {
        assert!(s.exists(&format!("t.phx/{name}")), "{name}");
    }
    assert_eq!(s.run(&[&args[..], &["-q"]].concat()).error(), "");
}

#[test]
fn remove_deletes_the_whole_folder_and_nothing_else() {
    let s = Sandbox::with_key();
    let before = planted(&s);
    fs::set_permissions(s.path("tree/empty"), Permissions::from_mode(0o755)).unwrap();
    s.run(&["protect", "-R", "tree", "-k", "k", "--remove"]).ok();
    assert_eq!(s.names(), ["tree.phx"]);
    s.write("tree.phx/stray", "not ours");
    let ended = s.run(&["unprotect", "-R", "tree.phx", "--remove"]);
    let reported = ended.fails_with_lines(3);
    assert!(reported.contains("tree.phx/stray: additional: the manifest does not list it"), "{reported}");
    assert_eq!(listing(&s.path("tree")).len(), before.len());
    let left: Vec<_> = listing(&s.path("tree.phx")).into_keys().collect();
    assert_eq!(left, ["", "phalanx.tree", "stray"]);
    // A mirror that is whole goes, and so does its manifest.
    s.run(&["protect", "-R", "tree", "-o", "whole.phx", "-k", "k"]).ok();
    s.run(&["unprotect", "-R", "whole.phx", "--remove"]).ok();
    assert!(!s.exists("whole.phx"));
}

#[test]
fn the_manifest_stays_while_it_is_needed() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    (0..3).for_each(|i| drop(s.write(&format!("t/{i}"), "x")));
    s.run(&["protect", "-R", "t", "-k", "k"]).ok();
    fs::rename(s.path("t.phx/1.phx"), s.path("missing.phx")).unwrap();
    let reported = s.run(&["unprotect", "-R", "t.phx", "-o", "u", "--remove"]).fails_with_lines(3);
    assert!(reported.contains("t.phx: not deleted: its manifest lists what was not found"), "{reported}");
    assert_eq!(listing(&s.path("t.phx")).into_keys().collect::<Vec<_>>(), ["", "phalanx.tree"]);

    s.run(&["protect", "-R", "t", "-o", "m", "-k", "k"]).ok();
    let args = ["unprotect", "-R", "m", "-o", "v", "--remove"];
    let is_last = || (0..3).filter(|i| s.exists(&format!("m/{i}.phx"))).count() == 1;
    let new = || drop(s.write("m/new.phx", "new"));
    let Some(ended) = s.meanwhile("unlinkat:when=5", &[&args[..], &["-t", "1"]].concat(), is_last, new) else {
        return;
    };
    let reported = ended.fails_with_lines(4);
    assert!(reported.contains("m: not deleted: something new is in it"), "{reported}");
    assert_eq!(listing(&s.path("m")).into_keys().collect::<Vec<_>>(), ["", "new.phx", "phalanx.tree"]);
}

#[test]
fn links_in_the_mirror_are_not_followed() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    fs::create_dir(s.path("t/d")).unwrap();
    fs::create_dir(s.path("elsewhere")).unwrap();
    s.write("t/d/f", "x");
    fs::create_dir(s.path("t.phx")).unwrap();
    symlink("../elsewhere", s.path("t.phx/d")).unwrap();
    let reported = s.run(&["protect", "-R", "t", "-k", "k", "--force"]).fails_with_lines(4);
    let hint = "is in its way\nhint: delete it, or write a new mirror\n";
    assert!(reported.contains(&format!("t.phx/d: cannot write: a link or file {hint}")), "{reported}");
    assert!(fs::read_dir(s.path("elsewhere")).unwrap().next().is_none());
    assert!(fs::symlink_metadata(s.path("t.phx/d")).unwrap().is_symlink());
    // The other way round: a folder is in the way of a link.
    fs::remove_file(s.path("t.phx/d")).unwrap();
    s.run(&["protect", "-R", "t", "-k", "k", "--force"]).ok();
    fs::remove_dir_all(s.path("t/d")).unwrap();
    symlink("../elsewhere", s.path("t/d")).unwrap();
    let reported = s.run(&["protect", "-R", "t", "-k", "k", "--force"]).fails_with_lines(4);
    assert!(reported.contains(&format!("t.phx/d: cannot write: a folder {hint}")), "{reported}");
    assert!(s.exists("t.phx/d/f.phx"));
}

/// An entry that changes its kind gets another name in the mirror, and its old entry stays. A mirror with both could
/// not be unprotected.
#[test]
fn an_entry_that_changed_its_kind_is_an_error() {
    let make = |s: &Sandbox, kind: &str| match kind {
        "folder" => {
            fs::create_dir(s.path("t/a")).unwrap();
            s.write("t/a/f", "in it");
        }
        "file" => drop(s.write("t/a", "a file")),
        _ => symlink("nowhere", s.path("t/a")).unwrap(),
    };
    let kinds = ["folder", "file", "link"];
    for (before, after) in kinds.iter().flat_map(|a| kinds.map(|b| (*a, b))).filter(|(a, b)| a != b) {
        let s = Sandbox::with_key();
        fs::create_dir(s.path("t")).unwrap();
        s.write("t/z", "another");
        make(&s, before);
        s.run(&["protect", "-R", "t", "-k", "k"]).ok();
        let mirrored = listing(&s.path("t.phx"));
        if before == "folder" { fs::remove_dir_all(s.path("t/a")) } else { fs::remove_file(s.path("t/a")) }.unwrap();
        make(&s, after);
        s.write("t/z", "another one");
        let reported = s.run(&["protect", "-R", "t", "-k", "k", "--force"]).fails_with_lines(4);
        let names = |kind| if kind == "file" { "a.phx" } else { "a" };
        assert!(reported.contains(&format!("t.phx/{}: cannot write: ", names(after))), "{before} {after}: {reported}");
        if before == "file" || after == "file" {
            let named = format!("{} is in its way: both would be unprotected to the same name", names(before));
            assert!(reported.contains(&named), "{before} {after}: {reported}");
        }
        assert!(reported.contains("1 file, ") && reported.contains("1 failed"), "the rest is done: {reported}");
        // The old entry stays, and the mirror is complete.
        let now: Vec<_> = listing(&s.path("t.phx")).into_keys().collect();
        assert_eq!(now, mirrored.into_keys().collect::<Vec<_>>());
        s.run(&["verify", "-R", "t.phx"]).ok();
        s.run(&["unprotect", "-R", "t.phx", "-o", "back"]).ok();
        assert_eq!(s.read("back/z"), b"another one");
        assert!(fs::symlink_metadata(s.path("back/a")).is_ok());
        // The old entry is renamed.
        let old = s.path("t.phx").join(names(before));
        if before == "folder" { fs::remove_dir_all(old) } else { fs::remove_file(old) }.unwrap();
        s.run(&["protect", "-R", "t", "-k", "k", "--force"]).ok();
        s.run(&["unprotect", "-R", "t.phx", "-o", "new"]).ok();
        assert_eq!(listing(&s.path("new")), listing(&s.path("t")));
    }
}

#[test]
fn a_mirror_with_two_kinds_of_one_name_is_not_valid() {
    for is_link in [false, true] {
        let s = Sandbox::with_key();
        fs::create_dir(s.path("t")).unwrap();
        s.write("t/a", "a file");
        s.run(&["protect", "-R", "t", "-k", "k"]).ok();
        // Without a manifest, which does not list the other entry.
        s.lose_manifest("t.phx");
        if is_link { symlink("nowhere", s.path("t.phx/a")) } else { fs::create_dir(s.path("t.phx/a")) }.unwrap();
        let ended = s.run(&["verify", "-R", "t.phx"]);
        let summary = String::from_utf8_lossy(&ended.0.stdout).into_owned();
        assert!(summary.contains("1 file, 6 bytes: whole and authentic; 1 failed"), "{summary}");
        let reported = ended.fails_with_lines(4);
        let line = "t.phx/a.phx: t.phx/a is in its way: both would be unprotected to the same name";
        assert!(reported.contains(line), "{reported}");
        s.run(&["unprotect", "-R", "t.phx", "-o", "back"]).fails_with_lines(4);
    }
    // A folder that is a volume is left out.
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t.phx")).unwrap();
    s.write("f", "a file");
    s.run(&["protect", "f", "-k", "k", "-o", "t.phx/v.phx"]).ok();
    s.run(&["init", "t.phx/v", "-k", "k"]).ok();
    s.run(&["verify", "-R", "t.phx"]).ok();
}

#[test]
fn salvage_lists_what_is_lost_and_still_fails() {
    let s = Sandbox::with_key();
    let plain = painted((5 << 20) + 100);
    s.write("f", &plain);
    s.run(&["protect", "f", "-k", "k", "-o", "g.phx"]).ok();
    s.run(&["unprotect", "--salvage", "g.phx"]).ok();
    assert!(s.read("g") == plain);
    let mut stored = s.read("g.phx");
    for chunk in [1, 2, 4] {
        stored[4096 + 500 + chunk * ((1 << 20) + 48)] ^= 1;
    }
    s.write("g.phx", &stored);
    s.run(&["unprotect", "g.phx", "--force"]).fails(3);
    assert!(s.read("g") == plain, "what stood there stays");
    let ended = s.run(&["unprotect", "--salvage", "g.phx", "--force", "--remove"]);
    let listed = String::from_utf8_lossy(&ended.0.stdout).into_owned();
    assert_eq!(listed, "g.phx: lost 1048576-3145728\ng.phx: lost 4194304-5242880\n");
    assert!(ended.fails(3).contains("3145728 bytes lost"));
    assert!(s.exists("g.phx"), "a damaged input is not removed");
    let saved = s.read("g");
    assert!(saved[..1 << 20] == plain[..1 << 20] && saved[1 << 20..3 << 20].iter().all(|b| *b == 0));
    assert!(saved.len() == plain.len() && saved[5 << 20..] == plain[5 << 20..]);
    s.write("cut.phx", &stored[..2_000_000]);
    assert!(s.run(&["unprotect", "--salvage", "cut.phx"]).fails(3).contains("cut off"));
    s.run(&["unprotect", "--salvage", "-", "-o", "x"]).fails(2);
}

#[test]
fn colliding_outputs_are_refused_before_any_work() {
    let s = Sandbox::with_key();
    for folder in ["a", "b", "out"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    s.write("a/x", "1");
    s.write("b/x", "2");
    let line = s.run(&["protect", "a/x", "b/x", "--output-dir", "out", "-k", "k", "--force", "--remove"]).fails(2);
    assert_eq!(line, "phalanx: out/x.phx: it would be the output of both a/x and b/x");
    s.write("w", "1");
    s.write("w.phx", "2");
    let line = s.run(&["protect", "w", "./w.phx", "-k", "k", "--force", "--remove"]).fails(2);
    assert_eq!(line, "phalanx: w.phx: it is an input, and would be the output of w");
    s.run(&["protect", "w", "out/../w", "-k", "k", "--force"]).fails(2);
    assert_eq!((s.read("a/x"), s.read("b/x"), s.read("w.phx")), (b"1".to_vec(), b"2".to_vec(), b"2".to_vec()));
    symlink("w", s.path("link")).unwrap();
    s.run(&["protect", "link", "-k", "k", "--remove"]).fails(2);
    s.run(&["protect", "w", "-o", "missing/", "-k", "k"]).fails(2);
    assert!(!s.exists("missing") && !s.exists("link.phx"));
}

#[test]
fn an_altered_file_outranks_a_missing_one() {
    let s = Sandbox::with_key();
    s.write("bad.phx", "not ours");
    s.run(&["verify", "bad.phx", "missing.phx"]).fails_with_lines(3);
    s.run(&["verify", "missing.phx", "bad.phx"]).fails_with_lines(3);
}

#[test]
fn a_folder_with_nothing_to_verify_is_an_error() {
    let s = Sandbox::new();
    fs::create_dir(s.path("unmounted")).unwrap();
    assert!(s.run(&["verify", "-R", "unmounted"]).fails(4).contains("no protected file"));
    s.write("unmounted/f", "x");
    assert!(s.run(&["verify", "-R", "unmounted"]).fails_with_lines(4).contains("no protected file"));
    assert!(s.run(&["verify", "unmounted"]).fails(4).contains("\nhint: --recursive takes all that is in it"));
}

#[test]
fn a_nightly_run_writes_to_the_same_place_each_night() {
    let s = Sandbox::with_key();
    for folder in ["nd", "bk"] {
        fs::create_dir(s.path(folder)).unwrap();
    }
    for night in ["1", "2", "3"] {
        s.write("nd/f", night);
        s.run(&["protect", "-R", "nd", "-o", "bk/nd", "-k", "k", "--force"]).ok();
        s.run(&["unprotect", "bk/nd/f.phx", "-o", "back", "--force"]).ok();
        assert_eq!(s.read("back"), night.as_bytes());
    }
    let names: Vec<OsString> = fs::read_dir(s.path("bk/nd")).unwrap().map(|e| e.unwrap().file_name()).collect();
    // Other keys replace the files and the manifest.
    s.run(&["key", "new", "other"]).ok();
    s.run(&["protect", "-R", "nd", "-o", "bk/nd", "-k", "other", "--force"]).ok();
    s.run(&["verify", "-R", "bk/nd", "-k", "other"]).ok();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), ["f.phx", "phalanx.tree"]);
    // With one input, a missing output folder does not become a file of that name.
    assert!(
        s.run(&["protect", "nd/f", "--output-dir", "backup", "-k", "k", "--remove"])
            .fails(4)
            .contains("no such folder")
    );
    s.run(&["protect", "nd/f", "-o", "backup/", "-k", "k", "--remove"]).fails(2);
    s.run(&["protect", "nd/f", "f", "-o", "-", "-k", "k"]).fails(2);
    assert!(!s.exists("backup") && s.exists("nd/f"));
}

#[test]
fn outputs_do_not_get_the_names_of_temporary_files() {
    let s = Sandbox::with_key();
    s.write("f", "x");
    fs::create_dir(s.path("t.phx")).unwrap();
    s.run(&["protect", "f", "-k", "k", "-o", "t.phx/f.phx"]).ok();
    let hex = "0123456789abcdef0123456789abcdef";
    let names = ["tmp", "removed", "link", "rekey", "resume"].map(|end| format!(".phalanx-{hex}.{end}"));
    for name in &names {
        fs::copy(s.path("t.phx/f.phx"), s.path("t.phx").join(format!("{name}.phx"))).unwrap();
    }
    let reported = s.run(&["unprotect", "-R", "t.phx", "-o", "back"]).fails_with_lines(4);
    for name in &names {
        let line = format!("t.phx/{name}.phx: the name of its output is one of a temporary file");
        assert!(reported.contains(&line), "{reported}");
    }
    let there: Vec<_> = listing(&s.path("back")).into_keys().collect();
    assert_eq!(there, ["", "f"]);
    // The files are complete, and can be unprotected to another name.
    s.run(&["verify", "-R", "t.phx"]).ok();
    s.run(&["unprotect", &format!("t.phx/{}.phx", names[0]), "-o", "saved"]).ok();
}

/// A thread does not wait if no other thread can close a file.
#[test]
fn too_few_open_files_are_an_error_at_once() {
    let s = Sandbox::with_key();
    fs::create_dir_all(s.path("t/a/b")).unwrap();
    (0..6).for_each(|i| drop(s.write(&format!("t/a/b/{i}"), "x")));
    if s.traced(&[], &["--version"]).is_none() {
        return;
    }
    // A thread that sleeps is waiting for another one.
    let program = env!("CARGO_BIN_EXE_phalanx");
    for limit in 8..14 {
        let line = format!("ulimit -n {limit}; exec {program} protect -R t -k k --engine serial -o out{limit}");
        let mut command = Command::new("strace");
        command.args(["-f", "-o"]).arg(s.path("calls")).args(["-e", "trace=clock_nanosleep,nanosleep"]);
        let ended = command
            .args(["sh", "-c", &line])
            .current_dir(s.path(""))
            .env("PHALANX_KEYRING", s.path("keyring"))
            .output()
            .unwrap();
        let code = ended.status.code();
        assert!(
            code.is_some_and(|code| code != 0) || s.path(&format!("out{limit}/a/b/5.phx")).exists(),
            "{limit}: {code:?}"
        );
        let calls = String::from_utf8(s.read("calls")).unwrap();
        assert!(calls.lines().filter(|call| call.contains("nanosleep(")).count() < 10, "{limit}: {calls}");
    }
}

#[test]
fn bits_that_are_not_kept_are_named_once() {
    let s = Sandbox::with_key();
    fs::create_dir_all(s.path("t/d")).unwrap();
    for name in ["t/f", "t/g", "single"] {
        s.write(name, "x");
        fs::set_permissions(s.path(name), Permissions::from_mode(0o4755)).unwrap();
    }
    fs::set_permissions(s.path("t/d"), Permissions::from_mode(0o1755)).unwrap();
    let line = "setuid, setgid and sticky bits are not kept";
    let times = |args: &[&str]| {
        let ended = s.run(args);
        let times = ended.error().matches(line).count();
        ended.ok();
        times
    };
    assert_eq!(times(&["protect", "-R", "t", "-k", "k"]), 1);
    assert_eq!(times(&["protect", "single", "-k", "k"]), 1);
    fs::set_permissions(s.path("t.phx/d"), Permissions::from_mode(0o3755)).unwrap();
    assert_eq!(times(&["unprotect", "-R", "t.phx", "-o", "plain"]), 0, "nothing is restored");
    assert_eq!(times(&["unprotect", "-R", "t.phx", "-o", "back", "--preserve"]), 1);
    assert_eq!(fs::metadata(s.path("back/d")).unwrap().mode() & 0o7777, 0o1755, "folders keep the sticky bit");
    fs::set_permissions(s.path("single.phx"), Permissions::from_mode(0o2755)).unwrap();
    assert_eq!(times(&["unprotect", "single.phx", "-o", "x", "--preserve"]), 1);
}

#[test]
fn an_output_is_not_its_own_input_in_a_tree() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("t")).unwrap();
    s.write("t/f", "x");
    s.run(&["protect", "-R", "t", "-k", "k"]).ok();
    let before = s.read("t.phx/f.phx");
    fs::create_dir(s.path("out")).unwrap();
    fs::hard_link(s.path("t.phx/f.phx"), s.path("out/f")).unwrap();
    let reported = s.run(&["unprotect", "-R", "t.phx", "-o", "out", "-k", "k", "--force"]).fails_with_lines(2);
    assert!(reported.contains("out/f: input and output are the same file"), "{reported}");
    assert!(s.read("t.phx/f.phx") == before && s.read("out/f") == before);
}
