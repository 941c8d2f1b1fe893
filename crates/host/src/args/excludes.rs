//! What is left out of a mirror.

use crate::Error;
use crate::failure::{Code, Failure, Outcome};
use crate::lines::shown;
use crate::mirror::excludes::{Choice, Excludes, Rule};
use crate::paths::is_dash;
use crate::stdio;
use phalanx_system::os::ffi::OsStrExt;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A list is not longer than this. What it says may be much shorter still: it also has comments.
const LONGEST_LIST: u64 = 16 << 20;

/// What is left out of a mirror. Without any of it, nothing is.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args), group(skip))]
pub struct ExcludeArgs {
    /// Patterns, in the order of the command line.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub rules: RuleArgs,
    /// Take only the paths in a file, one on a line
    ///
    /// They are relative to SOURCE, even with a / at their start. Folders are taken with all that is in them, and the
    /// folders above a path are kept. Lines that are empty or begin with # or ; do not count. .. may not be in a path. What
    /// other options leave out is left out here too. - is standard input.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath))]
    pub files_from: Option<PathBuf>,
    /// Leave out what is in folders marked as caches
    ///
    /// Such a folder has a file CACHEDIR.TAG that begins with the signature of such files, as tar
    /// and restic know it. The folder and that file are kept.
    #[cfg_attr(feature = "clap", arg(long))]
    pub exclude_caches: bool,
    /// Leave out what is in folders with a file F (repeatable)
    ///
    /// F is the name of a file. The folder and that file are kept. It may also be a folder, which is kept with all in it.
    #[cfg_attr(feature = "clap", arg(long, value_name = "F"))]
    pub exclude_if_present: Vec<OsString>,
    /// Leave out what is on other file systems
    ///
    /// Mount points are kept as empty folders.
    #[cfg_attr(feature = "clap", arg(short = 'x', long))]
    pub one_file_system: bool,
}

/// Patterns and files of patterns, in the order of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleArgs(pub Vec<RuleArg>);

/// One option about patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleArg {
    /// What this pattern matches is left out.
    Exclude(OsString),
    /// What this pattern matches is kept.
    Include(OsString),
    /// The patterns in this file.
    From(PathBuf),
}

impl From<Rule> for RuleArg {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Exclude(pattern) => RuleArg::Exclude(pattern),
            Rule::Include(pattern) => RuleArg::Include(pattern),
        }
    }
}

impl ExcludeArgs {
    /// The files that are read. One of them at most can be standard input.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let rules = self.rules.0.iter().filter_map(|rule| match rule {
            RuleArg::From(path) => Some(path),
            _ => None,
        });
        rules.chain(&self.files_from)
    }

    /// What these options leave out. Reads the files.
    ///
    /// # Errors If a pattern, a name or a path is not one, or a file cannot be read.
    pub fn excludes(&self) -> Outcome<Excludes> {
        let paths =
            |path: &PathBuf| -> Outcome<_> { Ok(lines(&list(path)?).map(|(_, line)| PathBuf::from(line)).collect()) };
        Excludes::new(Choice {
            rules: self.rules.read()?,
            only: self.files_from.as_ref().map(paths).transpose()?,
            caches: self.exclude_caches,
            if_present: self.exclude_if_present.clone(),
            one_file_system: self.one_file_system,
        })
    }
}

impl RuleArgs {
    /// The rules of all options and files.
    ///
    /// # Errors
    /// If a file cannot be read, or has a bad pattern.
    pub fn read(&self) -> Outcome<Vec<Rule>> {
        let mut rules = Vec::new();
        for arg in &self.0 {
            match arg {
                RuleArg::Exclude(pattern) => rules.push(Rule::Exclude(pattern.clone())),
                RuleArg::Include(pattern) => rules.push(Rule::Include(pattern.clone())),
                RuleArg::From(path) => add_list(&mut rules, path)?,
            }
        }
        Ok(rules)
    }
}

