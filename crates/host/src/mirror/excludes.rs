//! Which entries of a folder are left out of its mirror.
//!
//! Options and their meanings are those of rsync, tar and restic. All of it is one text, which a manifest keeps: so a later run
//! knows whether entries are missing on purpose.

mod patterns;
mod text;

pub use patterns::Rule;

use crate::failure::{Failure, Outcome};
use crate::lines::shown;
use patterns::Matcher;
use phalanx_system::fs::{self, AtFlags, Mode, OFlags};
use phalanx_system::os::fd::AsFd;
use phalanx_system::os::ffi::{OsStrExt, slashed};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use text::{escaped, unescaped};

/// The longest text of [`Excludes`].
pub const LONGEST_TEXT: usize = 1 << 20;

/// The file that marks a folder as a cache.
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// How that file begins: <https://bford.info/cachedir/>.
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// What is left out, as values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Patterns. The first one that matches an entry decides; an entry that none matches is kept. In an excluded folder nothing
    /// is looked at.
    ///
    /// `*` and `?` match within a name, `[a-z]`, `[!a-z]` and `[[:digit:]]` one byte of it, and `**` any part of a path. A pattern
    /// matches the end of a path, or with a `/` before it the whole path. With a `/` after it, it matches only folders. `dir/***`
    /// matches the folder and all in it. A `\` makes the next byte an ordinary one, in patterns with wildcards.
    pub rules: Vec<Rule>,
    /// Only these paths, relative to the source, with all in them. The folders above them are kept too.
    pub only: Option<Vec<PathBuf>>,
    /// Leaves out what is in folders that a `CACHEDIR.TAG` marks as caches, but for that file.
    pub caches: bool,
    /// Leaves out what is in folders that have an entry of one of these names, but for that entry.
    pub if_present: Vec<OsString>,
    /// Leaves out what is on other file systems. Mount points are kept as empty folders.
    pub one_file_system: bool,
}

/// Which entries of a folder are left out of its mirror.
#[derive(Debug, Default)]
pub struct Excludes {
    choice: Choice,
    /// `None` if there are no rules.
    matcher: Option<Matcher>,
}

/// A line of a text that is not one of [`Excludes`], counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {0} of what is left out is not as it has to be")]
pub struct BadLine(pub usize);

impl Excludes {
    /// Nothing is left out.
    pub fn none() -> Self {
        Self::default()
    }

    /// What a choice leaves out.
    ///
    /// # Errors
    /// A usage failure that names a bad pattern, name or path, or says that all of them together are too long.
    pub fn new(choice: Choice) -> Outcome<Self> {
        let mut choice = Choice { only: choice.only.map(topmost).transpose()?.flatten(), ..choice };
        let mut names = std::mem::take(&mut choice.if_present);
        for name in names.drain(..) {
            if !is_name(&name) {
                let line = format!("--exclude-if-present {}: it is not the name of a file", shown(Path::new(&name)));
                return Err(Failure::usage(line));
            }
            if !choice.if_present.contains(&name) {
                choice.if_present.push(name);
            }
        }
        let matcher = if choice.rules.is_empty() { None } else { Some(Matcher::new(&choice.rules)?) };
        let excludes = Self { choice, matcher };
        match excludes.text().len() {
            ..=LONGEST_TEXT => Ok(excludes),
            _ => Err(Failure::usage("patterns and paths of --files-from are more than 1 MiB together")),
        }
    }

    /// All of it as text. The same choice has the same text.
    pub fn text(&self) -> String {
        let Choice { rules, only, caches, if_present, one_file_system } = &self.choice;
        let mut text = String::new();
        let mut line = |key: &str, value: &OsStr| {
            let _ = writeln!(text, "{key}{}", escaped(value));
        };
        for rule in rules {
            match rule {
                Rule::Exclude(pattern) => line("exclude ", pattern),
                Rule::Include(pattern) => line("include ", pattern),
            }
        }
        match only.as_deref() {
            None => {}
            Some([]) => line("only", OsStr::new("")),
            Some(paths) => paths.iter().for_each(|path| line("only ", OsStr::from_bytes(&slashed(path)))),
        }
        if *caches {
            line("caches", OsStr::new(""));
        }
        if_present.iter().for_each(|name| line("if-present ", name));
        if *one_file_system {
            line("one-file-system", OsStr::new(""));
        }
        text
    }

