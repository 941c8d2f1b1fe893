//! The options that change the ways into files.

use clap::Args;
use std::path::PathBuf;

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
    /// Add a key service (repeatable)
    ///
    /// A service that the file has already gets a new slot in place of the old one.
    #[arg(long = "add-kms", value_name = "URI")]
    pub add_services: Vec<String>,
    /// Remove a key service (repeatable)
    #[arg(long = "remove-kms", value_name = "URI")]
    pub remove_services: Vec<String>,
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

/// The number of a slot. A file has at most 64.
fn slot(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|number| (1..=64).contains(number)).ok_or("a number from 1 to 64")
}
