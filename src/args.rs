//! The command line: its definition, from which help, man pages and completions are made too.
//! Each command's arguments are then validated into a type of its own.

use crate::argv;
use crate::failure::{Failure, Outcome};
use crate::paths::{self, Destination, End, Outputs};
use crate::progress::is_terminal;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use phalanx_core::Suite;
use phalanx_core::metadata::Carry;
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

impl Verbosity {
    /// Whether somebody is to see how far the work has come.
    pub fn shows_progress(self) -> bool {
        !self.quiet && is_terminal()
    }
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
    /// Show the engines and devices of this machine, their speeds, and what --engine auto makes of them
    Engines(Engines),
    /// Run the papers' experiments, and whole commands beside other programs
    #[command(subcommand)]
    Bench(Bench),
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
    /// The cipher; those but the last are used with SHA-3 [default: aes-256]
    #[arg(long, value_enum, value_name = "CIPHER")]
    cipher: Option<Cipher>,
    /// The format to write
    #[arg(long, value_enum, default_value_t = Format::Phalanx, value_name = "FORMAT")]
    format: Format,
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
    /// Restore owner, group, all permissions, ACLs and extended attributes too: nobody has authenticated them
    #[arg(long)]
    preserve: bool,
    /// The format to read
    #[arg(long, value_enum, default_value_t = Format::Phalanx, value_name = "FORMAT")]
    format: Format,
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

#[derive(Args, Clone)]
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
    /// The output itself: a file, with --recursive the folder's mirror; - is standard output
    #[arg(short, long, value_name = "PATH", conflicts_with = "output_dir")]
    output: Option<PathBuf>,
    /// An existing folder to write the outputs into
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
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
    /// What is fastest here for so many bytes, in this direction (see phalanx engines)
    Auto,
    /// One CPU thread
    Serial,
    /// All CPU threads
    Cpu,
    /// The GPU alone; an error where there is none
    Gpu,
    /// CPU and GPU together; the CPU alone, with a warning, where there is no GPU or it fails
    Hybrid,
}

/// The format of protected files.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Phalanx's own
    Phalanx,
    /// The layout that the SEFPS paper prints, for study: it does not protect. --key-file is the AES key itself, of 16,
    /// 24 or 32 bytes
    Sefps,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Cipher {
    #[value(name = "aes-256")]
    Aes256,
    #[value(name = "aes-192")]
    Aes192,
    #[value(name = "aes-128")]
    Aes128,
    /// Faster on CPUs, and runs on nothing else; chunks have tags of 128 bits, which do not commit to the key as the header does
    #[value(name = "aes-256-gcm")]
    Aes256Gcm,
}

