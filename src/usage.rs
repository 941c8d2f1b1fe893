//! Parsing the command line of `phalanx`.

use crate::args::{self, Cli, examples};
use clap::error::ErrorKind;
use clap::{Command, CommandFactory};
use phalanx_host::failure::Outcome;
use phalanx_host::usage::{end, given, parse_from, with_short_help};
use phalanx_host::verbosity::Verbosity;
use std::ffi::OsString;

/// The whole command line, with the examples at the end of each page of help.
pub fn command() -> Command {
    examples::add(with_short_help(Cli::command()))
}

/// Parses the command line. Help is printed here and ends the program. An error becomes one line.
pub fn parse() -> Outcome<Cli> {
    let given = given()?;
    // The examples are wanted only where help or an error is printed.
    parse_from(with_short_help(Cli::command()), &given).or_else(|error| match error.kind() {
        ErrorKind::DisplayVersion => Ok(version(&given)),
        _ => parse_from(command(), &given).or_else(|error| end(&command(), error, &given)),
    })
}

/// `--version` is the command `version`. clap stops parsing at it, so we look for --verbose ourselves.
fn version(given: &[OsString]) -> Cli {
    let is_verbose = |arg: &OsString| {
        let letters = arg.as_encoded_bytes().strip_prefix(b"-").filter(|rest| !rest.starts_with(b"-"));
        arg == "--verbose" || letters.is_some_and(|letters| letters.contains(&b'v'))
    };
    let verbosity = Verbosity { quiet: false, verbose: given.iter().skip(1).any(is_verbose) };
    Cli { command: args::Command::Version, verbosity }
}

/// `phalanx help`: prints the page of a command.
pub fn help(of: &[String]) -> Outcome {
    let args: Vec<OsString> = ["phalanx"].into_iter().chain(of.iter().map(String::as_str)).map(Into::into).collect();
    let asked: Vec<OsString> = args.iter().cloned().chain(["--help".into()]).collect();
    parse_from::<Cli>(command(), &asked).or_else(|error| end(&command(), error, &args)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;
    use phalanx_host::usage::failure;

    /// The error of a wrong command line: the line, and the hint in parentheses.
    fn wrong(line_given: &str) -> String {
        let args: Vec<OsString> = line_given.split(' ').map(Into::into).collect();
        match parse_from::<Cli>(command(), &args) {
            Ok(_) => panic!("{line_given} is right"),
            Err(error) => {
                let failure = failure(&command(), &error, &args);
                format!("{} ({})", failure.line().unwrap(), failure.advice().unwrap())
            }
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn errors_are_sentences_with_one_hint() {
        let cases = [
            ("phalanx protect", "missing: PATH (phalanx protect --help)"),
            ("phalanx key import", "missing: NAME and FILE (phalanx key import --help)"),
            ("phalanx protct f", "unknown command protct: did you mean protect? (phalanx --help)"),
            ("phalanx photos.tar", "unknown command photos.tar (phalanx --help)"),
            ("phalanx key mak", "unknown command mak (phalanx key --help)"),
            ("phalanx encrypt f", "unknown command encrypt: did you mean protect? (phalanx --help)"),
            ("phalanx key create", "unknown command create: did you mean new? (phalanx key --help)"),
            ("phalanx umount m", "unknown command umount: fusermount3 -u MOUNTPOINT unmounts (phalanx --help)"),
            ("phalanx -q", "no command given (phalanx --help)"),
            (
                "phalanx protect f --recusive",
                "unknown option --recusive: did you mean --recursive? (phalanx protect --help)",
            ),
            ("phalanx protect f -x", "unknown option -x (phalanx protect --help)"),
            ("phalanx engines cpu", "too many arguments: cpu is not expected (phalanx engines --help)"),
            ("phalanx protect f -t 0", "--threads: a number from 1 to 1024, not 0 (phalanx protect --help)"),
            ("phalanx verify f --threads=x", "--threads: a number from 1 to 1024, not x (phalanx verify --help)"),
            (
                "phalanx protect f --engine abacus",
                "--engine: auto, serial, cpu, gpu or hybrid, not abacus (phalanx protect --help)",
            ),
            (
                "phalanx protect f --engine",
                "--engine needs a value: auto, serial, cpu, gpu or hybrid (phalanx protect --help)",
            ),
            ("phalanx protect f -o", "--output needs a value (phalanx protect --help)"),
            ("phalanx protect f -q -v", "--quiet cannot be combined with --verbose (phalanx protect --help)"),
            ("phalanx protect f -o a -o b", "--output is given twice (phalanx protect --help)"),
            (
                "phalanx unprotect f -R --salvage",
                "--recursive cannot be combined with --salvage (phalanx unprotect --help)",
            ),
            (
                "phalanx completions csh",
                "SHELL: bash, elvish, fish, powershell or zsh, not csh (phalanx completions --help)",
            ),
        ];
        for (given, expected) in cases {
            assert_eq!(wrong(given), expected, "{given}");
        }
    }

    #[test]
    fn unexpected_values_of_options_are_not_repeated() {
        for given in ["--password=hunter2", "-p=hunter2", "-phunter2", "--force=hunter2", "--passwort=hunter2"] {
            let said = wrong(&format!("phalanx protect f {given}"));
            assert!(!said.contains("hunter") && !said.contains("unter2"), "{given}: {said}");
        }
    }

    /// This also checks that each command has examples.
    #[test]
    fn every_example_is_a_valid_command_line() {
        fn look(at: &Command, path: &str) {
            let mut ours = 0;
            for (line, _) in examples::of(path) {
                // Of a pipe, only the parts that run this program are checked.
                for part in line.split(['|', '>']).filter(|part| part.trim_start().starts_with("phalanx ")) {
                    let matches = command().try_get_matches_from(part.split_whitespace());
                    assert!(matches.and_then(|m| Cli::from_arg_matches(&m)).is_ok(), "{part}");
                    ours += 1;
                }
            }
            assert!(ours > 0, "{path}");
            for sub in at.get_subcommands() {
                look(sub, format!("{path} {}", sub.get_name()).trim_start());
            }
        }
        look(&command(), "");
    }
}
