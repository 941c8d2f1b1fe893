//! The arguments of `phalanx key`.

use clap::Subcommand;
use phalanx_host::args::{OpenKeys, ProtectKeys};
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum Key {
    /// Make a new random key
    New {
        /// Its name
        #[arg(required_unless_present = "identity")]
        name: Option<String>,
        /// Make a private key of age in this file instead, and print its public key
        ///
        /// It is a post-quantum key, as age-keygen -pq of age 1.3 makes them. --recipient takes the public key, which others may
        /// know, and --identity takes the file, which only you can read.
        #[arg(long, value_name = "FILE", conflicts_with = "name")]
        identity: Option<PathBuf>,
    },
    /// List all keys and their ids
    List {
        /// Print the names only
        #[arg(long)]
        names: bool,
    },
    /// Show a key's id and its file, but not the key
    Show {
        /// Its name
        name: String,
    },
    /// Add a key to the keyring: 32 raw bytes, or text
    #[command(allow_missing_positional = true)]
    Import {
        /// The name to give it
        #[arg(required_unless_present = "all")]
        name: Option<String>,
        /// The file; - is standard input
        file: PathBuf,
        /// Take all keys of a file that key export --all wrote
        #[arg(long, conflicts_with = "name")]
        all: bool,
        /// Read that file's password from a file (without one newline at its end)
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Copy a key, or all keys
    ///
    /// The copy goes to standard output, or to a file that only you can read. A key is 32 raw bytes, unless --text is
    /// given; all keys are text.
    Export {
        /// Its name
        #[arg(required_unless_present = "all")]
        name: Option<String>,
        /// Write one line of text, to print or to copy by hand
        #[arg(long)]
        text: bool,
        /// Write all keys to one file, as lines of name and text
        #[arg(long, conflicts_with_all = ["name", "text"])]
        all: bool,
        /// The file to write; - is standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Overwrite an existing file
        #[arg(short, long)]
        force: bool,
        /// Protect all keys with a password, as a Phalanx file: name it FILE.phx
        #[arg(short, long, conflicts_with = "password_file")]
        password: bool,
        /// Protect all keys with the password in a file (without one newline at its end)
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Protect keys of the keyring by a password or public keys
    ///
    /// What opens files asks for the password of a locked key, or takes --identity or --kms. protect, mirror and rekey --add-key only
    /// ask for the password, or ask a key service of the user's file. No option and no variable gives the password. key export
    /// takes no locked key. Without names all keys are locked that are not. The file of an unlocked key is deleted; its blocks may
    /// stay on the disk for a while.
    Lock {
        /// Their names (default: all)
        names: Vec<String>,
        #[command(flatten)]
        by: ProtectKeys,
    },
    /// Put locked keys back into files that only you can read
    Unlock {
        /// Their names (default: all)
        names: Vec<String>,
        #[command(flatten)]
        by: OpenKeys,
    },
    /// Delete a key: files that only this key opens are lost
    Rm {
        /// Its name
        name: String,
        /// Do not ask; needed without a terminal
        #[arg(short, long)]
        force: bool,
    },
}
