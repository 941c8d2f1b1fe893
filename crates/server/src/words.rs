//! What this program says of command lines and errors where `phalanx` would say something else.

use phalanx_core::Error as CoreError;
use phalanx_host::{Error, failure};
use std::ffi::OsString;

/// What to say of a command that is unknown after this path.
pub fn elsewhere(path: &str, command: &str) -> Option<&'static str> {
    Some(match (path, command) {
        ("phalanx-server", "serve" | "server" | "start") => "did you mean run?",
        ("phalanx-server", "encrypt" | "seal" | "decrypt" | "open") => "clients do that by HTTP: see docs/server.md",
        ("phalanx-server", "verify" | "test") => "did you mean check?",
        ("phalanx-server", "keys") => "did you mean key?",
        ("phalanx-server", "tokens") => "did you mean token?",
        ("phalanx-server", "users") => "did you mean user?",
        ("phalanx-server key" | "phalanx-server token", "create" | "add" | "generate") => "did you mean new?",
        ("phalanx-server key" | "phalanx-server token", "ls") => "did you mean list?",
        ("phalanx-server key", "remove" | "rm") => "did you mean delete?",
        ("phalanx-server key", "read" | "info" | "get") => "did you mean show?",
        ("phalanx-server token", "rm" | "remove" | "delete") => "did you mean revoke?",
        ("phalanx-server user", "rm" | "remove" | "delete") => "did you mean shred?",
        _ => return None,
    })
}

/// What the user may do about an error. What `phalanx` says of its own options and commands is not said.
pub fn hint(error: &Error) -> Option<String> {
    match error {
        Error::NoSuchKey(_) | Error::Refused(_) => failure::hint(error),
        Error::Core(CoreError::Read(_) | CoreError::NoKey { .. } | CoreError::KeysRefused { .. }) => {
            failure::hint(error)
        }
        Error::Core(
            CoreError::WrongKey | CoreError::Altered { .. } | CoreError::Truncated(_) | CoreError::Extended(_),
        ) => Some("if the key is right, restore a backup".into()),
        _ => None,
    }
}

/// The command line with `--help` for `help`: `help`, `help COMMAND`, `key help`.
pub fn asking_for_help(given: Vec<OsString>) -> Vec<OsString> {
    let place = given.iter().skip(1).take(2).position(|word| word == "help").map(|place| place + 1);
    let groups = ["key", "user", "token"];
    match place {
        Some(place) if place == 1 || groups.iter().any(|group| given[1] == *group) => {
            let others = given.into_iter().enumerate().filter(|(number, _)| *number != place).map(|(_, word)| word);
            others.chain(["--help".into()]).collect()
        }
        _ => given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_a_command_too() {
        let asked = |line: &str| {
            let words = asking_for_help(line.split(' ').map(OsString::from).collect());
            words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(asked("phalanx-server help"), "phalanx-server --help");
        assert_eq!(asked("phalanx-server help key new"), "phalanx-server key new --help");
        assert_eq!(asked("phalanx-server key help"), "phalanx-server key --help");
        assert_eq!(asked("phalanx-server backup help"), "phalanx-server backup help");
        assert_eq!(asked("phalanx-server"), "phalanx-server");
    }
}
