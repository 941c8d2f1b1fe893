//! The command line: its definition, from which help, man pages and completions are made too.
//! Each command's arguments are then validated into a type of its own.

use crate::failure::{Failure, Outcome};
use crate::paths::{self, Destination};
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use phalanx_core::Suite;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Protects data with AES and SHA-3, as fast as the machine can move it.
#[derive(Parser)]
#[command(name = "phalanx", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "\
Exit codes:
  0  done
  1  anything else
  2  usage
  3  not a whole, authentic Phalanx file for the keys at hand
  4  input or output failed")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

#[derive(Args, Clone, Copy)]
pub struct Verbosity {
    /// Say nothing but errors; no progress bar
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say what was done, how fast and by which engine
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

#[derive(Subcommand)]
pub enum Command {
    /// Protect files: PATH becomes PATH.phx
    Protect(Protect),
    /// Get protected files back: PATH.phx becomes PATH
    Unprotect(Unprotect),
    /// Check every chunk of protected files; writes nothing
    Verify(Verify),
    /// Show what a protected file says of itself; needs no key
    Inspect(Inspect),
    /// Make, list and move the named keys of the keyring
    #[command(subcommand)]
    Key(Key),
    /// Show the engines of this machine
    Engines(Engines),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    Man {
        /// An existing folder
        folder: PathBuf,
    },
}

#[derive(Args)]
pub struct Protect {
    /// Files to protect; - is standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    keys: ProtectKeys,
    /// The cipher; all are used with SHA-3
    #[arg(long, value_enum, default_value_t = Cipher::Aes256, value_name = "CIPHER")]
    cipher: Cipher,
    #[command(flatten)]
    destination: DestinationArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Args)]
pub struct Unprotect {
    /// Protected files; - is standard input
    #[arg(required = true, value_name = "PATH.phx")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Save the intact chunks of a damaged file: zeros stand for the rest, the lost ranges are listed, and the exit
    /// code is still 3
    #[arg(long, conflicts_with = "recursive")]
    salvage: bool,
    #[command(flatten)]
    destination: DestinationArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Args)]
pub struct Verify {
    /// Protected files; - is standard input
    #[arg(required = true, value_name = "PATH.phx")]
    pub paths: Vec<PathBuf>,
    /// Take all protected files in whole folders
    #[arg(short = 'R', long)]
    pub recursive: bool,
    #[command(flatten)]
    pub keys: KeyArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
}

#[derive(Args)]
pub struct Inspect {
    /// Protected files; - is standard input
    #[arg(required = true, value_name = "PATH.phx")]
    pub paths: Vec<PathBuf>,
    /// One JSON object a file, one a line
    #[arg(long)]
    pub json: bool,
}

/// The keys for protecting: each is a way into the file. Without any, a password is asked for.
#[derive(Args)]
#[group(skip)]
pub struct ProtectKeys {
    #[command(flatten)]
    pub keys: KeyArgs,
    /// Ask for a password besides the keys that are given
    #[arg(short, long, conflicts_with = "password_file")]
    pub password: bool,
}

#[derive(Args)]
#[group(skip)]
pub struct KeyArgs {
    /// Read the password from a file, less one newline at its end.
    ///
    /// Without it, the variable PHALANX_PASSWORD gives the password, or else a prompt.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// A named key of the keyring (see phalanx key); may be given more than once
    #[arg(short, long = "key", value_name = "NAME")]
    pub keys: Vec<String>,
    /// A file of 32 raw bytes to use as a key; may be given more than once
    #[arg(long = "key-file", value_name = "FILE")]
    pub key_files: Vec<PathBuf>,
}

#[derive(Args)]
#[group(skip)]
struct DestinationArgs {
    /// Write to this file, or into this existing folder; - is standard output
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Take whole folders, mirrored file by file
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Overwrite existing outputs
    #[arg(short, long)]
    force: bool,
    /// Delete each input once its output is safely on the disk
    #[arg(long, conflicts_with = "no_sync")]
    remove: bool,
    /// Leave it to the system when outputs reach the disk
    #[arg(long)]
    no_sync: bool,
}

