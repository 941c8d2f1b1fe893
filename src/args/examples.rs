//! The examples of each command: help ends with them, and the man page has them too.

use clap::Command;
use std::fmt::Write;

/// A command line, and what it does.
pub type Example = (&'static str, &'static str);

/// The two examples of a command, named by its path below `phalanx`.
pub fn of(path: &str) -> [Example; 2] {
    match path {
        "" => [
            ("phalanx protect photos.tar", "asks for a password, and writes photos.tar.phx"),
            ("phalanx unprotect photos.tar.phx", "asks for the password, and writes photos.tar"),
        ],
        "protect" => [
            ("phalanx protect photos.tar", "asks for a password, and writes photos.tar.phx"),
            ("tar c project | phalanx protect - --key work >project.tar.phx", "protects a stream with a key"),
        ],
        "mirror" => [
            ("phalanx mirror photos mirror --key work", "writes what is new or has changed"),
            ("phalanx mirror photos mirror --key work --delete -n", "says what would be done, deletions too"),
        ],
        "unprotect" => [
            ("phalanx unprotect photos.tar.phx", "writes photos.tar"),
            ("phalanx unprotect project.tar.phx --output - | tar x", "unpacks an archive as it is unprotected"),
        ],
        "verify" => [
            ("phalanx verify photos.tar.phx", "checks one file"),
            ("phalanx verify --recursive backup --key work", "checks a whole folder; fit for a nightly job"),
        ],
        "inspect" => [
            ("phalanx inspect photos.tar.phx", "shows its cipher, its sizes and which keys open it"),
            ("phalanx inspect --json photos.tar.phx", "shows the same for a script"),
        ],
        "rekey" => [
            ("phalanx rekey photos.tar.phx --add-key lab", "lets the key lab open it too"),
            ("phalanx rekey -R backup --remove-key lab --fresh", "shuts lab out of all files of a folder"),
        ],
        "init" => [
            ("phalanx init vault", "asks for a password, and makes the volume vault"),
            ("phalanx init vault --key work --cipher aes-256-turbo", "makes one for a key, with the faster cipher"),
        ],
        "mount" => [
            ("phalanx mount vault plain --daemon", "mounts a volume (fusermount3 -u plain unmounts it)"),
            ("phalanx mount project.phx plain", "shows the files of project.phx in the folder plain"),
        ],
        "key" => [
            ("phalanx key new work", "makes a random key named work"),
            ("phalanx protect photos.tar --key work", "protects a file with it"),
        ],
        "key new" => [
            ("phalanx key new work", "makes a random key named work, and prints its id"),
            ("phalanx key new --identity me.txt", "makes a key pair of age, and prints its public key"),
        ],
        "key list" => [
            ("phalanx key list", "prints the id and the name of each key"),
            ("phalanx key list --names", "prints the names only, for a script"),
        ],
        "key show" => [
            ("phalanx key show work", "prints the key's id, its name and its file"),
            ("phalanx inspect photos.tar.phx", "prints the ids of the keys that open a file"),
        ],
        "key import" => [
            ("phalanx key import work work.key", "adds the key in the file work.key as work"),
            ("ssh host phalanx key export work | phalanx key import work -", "copies a key from another machine"),
        ],
        "key export" => [
            ("phalanx key export work --output work.key", "writes a copy that only you can read"),
            ("phalanx key export work | ssh host phalanx key import work -", "copies a key to another machine"),
        ],
        "key lock" => [
            ("phalanx key lock", "protects all keys by a password"),
            ("phalanx key lock work --recipients-file me.pub", "protects the key work for a public key"),
        ],
        "key unlock" => [
            ("phalanx key unlock", "asks for the password of all locked keys"),
            ("phalanx key unlock work --identity me.txt", "unlocks the key work"),
        ],
        "key rm" => [
            ("phalanx key rm work", "deletes the key work, after asking"),
            ("phalanx key rm --force work", "deletes it without asking"),
        ],
        "engines" => [
            ("phalanx engines", "shows what this machine has, and how fast it is"),
            ("phalanx engines --calibrate", "measures the speeds again"),
        ],
        "completions" => [
            ("phalanx completions bash >~/.local/share/bash-completion/completions/phalanx", "for bash"),
            ("phalanx completions fish >~/.config/fish/completions/phalanx.fish", "for fish"),
        ],
        "man" => [
            ("phalanx man ~/.local/share/man/man1", "writes the pages where man finds them"),
            ("man phalanx-protect", "shows one of them"),
        ],
        "help" => [
            ("phalanx help protect", "prints the help of protect"),
            ("phalanx help key export", "prints the help of key export"),
        ],
        "version" => {
            [("phalanx version", "prints the version"), ("phalanx version --verbose", "prints what a bug report needs")]
        }
        _ => unreachable!("{path} has no examples: a test looks at all commands"),
    }
}

/// Puts the examples at the end of the help of a command and of all its subcommands.
pub fn add(root: Command) -> Command {
    below(root, "")
}

fn below(command: Command, path: &str) -> Command {
    let mut text = String::from("Examples:");
    for (line, meaning) in of(path) {
        let _ = write!(text, "\n  {line}\n      {meaning}");
    }
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command.after_help(text), |command, name| {
        let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command.mut_subcommand(name, |sub| below(sub, &path))
    })
}