    /// What [`text`](Self::text) has said.
    ///
    /// # Errors
    /// The first line that is not of such a text.
    pub fn parse(text: &str) -> Result<Self, BadLine> {
        let mut choice = Choice::default();
        for (line, number) in text.lines().zip(1..) {
            add_line(&mut choice, line).ok_or(BadLine(number))?;
        }
        let excludes = if text.len() <= LONGEST_TEXT { Self::new(choice).ok() } else { None };
        let excludes = excludes.ok_or(BadLine(1))?;
        let again = excludes.text();
        if again != text {
            let same = again.split_inclusive('\n').zip(text.split_inclusive('\n')).take_while(|(a, b)| a == b).count();
            return Err(BadLine(same + 1));
        }
        Ok(excludes)
    }

    /// Whether an entry is left out. Its path is relative to the source. What is in a folder that is left out is not asked for: it
    /// is left out too.
    pub fn excludes(&self, path: &Path, is_folder: bool) -> bool {
        // The source itself is always kept.
        if path.as_os_str().is_empty() {
            return false;
        }
        self.choice.only.as_ref().is_some_and(|only| !is_listed(only, path, is_folder))
            || self.matcher.as_ref().is_some_and(|matcher| matcher.excludes(path, is_folder))
    }

    /// Whether there is an entry that is left out because of its path.
    pub(super) fn has_rules(&self) -> bool {
        self.choice.only.is_some() || self.matcher.is_some()
    }

    /// If all of an opened folder is left out but for one entry: the name of that entry, which marks the folder.
    pub fn keeps_only(&self, folder: impl AsFd) -> Option<&OsStr> {
        if self.choice.caches && is_cache(&folder) {
            return Some(OsStr::new(CACHE_TAG));
        }
        let is_there = |name: &&OsString| fs::statat(&folder, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
        self.choice.if_present.iter().find(is_there).map(OsString::as_os_str)
    }

    /// Whether what is on other file systems is left out. Mount points are kept as empty folders.
    pub fn one_file_system(&self) -> bool {
        self.choice.one_file_system
    }

    /// The paths that alone are kept, with all in them, in the order of [`Path`]. None is within another. One that is not there is
    /// a mistake of the list.
    pub fn only(&self) -> Option<&[PathBuf]> {
        self.choice.only.as_deref()
    }
}

/// Adds what a line of a text says.
fn add_line(choice: &mut Choice, line: &str) -> Option<()> {
    match line.split_once(' ') {
        Some(("exclude", pattern)) => choice.rules.push(Rule::Exclude(unescaped(pattern)?).checked().ok()?),
        Some(("include", pattern)) => choice.rules.push(Rule::Include(unescaped(pattern)?).checked().ok()?),
        Some(("only", path)) => choice.only.get_or_insert_default().push(unescaped(path)?.into()),
        Some(("if-present", name)) => choice.if_present.push(unescaped(name)?),
        None if line == "only" => drop(choice.only.get_or_insert_default()),
        None if line == "caches" => choice.caches = true,
        None if line == "one-file-system" => choice.one_file_system = true,
        _ => return None,
    }
    Some(())
}

/// The same paths without those within others, sorted, or `None` if the source itself is one of them.
fn topmost(paths: Vec<PathBuf>) -> Outcome<Option<Vec<PathBuf>>> {
    let mut paths = paths.iter().map(|path| relative(path)).collect::<Outcome<Vec<_>>>()?;
    // By their components: a folder comes right before what is in it.
    paths.sort_unstable();
    let mut top: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !top.last().is_some_and(|above| path.starts_with(above)) {
            top.push(path);
        }
    }
    let is_all = top.first().is_some_and(|path| path.as_os_str().is_empty());
    Ok((!is_all).then_some(top))
}

/// A path of a list, relative to the source.
fn relative(path: &Path) -> Outcome<PathBuf> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(Ok(name)),
        Component::ParentDir => {
            Some(Err(Failure::usage(format!("{}: .. may not be in a path of --files-from", shown(path)))))
        }
        _ => None,
    });
    names.collect()
}

