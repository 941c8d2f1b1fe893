//! Patterns of paths, with the meaning that rsync gives them.
//!
//! `regex-automata` matches. Here patterns are put into its terms, byte by byte: names need not be UTF-8.

use crate::failure::{Failure, Outcome};
use crate::lines::shown;
use regex_automata::meta::{Config, Regex};
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A rule: what happens to the entries that its pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// They are left out.
    Exclude(OsString),
    /// They are kept.
    Include(OsString),
}

impl Rule {
    /// The same rule, if its pattern is one.
    ///
    /// # Errors
    /// A usage failure that names the pattern.
    pub fn checked(self) -> Outcome<Self> {
        self.globs()?;
        Ok(self)
    }

    fn globs(&self) -> Outcome<Vec<Glob>> {
        let pattern = self.pattern();
        globs_of(pattern.as_bytes())
            .map_err(|why| Failure::usage(format!("pattern {}: {why}", shown(Path::new(pattern)))))
    }

    fn pattern(&self) -> &OsStr {
        let (Rule::Exclude(pattern) | Rule::Include(pattern)) = self;
        pattern
    }
}

/// Rules that are ready. The first one that matches decides.
#[derive(Debug)]
pub(super) struct Matcher {
    folders: FirstMatch,
    others: FirstMatch,
}

impl Matcher {
    /// Makes rules ready.
    ///
    /// # Errors
    /// A usage failure that names a bad pattern.
    pub fn new(rules: &[Rule]) -> Outcome<Self> {
        let mut globs = Vec::new();
        for rule in rules {
            globs.extend(rule.globs()?.into_iter().map(|glob| (glob, matches!(rule, Rule::Exclude(_)))));
        }
        let others = globs.iter().filter(|(glob, _)| !glob.folders_only);
        Ok(Self { folders: FirstMatch::new(globs.iter())?, others: FirstMatch::new(others)? })
    }

    /// Whether the first rule that matches a path leaves it out.
    pub fn excludes(&self, path: &Path, is_folder: bool) -> bool {
        let rules = if is_folder { &self.folders } else { &self.others };
        rules.excludes(path.as_os_str().as_bytes())
    }
}

/// Globs in their order, all matched at once.
#[derive(Debug)]
struct FirstMatch {
    regex: Regex,
    /// Whether the glob leaves out what it matches.
    excludes: Vec<bool>,
}

impl FirstMatch {
    fn new<'a>(globs: impl Iterator<Item = &'a (Glob, bool)>) -> Outcome<Self> {
        let (hirs, excludes): (Vec<_>, _) = globs.map(|(glob, excludes)| (&glob.hir, *excludes)).unzip();
        // Memory grows with the rules, which are not long.
        let config = Config::new().utf8_empty(false).nfa_size_limit(None).hybrid_cache_capacity(8 << 20);
        let regex = Regex::builder().configure(config).build_many_from_hir(&hirs);
        let regex = regex.map_err(|e| Failure::usage(format!("too many patterns: {e}")))?;
        Ok(Self { regex, excludes })
    }

    fn excludes(&self, path: &[u8]) -> bool {
        // Each glob matches whole paths only, so what is found first is the first of them that matches.
        let found = self.regex.search_half(&Input::new(path).anchored(Anchored::Yes));
        found.is_some_and(|found| self.excludes[found.pattern().as_usize()])
    }
}

/// What matches whole paths.
#[derive(Debug)]
struct Glob {
    hir: Hir,
    folders_only: bool,
}

/// What a pattern means: it matches what one of these matches.
fn globs_of(pattern: &[u8]) -> Result<Vec<Glob>, &'static str> {
    let (pattern, folders_only) = match pattern {
        [] => return Err("it is empty"),
        [start @ .., b'/'] if !start.is_empty() => (start, true),
        _ => (pattern, false),
    };
    let (is_anchored, from_start) = match pattern.strip_prefix(b"/") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let tokens = tokens(from_start)?;
    let mut globs = Vec::new();
    // `dir/***` is the folder, as well as `dir/**`.
    if let ([folder @ .., Token::Byte(b'/'), Token::AnyPath], true) = (&*tokens, pattern.ends_with(b"***")) {
        globs.push(Glob { hir: whole(is_anchored, folder), folders_only: true });
    }
    globs.push(Glob { hir: whole(is_anchored, &tokens), folders_only });
    Ok(globs)
}

/// Whole paths that tokens match, from the source on or from any folder on.
fn whole(is_anchored: bool, tokens: &[Token]) -> Hir {
    let (folders, tokens) = match tokens {
        _ if is_anchored => (Hir::empty(), tokens),
        // For rsync a path begins with a slash here.
        [Token::AnyPath, Token::Byte(b'/'), rest @ ..] => (any_folders(), rest),
        _ => (any_folders(), tokens),
    };
    let tokens = tokens.iter().map(Token::hir);
    Hir::concat([Hir::look(Look::Start), folders].into_iter().chain(tokens).chain([Hir::look(Look::End)]).collect())
}

