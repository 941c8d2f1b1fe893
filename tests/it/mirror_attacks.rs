//! What somebody who can write to a mirror can do to it: every kind of attack on every entry is named, and nothing gets
//! a name that is not its own.

use crate::common::{Content, Entries, Sandbox, entries, painted};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The files of the source, with their lengths. Chunks have 4 KiB.
const FILES: [(&str, usize); 6] =
    [("empty", 0), ("one", 100), ("several", 20_000), ("f/one", 100), ("f/g/several", 12_288), ("h/one", 5000)];
const LINKS: [&str; 2] = ["link", "f/link"];
const FOLDERS: [&str; 3] = ["f", "f/g", "h"];
const CHUNK: usize = 4096;
/// A chunk's nonce and tag.
const NONCE_AND_TAG: usize = 48;

const UNLISTED: &str = "another version: the manifest lists other content, so it is older, newer or foreign";
const MISSING: &str = "missing: the manifest lists it";
const ADDITIONAL: &str = "additional: the manifest does not list it";
const KIND: &str = "replaced: the manifest lists another kind of entry";
const TARGET: &str = "another version: the manifest lists another target of the link";
/// Whatever is said of it.
const ANY: &str = "";

/// A line of error: a path in the mirror, and what is said of it.
type Named = (String, String);

fn named(path: &str, text: impl Into<String>) -> Named {
    (path.to_owned(), text.into())
}

fn stored(name: &str) -> String {
    format!("{name}.phx")
}

fn copy_tree(from: &Path, to: &Path) {
    for (path, entry) in entries(from) {
        let to = to.join(path);
        match entry.content {
            Content::Folder => fs::create_dir_all(to).unwrap(),
            Content::File(bytes) => fs::write(to, bytes).unwrap(),
            Content::Link(target) => symlink(std::ffi::OsString::from_vec(target), to).unwrap(),
            Content::Pipe => unreachable!("there is none"),
        }
    }
}

fn delete(path: &Path) {
    if path.symlink_metadata().unwrap().is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}

/// Writes the source's files. Other versions have other contents and times.
fn write_source(s: &Sandbox, root: &str, version: u8) {
    for folder in FOLDERS {
        fs::create_dir_all(s.path(root).join(folder)).unwrap();
    }
    for (number, (name, len)) in FILES.into_iter().enumerate() {
        let content: Vec<u8> = painted(len).iter().map(|byte| byte ^ version ^ number as u8).collect();
        let path = s.path(root).join(name);
        fs::write(&path, content).unwrap();
        let time = Duration::from_secs(1_000_000_000 + u64::from(version));
        File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH + time).unwrap();
    }
    for link in LINKS {
        if !s.path(root).join(link).is_symlink() {
            symlink("one", s.path(root).join(link)).unwrap();
        }
    }
}

fn mirror(s: &Sandbox, source: &str, mirror: &str) {
    s.run(&["-q", "mirror", source, mirror, "-k", "k", "--no-sync", "--chunk-size", "4K"]).ok();
}

/// The second version of a mirror in `whole`, the first in `old`, and another mirror with the same names and keys in
/// `foreign`.
struct Attacked {
    s: Sandbox,
    source: Entries,
}

impl Attacked {
    fn new() -> Self {
        let s = Sandbox::with_key();
        write_source(&s, "source", 0);
        mirror(&s, "source", "whole");
        copy_tree(&s.path("whole"), &s.path("old"));
        write_source(&s, "source", 100);
        mirror(&s, "source", "whole");
        write_source(&s, "another", 100);
        mirror(&s, "another", "foreign");
        let source = entries(&s.path("source"));
        Self { s, source }
    }

