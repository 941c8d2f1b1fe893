//! What patterns leave out, and that rsync leaves out the same.
//!
//! This is a program of its own: a child process holds the locks of files that its parent closes, until it runs rsync. Tests of
//! `it` lock files.

#[path = "../../core/tests/common/mod.rs"]
mod common;

use common::sweep_by;
use phalanx_host::mirror::excludes::{Choice, Excludes, Rule};
use phalanx_system::os::ffi::{OsStrExt, OsStringExt};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rules, `+` or `-` before each; a path, with a slash if it is a folder; and whether the rules leave it out.
const TABLE: &[(&[&str], &str, bool)] = &[
    (&[], "a", false),
    // A name.
    (&["-a"], "a", true),
    (&["-a"], "a/", true),
    (&["-a"], "d/a", true),
    (&["-a"], "d/e/a/", true),
    (&["-a"], "ab", false),
    (&["-a"], "ba", false),
    (&["-a"], "A", false),
    // The whole path.
    (&["-/a"], "a", true),
    (&["-/a"], "d/a", false),
    (&["-/d/a"], "d/a", true),
    (&["-/d/a"], "e/d/a", false),
    (&["-/*/a"], "d/a", true),
    (&["-/*/a"], "d/e/a", false),
    // The end of a path.
    (&["-d/a"], "d/a", true),
    (&["-d/a"], "e/d/a", true),
    (&["-d/a"], "ed/a", false),
    (&["-d/a"], "d/e/a", false),
    (&["-d/a"], "d/a/b", false),
    (&["-d*/a"], "e/dx/a", true),
    // Folders.
    (&["-a/"], "a", false),
    (&["-a/"], "a/", true),
    (&["-a/"], "d/a/", true),
    (&["-/a/"], "d/a/", false),
    (&["-d/a/"], "e/d/a/", true),
    (&["-*/"], "a", false),
    (&["-*/"], "a/", true),
    // Wildcards of a name.
    (&["-*"], "a", true),
    (&["-*.o"], "x.o", true),
    (&["-*.o"], ".o", true),
    (&["-*.o"], "d/x.o", true),
    (&["-*.o"], "x.oo", false),
    (&["-d/*"], "d/", false),
    (&["-d/*"], "d/x", true),
    (&["-d/*"], "d/x/y", false),
    (&["-/d*a"], "d/a", false),
    (&["-a?c"], "abc", true),
    (&["-a?c"], "ac", false),
    (&["-a?c"], "a/c", false),
    (&["-d?a"], "d/a", false),
    // Wildcards of a path.
    (&["-**"], "a", true),
    (&["-**a"], "d/ba", true),
    (&["-**/a"], "a", true),
    (&["-**/a"], "d/e/a", true),
    (&["-**/a"], "ba", false),
    (&["-/**/a"], "a", false),
    (&["-/**/a"], "d/a", true),
    (&["-d/**"], "d/", false),
    (&["-d/**"], "d/x/y", true),
    (&["-d/**"], "e/d/x/y", true),
    (&["-/d/**"], "e/d/x", false),
    (&["-d/**/a"], "d/a", false),
    (&["-d/**/a"], "d/x/y/a", true),
    (&["-d**a"], "d/x/ba", true),
    (&["-d**a"], "e/da", true),
    (&["-d**a"], "ed/a", false),
    (&["-d/**/"], "d/x", false),
    (&["-d/**/"], "d/x/", true),
    // A folder and all in it.
    (&["-d/***"], "d/", true),
    (&["-d/***"], "d", false),
    (&["-d/***"], "e/d/", true),
    (&["-d/***"], "d/x", true),
    (&["-/d/***"], "e/d/", false),
    (&["-***"], "a", true),
    (&["-**/***"], "a", true),
    (&["-**/**/***"], "a", false),
    (&["-**/**/***"], "a/", true),
    (&["-d/***/"], "d/x", false),
    (&["-d/***/"], "d/", true),
    (&["-d***"], "dx/y", true),
    // Sets.
    (&["-[ab]"], "b", true),
    (&["-[!ab]"], "b", false),
    (&["-[^ab]"], "c", true),
    (&["-[a-c]x"], "bx", true),
    (&["-[a-c]x"], "dx", false),
    (&["-[c-a]"], "b", false),
    (&["-[a-]"], "-", true),
    (&["-[-a]"], "-", true),
    (&["-[]a]"], "]", true),
    (&["-[!]a]"], "]", false),
    (&["-[!]a]"], "b", true),
    (&["-[\\]a]"], "]", true),
    (&["-[\\a-c]"], "b", true),
    (&["-[a-c-e]"], "d", false),
    (&["-[a-c-e]"], "-", true),
    (&["-[[:digit:]]"], "7", true),
    (&["-[[:digit:]x]"], "x", true),
    (&["-[![:alpha:]]"], "x", false),
    (&["-[[:alpha:]-z]"], "-", true),
    (&["-[[:x]"], ":", true),
    (&["-[[:]"], "[", true),
    (&["-d[!x]a"], "d/a", false),
    (&["-d[.-0]a"], "d/a", false),
    (&["-[[:punct:]]"], "d", false),
    // Ordinary bytes.
    (&["-a\\*"], "a*", true),
    (&["-a\\*"], "ab", false),
    (&["-a\\?*"], "a?b", true),
    (&["-\\[a]*"], "[a]", true),
    (&["-\\a*"], "ab", true),
    (&["-a\\b"], "a\\b", true),
    (&["-a\\b"], "ab", false),
    (&["-a\\\\b*"], "a\\bc", true),
    (&["-a\\"], "a\\", true),
    (&["-{a,b}"], "a", false),
    (&["-{a,b}"], "{a,b}", true),
    (&["-a.b"], "axb", false),
    (&["-!a"], "!a", true),
    (&["-a b"], "a b", true),
    (&["-a "], "a", false),
    // Each byte is one: é has two.
    (&["-é"], "é", true),
    (&["-?"], "é", false),
    (&["-??"], "é", true),
    (&["-[é][é]"], "é", true),
    // Slashes that are in no path.
    (&["-/"], "a", false),
    (&["-/"], "a/", false),
    (&["-//a"], "a", false),
    (&["-d//a"], "d/a", false),
    (&["-./a"], "a", false),
    // The first rule that matches.
    (&["+a", "-*"], "a", false),
    (&["+a", "-*"], "b", true),
    (&["-*", "+a"], "a", true),
    (&["+*.c", "+*/", "-*"], "d/x.c", false),
    (&["+*.c", "+*/", "-*"], "d/e/", false),
    (&["+*.c", "+*/", "-*"], "d/x.h", true),
    (&["+d/***", "-*"], "d/", false),
    (&["+d/***", "-*"], "d/e/x", false),
    (&["-x/", "+x"], "x", false),
    (&["-x/", "+x"], "x/", true),
    (&["+/d/", "+/d/a", "-/d/*", "-/*"], "d/a", false),
    (&["+/d/", "+/d/a", "-/d/*", "-/*"], "d/b", true),
    (&["+/d/", "+/d/a", "-/d/*", "-/*"], "a", true),
];

