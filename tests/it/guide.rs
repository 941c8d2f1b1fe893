//! The lines of GUIDE.md run as printed: each chapter in a new folder, with a new home and keyring. Lines for clusters
//! run in the tests of `crates/cluster`, and lines of Python in those of `crates/python`. The lines of `docs/mirrors.md` run
//! one after another, in one folder, and so do those of `docs/signatures.md`.

use crate::common::{Ended, Sandbox, has, skip};
use crate::mount::{Mounted, is_fuse_here, is_mounted, required};
use crate::readme::{check_lines, shell};
use std::fs;
use std::path::Path;

const GUIDE: &str = include_str!("../../GUIDE.md");
const MIRRORS: &str = include_str!("../../docs/mirrors.md");
const SIGNATURES: &str = include_str!("../../docs/signatures.md");
const PROGRAMS: [&str; 7] = ["bash", "tar", "seq", "dd", "diff", "cmp", "ssh-keygen"];

struct Chapter {
    title: &'static str,
    /// Blocks of shell lines. The first part of each names what it needs beyond the usual programs, or is empty.
    blocks: Vec<(&'static str, &'static str)>,
}

impl Chapter {
    fn needs(&self) -> &'static str {
        self.blocks.iter().map(|(need, _)| *need).find(|need| !need.is_empty()).unwrap_or_default()
    }

    /// Runs the lines in the folder work, like a reader who copies them.
    fn run(&self, s: &Sandbox) -> Ended {
        let lines: Vec<&str> = [setup()].into_iter().chain(self.blocks.iter().map(|(_, lines)| *lines)).collect();
        for folder in ["home", "work"] {
            fs::create_dir_all(s.path(folder)).unwrap();
        }
        Ended(shell(s, &lines.join("\n")).current_dir(s.path("work")).output().unwrap())
    }
}

/// All chapters with shell lines, except the first. Its lines are run before those of every other chapter.
fn chapters() -> Vec<Chapter> {
    let mut all = all();
    all.remove(0);
    all.retain(|chapter| !chapter.blocks.is_empty());
    all
}

/// The lines that are run before those of each chapter.
fn setup() -> &'static str {
    let first = all().remove(0);
    assert_eq!((first.title, first.blocks.len()), ("Before you begin", 1));
    first.blocks[0].1
}

fn all() -> Vec<Chapter> {
    let chapter = |text: &'static str| Chapter { title: text.lines().next().unwrap(), blocks: blocks(text) };
    GUIDE.split("\n## ").skip(1).map(chapter).collect()
}

fn blocks(text: &'static str) -> Vec<(&'static str, &'static str)> {
    let block = |rest: &'static str| {
        let (need, rest) = rest.split_once('\n').unwrap();
        (need.trim_start(), rest.split("\n```").next().unwrap())
    };
    text.split("\n```sh").skip(1).map(block).collect()
}

/// All lines of the page about mirrors.
fn mirrors() -> Chapter {
    Chapter { title: "Mirrors", blocks: blocks(MIRRORS) }
}

/// All lines of the page about signatures.
fn signatures() -> Chapter {
    Chapter { title: "Signatures", blocks: blocks(SIGNATURES) }
}

/// Asserts that the chapter ran to its end. Otherwise shows its output.
#[track_caller]
fn check_ended(chapter: &Chapter, ended: &Ended) {
    assert!(ended.0.status.success(), "{}: {:?}\n{}", chapter.title, ended.0.status, ended.error());
}

#[test]
fn every_chapter_is_run_by_some_test() {
    let needs: Vec<_> = chapters().iter().map(|chapter| (chapter.title, chapter.needs())).collect();
    let special: Vec<_> = needs.iter().filter(|(_, need)| !need.is_empty()).copied().collect();
    assert_eq!(special, [("A mounted folder", "fuse"), ("A cluster", "mpi"), ("Java", "java")]);
    assert!(needs.len() - special.len() > 6, "{needs:?}");
    assert_eq!((mirrors().needs(), signatures().needs()), ("", ""));
    for page in [GUIDE, MIRRORS, SIGNATURES] {
        let list: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("- [")?.split_once("](#")).collect();
        let titles: Vec<_> = list.iter().map(|(title, _)| *title).collect();
        assert_eq!(
            titles,
            page.lines().filter_map(|line| line.strip_prefix("## ")).collect::<Vec<_>>(),
            "the chapters"
        );
        for (title, link) in list {
            let anchor: String = title.to_lowercase().chars().filter(|c| c.is_alphanumeric() || *c == ' ').collect();
            assert_eq!(link, anchor.replace(' ', "-") + ")");
        }
    }
}

