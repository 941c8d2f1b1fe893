//! `phalanx completions`: clap's scripts, extended to complete paths and the names of keys in the keyring.
//!
//! clap can also generate scripts that ask the program for such values, but that is not stable yet. So we take its
//! static scripts and add the missing parts. Only the scripts for bash, zsh and fish complete the names of keys.

use crate::usage;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;
use phalanx_host::Error;
use phalanx_host::failure::Outcome;
use std::io::{self, Write};

/// Marks the name of a key. No argument is a user's name, so this hint is easy to find in the scripts.
const KEY_NAME: ValueHint = ValueHint::Username;

const NAMES: &str = "phalanx key list --names 2>/dev/null";

pub fn print(shell: Shell) -> Outcome {
    let mut command = with_key_names(usage::command(), "");
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "phalanx", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = match shell {
        Shell::Bash => script.into_owned() + &bash(&command),
        Shell::Zsh => zsh(&script),
        Shell::Fish => fish(&script),
        _ => script.into_owned(),
    };
    io::stdout().write_all(script.as_bytes()).map_err(|e| Error::write(e).into())
}

/// Marks arguments that take the name of an existing key.
fn with_key_names(command: Command, path: &str) -> Command {
    let takes_known = matches!(path, "key show" | "key export" | "key lock" | "key unlock" | "key rm");
    let is_name = move |arg: &Arg| {
        let named = arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "NAME"));
        named && (takes_known || matches!(arg.get_long(), Some("key" | "add-key" | "remove-key")))
    };
    let mark = |arg: Arg| if is_name(&arg) { arg.value_hint(KEY_NAME) } else { arg };
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command.mut_args(mark), |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |sub| with_key_names(sub, path.trim_start()))
    })
}

/// What the bash script knows about the command line: words, in the form of patterns for `case`.
#[derive(Default)]
struct Words {
    /// Options that take a key's name, a path, a folder, or something else.
    keys: Vec<String>,
    paths: Vec<String>,
    folders: Vec<String>,
    others: Vec<String>,
    /// Commands whose arguments are keys' names, or paths.
    of_keys: Vec<String>,
    of_paths: Vec<String>,
}

impl Words {
    fn gather(&mut self, command: &Command, path: &str) {
        for arg in command.get_arguments() {
            let hint = arg.get_value_hint();
            let is_path = matches!(hint, ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath);
            if arg.is_positional() {
                let commands = if hint == KEY_NAME { &mut self.of_keys } else { &mut self.of_paths };
                if hint == KEY_NAME || is_path {
                    commands.push(format!("\" {path} \""));
                }
            } else if arg.get_action().takes_values() {
                let options = match hint {
                    KEY_NAME => &mut self.keys,
                    ValueHint::DirPath => &mut self.folders,
                    _ if is_path => &mut self.paths,
                    _ => &mut self.others,
                };
                options.extend(arg.get_long().map(|long| format!("--{long}")));
                options.extend(arg.get_short().map(|short| format!("-{short}")));
            }
        }
        for sub in command.get_subcommands() {
            self.gather(sub, format!("{path} {}", sub.get_name()).trim_start());
        }
    }
}

/// A function that wraps clap's. Clap's function knows only the definition, and offers options where arguments are
/// expected.
fn bash(command: &Command) -> String {
    let mut words = Words::default();
    words.gather(command, "");
    let pattern = |mut words: Vec<String>| {
        words.sort();
        words.dedup();
        words.join("|")
    };
    let groups: Vec<String> = command
        .get_subcommands()
        .filter(|sub| sub.has_subcommands())
        .map(|sub| format!("\" {}\"", sub.get_name()))
        .collect();
    include_str!("completions.bash")
        .replace("@names@", NAMES)
        .replace("@groups@", &pattern(groups))
        .replace("@keys@", &pattern(words.keys))
        .replace("@paths@", &pattern(words.paths))
        .replace("@folders@", &pattern(words.folders))
        .replace("@others@", &pattern(words.others))
        .replace("@of_keys@", &pattern(words.of_keys))
        .replace("@of_paths@", &pattern(words.of_paths))
}

fn zsh(script: &str) -> String {
    let names = format!("\n_phalanx_key_names() {{\n    compadd -- ${{(f)\"$({NAMES})\"}}\n}}\n");
    // zsh reads from the first line which command the script is for, so it must stay the first.
    let (first, rest) = script.split_once('\n').unwrap_or((script, ""));
    format!("{first}\n{names}{}", rest.replace(":_users", ":_phalanx_key_names"))
}

fn fish(script: &str) -> String {
    let names = format!("({NAMES})");
    let arguments = format!(
        "complete -c phalanx -n \"__fish_phalanx_using_subcommand key; and __fish_seen_subcommand_from show export lock unlock rm\" \
         -f -a \"{names}\"\n"
    );
    script.replace("(__fish_complete_users)", &names) + &arguments
}