#[test]
fn patterns_leave_out_what_the_table_says() {
    for (rules, path, excluded) in TABLE {
        let excludes = excludes(&bytes(rules)).unwrap();
        let again = Excludes::parse(&excludes.text()).unwrap();
        for excludes in [excludes, again] {
            assert_eq!(asks(&excludes, path), *excluded, "{rules:?} {path}");
        }
    }
}

#[test]
fn names_need_not_be_text() {
    for (rule, path, excluded) in
        [(&b"-*\xff"[..], &b"d/a\xff"[..], true), (b"-\xff\n%", b"\xff\n%", true), (b"-[\x80-\xff]", b"\xfe", true)]
    {
        let excludes = excludes(&[rule.to_vec()]).unwrap();
        assert_eq!(excludes.excludes(Path::new(OsStr::from_bytes(path)), false), excluded);
        assert_eq!(Excludes::parse(&excludes.text()).unwrap().text(), excludes.text());
    }
}

#[test]
fn rsync_leaves_out_what_the_table_says() {
    let Some(_) = rsync() else { return };
    for (rules, path, excluded) in TABLE {
        let tree = tempfile::tempdir().unwrap();
        make(tree.path(), path);
        let path = path.trim_end_matches('/').as_bytes();
        // The folders above must not be left out, or rsync does not look at the entry.
        let mut rules = bytes(rules);
        let above = Path::new(OsStr::from_bytes(path)).ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
        rules.splice(0..0, above.map(|folder| [b"+/", folder.as_os_str().as_bytes(), b"/"].concat()));
        assert_eq!(!kept_by_rsync(tree.path(), &rules).contains(path), *excluded, "{rules:?} {path:?}");
    }
}

#[test]
fn rsync_leaves_out_the_same_of_random_trees() {
    let Some(_) = rsync() else { return };
    let mut random = Random(0x5eed);
    let tree = tempfile::tempdir().unwrap();
    grow(tree.path(), &mut random, 3);
    let mut all_kept = 0;
    let rounds = sweep_by(200, 50);
    for round in 0..rounds {
        let rules: Vec<_> = (0..random.below(5) + 1).map(|_| random.rule()).collect();
        let excludes = excludes(&rules).unwrap();
        let kept = kept(tree.path(), &excludes);
        let shown: Vec<_> = rules.iter().map(|rule| String::from_utf8_lossy(rule)).collect();
        assert_eq!(kept, kept_by_rsync(tree.path(), &rules), "round {round}: {shown:?}");
        all_kept += kept.len();
    }
    let all = kept(tree.path(), &Excludes::none()).len() * rounds;
    assert!((all / 5..all * 4 / 5).contains(&all_kept), "{all_kept} of {all}");
}

