//! Parsing a command line: its help pages, and its errors in the words of Phalanx.
//!
//! No message repeats a value that was given to an option without values: it may be a password.

use crate::argv;
use crate::failure::{Code, Failure, Outcome};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, FromArgMatches};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

/// Both -h and --help print one screen: the man page has the rest.
pub fn with_short_help(command: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").help("Print help").action(ArgAction::HelpShort);
    command.disable_help_flag(true).arg(help.global(true).display_order(902))
}

/// Parses the command line. Help and the version are printed here and end the program. An error becomes one line.
///
/// # Errors
/// If the command line is wrong, or standard output is.
pub fn parse_as<C: FromArgMatches>(command: &Command) -> Outcome<C> {
    let given = given()?;
    parse_from(command.clone(), &given).or_else(|error| end(command, error, &given))
}

/// Parses the command line as [`parse_as`] does, for one of many processes with the same command line. It prints no
/// help; another process does.
///
/// # Errors
/// If the command line is wrong.
pub fn parse_silently_as<C: FromArgMatches>(command: &Command) -> Outcome<C> {
    let given = given()?;
    parse_from(command.clone(), &given).map_err(|error| match error.exit_code() {
        0 => std::process::exit(0),
        _ => failure(command, &error, &given),
    })
}

/// The arguments of the program, with its own name first.
///
/// # Errors
/// If a secret seems to be among them.
pub fn given() -> Outcome<Vec<OsString>> {
    argv::refuse_secrets(std::env::args_os().skip(1))?;
    Ok(std::env::args_os().collect())
}

/// Parses these arguments.
///
/// # Errors
/// Those of clap. [`end`] makes a failure of one.
pub fn parse_from<C: FromArgMatches>(command: Command, args: &[OsString]) -> clap::error::Result<C> {
    command.try_get_matches_from(args).and_then(|matches| C::from_arg_matches(&matches))
}

/// Handles what clap calls an error: help is printed and ends the program, and an error becomes a failure.
///
/// # Errors
/// A line that says what is wrong with the arguments.
pub fn end<T>(command: &Command, error: clap::Error, args: &[OsString]) -> Outcome<T> {
    let printed = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.print().map(|()| None),
        // Without a command the help page is printed, but the exit code tells a script that nothing was done.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            write!(io::stdout(), "{}", error.render()).map(|()| Some(Failure::written(Code::Usage)))
        }
        _ => Ok(Some(failure(command, &error, args))),
    };
    match printed {
        Ok(Some(failure)) => Err(failure),
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::at_stdout(e)),
        // A reader who wants only the first lines may close the pipe.
        Ok(None) | Err(_) => std::process::exit(0),
    }
}

/// The error in one sentence, and where to read more.
pub fn failure(command: &Command, error: &clap::Error, args: &[OsString]) -> Failure {
    if text(error, ContextKind::InvalidSubcommand) == "bench" {
        return Failure::usage("the experiments are a program of their own")
            .hint("cargo run --release -p phalanx-bench -- --help");
    }
    let hint = match names_a_file(error, args) {
        true => "put -- before names that begin with -".into(),
        false => format!("{} --help", path(command, args)),
    };
    Failure::usage(sentence(command, error, args)).hint(hint)
}