    /// Attacks a copy of the mirror. `verify` must name exactly what is expected, `verify --quick` too if it can know, and
    /// `unprotect` must write all the rest and nothing else.
    #[track_caller]
    fn attack(&self, what: &str, is_seen_quickly: bool, expected: &[Named], act: impl FnOnce(&Path)) {
        let s = &self.s;
        copy_tree(&s.path("whole"), &s.path("m"));
        act(&s.path("m"));
        let full = s.run(&["verify", "-R", "m", "-k", "k", "-v", "--threads", "1"]);
        self.names(what, &full.error(), expected);
        assert_eq!(full.0.status.code(), Some(3), "{what}: {}", full.error());
        let said = String::from_utf8_lossy(&full.0.stdout).into_owned();
        for (path, _) in expected {
            assert!(!said.contains(&format!("m/{path}: ")), "{what}: {said}");
        }
        let is_summary = |line: &&str| line.contains("whole and authentic") && !line.contains("m/");
        let summary = said.lines().find(is_summary).unwrap_or_default();
        assert!(summary.contains(" failed"), "{what}: {said}");

        let quick = s.run(&["verify", "-R", "m", "-k", "k", "--quick"]);
        if is_seen_quickly || !quick.0.status.success() {
            self.names(what, &quick.error(), expected);
            assert_eq!(quick.0.status.code(), Some(3), "{what}: {}", quick.error());
        }

        let unprotected = s.run(&["unprotect", "-R", "m", "-o", "back", "-k", "k", "--no-sync"]);
        assert_eq!(unprotected.0.status.code(), Some(3), "{what}: {}", unprotected.error());
        self.names(what, &unprotected.error(), expected);
        let back = entries(&s.path("back"));
        for (path, entry) in &back {
            let right = self.source.get(path).map(|entry| &entry.content);
            assert_eq!(Some(&entry.content), right, "{what}: {}", path.display());
        }
        let is_wrong = |path: &Path| {
            expected.iter().any(|(wrong, _)| {
                let name = wrong.strip_suffix(".phx").unwrap_or(wrong);
                path.starts_with(name)
            })
        };
        for path in self.source.keys() {
            assert!(is_wrong(path) || back.contains_key(path), "{what}: {} is not restored", path.display());
        }
        delete(&s.path("back"));
        delete(&s.path("m"));
    }

    #[track_caller]
    fn names(&self, what: &str, error: &str, expected: &[Named]) {
        let lines: Vec<&str> = error.lines().filter(|line| line.starts_with("phalanx: m/")).collect();
        for (path, text) in expected {
            let start = format!("phalanx: m/{path}: {text}");
            assert!(lines.iter().any(|line| line.starts_with(&start)), "{what}: no {start:?} in {error}");
        }
        assert_eq!(lines.len(), expected.len(), "{what}: {error}");
    }
}

/// Turns a bit of a file.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_file_that_is_deleted_or_damaged_is_named() {
    let attacked = Attacked::new();
    for (name, len) in FILES {
        let stored = stored(name);
        let path = |m: &Path| m.join(&stored);
        let expected = |text: &str| [named(&stored, text)];
        attacked.attack("delete", true, &expected(MISSING), |m| delete(&path(m)));
        let set_len = |m: &Path, change: i64| {
            let file = OpenOptions::new().write(true).open(path(m)).unwrap();
            let len = file.metadata().unwrap().len() as i64;
            file.set_len((len + change).max(0) as u64).unwrap();
        };
        for change in [-1, -40, -4200, i64::MIN / 2, 1, 100, 4144] {
            attacked.attack(&format!("{name}: {change} bytes"), true, &expected(ANY), |m| set_len(m, change));
        }
        let file_len = fs::metadata(attacked.s.path("whole").join(&stored)).unwrap().len() as usize;
        let chunks = len.div_ceil(CHUNK).max(1);
        let header = file_len - len - chunks * NONCE_AND_TAG;
        let last = header + (chunks - 1) * (CHUNK + NONCE_AND_TAG);
        let heads = [0, 9, header / 2, header - 1].map(|at| (at, false));
        let of_last = [(last, true), (last + 20, true), (last + NONCE_AND_TAG - 1, true)];
        let of_first = [(header, false), (header + 20, false)].into_iter().filter(|_| chunks > 1);
        let contents = [(header + NONCE_AND_TAG, false), (file_len - 1, false)].into_iter().filter(|_| len > 0);
        for (at, is_seen) in heads.into_iter().chain(of_last).chain(of_first).chain(contents) {
            attacked.attack(&format!("{name}: byte {at}"), is_seen, &expected(ANY), |m| flip(&path(m), at));
        }
    }
}

