//! The arguments of `init`.

use clap::{Args, ValueHint};
use phalanx_core::volume::Features;
use phalanx_core::{ChunkSize, Suite};
use phalanx_host::args::{self, Cipher, KeyArgs};
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::paths;
use std::path::PathBuf;

#[derive(Args)]
pub struct Init {
    /// A new folder, or an empty one
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    #[command(flatten)]
    keys: KeyArgs,
    /// Ask for a password in addition to the keys
    #[arg(short, long, conflicts_with_all = ["password_file", "password_command"])]
    password: bool,
    /// Make a password of six words and print it, once
    #[arg(long, conflicts_with_all = ["password", "password_file", "password_command"])]
    generate_password: bool,
    /// Make a second key, and write its text to FILE (- is standard output)
    ///
    /// The recovery key opens the volume when its other keys and passwords are lost. The text is one line, written once, to
    /// print or to keep elsewhere. phalanx key import makes a key of the keyring of it.
    #[arg(long, value_name = "FILE")]
    recovery_key: Option<PathBuf>,
    /// aes-256 (default), aes-192, aes-128, aes-256-turbo
    ///
    /// It is that of all files of the volume.
    #[arg(long, value_enum, value_name = "CIPHER", hide_possible_values = true)]
    cipher: Option<Cipher>,
    /// Bytes of a chunk, 4K to 16M (default: 4K)
    ///
    /// SIZE is a power of two, and that of all files of the volume. A chunk is what is read and written at once: small ones
    /// make small reads and writes fast, large ones save a little space (48 bytes for each chunk).
    #[arg(long, value_name = "SIZE", value_parser = args::chunk_size)]
    chunk_size: Option<ChunkSize>,
    /// Find files that were put back to an older version from outside
    ///
    /// The volume then has a table of the last version of each file. Reading a file that was put back, or one that was deleted,
    /// fails, and verify names it. verify --accept takes the volume as it is. Programs before this option cannot open such a
    /// volume.
    #[arg(long)]
    rollback_protection: bool,
}

/// What `init` is to do.
pub struct InitPlan {
    pub dir: PathBuf,
    pub keys: KeyArgs,
    pub password: bool,
    pub generate_password: bool,
    pub recovery_key: Option<PathBuf>,
    pub suite: Suite,
    pub chunk_size: ChunkSize,
    pub features: Features,
}

impl Init {
    pub fn validate(self) -> Outcome<InitPlan> {
        let Self { dir, keys, password, generate_password, recovery_key, cipher, chunk_size, rollback_protection } =
            self;
        if matches!(cipher, Some(Cipher::Aes256Gcm)) {
            return Err(Failure::usage("a volume cannot have aes-256-gcm, which writes each chunk once")
                .hint("choose aes-256 or aes-256-turbo"));
        }
        if paths::is_dash(&dir) {
            return Err(Failure::usage("init makes a folder, so it cannot take -"));
        }
        paths::no_urls("init", [&dir])?;
        paths::one_stdin(keys.files())?;
        let chunk_size = chunk_size.or(ChunkSize::new(4096)).expect("one of the format's sizes");
        if generate_password && recovery_key.as_deref().is_some_and(paths::is_dash) {
            return Err(Failure::usage("--generate-password and --recovery-key - both need standard output"));
        }
        let suite = cipher.unwrap_or(Cipher::Aes256).into();
        let features = Features { rollback_protection };
        Ok(InitPlan { dir, keys, password, generate_password, recovery_key, suite, chunk_size, features })
    }
}