impl From<Cipher> for Suite {
    fn from(cipher: Cipher) -> Self {
        match cipher {
            Cipher::Aes256 => Suite::Aes256CtrSha3,
            Cipher::Aes192 => Suite::Aes192CtrSha3,
            Cipher::Aes128 => Suite::Aes128CtrSha3,
            Cipher::Aes256Gcm => Suite::Aes256Gcm,
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
    /// Take a key into the keyring: 32 raw bytes, or a line of text
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
        /// Read that file's password from a file, less one newline at its end
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Copy a key, or all, to standard output or to a file that only you can read
    ///
    /// A key is 32 raw bytes, unless --text is given; all keys are text.
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
        /// Protect all keys by a password, as a Phalanx file: name it FILE.phx
        #[arg(short, long, conflicts_with = "password_file")]
        password: bool,
        /// Protect all keys by the password in a file, less one newline at its end
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Delete a key: files that only it opens are then lost
    Rm {
        /// Its name
        name: String,
        /// Do not ask. Needed where no terminal is there to ask at
        #[arg(short, long)]
        force: bool,
    },
}

#[derive(Args)]
pub struct Engines {
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Measure the engines' speeds anew, in about a second.
    ///
    /// They are kept in the folder that PHALANX_CACHE names, else in phalanx in your cache folder, until the devices,
    /// drivers, CPU or program change. Without this switch they are measured where none are kept.
    #[arg(long)]
    pub calibrate: bool,
}

#[derive(Subcommand)]
pub enum Bench {
    /// P1: files in the layout of SEFPS and in Phalanx's format
    Sefps(BenchRun),
    /// P2: many users' data, each under its own key
    Users(BenchRun),
    /// P3: files encrypted by 1 to 16 threads
    Hpc(BenchRun),
    /// P5: digests of keys, and keys found by them
    Keys(BenchRun),
    /// Whole commands beside cp, age, openssl and others that are installed
    Peers(BenchRun),
    /// All of these
    All(BenchRun),
    /// Write the report of a run again, with what other machines measured
    Report {
        /// The run's folder
        folder: PathBuf,
        /// Rows from another machine (its rows.jsonl, or that of crates/gpu/scripts/device-check), which get a part of their own in
        /// the report, now and whenever it is written again. May be given several times
        #[arg(long, value_name = "FILE")]
        merge: Vec<PathBuf>,
    },
}

#[derive(Args)]
#[group(skip)]
pub struct BenchRun {
    /// Fewer and smaller cases: about a minute for each experiment
    #[arg(long)]
    pub quick: bool,
    /// The run's folder, made where it does not exist. The files that are measured on lie in it while it runs
    #[arg(long, value_name = "DIR", default_value = "phalanx-bench")]
    pub out: PathBuf,
    /// Go on with the folder's run: what it has is not measured again
    #[arg(long)]
    pub resume: bool,
}

/// What `protect` is to do.
pub struct ProtectPlan {
    pub paths: Vec<PathBuf>,
    pub destination: Destination,
    pub keys: ProtectKeys,
    pub suite: Suite,
    pub format: Format,
    pub engine: EngineArgs,
}

impl Protect {
    pub fn validate(self) -> Outcome<ProtectPlan> {
        let destination = self.destination.validate(&self.paths, Carry::All)?;
        self.keys.keys.validate(&self.paths)?;
        if self.format == Format::Sefps {
            self.keys.keys.validate_for_sefps()?;
            if self.keys.password || self.cipher.is_some() {
                return Err(Failure::usage("--format sefps takes neither --password nor --cipher: its key file tells"));
            }
        }
        let (keys, suite, format, engine) =
            (self.keys, self.cipher.unwrap_or(Cipher::Aes256).into(), self.format, self.engine);
        Ok(ProtectPlan { paths: self.paths, destination, keys, suite, format, engine })
    }
}

/// What `unprotect` is to do.
pub struct UnprotectPlan {
    pub paths: Vec<PathBuf>,
    pub destination: Destination,
    pub keys: KeyArgs,
    pub engine: EngineArgs,
    pub format: Format,
    pub salvage: bool,
}

impl Unprotect {
    pub fn validate(self) -> Outcome<UnprotectPlan> {
        // What nobody has authenticated does not decide who may read the plaintext.
        let carry = if self.preserve { Carry::All } else { Carry::New { umask: paths::umask() } };
        let destination = self.destination.validate(&self.paths, carry)?;
        self.keys.validate(&self.paths)?;
        if self.format == Format::Sefps {
            self.keys.validate_for_sefps()?;
            if self.salvage {
                return Err(Failure::usage("--salvage goes with Phalanx's own format only"));
            }
        }
        let (keys, engine, format, salvage) = (self.keys, self.engine, self.format, self.salvage);
        Ok(UnprotectPlan { paths: self.paths, destination, keys, engine, format, salvage })
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

    /// That layout has no place for a salt, nor for more than one key.
    fn validate_for_sefps(&self) -> Outcome {
        if self.key_files.len() != 1 || !self.keys.is_empty() || self.password_file.is_some() {
            let line = "--format sefps needs exactly one --key-file, and takes no password and no named key";
            return Err(Failure::usage(line));
        }
        Ok(())
    }
}

impl DestinationArgs {
    fn validate(self, paths: &[PathBuf], carry: Carry) -> Outcome<Destination> {
        let Self { output, output_dir, force, remove, no_sync, recursive } = self;
        let outputs = match (output, output_dir) {
            (Some(output), _) => Outputs::At(End::from(output)),
            (None, Some(folder)) => Outputs::In(folder),
            (None, None) => Outputs::Beside,
        };
        let destination = Destination { outputs, force, remove, sync: !no_sync, recursive, carry };
        destination.check(paths)?;
        Ok(destination)
    }
}

/// Parses the command line. Help and version are printed here; what is wrong becomes one line.
pub fn parse() -> Outcome<Cli> {
    argv::refuse_secrets(std::env::args_os().skip(1))?;
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