fn sentence(command: &Command, error: &clap::Error, args: &[OsString]) -> String {
    let text = |kind| text(error, kind);
    let (arg, value) = (name(&text(ContextKind::InvalidArg)), text(ContextKind::InvalidValue));
    // The most likely one comes last.
    let perhaps = |kind| match strings(error, kind).last() {
        Some(known) => format!(": did you mean {known}?"),
        None => String::new(),
    };
    match error.kind() {
        ErrorKind::UnknownArgument if is_attached_to_flag(&arg, args) => "-p takes no value".into(),
        ErrorKind::UnknownArgument if names_a_file(error, args) => format!("unknown option {arg}"),
        ErrorKind::UnknownArgument if arg.starts_with('-') => {
            format!("unknown option {arg}{}", perhaps(ContextKind::SuggestedArg))
        }
        ErrorKind::UnknownArgument => format!("too many arguments: {arg} is not expected"),
        ErrorKind::InvalidSubcommand => {
            let given = text(ContextKind::InvalidSubcommand);
            let known = ELSEWHERE.get().copied().unwrap_or(elsewhere);
            match known(&path(command, args), &given) {
                Some(known) => format!("unknown command {given}: {known}"),
                None => format!("unknown command {given}{}", perhaps(ContextKind::SuggestedSubcommand)),
            }
        }
        ErrorKind::InvalidValue => {
            let known = strings(error, ContextKind::ValidValue);
            let wanted = if known.is_empty() { String::new() } else { format!(": {}", list(&known, "or")) };
            match value.is_empty() {
                true => format!("{arg} needs a value{wanted}"),
                false => format!("{arg}{wanted}, not {value}"),
            }
        }
        ErrorKind::ValueValidation => {
            let wanted = std::error::Error::source(error).map_or("another value".into(), ToString::to_string);
            // Of numbers clap says: "0 is not in 1..=9".
            let range = wanted.strip_prefix(&format!("{value} is not in ")).and_then(|range| range.split_once("..="));
            match range {
                Some((from, to)) => format!("{arg}: a number from {from} to {to}, not {value}"),
                None => format!("{arg}: {wanted}, not {value}"),
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<String> = strings(error, ContextKind::InvalidArg).iter().map(|arg| name(arg)).collect();
            format!("missing: {}", list(&missing, "and"))
        }
        ErrorKind::MissingSubcommand => "no command given".into(),
        ErrorKind::ArgumentConflict => match strings(error, ContextKind::PriorArg).first().map(|other| name(other)) {
            Some(other) if other == arg => format!("{arg} is given twice"),
            Some(other) => format!("{arg} cannot be combined with {other}"),
            None => format!("{arg} cannot be combined with another option"),
        },
        ErrorKind::TooManyValues => format!("{arg} takes no value"),
        ErrorKind::InvalidUtf8 => "an argument that is not a path is not valid UTF-8".into(),
        _ => "the command line is not understood".into(),
    }
}

/// What to say of a command that is unknown after this path, such as `phalanx key`.
pub type Elsewhere = fn(path: &str, command: &str) -> Option<&'static str>;

static ELSEWHERE: OnceLock<Elsewhere> = OnceLock::new();

/// Sets what a program other than `phalanx` says of commands that it has by another name. Only the first call counts.
pub fn elsewhere_by(elsewhere: Elsewhere) {
    let _ = ELSEWHERE.set(elsewhere);
}

/// The command of Phalanx for a command of another program.
fn elsewhere(path: &str, command: &str) -> Option<&'static str> {
    let of_key = path == "phalanx key";
    if path != "phalanx" && !of_key {
        return None;
    }
    Some(match command {
        "create" | "generate" | "gen" if of_key => "did you mean new?",
        "delete" | "remove" if of_key => "did you mean rm?",
        "ls" if of_key => "did you mean list?",
        _ if of_key => return None,
        "encrypt" | "enc" | "lock" | "seal" => "did you mean protect?",
        "decrypt" | "dec" | "unlock" | "open" => "did you mean unprotect?",
        "check" | "test" => "did you mean verify?",
        "info" | "show" => "did you mean inspect?",
        "umount" | "unmount" => "fusermount3 -u MOUNTPOINT unmounts",
        _ => return None,
    })
}

/// Options are shown as "--output <PATH>", and arguments as "<PATH>...".
fn name(shown: &str) -> String {
    let word = shown.split(' ').next().unwrap_or(shown);
    word.trim_end_matches("...").trim_matches(['<', '>', '[', ']']).to_owned()
}

/// What clap says first. The text of a server's token is not repeated.
fn text(error: &clap::Error, kind: ContextKind) -> String {
    let text = strings(error, kind).into_iter().next().unwrap_or_default();
    if text.trim_start_matches(['\'', '"', '<']).starts_with("phx.") { "phx.…".into() } else { text }
}

fn strings(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => Vec::new(),
    }
}

/// "a, b or c"
fn list(words: &[String], last: &str) -> String {
    match words {
        [all @ .., end] if !all.is_empty() => format!("{} {last} {end}", all.join(", ")),
        _ => words.concat(),
    }
}

/// Whether an unknown short option is a letter of what follows `-p` in the same word, as in `-psecret`.
fn is_attached_to_flag(arg: &str, args: &[OsString]) -> bool {
    let is_short = arg.len() > 1 && arg.starts_with('-') && !arg.starts_with("--");
    is_short && args.iter().any(|word| word.len() > 2 && word.as_encoded_bytes().starts_with(b"-p"))
}

/// Whether an option is unknown, and a word that looks like an option is the name of a file.
fn names_a_file(error: &clap::Error, args: &[OsString]) -> bool {
    let unknown = name(&text(error, ContextKind::InvalidArg));
    if error.kind() != ErrorKind::UnknownArgument || !unknown.starts_with('-') || is_attached_to_flag(&unknown, args) {
        return false;
    }
    let is_option = |word: &OsString| word.len() > 1 && word.as_encoded_bytes().starts_with(b"-");
    args.iter().any(|word| is_option(word) && Path::new(word).symlink_metadata().is_ok())
}

/// The command so far, like "phalanx key new".
fn path(command: &Command, args: &[OsString]) -> String {
    let mut path = vec![command.get_name().to_owned()];
    let mut at = command;
    for arg in args.iter().skip(1).filter_map(|arg| arg.to_str()).filter(|arg| !arg.starts_with('-')) {
        let Some(next) = at.find_subcommand(arg) else { break };
        path.push(next.get_name().to_owned());
        at = next;
    }
    path.join(" ")
}