/// The rule of a line: a pattern of what is left out, perhaps after `- `, or after `+ ` one of what is kept.
pub fn rule_of(line: &OsStr) -> Rule {
    let owned = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    match line.as_bytes() {
        [b'+', b' ', pattern @ ..] => Rule::Include(owned(pattern)),
        [b'-', b' ', pattern @ ..] => Rule::Exclude(owned(pattern)),
        pattern => Rule::Exclude(owned(pattern)),
    }
}

/// Adds the rules in a file. As for rsync, a line `!` takes back all that came before.
fn add_list(rules: &mut Vec<Rule>, path: &Path) -> Outcome {
    for (number, line) in lines(&list(path)?) {
        if line == "!" {
            rules.clear();
            continue;
        }
        let rule = rule_of(line).checked().map_err(|failure| {
            let why = failure.line().unwrap_or_default();
            Failure::new(failure.code(), format!("{}: line {number}: {why}", shown(path))).on(path)
        });
        rules.push(rule?);
    }
    Ok(())
}

/// The lines of a list that count, with their numbers.
fn lines(list: &[u8]) -> impl Iterator<Item = (usize, &OsStr)> {
    let lines = list.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    (1..)
        .zip(lines.map(OsStr::from_bytes))
        .filter(|(_, line)| !matches!(line.as_bytes().first(), None | Some(b'#' | b';')))
}

/// The bytes of a list.
fn list(path: &Path) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = if is_dash(path) { stdio::input() } else { File::open(path) };
    let read = file.and_then(|file| file.take(LONGEST_LIST + 1).read_to_end(&mut bytes));
    match read.map_err(|e| Failure::at(path, Error::read(e)))? as u64 {
        ..=LONGEST_LIST => Ok(bytes),
        _ => Err(Failure::new(Code::InputOutput, format!("{}: it is too long for a list", shown(path))).on(path)),
    }
}

#[cfg(feature = "clap")]
mod order {
    use super::{RuleArg, RuleArgs};
    use clap::{ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};
    use std::ffi::OsString;
    use std::path::PathBuf;

    /// The options by themselves. Their order among each other is not in here.
    #[derive(Args)]
    #[group(skip)]
    struct Options {
        /// Leave out what a pattern matches (repeatable)
        ///
        /// In a pattern * and ? match within a name, [a-z] a letter, ** any part of a path, and \* a *. A pattern matches
        /// the end of a path: *.o, tmp/cache. With a / at its start it matches the whole path, from SOURCE on. With a / at
        /// its end it matches folders only. DIR/*** is the folder and all in it. The first --exclude or --include that
        /// matches decides. In a folder that is left out nothing is looked at. All this is as with rsync.
        #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
        exclude: Vec<OsString>,
        /// Keep what a pattern matches, whatever follows (repeatable)
        ///
        /// It has to come before the --exclude that would leave it out. The folders above are not kept by it: an --exclude
        /// must not leave them out.
        #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
        include: Vec<OsString>,
        /// Leave out what the patterns in a file match
        ///
        /// May be repeated. There is one on each line. Lines that are empty or begin with # or ; do not count. A line that begins with + and
        /// a space is an --include, and - and a space is an --exclude, as is a line with neither. A line ! takes back all
        /// rules before it. - is standard input.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        exclude_from: Vec<PathBuf>,
    }

    impl FromArgMatches for RuleArgs {
        fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
            let Options { exclude, include, exclude_from } = Options::from_arg_matches(matches)?;
            let places = |id| matches.indices_of(id).into_iter().flatten();
            let exclude = places("exclude").zip(exclude.into_iter().map(RuleArg::Exclude));
            let include = places("include").zip(include.into_iter().map(RuleArg::Include));
            let from = places("exclude_from").zip(exclude_from.into_iter().map(RuleArg::From));
            let mut rules: Vec<_> = exclude.chain(include).chain(from).collect();
            rules.sort_by_key(|(place, _)| *place);
            Ok(Self(rules.into_iter().map(|(_, rule)| rule).collect()))
        }

        fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
            *self = Self::from_arg_matches(matches)?;
            Ok(())
        }
    }

    impl Args for RuleArgs {
        fn augment_args(command: Command) -> Command {
            Options::augment_args(command)
        }

        fn augment_args_for_update(command: Command) -> Command {
            Options::augment_args_for_update(command)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn args(rules: Vec<RuleArg>) -> ExcludeArgs {
        ExcludeArgs { rules: RuleArgs(rules), ..ExcludeArgs::default() }
    }

    #[test]
    fn a_list_of_patterns_stands_where_its_option_stands() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list");
        fs::write(&list, "# a comment\n\n;another\r\n+ a\n- b\r\n-c\n x \n\\#*").unwrap();
        let from = RuleArg::From(list.clone());
        let args = args(vec![RuleArg::Exclude("+ 1".into()), from.clone(), RuleArg::Include("2".into())]);
        let text = "exclude + 1\ninclude a\nexclude b\nexclude -c\nexclude  x \nexclude \\#*\ninclude 2\n";
        assert_eq!(args.excludes().unwrap().text(), text);
        assert_eq!(args.files().collect::<Vec<_>>(), [&list]);
        fs::write(&list, "a\n!\n!b\n").unwrap();
        assert_eq!(args.excludes().unwrap().text(), "exclude !b\ninclude 2\n");
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list");
        let failure = |text: &str| {
            fs::write(&list, text).unwrap();
            let failure = args(vec![RuleArg::From(list.clone())]).excludes().unwrap_err();
            (failure.code(), failure.line().unwrap().replace(&format!("{}: ", list.display()), ""))
        };
        assert_eq!(failure("\na[\n"), (Code::Usage, "line 2: pattern a[: a [ in it has no ]".into()));
        assert_eq!(failure("+ \n"), (Code::Usage, "line 1: a pattern is empty".into()));
        fs::remove_file(&list).unwrap();
        let args = ExcludeArgs { files_from: Some(list.clone()), ..ExcludeArgs::default() };
        assert_eq!(args.excludes().unwrap_err().code(), Code::InputOutput);
        fs::create_dir(&list).unwrap();
        assert_eq!(args.excludes().unwrap_err().code(), Code::InputOutput);
    }

    #[test]
    fn a_list_of_paths_has_comments_too() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list");
        fs::write(&list, "# paths\n/b/c\n\n;\n./#a\nd \n").unwrap();
        let args = ExcludeArgs { files_from: Some(list.clone()), ..ExcludeArgs::default() };
        assert_eq!(args.excludes().unwrap().text(), "only #a\nonly b/c\nonly d \n");
        assert_eq!(args.files().collect::<Vec<_>>(), [&list]);
    }

    #[test]
    #[cfg(feature = "clap")]
    fn a_command_line_keeps_the_order_of_rules() {
        use clap::{Args as _, FromArgMatches as _};
        let command = ExcludeArgs::augment_args(clap::Command::new("mirror"));
        let line = "mirror --exclude a --include=b --exclude-from c -x --exclude -d --include e --exclude-if-present f \
                    --files-from - --exclude-caches --exclude-if-present g";
        let matches = command.clone().try_get_matches_from(line.split_ascii_whitespace()).unwrap();
        let args = ExcludeArgs::from_arg_matches(&matches).unwrap();
        let exclude = |pattern: &str| RuleArg::Exclude(pattern.into());
        let include = |pattern: &str| RuleArg::Include(pattern.into());
        let rules = [exclude("a"), include("b"), RuleArg::From("c".into()), exclude("-d"), include("e")];
        assert_eq!(args.rules.0, rules);
        assert_eq!(args.exclude_if_present, ["f", "g"]);
        assert!(args.one_file_system && args.exclude_caches);
        assert_eq!(args.files().collect::<Vec<_>>(), [Path::new("c"), Path::new("-")]);
        let none = command.try_get_matches_from(["mirror"]).unwrap();
        assert_eq!(ExcludeArgs::from_arg_matches(&none).unwrap().excludes().unwrap().text(), "");
    }
}
