//! Patterns of paths, with the meaning that rsync gives them.
//!
//! `regex-automata` matches. Here patterns are put into its terms, byte by byte: names need not be UTF-8.

use crate::failure::{Failure, Outcome};
use crate::lines::shown;
use phalanx_system::os::ffi::{OsStrExt, slashed};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::pool::Pool;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::panic::{RefUnwindSafe, UnwindSafe};
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
        if pattern.is_empty() {
            return Err(Failure::usage("a pattern is empty"));
        }
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
    folders: Vec<Group>,
    others: Vec<Group>,
}

impl Matcher {
    /// Makes rules ready.
    ///
    /// # Errors
    /// A usage failure that names a bad pattern.
    pub fn new(rules: &[Rule]) -> Outcome<Self> {
        let globs = rules.iter().zip(0..).map(|(rule, number)| {
            let decision = Decision { number, excludes: matches!(rule, Rule::Exclude(_)) };
            Ok(rule.globs()?.into_iter().map(move |glob| (glob, decision)))
        });
        let globs: Vec<_> = globs.collect::<Outcome<Vec<_>>>()?.into_iter().flatten().collect();
        let others = globs.iter().filter(|(glob, _)| !glob.folders_only);
        Ok(Self { folders: Group::all(globs.iter())?, others: Group::all(others)? })
    }

    /// Whether the first rule that matches a path leaves it out.
    pub fn excludes(&self, path: &Path, is_folder: bool) -> bool {
        let groups = if is_folder { &self.folders } else { &self.others };
        let path = &*slashed(path);
        let first = groups.iter().filter_map(|group| group.first(path)).min_by_key(|decision| decision.number);
        first.is_some_and(|decision| decision.excludes)
    }
}

/// What a rule decides.
#[derive(Clone, Copy, Debug)]
struct Decision {
    /// Lower ones come first.
    number: usize,
    excludes: bool,
}

/// Globs that match the same part of a path, in their order. All of them are matched at once.
#[derive(Debug)]
struct Group {
    part: Part,
    dfa: DFA,
    caches: Pool<Cache, CreateCache>,
    /// What the rules of the globs decide.
    decisions: Vec<Decision>,
}

impl Group {
    fn all<'a>(globs: impl Iterator<Item = &'a (Glob, Decision)>) -> Outcome<Vec<Self>> {
        let mut parts = BTreeMap::<Part, (Vec<&Hir>, Vec<Decision>)>::new();
        for (glob, decision) in globs {
            let (hirs, decisions) = parts.entry(glob.part).or_default();
            hirs.push(&glob.hir);
            decisions.push(*decision);
        }
        let groups = parts.into_iter().map(|(part, (hirs, decisions))| {
            Self::new(part, &hirs, decisions).map_err(|e| Failure::usage(format!("too many patterns: {e}")))
        });
        groups.collect()
    }

    fn new(part: Part, hirs: &[&Hir], decisions: Vec<Decision>) -> Result<Self, Box<dyn std::error::Error>> {
        let config = NFA::config().utf8(false).which_captures(WhichCaptures::None);
        let nfa = NFA::compiler().configure(config).build_many_from_hir(hirs)?;
        // States are made when they are needed. When the cache is full of them, it is emptied.
        let config = DFA::config().cache_capacity(CACHE).skip_cache_capacity_check(true);
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa)?;
        let caches = Pool::new({
            let dfa = dfa.clone();
            Box::new(move || dfa.create_cache()) as CreateCache
        });
        Ok(Self { part, dfa, caches, decisions })
    }

    /// What the first of the rules decides that matches a path.
    fn first(&self, path: &[u8]) -> Option<Decision> {
        let input = Input::new(self.part.of(path)).anchored(Anchored::Yes);
        let found = self.dfa.try_search_fwd(&mut self.caches.get(), &input);
        // Each glob matches all of its part, so what is found is the first that matches.
        let found = found.expect("there are no bytes to stop at, and no limit to the work");
        found.map(|found| self.decisions[found.pattern().as_usize()])
    }
}

type CreateCache = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// The most memory for the states of a group, in each thread. A thousand patterns with `**` need it; others need little.
const CACHE: usize = 32 << 20;

/// What matches a part of a path.
#[derive(Debug)]
struct Glob {
    part: Part,
    hir: Hir,
    folders_only: bool,
}

/// A part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// All of it.
    Whole,
    /// The last name, and this many before it.
    End(usize),
}

impl Part {
    /// This part. A path that has fewer names is all of it.
    fn of(self, path: &[u8]) -> &[u8] {
        match self {
            Part::Whole => path,
            Part::End(before) => {
                let mut slashes = (0..path.len()).rev().filter(|at| path[*at] == b'/');
                &path[slashes.nth(before).map_or(0, |at| at + 1)..]
            }
        }
    }
}

/// What a pattern means: it matches what one of these matches.
fn globs_of(pattern: &[u8]) -> Result<Vec<Glob>, &'static str> {
    let (pattern, folders_only) = match pattern {
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
        globs.push(glob(is_anchored, folder, true));
    }
    globs.push(glob(is_anchored, &tokens, folders_only));
    Ok(globs)
}

/// What these tokens match, from the source on or from any folder on.
fn glob(is_anchored: bool, tokens: &[Token], folders_only: bool) -> Glob {
    let tokens = match tokens {
        // For rsync a path begins with a slash here.
        [Token::AnyPath, Token::Byte(b'/'), rest @ ..] if !is_anchored => rest,
        _ => tokens,
    };
    let slashes = tokens.iter().filter(|token| matches!(token, Token::Byte(b'/'))).count();
    let (part, folders) = match tokens.iter().any(|token| matches!(token, Token::AnyPath)) {
        _ if is_anchored => (Part::Whole, Hir::empty()),
        true => (Part::Whole, any_folders()),
        // Most patterns are such. A start that is known spares work for every byte.
        false => (Part::End(slashes), Hir::empty()),
    };
    let tokens = tokens.iter().map(Token::hir);
    let hir = Hir::concat([folders].into_iter().chain(tokens).chain([Hir::look(Look::End)]).collect());
    Glob { part, hir, folders_only }
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