#[test]
fn a_file_in_the_place_of_another_is_named() {
    let attacked = Attacked::new();
    let names = FILES.map(|(name, _)| stored(name));
    for (number, name) in names.iter().enumerate() {
        for other in &names[number + 1..] {
            let exchanged =
                [named(name, format!("exchanged with m/{other}")), named(other, format!("exchanged with m/{name}"))];
            attacked.attack(&format!("{name} with {other}"), true, &exchanged, |m| {
                renameat_with(CWD, m.join(name), CWD, m.join(other), RenameFlags::EXCHANGE).unwrap();
            });
        }
        for other in names.iter().filter(|other| *other != name) {
            let copied = [named(other, format!("exchanged: it has the content of m/{name}"))];
            attacked.attack(&format!("{name} over {other}"), true, &copied, |m| {
                fs::copy(m.join(name), m.join(other)).unwrap();
            });
        }
        for new in ["new.phx", "f/g/new.phx"] {
            let copy = named(new, format!("additional: it has the content of m/{name}"));
            let moved = named(name, format!("missing: it was renamed to m/{new}"));
            attacked.attack(&format!("{name} renamed to {new}"), true, &[copy.clone(), moved], |m| {
                fs::rename(m.join(name), m.join(new)).unwrap();
            });
            attacked.attack(&format!("{name} copied to {new}"), true, &[copy], |m| {
                fs::copy(m.join(name), m.join(new)).unwrap();
            });
        }
        let without_ending = name.strip_suffix(".phx").unwrap();
        let expected = [named(name, MISSING), named(without_ending, ADDITIONAL)];
        attacked.attack(&format!("{name} without its ending"), true, &expected, |m| {
            fs::rename(m.join(name), m.join(without_ending)).unwrap();
        });
    }
}

#[test]
fn an_older_version_and_a_file_of_another_mirror_are_named() {
    let attacked = Attacked::new();
    let s = &attacked.s;
    s.run(&["key", "new", "other"]).ok();
    for (name, _) in FILES {
        let stored = stored(name);
        for from in ["old", "foreign"] {
            attacked.attack(&format!("{name} of {from}"), true, &[named(&stored, UNLISTED)], |m| {
                fs::copy(s.path(from).join(&stored), m.join(&stored)).unwrap();
            });
        }
        // The same plaintext, protected once more.
        for key in ["k", "other"] {
            let plain = format!("source/{name}");
            s.run(&["protect", &plain, "-o", "again.phx", "-k", key, "-f", "--chunk-size", "4K"]).ok();
            attacked.attack(&format!("{name} for {key}"), true, &[named(&stored, UNLISTED)], |m| {
                fs::copy(s.path("again.phx"), m.join(&stored)).unwrap();
            });
        }
    }
    // All at once, beside the right manifest.
    let all = FILES.map(|(name, _)| named(&stored(name), UNLISTED));
    for from in ["old", "foreign"] {
        attacked.attack(&format!("all of {from}"), true, &all, |m| {
            for (name, _) in FILES {
                fs::copy(s.path(from).join(stored(name)), m.join(stored(name))).unwrap();
            }
        });
    }
}