/// Whether an entry is one of some topmost paths, is within one, or is a folder above one.
fn is_listed(top: &[PathBuf], path: &Path, is_folder: bool) -> bool {
    let (before, after) = top.split_at(top.partition_point(|listed| listed.as_path() <= path));
    before.last().is_some_and(|above| path.starts_with(above))
        || is_folder && after.first().is_some_and(|within| within.starts_with(path))
}

/// Whether a folder can have an entry of this name.
fn is_name(name: &OsStr) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.as_bytes().contains(&b'/')
}

/// Whether a folder says that it is a cache. If that cannot be read, it is none.
fn is_cache(folder: impl AsFd) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(tag) = fs::openat(folder, CACHE_TAG, flags, Mode::empty()) else { return false };
    let tag = File::from(tag);
    let mut start = [0; CACHE_SIGNATURE.len()];
    tag.metadata().is_ok_and(|meta| meta.is_file()) && (&tag).read_exact(&mut start).is_ok() && start == CACHE_SIGNATURE
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_system::os::fs::symlink;
    use std::fs as std_fs;

    fn only(paths: &[&str]) -> Excludes {
        Excludes::new(Choice { only: Some(paths.iter().map(PathBuf::from).collect()), ..Choice::default() }).unwrap()
    }

    fn line(choice: Choice) -> String {
        Excludes::new(choice).unwrap_err().line().unwrap().to_owned()
    }

    #[test]
    fn without_options_nothing_is_left_out() {
        let none = Excludes::none();
        assert!(!none.excludes(Path::new("a"), false));
        assert_eq!((&*none.text(), none.only(), none.one_file_system()), ("", None, false));
        assert_eq!(none.keeps_only(File::open("/").unwrap()), None);
    }

    #[test]
    fn a_list_keeps_its_paths_what_is_in_them_and_the_folders_above() {
        let list = only(&["/a/b/", "./c//d", "a/b/x", "a.b", "e"]);
        let kept = ["a/", "a/b", "a/b/", "a/b/x", "a/b/y/z", "c/", "c/d", "c/d/e", "a.b", "a.b/c", "e/f", ""];
        let left_out = ["a", "c", "a/c", "a/b.c", "c/e/", "d/", "f", "a.", "ab", "e.f"];
        for (paths, excluded) in [(&kept[..], false), (&left_out, true)] {
            for path in paths {
                let is_excluded = list.excludes(Path::new(path.trim_end_matches('/')), path.ends_with('/'));
                assert_eq!(is_excluded, excluded, "{path}");
            }
        }
        assert_eq!(list.text(), "only a/b\nonly a.b\nonly c/d\nonly e\n");
        assert!(only(&[]).excludes(Path::new("a"), true));
        assert_eq!(only(&["a", "./"]).only(), None);
        let line = line(Choice { only: Some(vec!["a/../b".into()]), ..Choice::default() });
        assert_eq!(line, "a/../b: .. may not be in a path of --files-from");
    }

    #[test]
    fn the_text_is_all_of_it() {
        let text = "exclude /a b \ninclude 50%25%0a%ff\nexclude é*\nonly x\nonly y/z\ncaches\nif-present .no\n\
                    if-present a\none-file-system\n";
        let excludes = Excludes::parse(text).unwrap();
        assert_eq!(excludes.text(), text);
        assert!(excludes.one_file_system() && excludes.choice.caches);
        for text in ["", "only\n", "caches\n"] {
            assert_eq!(Excludes::parse(text).unwrap().text(), text);
        }
    }

    #[test]
    fn a_text_that_is_not_canonical_is_refused() {
        for (text, line) in [
            ("caches", 1),
            ("\n", 1),
            ("caches\nnothing\n", 2),
            ("caches x\n", 1),
            ("exclude a\nexclude [\n", 2),
            ("exclude a\nexclude %61\n", 2),
            ("exclude %\n", 1),
            ("exclude %F\n", 1),
            ("exclude %+1\n", 1),
            ("exclude %é\n", 1),
            ("exclude a\r\n", 1),
            ("exclude\n", 1),
            ("exclude \n", 1),
            ("only\nonly a\n", 1),
            ("only b\nonly a\n", 1),
            ("only a\nonly a/b\n", 2),
            ("only ../a\n", 1),
            ("caches\nexclude a\n", 1),
            ("if-present a\nif-present a\n", 2),
            ("if-present a/b\n", 1),
            ("one-file-system\none-file-system\n", 2),
        ] {
            assert_eq!(Excludes::parse(text).unwrap_err(), BadLine(line), "{text:?}");
        }
        assert_eq!(BadLine(7).to_string(), "line 7 of what is left out is not as it has to be");
    }

    #[test]
    fn what_is_no_pattern_is_named() {
        for (pattern, why) in [
            ("a[b", "a [ in it has no ]"),
            ("[]", "a [ in it has no ]"),
            ("[a-\\", "a [ in it has no ]"),
            ("*\\", "nothing follows the \\ at its end"),
            ("[a/b]", "a / is never one of a [ ]"),
            ("[[:letter:]]", "it has a [: :] with a name that is unknown"),
        ] {
            let rules = vec![Rule::Exclude(pattern.into())];
            assert_eq!(line(Choice { rules, ..Choice::default() }), format!("pattern {pattern}: {why}"));
        }
        let rules = vec![Rule::Include("".into())];
        assert_eq!(line(Choice { rules, ..Choice::default() }), "a pattern is empty");
        for name in ["", ".", "..", "a/b"] {
            let line = line(Choice { if_present: vec![name.into()], ..Choice::default() });
            assert_eq!(line, format!("--exclude-if-present {name}: it is not the name of a file"));
        }
    }

    #[test]
    fn all_of_it_is_at_most_a_mebibyte() {
        let path = |len| Choice { only: Some(vec!["a".repeat(len).into()]), ..Choice::default() };
        let longest = LONGEST_TEXT - "only \n".len();
        let text = Excludes::new(path(longest)).unwrap().text();
        assert!(text.len() == LONGEST_TEXT && Excludes::parse(&text).is_ok());
        assert_eq!(line(path(longest + 1)), "patterns and paths of --files-from are more than 1 MiB together");
        assert_eq!(Excludes::parse(&format!("only {}\n", "a".repeat(longest + 1))).unwrap_err(), BadLine(1));
    }

    #[test]
    fn a_folder_is_a_cache_if_a_file_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let caches = Excludes::parse("caches\n").unwrap();
        let is_cache = || caches.keeps_only(File::open(dir.path()).unwrap()).is_some();
        let tag = dir.path().join(CACHE_TAG);
        assert!(!is_cache());
        for (content, expected) in [
            (CACHE_SIGNATURE, true),
            (&[CACHE_SIGNATURE, b"\n# A comment"].concat(), true),
            (&CACHE_SIGNATURE[..42], false),
            (b"", false),
            (&[b" ", CACHE_SIGNATURE].concat(), false),
        ] {
            std_fs::write(&tag, content).unwrap();
            assert_eq!(is_cache(), expected);
        }
        std_fs::write(&tag, CACHE_SIGNATURE).unwrap();
        assert_eq!(caches.keeps_only(File::open(dir.path()).unwrap()), Some(OsStr::new(CACHE_TAG)));
        std_fs::rename(&tag, dir.path().join("tag")).unwrap();
        symlink("tag", &tag).unwrap();
        assert!(!is_cache());
        std_fs::remove_file(&tag).unwrap();
        std_fs::create_dir(&tag).unwrap();
        assert!(!is_cache());
        std_fs::remove_dir(&tag).unwrap();
        // Nobody writes to the pipe, and nothing waits for it.
        assert!(std::process::Command::new("mkfifo").arg(&tag).status().unwrap().success());
        assert!(!is_cache());
    }

    #[test]
    fn a_name_that_is_present_marks_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let excludes = Excludes::parse("caches\nif-present .a\nif-present .b\n").unwrap();
        let folder = File::open(dir.path()).unwrap();
        let keeps = || excludes.keeps_only(&folder).map(OsStr::to_owned);
        assert_eq!(keeps(), None);
        symlink("nowhere", dir.path().join(".b")).unwrap();
        assert_eq!(keeps(), Some(".b".into()));
        std_fs::create_dir(dir.path().join(".a")).unwrap();
        assert_eq!(keeps(), Some(".a".into()));
        std_fs::write(dir.path().join(CACHE_TAG), CACHE_SIGNATURE).unwrap();
        assert_eq!(keeps(), Some(CACHE_TAG.into()));
    }
}