#[derive(Args)]
#[group(skip)]
pub struct EngineArgs {
    /// Where the work runs
    #[arg(short, long, value_enum, default_value_t = EngineName::Auto, value_name = "ENGINE")]
    pub engine: EngineName,
    /// The number of CPU threads [default: one a core]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// What is fastest here
    Auto,
    /// One CPU thread
    Serial,
    /// All CPU threads
    Cpu,
    /// The GPU
    Gpu,
    /// CPU and GPU together
    Hybrid,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Cipher {
    #[value(name = "aes-256")]
    Aes256,
    #[value(name = "aes-192")]
    Aes192,
    #[value(name = "aes-128")]
    Aes128,
}

impl From<Cipher> for Suite {
    fn from(cipher: Cipher) -> Self {
        match cipher {
            Cipher::Aes256 => Suite::Aes256CtrSha3,
            Cipher::Aes192 => Suite::Aes192CtrSha3,
            Cipher::Aes128 => Suite::Aes128CtrSha3,
        }
    }
}

#[derive(Subcommand)]
pub enum Key {
    /// Make a new random key
    New {
        /// Its name
        name: String,
    },
    /// List all keys with their ids
    List,
    /// Show a key's id and where it is kept, not the key itself
    Show {
        /// Its name
        name: String,
    },
    /// Take a key of 32 raw bytes into the keyring
    Import {
        /// The name to give it
        name: String,
        /// The file; - is standard input
        file: PathBuf,
    },
    /// Write a key's 32 raw bytes to standard output, or to a file that only you can read
    Export {
        /// Its name
        name: String,
        /// A new file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Delete a key: files that only it opens are then lost
    Rm {
        /// Its name
        name: String,
        /// Do not ask
        #[arg(short, long)]
        force: bool,
    },
}

#[derive(Args)]
pub struct Engines {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Measure the engines' speeds, and keep them
    #[arg(long)]
    pub calibrate: bool,
}

/// What `protect` is to do.
pub struct ProtectPlan {
    pub paths: Vec<PathBuf>,
    pub destination: Destination,
    pub keys: ProtectKeys,
    pub suite: Suite,
    pub engine: EngineArgs,
}

impl Protect {
    pub fn validate(self) -> Outcome<ProtectPlan> {
        let destination = self.destination.validate(&self.paths)?;
        self.keys.keys.validate(&self.paths)?;
        let (keys, suite, engine) = (self.keys, self.cipher.into(), self.engine);
        Ok(ProtectPlan { paths: self.paths, destination, keys, suite, engine })
    }
}

/// What `unprotect` is to do.
pub struct UnprotectPlan {
    pub paths: Vec<PathBuf>,
    pub destination: Destination,
    pub keys: KeyArgs,
    pub engine: EngineArgs,
    pub salvage: bool,
}

impl Unprotect {
    pub fn validate(self) -> Outcome<UnprotectPlan> {
        let destination = self.destination.validate(&self.paths)?;
        self.keys.validate(&self.paths)?;
        let (keys, engine, salvage) = (self.keys, self.engine, self.salvage);
        Ok(UnprotectPlan { paths: self.paths, destination, keys, engine, salvage })
    }
}

impl Verify {
    pub fn validate(self) -> Outcome<Self> {
        self.keys.validate(&self.paths)?;
        Ok(self)
    }
}

impl KeyArgs {
    fn validate(&self, paths: &[PathBuf]) -> Outcome {
        paths::one_stdin(paths.iter().chain(&self.key_files).chain(&self.password_file))
    }
}

impl DestinationArgs {
    fn validate(self, paths: &[PathBuf]) -> Outcome<Destination> {
        let Self { output, force, remove, no_sync, recursive } = self;
        let destination = Destination { output, force, remove, sync: !no_sync, recursive };
        destination.check(paths)?;
        Ok(destination)
    }
}

/// Parses the command line. Help and version are printed here; what is wrong becomes one line.
pub fn parse() -> Outcome<Cli> {
    Cli::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Failure::usage("no command given: see phalanx --help"),
        _ => {
            let text = error.to_string();
            let message = text.split("\n\nUsage:").next().unwrap_or(&text);
            let words: Vec<&str> = message.trim_start_matches("error: ").split_whitespace().collect();
            Failure::usage(format!("{} (see --help)", words.join(" ")))
        }
    })
}

/// The global switches and the subcommands' own do not contradict each other.
#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_consistent() {
        use clap::CommandFactory;
        super::Cli::command().debug_assert();
    }
}