#[test]
fn every_line_of_every_chapter_runs() {
    if !PROGRAMS.into_iter().all(has) {
        return;
    }
    for chapter in chapters().iter().filter(|chapter| chapter.needs().is_empty()) {
        let s = Sandbox::new();
        let ended = chapter.run(&s);
        check_ended(chapter, &ended);
        let shown = String::from_utf8_lossy(&ended.0.stdout);
        let read = |name: &str| s.read(&format!("work/{name}"));
        match chapter.title {
            "One file" => {
                let whole = read("run42.h5");
                assert!(!s.exists("work/old.h5") && s.exists("work/old.h5.phx"));
                assert!(s.exists("work/other.phx") && s.exists("work/backup/table.csv.phx"));
                assert_eq!(read("part"), whole[1 << 20..(1 << 20) + (64 << 10)]);
                assert_eq!(read("tail"), whole[whole.len() - 100..]);
            }
            "A nightly mirror" => assert_eq!(read("restored/table.csv"), read("project/table.csv")),
            "When something is damaged" => {
                for line in ["verify: exit code 3\n", "refused: exit code 3\n", "saved what is intact: exit code 3\n"] {
                    assert!(shown.contains(line), "{shown}");
                }
                let (whole, saved) = (read("run42.h5"), read("damaged.h5"));
                assert!(saved.len() == whole.len() && saved != whole && saved[..1 << 20] == whole[..1 << 20]);
            }
            "What to expect" => assert!(s.exists("work/man/phalanx.1") && s.exists("work/phalanx.bash")),
            _ => {}
        }
    }
}

#[test]
fn every_line_about_mirrors_runs() {
    if !PROGRAMS.into_iter().chain(["grep", "cut", "find"]).all(has) {
        return;
    }
    let s = Sandbox::new();
    let ended = mirrors().run(&s);
    check_ended(&mirrors(), &ended);
    let shown = String::from_utf8_lossy(&ended.0.stdout);
    for line in ["new notes.txt", "changed notes.txt", "moved numbers.csv", "the mirror is whole"] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    let names =
        ["numbers.csv", "backup/project/phalanx.tree", "backup/project/results/final.dat.phx", "restored/notes.txt"];
    assert!(names.iter().all(|name| s.exists(&format!("work/{name}"))));
    assert!(!s.exists("work/backup/project/cache") && !s.exists("work/backup/project/results/step.dat.phx"));
    assert_eq!(s.read("work/notes.txt"), s.read("work/project/notes.txt"));
    // A full disk can leave that file empty. The script ends with the worst code.
    let again = |lines: &str| {
        let variables = setup().lines().find(|line| line.starts_with("export PHALANX_KEYRING=")).unwrap();
        Ended(shell(&s, &format!("{variables}\n{lines}")).current_dir(s.path("work")).output().unwrap())
    };
    let before = s.read("work/generation");
    again(": >generation; ./nightly").ok();
    assert_eq!(s.read("work/generation"), before);
    let told = again("echo 9999999999 >generation; mv project away; ./nightly");
    assert_eq!(told.0.status.code(), Some(3), "{}", told.error());
}

#[test]
fn every_line_about_signatures_runs() {
    if !PROGRAMS.into_iter().all(has) {
        return;
    }
    let s = Sandbox::new();
    let ended = signatures().run(&s);
    check_ended(&signatures(), &ended);
    let shown = String::from_utf8_lossy(&ended.0.stdout);
    let signed = |line: &&str| line.ends_with(", signed by alice@example.org");
    assert_eq!(shown.lines().filter(signed).count(), 3, "{shown}");
    assert!(shown.contains("Good \"phalanx\" signature for alice@example.org"), "{shown}");
    assert!(s.exists("work/backup/project/phalanx.tree.sig"));
    assert_eq!(s.read("work/copy.csv"), s.read("work/project/table.csv"));
}

#[test]
fn the_lines_that_mount_run() {
    if !is_fuse_here() || !PROGRAMS.into_iter().chain(["flock"]).all(has) {
        return;
    }
    let s = Sandbox::new();
    let _mounted = Mounted::at(s.path("work/plain"));
    for chapter in chapters_with("fuse") {
        let ended = chapter.run(&s);
        if ended.error().contains("Operation not permitted") {
            skip("FUSE");
            return required();
        }
        check_ended(&chapter, &ended);
        assert!(!is_mounted(&s.path("work/plain")));
    }
}

#[test]
fn the_lines_in_java_run() {
    if !PROGRAMS.into_iter().chain(["java"]).all(has) {
        return;
    }
    let jar = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/phalanx/target/phalanx.jar");
    if !jar.is_file() {
        return skip("phalanx.jar");
    }
    for chapter in chapters_with("java") {
        let s = Sandbox::new();
        fs::create_dir(s.path("work")).unwrap();
        fs::copy(&jar, s.path("work/phalanx.jar")).unwrap();
        check_ended(&chapter, &chapter.run(&s));
    }
}

/// The chapters that need something. There is at least one.
fn chapters_with(need: &str) -> Vec<Chapter> {
    let found: Vec<_> = chapters().into_iter().filter(|chapter| chapter.needs() == need).collect();
    assert!(!found.is_empty(), "no chapter needs {need} any more");
    found
}

/// A reader who copies a line must not need anything that only the tests have.
#[test]
fn no_line_writes_outside_the_folder_or_asks() {
    for (_, lines) in all().iter().chain([&mirrors(), &signatures()]).flat_map(|chapter| &chapter.blocks) {
        check_lines(lines);
    }
}
