//! `phalanx mirror`: what is in a mirror and is left out by now stays, until `--delete-excluded` deletes it.

use crate::common::{Ended, Mounted, Sandbox, has, skip};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

const MIRROR: [&str; 7] = ["mirror", "source", "m", "-k", "k", "--no-sync", "--delete"];

fn put(s: &Sandbox, name: &str) {
    let path = s.path("source").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, name).unwrap();
    File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
}

/// A source with these files, and its mirror m.
fn mirrored(names: &[&str]) -> Sandbox {
    let s = Sandbox::with_key();
    names.iter().for_each(|name| put(&s, name));
    run(&s, &[]).ok();
    s
}

fn run(s: &Sandbox, more: &[&str]) -> Ended {
    s.run(&[&MIRROR[..], more].concat())
}

/// Checks that the mirror is as its manifest lists it, and that the files at these paths are there, or are not.
#[track_caller]
fn has_files(s: &Sandbox, names: &[&str], expected: bool) {
    let verified = s.run(&["verify", "-R", "m", "-k", "k"]);
    assert_eq!(verified.error(), "");
    verified.ok();
    for name in names {
        assert_eq!(s.path("m").join(name).symlink_metadata().is_ok(), expected, "{name}");
    }
}

/// Marks the folder `results` by a file with this content, and checks what becomes of its mirror.
fn marked(tag: &str, content: &str, options: &[&str]) {
    let s = results();
    fs::write(s.path("source/results").join(tag), content).unwrap();
    stays_until_it_is_to_be_deleted(&s, options);
    has_files(&s, &[&format!("results/{tag}.phx")], true);
}

fn results() -> Sandbox {
    let s = Sandbox::with_key();
    ["a", "results/x", "results/f/y"].iter().for_each(|name| put(&s, name));
    symlink("x", s.path("source/results/link")).unwrap();
    run(&s, &[]).ok();
    s
}

#[track_caller]
fn stays_until_it_is_to_be_deleted(s: &Sandbox, options: &[&str]) {
    let stored = ["results/x.phx", "results/f/y.phx", "results/link"];
    for _ in 0..2 {
        run(s, options).ok();
        has_files(s, &stored, true);
    }
    // So does what no manifest lists.
    fs::copy(s.path("m/a.phx"), s.path("m/results/stray.phx")).unwrap();
    fs::create_dir(s.path("m/results/g")).unwrap();
    symlink("a", s.path("m/results/other")).unwrap();
    let is_there = |name: &str| s.path(name).symlink_metadata().is_ok();
    let strays = ["m/results/stray.phx", "m/results/g", "m/results/other"];
    run(s, options).ok();
    assert!(strays.into_iter().all(is_there));
    run(s, &[options, &["--delete-excluded", "--max-delete", "10"]].concat()).ok();
    has_files(s, &stored, false);
    assert!(s.exists("m/results") && !strays.into_iter().any(is_there));
    run(s, options).ok();
}

#[test]
fn what_is_in_a_folder_that_is_marked_now_stays() {
    marked(".nobackup", "", &["--exclude-if-present", ".nobackup"]);
    marked("CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55", &["--exclude-caches"]);
}

#[test]
fn what_something_is_mounted_over_now_stays() {
    let s = results();
    if !has("mount") || !s.succeeds("mount", &["-t", "tmpfs", "tmpfs", "source/results"]) {
        return skip("tmpfs");
    }
    let _mounted = Mounted(s.path("source/results"));
    put(&s, "results/other");
    stays_until_it_is_to_be_deleted(&s, &["-x"]);
    assert!(!s.exists("m/results/other.phx"));
}

#[test]
fn what_is_left_out_of_a_folder_that_is_gone_stays() {
    let s = mirrored(&["a", "data/b", "data/f/x.db", "data/f/y", "data/g/c"]);
    fs::remove_dir_all(s.path("source/data")).unwrap();
    for _ in 0..2 {
        run(&s, &["--exclude", "*.db"]).ok();
        has_files(&s, &["data/f/x.db.phx"], true);
        has_files(&s, &["data/b.phx", "data/f/y.phx", "data/g"], false);
    }
    run(&s, &["--exclude", "*.db", "--delete-excluded"]).ok();
    has_files(&s, &["data"], false);
}

#[test]
fn what_is_left_out_stays_where_an_entry_of_another_kind_has_its_name() {
    // What the mirror has and what the source has then, the rules, and what stays.
    let cases = [
        (&["a", "data/b", "data/x.db"][..], "data", &["--exclude", "*.db"][..], &["data/b.phx", "data/x.db.phx"][..]),
        (&["a", "data/b"], "data", &["--exclude", "data/"], &["data/b.phx"]),
        (&["a", "x"], "x/f/in", &["--include", "x/", "--exclude", "x"], &["x.phx"]),
    ];
    for (before, now, rules, stays) in cases {
        let s = mirrored(before);
        fs::remove_dir_all(s.path("source")).unwrap();
        put(&s, "a");
        put(&s, now);
        for _ in 0..2 {
            let error = run(&s, rules).fails_with_lines(4);
            assert!(error.contains("something of it is left out, and another entry takes its place"), "{error}");
            assert!(error.contains("hint: --delete --delete-excluded removes it"), "{error}");
            has_files(&s, stays, true);
            has_files(&s, &[&format!("{now}.phx")], false);
        }
        run(&s, &[rules, &["--delete-excluded"]].concat()).ok();
        has_files(&s, stays, false);
        has_files(&s, &[&format!("{now}.phx")], true);
    }
}