#[test]
fn an_entry_of_another_kind_is_named() {
    let attacked = Attacked::new();
    let stored_files = FILES.map(|(name, _)| stored(name));
    let all = stored_files.iter().map(String::as_str).chain(LINKS).chain(FOLDERS);
    for name in all {
        let is_folder = FOLDERS.contains(&name);
        let is_link = LINKS.contains(&name);
        let expected = [named(name, KIND)];
        let replace = |what: &str, with: &dyn Fn(&Path, &Path)| {
            attacked.attack(&format!("{name} by {what}"), true, &expected, |m| {
                // It lies outside the mirror, where a link could lead to it.
                let aside = m.with_file_name("aside");
                fs::rename(m.join(name), &aside).unwrap();
                with(&m.join(name), &aside);
                if aside.symlink_metadata().is_ok() {
                    delete(&aside);
                }
            });
        };
        if !is_folder {
            replace("a folder", &|path, _| fs::create_dir(path).unwrap());
            replace("a folder with a file", &|path, _| {
                fs::create_dir(path).unwrap();
                fs::write(path.join("one.phx"), "not ours").unwrap();
            });
        }
        if !is_link {
            replace("a link to itself", &|path, aside| {
                // The entry stays where the link leads to.
                let kept = attacked.s.path("kept");
                if kept.symlink_metadata().is_ok() {
                    delete(&kept);
                }
                fs::rename(aside, &kept).unwrap();
                symlink(&kept, path).unwrap();
            });
            replace("a dangling link", &|path, _| symlink("/nowhere", path).unwrap());
        }
        if is_folder || is_link {
            replace("a file", &|path, _| fs::write(path, "not ours").unwrap());
        }
        replace("a pipe", &|path, _| pipe(path));
    }
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn a_changed_link_and_everything_additional_are_named() {
    let attacked = Attacked::new();
    for link in LINKS {
        attacked.attack(&format!("{link} deleted"), true, &[named(link, MISSING)], |m| delete(&m.join(link)));
        for target in ["two", "/etc/passwd", "one/", "one\n"] {
            attacked.attack(&format!("{link} to {target:?}"), true, &[named(link, TARGET)], |m| {
                delete(&m.join(link));
                symlink(target, m.join(link)).unwrap();
            });
        }
    }
    attacked.s.run(&["protect", "source/one", "-o", "good.phx", "-k", "k"]).ok();
    let good = attacked.s.read("good.phx");
    for folder in ["", "f/", "f/g/"] {
        let add = |name: &str, act: &dyn Fn(&Path)| {
            let path = format!("{folder}{name}");
            attacked.attack(&format!("new {path}"), true, &[named(&path, ADDITIONAL)], |m| act(&m.join(&path)));
        };
        add("new.phx", &|path| fs::write(path, &good).unwrap());
        add("new", &|path| fs::write(path, "not ours").unwrap());
        add("damaged.phx", &|path| fs::write(path, "not ours").unwrap());
        add("folder", &|path| {
            fs::create_dir(path).unwrap();
            fs::write(path.join("in it.phx"), &good).unwrap();
        });
        add("folder.phx", &|path| fs::create_dir(path).unwrap());
        add("new link", &|path| symlink("one.phx", path).unwrap());
        add("link.phx", &|path| symlink("one.phx", path).unwrap());
        add("pipe.phx", &|path| pipe(path));
    }
    // The manifest's name is an ordinary one elsewhere.
    let path = "f/phalanx.tree";
    attacked.attack("a second manifest", true, &[named(path, ADDITIONAL)], |m| {
        fs::copy(m.join("phalanx.tree"), m.join(path)).unwrap();
    });
}

#[test]
fn folders_that_are_deleted_renamed_or_exchanged_are_named() {
    let attacked = Attacked::new();
    for folder in FOLDERS {
        attacked.attack(&format!("{folder} deleted"), true, &[named(folder, MISSING)], |m| delete(&m.join(folder)));
        let renamed = [named(folder, MISSING), named("new", ADDITIONAL)];
        attacked.attack(&format!("{folder} renamed"), true, &renamed, |m| {
            fs::rename(m.join(folder), m.join("new")).unwrap();
        });
    }
    let exchanged = [
        named("f/one.phx", "exchanged with m/h/one.phx"),
        named("h/one.phx", "exchanged with m/f/one.phx"),
        named("f/link", MISSING),
        named("f/g", MISSING),
        named("h/link", ADDITIONAL),
        named("h/g", ADDITIONAL),
    ];
    attacked.attack("f with h", true, &exchanged, |m| {
        renameat_with(CWD, m.join("f"), CWD, m.join("h"), RenameFlags::EXCHANGE).unwrap();
    });
    let older = [named("f/one.phx", UNLISTED), named("f/g/several.phx", UNLISTED)];
    attacked.attack("f set back", true, &older, |m| {
        delete(&m.join("f"));
        copy_tree(&attacked.s.path("old/f"), &m.join("f"));
    });
}

#[test]
fn a_manifest_that_is_not_that_of_the_mirror_is_never_whole() {
    let attacked = Attacked::new();
    let s = &attacked.s;
    let len = fs::metadata(s.path("whole/phalanx.tree")).unwrap().len();
    let with_manifest = |what: &str, act: &dyn Fn(&Path), codes: &[i32]| {
        copy_tree(&s.path("whole"), &s.path("m"));
        act(&s.path("m/phalanx.tree"));
        for args in [
            &["verify", "-R", "m", "-k", "k"][..],
            &["verify", "-R", "m", "-k", "k", "--quick"],
            &["unprotect", "-R", "m", "-o", "back", "-k", "k"],
        ] {
            let ended = s.run(args);
            let code = ended.0.status.code().unwrap();
            assert!(codes.contains(&code), "{what}: {args:?}: {code}: {}", ended.error());
            if s.exists("back") {
                for (path, entry) in entries(&s.path("back")) {
                    let content = self::content(&attacked.source, &path);
                    assert_eq!(Some(entry.content), content, "{what}: {}", path.display());
                }
                delete(&s.path("back"));
            }
        }
        delete(&s.path("m"));
    };
    for at in (0..len as usize).step_by(len as usize / 40) {
        with_manifest(&format!("byte {at}"), &|path| flip(path, at), &[3]);
    }
    for new_len in [0, 1, len / 2, len - 1, len + 1, len + 5000] {
        let set_len = |path: &Path| OpenOptions::new().write(true).open(path).unwrap().set_len(new_len).unwrap();
        with_manifest(&format!("{new_len} bytes"), &set_len, &[3]);
    }
    for (name, _) in FILES {
        let put = |path: &Path| fs::write(path, fs::read(s.path("whole").join(stored(name))).unwrap()).unwrap();
        with_manifest(&format!("{name} as manifest"), &put, &[3]);
    }
    for from in ["old", "foreign"] {
        let put = |path: &Path| fs::write(path, fs::read(s.path(from).join("phalanx.tree")).unwrap()).unwrap();
        with_manifest(&format!("the manifest of {from}"), &put, &[3]);
    }
    let replace = |with: fn(&Path)| {
        move |path: &Path| {
            delete(path);
            with(path);
        }
    };
    with_manifest("a folder as manifest", &replace(|path| fs::create_dir(path).unwrap()), &[3, 4]);
    with_manifest("a link as manifest", &replace(|path| symlink("../whole/phalanx.tree", path).unwrap()), &[3, 4]);
    with_manifest("a pipe as manifest", &replace(pipe), &[3, 4]);
}

fn content(source: &Entries, path: &Path) -> Option<Content> {
    source.get(path).map(|entry| entry.content.clone())
}

#[test]
fn a_mirror_without_its_manifest_is_said_to_have_none() {
    let attacked = Attacked::new();
    let s = &attacked.s;
    s.lose_manifest("whole");
    let ended = s.run(&["verify", "-R", "whole", "-k", "k"]);
    assert!(ended.error().contains("whole: no manifest, so nothing is known of what is missing or older"));
    s.run(&["verify", "-R", "whole", "-k", "k", "--quick"]).fails_with_lines(3);
    // Who names a manifest is told that there is none.
    for more in [["--expect", &"0".repeat(64)], ["--at-least", "1"]] {
        let ended = s.run(&[&["verify", "-R", "whole", "-k", "k"][..], &more].concat());
        assert!(ended.fails(3).contains("whole: it has no manifest"));
    }
}

/// Generation and digest of a mirror, as verify prints them.
fn age(s: &Sandbox, mirror: &str) -> (u64, String) {
    let line = s.run(&["verify", "-R", mirror, "-k", "k", "--json"]).text();
    let line = line.lines().last().unwrap().to_owned();
    let after = |field: &str| {
        let rest = &line[line.find(field).unwrap() + field.len()..];
        rest.split([',', '"', '}']).find(|part| !part.is_empty()).unwrap().to_owned()
    };
    (after("\"generation\":").parse().unwrap(), after("\"digest\":\""))
}

#[test]
fn a_mirror_that_is_set_back_as_a_whole_brings_a_warning() {
    let attacked = Attacked::new();
    let s = &attacked.s;
    let (generation, digest) = age(s, "whole");
    let (older_generation, older_digest) = {
        let mut command = s.command(&["verify", "-R", "old", "-k", "k", "--json"]);
        // Another machine has not seen the newer one.
        let ended = crate::common::Ended(command.env("PHALANX_STATE", s.path("another state")).output().unwrap());
        assert!(!ended.error().contains("set back"), "{}", ended.error());
        ended.ok();
        age(s, "old")
    };
    assert!(older_generation < generation && older_digest != digest);
    fs::rename(s.path("whole"), s.path("newer")).unwrap();
    fs::rename(s.path("old"), s.path("whole")).unwrap();
    let verify = |more: &[&str]| s.run(&[&["verify", "-R", "whole", "-k", "k"][..], more].concat());
    let warning = format!("generation {older_generation}, and generation {generation} was seen before");
    for more in [&[][..], &["--quick"]] {
        let ended = verify(more);
        assert!(ended.error().contains(&warning), "{}", ended.error());
        assert!(ended.error().contains("--accept"), "{}", ended.error());
        ended.ok();
    }
    let ended = s.run(&["unprotect", "-R", "whole", "-o", "back", "-k", "k"]);
    assert!(ended.error().contains(&warning), "{}", ended.error());
    ended.ok();
    let ended = s.run(&["mirror", "source", "whole", "-k", "k", "-n"]);
    assert!(ended.error().contains(&warning), "{}", ended.error());
    ended.ok();

    assert!(verify(&["--expect", &digest]).fails(3).contains(&format!("has the digest {older_digest}, not {digest}")));
    let reported = verify(&["--at-least", &generation.to_string()]).fails(3);
    assert!(reported.contains(&format!("generation {older_generation}, which is before {generation}")), "{reported}");
    verify(&["--expect", &older_digest]).ok();
    verify(&["--at-least", &older_generation.to_string()]).ok();
    let ended = verify(&["--accept"]);
    assert!(!ended.error().contains("warning"), "{}", ended.error());
    ended.ok();
    let ended = verify(&[]);
    assert!(!ended.error().contains("warning"), "{}", ended.error());
    ended.ok();
    // The newer one is no older one.
    let newer = s.run(&["verify", "-R", "newer", "-k", "k", "--expect", &digest]);
    assert!(!newer.error().contains("warning"), "{}", newer.error());
    newer.ok();
}

#[test]
fn times_and_permissions_that_somebody_sets_in_the_mirror_are_not_restored() {
    let attacked = Attacked::new();
    let s = &attacked.s;
    let (file, folder) = (s.path("whole/f/one.phx"), s.path("whole/f"));
    for path in [&file, &folder] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
    s.run(&["unprotect", "-R", "whole", "-o", "back", "-k", "k"]).ok();
    for name in ["f/one", "f"] {
        let (source, back) = (s.path("source").join(name), s.path("back").join(name));
        let (source, back) = (source.metadata().unwrap(), back.metadata().unwrap());
        assert_eq!(back.modified().unwrap(), source.modified().unwrap(), "{name}");
        assert_eq!(back.mode() & !source.mode(), 0, "{name}");
    }
}

/// Its stored file could be put in the place of the manifest.
#[test]
fn a_file_that_begins_as_a_manifest_is_refused() {
    let s = Sandbox::with_key();
    fs::create_dir(s.path("source")).unwrap();
    s.write("source/a", "a");
    s.write("source/gift", "PHXTREE1 and the rest of it");
    s.write("source/short", "PHXTREE");
    s.write("source/other", "PHXTRUE1");
    for (args, made) in [(["mirror", "source", "m"], "m"), (["protect", "-R", "source"], "source.phx")] {
        let error = s.run(&[&args[..], &["-k", "k"]].concat()).fails_with_lines(4);
        for name in ["gift", "short"] {
            assert!(error.contains(&format!("phalanx: source/{name}: ")), "{error}");
            assert!(!s.exists(&format!("{made}/{name}.phx")));
        }
        assert_eq!(error.matches("it begins as a manifest does").count(), 2, "{error}");
        s.run(&["verify", "-R", made, "-k", "k"]).ok();
        assert!(s.exists(&format!("{made}/a.phx")) && s.exists(&format!("{made}/other.phx")));
    }
    // It comes after the source was read.
    fs::create_dir(s.path("late")).unwrap();
    s.write("late/a", "a");
    let act = || drop(s.write("late/z", "PHXTREE1 and the rest of it"));
    // The folder of the output is made after the source is read, and before it is walked through.
    if let Some(ended) = s.meanwhile("mkdirat:when=1", &["protect", "-R", "late", "-k", "k"], || true, act) {
        let error = ended.fails_with_lines(4);
        assert!(error.contains("phalanx: late/z: cannot read: it begins as a manifest does"), "{error}");
        assert!(s.exists("late.phx/a.phx") && !s.exists("late.phx/z.phx"));
    }
    // A machine that can only write has its own.
    s.write("state/trees/x.phalanx.tree", "PHXTREE1 and the rest of it");
    s.run(&["mirror", "state/trees", "copies", "-k", "k", "--exclude", "*.journal"]).ok();
    assert!(s.exists("copies/x.phalanx.tree.phx"));
}