/// Excludes with rules as in the table.
fn excludes(rules: &[Vec<u8>]) -> phalanx_host::failure::Outcome<Excludes> {
    let rules = rules.iter().map(|rule| {
        let pattern = OsString::from_vec(rule[1..].to_vec());
        if rule[0] == b'+' { Rule::Include(pattern) } else { Rule::Exclude(pattern) }
    });
    Excludes::new(Choice { rules: rules.collect(), ..Choice::default() })
}

fn bytes(rules: &[&str]) -> Vec<Vec<u8>> {
    rules.iter().map(|rule| rule.as_bytes().to_vec()).collect()
}

fn asks(excludes: &Excludes, path: &str) -> bool {
    excludes.excludes(Path::new(path.trim_end_matches('/')), path.ends_with('/'))
}

/// Makes one entry and the folders above it.
fn make(tree: &Path, path: &str) {
    let at = tree.join(path);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    if path.ends_with('/') { fs::create_dir_all(at).unwrap() } else { fs::write(at, "").unwrap() }
}

/// What is kept of a tree: all paths, relative to it.
fn kept(tree: &Path, excludes: &Excludes) -> BTreeSet<Vec<u8>> {
    let mut kept = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(tree.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let (path, is_folder) = (folder.join(entry.file_name()), entry.file_type().unwrap().is_dir());
            if !excludes.excludes(&path, is_folder) {
                kept.insert(path.as_os_str().as_bytes().to_vec());
                folders.extend(is_folder.then_some(path));
            }
        }
    }
    kept
}

/// What rsync keeps of it.
fn kept_by_rsync(tree: &Path, rules: &[Vec<u8>]) -> BTreeSet<Vec<u8>> {
    let mut command = rsync().unwrap();
    command.args(["-an", "-8", "--out-format=%n"]);
    for rule in rules {
        let filter = [&rule[..1], b" ", &rule[1..]].concat();
        command.arg("-f").arg(OsString::from_vec(filter));
    }
    let out = command.arg(tree.join("")).arg(tree.join("there-is-none")).env("LC_ALL", "C").output().unwrap();
    assert!(out.status.success(), "{rules:?}: {}", String::from_utf8_lossy(&out.stderr));
    let lines = out.stdout.split(|byte| *byte == b'\n').filter(|line| !matches!(*line, b"" | b"./"));
    lines.map(|line| line.strip_suffix(b"/").unwrap_or(line).to_vec()).collect()
}

fn rsync() -> Option<Command> {
    let is_there = Command::new("rsync").arg("--version").output().is_ok();
    if !is_there {
        let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
        assert!(
            !required.split([',', ' ']).any(|name| name == "rsync"),
            "PHALANX_REQUIRE names rsync, which is missing"
        );
        println!("skipped: no rsync");
    }
    is_there.then(|| Command::new("rsync"))
}

const NAMES: [&[u8]; 9] = [b"a", b"b", b"ab", b"a*", b"[a]", b"b\\a", b"a.b", b"-", b"\xc3\xa9\xff"];

/// Fills a folder. Each name may be there, as a folder or as a file.
fn grow(folder: &Path, random: &mut Random, depth: usize) {
    for name in NAMES {
        let path = folder.join(OsStr::from_bytes(name));
        match random.below(if depth == 0 { 2 } else { 3 }) {
            0 => {}
            1 => fs::write(path, "").unwrap(),
            _ => {
                fs::create_dir(&path).unwrap();
                grow(&path, random, depth - 1);
            }
        }
    }
}

/// Random numbers from a seed: xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a [u8]]) -> &'a [u8] {
        of[self.below(of.len())]
    }

    /// A rule whose pattern is a good one.
    fn rule(&mut self) -> Vec<u8> {
        const PARTS: [&[u8]; 24] = [
            b"a",
            b"b",
            b"ab",
            b"*",
            b"*",
            b"*",
            b"?",
            b"**",
            b"**",
            b"***",
            b"/",
            b"/",
            b"/",
            b"[ab]",
            b"[!a]",
            b"[^b*]",
            b"\\*",
            b"\\a",
            b"\\",
            b"[]a-b-]",
            b"[[:alpha:]]",
            b".",
            b"\xff",
            b"-",
        ];
        loop {
            let mut rule = self.one(&[b"-", b"-", b"+"]).to_vec();
            rule.extend_from_slice(self.one(&[b"", b"", b"", b"/", b"**/"]));
            for _ in 0..self.below(5) + 1 {
                rule.extend_from_slice(self.one(&PARTS));
            }
            rule.extend_from_slice(self.one(&[b"", b"", b"", b"/", b"/***", b"/**", b"/*"]));
            if excludes(std::slice::from_ref(&rule)).is_ok() {
                return rule;
            }
        }
    }
}
