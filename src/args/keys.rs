//! The options that name keys, passwords and public keys.

use crate::failure::Outcome;
use crate::paths;
use clap::Args;
use std::path::PathBuf;

/// The keys for protecting. Each of them opens the file. Without any, a password is asked for.
#[derive(Args, Clone)]
#[group(skip)]
pub struct ProtectKeys {
    #[command(flatten)]
    pub keys: KeyArgs,
    /// Ask for a password in addition to the keys
    #[arg(short, long, conflicts_with = "password_file")]
    pub password: bool,
    /// Protect for a public key (repeatable)
    ///
    /// The key is one of age or SSH: it begins with age1, ssh-ed25519 or ssh-rsa. Whoever holds its private key can get the
    /// file back with --identity. An age1 key of another kind than age's own is for a plugin: age1NAME1... needs the
    /// program age-plugin-NAME.
    #[arg(short, long = "recipient", value_name = "KEY")]
    pub recipients: Vec<String>,
    /// Protect for all public keys in a file
    ///
    /// May be repeated. There is one key on each line. Lines that are empty or begin with # do not count.
    #[arg(long = "recipients-file", value_name = "FILE")]
    pub recipients_files: Vec<PathBuf>,
}

impl ProtectKeys {
    /// Whether there are public keys, and neither a key nor a password.
    pub fn only_recipients(&self) -> bool {
        let has_own =
            !self.keys.keys.is_empty() || !self.keys.key_files.is_empty() || self.keys.password_file.is_some();
        let has_recipients = !self.recipients.is_empty() || !self.recipients_files.is_empty();
        has_recipients && !has_own && !self.password
    }
}

/// The keys for opening. Those that are named are the only ones that are tried.
#[derive(Args, Clone)]
#[group(skip)]
pub struct OpenKeys {
    #[command(flatten)]
    pub keys: KeyArgs,
    /// Use the private keys in a file (repeatable)
    ///
    /// The file holds age identities, perhaps behind a passphrase, or is an OpenSSH private key. A passphrase is asked for when
    /// it is needed. Anybody can protect a file for a public key, so nothing is known about who wrote what an identity opens.
    #[arg(short, long = "identity", value_name = "FILE")]
    pub identities: Vec<PathBuf>,
}

#[derive(Args, Clone)]
#[group(skip)]
pub struct KeyArgs {
    /// Read the password from a file
    ///
    /// One newline at its end is not part of the password. Without this option the password is the value of
    /// PHALANX_PASSWORD, or is asked for.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Use a key of the keyring (repeatable)
    #[arg(short, long = "key", value_name = "NAME")]
    pub keys: Vec<String>,
    /// Use a 32-byte file as a key (repeatable)
    #[arg(long = "key-file", value_name = "FILE")]
    pub key_files: Vec<PathBuf>,
}

/// How the ways into files change.
#[derive(Args)]
#[group(skip)]
pub struct Changes {
    /// Add a password, and ask for it
    #[arg(long, conflicts_with = "add_password_file")]
    pub add_password: bool,
    /// Add the password in a file
    #[arg(long, value_name = "FILE")]
    pub add_password_file: Option<PathBuf>,
    /// Add a key of the keyring (repeatable)
    #[arg(long = "add-key", value_name = "NAME")]
    pub add_keys: Vec<String>,
    /// Add a file of 32 bytes as a key (repeatable)
    #[arg(long = "add-key-file", value_name = "FILE")]
    pub add_key_files: Vec<PathBuf>,
    /// Add a public key (repeatable)
    ///
    /// It is one of age or SSH, as for protect. A public key that the file has already gets a new slot in place of the old
    /// one.
    #[arg(long = "add-recipient", value_name = "KEY")]
    pub add_recipients: Vec<String>,
    /// Add all public keys in a file (repeatable)
    #[arg(long = "add-recipients-file", value_name = "F")]
    pub add_recipients_files: Vec<PathBuf>,
    /// Remove a public key (repeatable)
    #[arg(long = "remove-recipient", value_name = "KEY")]
    pub remove_recipients: Vec<String>,
    /// Remove a key, by name or id (repeatable)
    ///
    /// An id has 32 hexadecimal digits, as inspect shows it: the key itself is not needed then.
    #[arg(long = "remove-key", value_name = "NAME")]
    pub remove_keys: Vec<String>,
    /// Remove all passwords but those that are added
    #[arg(long)]
    pub remove_passwords: bool,
    /// Remove a slot by its number (repeatable)
    ///
    /// The number is that of the listing before the change, as inspect shows it. This takes one file only.
    #[arg(long = "remove-slot", value_name = "N", value_parser = slot, conflicts_with = "recursive")]
    pub remove_slots: Vec<usize>,
}

impl OpenKeys {
    pub(super) fn validate(&self, paths: &[PathBuf]) -> Outcome {
        paths::one_stdin(paths.iter().chain(self.keys.files()).chain(&self.identities))
    }
}

impl KeyArgs {
    /// The files of keys and of the password.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.key_files.iter().chain(&self.password_file)
    }
}

/// A file has no more slots.
fn slot(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|number| (1..=64).contains(number)).ok_or("a number from 1 to 64")
}