#[test]
fn what_is_left_out_does_not_hide_that_the_source_has_vanished() {
    let s = mirrored(&["a", "b", "old.tmp"]);
    fs::remove_dir_all(s.path("source")).unwrap();
    fs::create_dir(s.path("source")).unwrap();
    let error = run(&s, &["--exclude", "*.tmp"]).fails(4);
    let line = "source: it has none of the mirror's files, and all 2 would be deleted: nothing was done";
    assert!(error.contains(line), "{error}");
    has_files(&s, &["a.phx", "b.phx", "old.tmp.phx"], true);
    // What is left out and there shows that it has not.
    put(&s, "old.tmp");
    run(&s, &["--exclude", "*.tmp"]).ok();
    has_files(&s, &["old.tmp.phx"], true);
    has_files(&s, &["a.phx", "b.phx"], false);
}

/// What stays in the mirror, and how it left the source.
enum Left {
    /// It is excluded, and gone.
    Out,
    /// A pipe has its name by now.
    Pipe,
}

#[test]
fn a_new_entry_does_not_replace_the_stored_file_of_one_that_stays() {
    for left in [Left::Out, Left::Pipe] {
        for new in ["link", "folder"] {
            let s = mirrored(&["a", "b"]);
            let stored = fs::read(s.path("m/a.phx")).unwrap();
            fs::remove_file(s.path("source/a")).unwrap();
            let rules: &[&str] = match left {
                Left::Out => &["--exclude", "/a"],
                Left::Pipe => &[],
            };
            if matches!(left, Left::Pipe) {
                mknodat(CWD, s.path("source/a"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
            }
            match new {
                "link" => symlink("b", s.path("source/a.phx")).unwrap(),
                _ => put(&s, "a.phx/in"),
            }
            for _ in 0..2 {
                let error = run(&s, rules).fails_with_lines(4);
                assert!(
                    error.contains("m/a.phx: something of it is left out, and another entry takes its place"),
                    "{error}"
                );
                assert!(fs::read(s.path("m/a.phx")).unwrap() == stored);
                has_files(&s, &["a.phx", "b.phx"], true);
            }
            if matches!(left, Left::Out) {
                run(&s, &[rules, &["--delete-excluded"]].concat()).ok();
                has_files(&s, &["a.phx"], true);
                assert!(!s.path("m/a.phx").symlink_metadata().unwrap().is_file());
            }
        }
    }
}

#[test]
fn a_new_file_does_not_replace_a_link_or_folder_that_stays() {
    for old in ["link", "folder"] {
        let s = mirrored(&["b"]);
        match old {
            "link" => symlink("b", s.path("source/a.phx")).unwrap(),
            _ => put(&s, "a.phx/in"),
        }
        run(&s, &[]).ok();
        match old {
            "link" => fs::remove_file(s.path("source/a.phx")).unwrap(),
            _ => fs::remove_dir_all(s.path("source/a.phx")).unwrap(),
        }
        put(&s, "a");
        for _ in 0..2 {
            let error = run(&s, &["--exclude", "/a.phx"]).fails_with_lines(4);
            assert!(
                error.contains("m/a.phx: something of it is left out, and another entry takes its place"),
                "{error}"
            );
            assert!(!s.path("m/a.phx").symlink_metadata().unwrap().is_file());
            has_files(&s, &["a.phx", "b.phx"], true);
        }
        run(&s, &["--exclude", "/a.phx", "--delete-excluded"]).ok();
        has_files(&s, &["a.phx"], true);
        assert!(s.path("m/a.phx").symlink_metadata().unwrap().is_file());
    }
}

#[test]
fn what_is_left_out_stays_in_a_folder_that_no_manifest_lists() {
    let s = mirrored(&["a"]);
    for name in ["new/x.tmp.phx", "new/f/y.phx", "new/cache/in/z.phx", "new/cache/w.phx"] {
        fs::create_dir_all(s.path("m").join(name).parent().unwrap()).unwrap();
        fs::copy(s.path("m/a.phx"), s.path("m").join(name)).unwrap();
    }
    symlink("a", s.path("m/new/l.tmp")).unwrap();
    symlink("a", s.path("m/new/cache/l")).unwrap();
    let rules = ["--exclude", "*.tmp", "--exclude", "cache/"];
    run(&s, &rules).ok();
    let there = |name: &str| s.path("m").join(name).symlink_metadata().is_ok();
    for name in ["new/x.tmp.phx", "new/cache/in/z.phx", "new/cache/w.phx", "new/l.tmp", "new/cache/l"] {
        assert!(there(name), "{name}");
    }
    assert!(!there("new/f"));
    run(&s, &[&rules[..], &["--delete-excluded"]].concat()).ok();
    assert!(!there("new"));
}

#[test]
fn what_is_left_out_stays_in_a_folder_that_is_gone_although_no_manifest_lists_it() {
    let s = mirrored(&["a", "data/b", "data/cache/c"]);
    for name in ["data/x.tmp.phx", "data/cache/y.phx", "data/z.phx"] {
        fs::copy(s.path("m/a.phx"), s.path("m").join(name)).unwrap();
    }
    fs::remove_dir_all(s.path("source/data")).unwrap();
    let there = |name: &str| s.path("m").join(name).symlink_metadata().is_ok();
    for _ in 0..2 {
        run(&s, &["--exclude", "*.tmp", "--exclude", "cache/"]).ok();
        assert!(there("data/x.tmp.phx") && there("data/cache/y.phx") && there("data/cache/c.phx"));
        assert!(!there("data/z.phx") && !there("data/b.phx"));
    }
    run(&s, &["--delete-excluded"]).ok();
    has_files(&s, &["data"], false);
}
