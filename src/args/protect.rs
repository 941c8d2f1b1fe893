//! The arguments of `phalanx protect`.

#[cfg(feature = "stores")]
use super::stores;
use super::{DestinationArgs, JsonArgs, StoreArgs, check_json};
use clap::Args;
use phalanx_core::{ChunkSize, Suite};
use phalanx_host::args::{Cipher, EngineArgs, ProtectKeys, SignArgs, chunk_size};
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::Carry;
use phalanx_host::passwords::would_be_lost;
use phalanx_host::paths::{self, Destination};
use std::path::PathBuf;

#[derive(Args)]
pub struct Protect {
    /// Files to protect; - is standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    keys: ProtectKeys,
    /// Make a password of six words and print it, once
    ///
    /// It is the only line on standard output, so it can be kept by a program.
    #[arg(long, conflicts_with_all = ["password", "password_file", "password_command"])]
    generate_password: bool,
    /// aes-256 (default), aes-192, aes-128, aes-256-turbo, aes-256-gcm
    ///
    /// The first three are used in counter mode and authenticated by SHA-3.
    #[arg(long, value_enum, value_name = "CIPHER", hide_possible_values = true)]
    cipher: Option<Cipher>,
    /// Bytes of a chunk, 4K to 16M (default: 1M)
    ///
    /// SIZE is a power of two. A chunk is what is checked and decrypted at once, so reading a few bytes from the middle of a
    /// file opens at least one whole chunk. Small chunks make small reads fast: choose 4K to 64K for files that are read by
    /// --range. Each chunk takes 48 bytes more in the file (28 with aes-256-gcm), so chunks of 4K make it 1.2 % longer, and
    /// whole files are then protected and unprotected more slowly.
    #[arg(long, value_name = "SIZE", value_parser = chunk_size)]
    chunk_size: Option<ChunkSize>,
    /// Delete what interrupted runs have sent to the store; protect nothing
    #[cfg(feature = "stores")]
    #[arg(long, requires = "output", conflicts_with_all = ["resume", "remove"], help_heading = stores::HEADING)]
    abort: bool,
    #[command(flatten)]
    sign: SignArgs,
    #[command(flatten)]
    destination: DestinationArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    pub stores: StoreArgs,
}

/// What `protect` is to do.
pub struct ProtectPlan {
    pub paths: Vec<PathBuf>,
    pub destination: Destination,
    pub keys: ProtectKeys,
    pub suite: Suite,
    pub chunk_size: ChunkSize,
    pub engine: EngineArgs,
    pub json: bool,
    /// Whether to delete what interrupted runs have sent to the store, and to protect nothing.
    pub abort: bool,
    pub sign: SignArgs,
}

impl Protect {
    pub fn validate(self) -> Outcome<ProtectPlan> {
        let destination = self.destination.validate(&self.paths, Carry::All)?;
        check_json(self.json.json, &self.paths, &destination)?;
        let has_stdout = !self.json.json && !destination.writes_stdout(&self.paths) && !would_be_lost(&self.paths);
        if self.generate_password && !has_stdout {
            return Err(Failure::usage("--generate-password needs standard output for the password"));
        }
        if destination.resume && self.keys.only_recipients() {
            let line = "--resume needs a key or a password: public keys cannot open what an interrupted run has left";
            return Err(Failure::usage(line));
        }
        if destination.resume && matches!(self.cipher, Some(Cipher::Aes256Gcm)) {
            return Err(Failure::usage("--resume does not work with aes-256-gcm, whose chunks are written once"));
        }
        paths::one_stdin(self.paths.iter().chain(self.keys.keys.files()).chain(&self.keys.recipients_files))?;
        #[cfg(feature = "stores")]
        let abort = self.abort;
        #[cfg(not(feature = "stores"))]
        let abort = false;
        let keys = ProtectKeys { generate_password: self.generate_password, ..self.keys };
        let (suite, engine) = (self.cipher.unwrap_or(Cipher::Aes256).into(), self.engine);
        self.sign.validate(&self.paths, destination.writes_stdout(&self.paths), suite)?;
        if destination.resume && !self.sign.files().is_empty() {
            return Err(Failure::usage(
                "--resume would sign what an interrupted run has left, which others may have altered",
            ));
        }
        let (chunk_size, json, sign) = (self.chunk_size.unwrap_or_default(), self.json.json, self.sign);
        Ok(ProtectPlan { paths: self.paths, destination, keys, suite, chunk_size, engine, json, abort, sign })
    }
}