/// Nothing, or what ends with a slash.
fn any_folders() -> Hir {
    let folders = Hir::concat(vec![Token::AnyPath.hir(), Token::Byte(b'/').hir()]);
    Hir::repetition(Repetition { min: 0, max: Some(1), greedy: true, sub: Box::new(folders) })
}

/// A part of a pattern.
#[derive(Clone, Debug)]
enum Token {
    /// This byte.
    Byte(u8),
    /// One of these bytes.
    OneOf(ClassBytes),
    /// `*`: bytes of one name.
    AnyName,
    /// `**`: any bytes.
    AnyPath,
}

impl Token {
    fn hir(&self) -> Hir {
        let any_of = |class| {
            Hir::repetition(Repetition {
                min: 0,
                max: None,
                greedy: true,
                sub: Box::new(Hir::class(Class::Bytes(class))),
            })
        };
        match self {
            Token::Byte(byte) => Hir::literal([*byte]),
            Token::OneOf(class) => Hir::class(Class::Bytes(class.clone())),
            Token::AnyName => any_of(all_but_slash()),
            Token::AnyPath => any_of(range(0, 255)),
        }
    }
}

/// The parts of a pattern. Without wildcards, a `\` is nothing special.
fn tokens(pattern: &[u8]) -> Result<Vec<Token>, &'static str> {
    if !pattern.iter().any(|byte| b"*?[".contains(byte)) {
        return Ok(pattern.iter().copied().map(Token::Byte).collect());
    }
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        tokens.push(match byte {
            b'\\' => Token::Byte(*rest.split_off_first().ok_or(NOTHING_ESCAPED)?),
            b'?' => Token::OneOf(all_but_slash()),
            b'[' => Token::OneOf(set(&mut rest)?),
            b'*' => {
                let more = rest.iter().take_while(|byte| **byte == b'*').count();
                rest = &rest[more..];
                if more == 0 { Token::AnyName } else { Token::AnyPath }
            }
            byte => Token::Byte(byte),
        });
    }
    Ok(tokens)
}

const NOTHING_ESCAPED: &str = "nothing follows the \\ at its end";
const OPEN: &str = "a [ in it has no ]";

/// The bytes of a set, which begins after its `[`. Takes all of it, and its `]`.
fn set(rest: &mut &[u8]) -> Result<ClassBytes, &'static str> {
    let is_negated = matches!(rest.first(), Some(b'!' | b'^'));
    if is_negated {
        rest.split_off_first();
    }
    let mut set = ClassBytes::empty();
    // What a range may begin with.
    let mut before = None;
    let mut is_first = true;
    loop {
        let byte = *rest.split_off_first().ok_or(OPEN)?;
        match (byte, before, *rest) {
            (b']', ..) if !is_first => break,
            (b'-', Some(low), [next, ..]) if *next != b']' => {
                let high = *rest.split_off_first().ok_or(OPEN)?;
                let high = if high == b'\\' { *rest.split_off_first().ok_or(OPEN)? } else { high };
                // One from z to a is empty.
                if low <= high {
                    set.union(&range(low, high));
                }
                before = None;
            }
            (b'[', _, [b':', ..]) if named(rest).is_some() => {
                set.union(&named_set(named(rest).unwrap_or_default())?);
                *rest = &rest[named(rest).unwrap_or_default().len() + 3..];
                before = None;
            }
            (b'/', ..) => return Err("a / is never one of a [ ]"),
            _ => {
                let byte = if byte == b'\\' { *rest.split_off_first().ok_or(OPEN)? } else { byte };
                set.push(ClassBytesRange::new(byte, byte));
                before = Some(byte);
            }
        }
        is_first = false;
    }
    if is_negated {
        set.negate();
    }
    set.intersect(&all_but_slash());
    Ok(set)
}

/// The name in `:name:]`, if that is what follows.
fn named<'a>(rest: &&'a [u8]) -> Option<&'a [u8]> {
    let name = rest.strip_prefix(b":")?;
    let end = name.iter().position(|byte| *byte == b']')?;
    name[..end].strip_suffix(b":")
}

/// The bytes of a set with a name, as in the locale C.
fn named_set(name: &[u8]) -> Result<ClassBytes, &'static str> {
    let has: fn(&u8) -> bool = match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| b" \t".contains(byte),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| *byte == b' ' || byte.is_ascii_graphic(),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| *byte == b'\x0b' || byte.is_ascii_whitespace(),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return Err("it has a [: :] with a name that is unknown"),
    };
    Ok(ClassBytes::new((0..=127).filter(has).map(|byte| ClassBytesRange::new(byte, byte))))
}

fn range(low: u8, high: u8) -> ClassBytes {
    ClassBytes::new([ClassBytesRange::new(low, high)])
}

fn all_but_slash() -> ClassBytes {
    let mut all = range(b'/', b'/');
    all.negate();
    all
}
