//! The options that name keys, as they were given: in messages, and in commands that hints repeat.

use phalanx_host::args::{KeyArgs, OpenKeys, ProtectKeys};
use phalanx_host::lines::shown;
use std::path::Path;

/// All of them, for hints.
pub const ALL: &str = "--key-file, --key, --identity or --password-file";

/// What was given, by name.
pub fn names(keys: &OpenKeys) -> Vec<String> {
    let OpenKeys { keys, identities, services } = keys;
    let names = keys.keys.iter().map(|name| format!("the key {name}"));
    let files = keys.key_files.iter().chain(identities).chain(&keys.password_file);
    let command = keys.password_command.iter().map(|command| format!("--password-command {command}"));
    names.chain(files.map(|path| shown(path))).chain(command).chain(services.iter().cloned()).collect()
}

/// The options that open what was made with these, each with a space before it.
pub fn that_open(keys: &ProtectKeys) -> String {
    let KeyArgs { password_file, password_command, keys: names, key_files } = &keys.keys;
    let names = names.iter().map(|name| format!(" --key {}", word(Path::new(name))));
    let files = key_files.iter().map(|path| format!(" --key-file {}", word(path)));
    let password = password_file.iter().map(|path| format!(" --password-file {}", word(path)));
    let command = password_command.iter().map(|command| format!(" --password-command {}", word(Path::new(command))));
    let services = keys.services.iter().map(|uri| format!(" --kms {}", word(Path::new(uri))));
    let mut options: String = names.chain(files).chain(password).chain(command).chain(services).collect();
    let has_recipients = !keys.recipients.is_empty() || !keys.recipients_files.is_empty();
    if options.is_empty() && has_recipients && !keys.password {
        options.push_str(" --identity FILE");
    }
    options
}

/// A path as a word of a command that can be copied into a shell.
pub fn word(path: &Path) -> String {
    let shown = shown(path);
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if !shown.is_empty() && shown.chars().all(is_plain) { shown } else { format!("'{}'", shown.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_one_word_of_a_shell() {
        for (path, wanted) in [("a/b-1.phx", "a/b-1.phx"), ("a b", "'a b'"), ("it's", "'it'\\''s'"), ("$(x)", "'$(x)'")]
        {
            assert_eq!(word(Path::new(path)), wanted);
        }
    }
}
