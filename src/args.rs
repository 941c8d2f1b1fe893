//! The command line: its definition, from which help, man pages and completions are made too.
//! Each command's arguments are then validated into a type of its own.
//!
//! The first paragraph of a doc comment is what `--help` shows: it fits one line. The man page shows all of it.

mod changes;
mod destination;
pub mod examples;
mod inspect;
mod key;
mod mirror;
#[cfg(target_os = "linux")]
mod mount;
mod protect;
mod range;
mod rekey;
mod stores;
mod unprotect;
#[cfg(target_os = "linux")]
mod volume;

pub use changes::Changes;
pub use inspect::Inspect;
pub use key::Key;
pub use mirror::{Mirror, Mirrored};
#[cfg(target_os = "linux")]
pub use mount::{Background, Mount, MountPlan};
pub use protect::{Protect, ProtectPlan};
pub use range::ByteRange;
pub use rekey::{Rekey, RekeyPlan};
pub use stores::StoreArgs;
pub use unprotect::{Unprotect, UnprotectPlan};
#[cfg(target_os = "linux")]
pub use volume::{Init, InitPlan};

use clap::{Args, Parser, Subcommand, ValueHint};
use destination::{DestinationArgs, check_json};
use phalanx_host::args::{EngineArgs, OpenKeys, PinArgs, SignersArgs};
use phalanx_host::failure::Outcome;
use phalanx_host::mirror::manifest::Pins;
use phalanx_host::verbosity::Verbosity;
use std::path::PathBuf;

/// Protects files with AES and SHA-3, as fast as the machine can move them.
///
/// Each file is encrypted and then authenticated, chunk by chunk. Any change, cut or swap in a protected file is found, and
/// so is a wrong password or key. No plaintext is written before it has been checked.
#[derive(Parser)]
#[command(name = "phalanx", version, max_term_width = 80, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

#[derive(Subcommand)]
pub enum Command {
    /// Protect files: PATH becomes PATH.phx
    ///
    /// An output appears under its name when it is complete, and not before. An existing file is never replaced without
    /// --force. Without an option that names a key, a public key, a key service or a password, the password is that of
    /// PHALANX_PASSWORD or of systemd's credential phalanx.password, or is asked for.
    Protect(Protect),
    /// Make or renew a protected mirror of a folder
    ///
    /// Only what has changed is written: a file is unchanged if its length and its time of modification are. The manifest
    /// phalanx.tree in MIRROR lists every entry, so that verify and unprotect find what is missing, added, exchanged or older.
    /// It is written last. A run that was killed leaves the old manifest, and the next run goes on.
    ///
    /// The keys are those of protect. With public keys alone this machine can write the mirror and read nothing of it.
    ///
    /// MIRROR may be the URL of a folder in an object store, such as s3://bucket/project.phx, if the program was built with stores.
    Mirror(Mirror),
    /// Get protected files back: PATH.phx becomes PATH
    ///
    /// Keys are found in the keyring by their ids. A password comes from PHALANX_PASSWORD, systemd's credential phalanx.password or
    /// a prompt. If --key, --key-file, --identity or --kms is given, only what they name is tried, and the only password is that
    /// of --password-file or --password-command. An identity is never tried unless it is named. With --recursive PATH may be a volume or the URL of a folder in an object
    /// store: everything in it goes to --output or into --output-dir.
    Unprotect(Unprotect),
    /// Check every chunk of protected files and volumes; write nothing
    ///
    /// A volume is checked as a whole: names, folders, links, extended attributes and files. It must not be mounted for writing
    /// meanwhile. --recursive checks the volumes in a folder too, and takes URLs of folders in object stores.
    Verify(Verify),
    /// Mount a volume, or protected files, as plain ones
    ///
    /// DIR is a volume that init made. In MOUNTPOINT, an empty folder, it is plain, for reading and writing. What fsync
    /// confirms is on the disk, whatever ends the mount. What was altered from outside gives "input/output error". One process
    /// at a time writes to a volume, and none reads it meanwhile; with --read-only several may read it. With --engine auto, large pieces of work go to the GPU if phalanx engines has measured that it is
    /// faster.
    ///
    /// TREE is a folder or file that protect made. In MOUNTPOINT, an empty folder, each file NAME.phx appears as NAME, for
    /// reading only. Only what is read is decrypted, and nothing is written to any disk. Files without the ending .phx are
    /// not shown.
    ///
    /// A file is authenticated when it is opened, and each chunk before it is read. A file that the keys at hand do not open
    /// gives "permission denied", and what is damaged gives "input/output error". A line on standard error names it. A
    /// password is asked for before the mount, if the first files need one, and never later.
    ///
    /// Ctrl-C, the signal TERM, or fusermount3 -u MOUNTPOINT ends the mount. If it is in use then, a signal takes its name away
    /// at once, and it ends when the last file in it is closed. A second signal ends it at once. This needs /dev/fuse, and for
    /// users other than root the package fuse3.
    #[cfg(target_os = "linux")]
    Mount(Mount),
    /// Show what can be seen of a protected file without a key
    Inspect(Inspect),
    /// Change which keys and passwords open protected files or a volume
    ///
    /// The content stays as it is: only the header is changed, in its place. If that is interrupted, the next rekey of the file finishes it:
    /// do not rename or replace the file before that. Without any change this lists the ways in, and finishes a change that was interrupted. Whoever held a key may have kept the file
    /// key, which opens the file for ever, and an old copy of the header brings a removed slot back: --fresh is the remedy.
    ///
    /// An object in a store is replaced by one with the new header. The store copies all else by itself, if it can.
    Rekey(Rekey),
    /// Make an encrypted folder, to be mounted
    ///
    /// DIR becomes a volume: what is written to it where it is mounted lies in it encrypted, file by file, names included.
    /// Without an option that names a key or a password, the password is that of PHALANX_PASSWORD or of systemd's credential
    /// phalanx.password, or is asked for.
    #[cfg(target_os = "linux")]
    Init(Init),
    /// Make, list, copy and delete the keys of the keyring
    #[command(subcommand)]
    Key(Key),
    /// Show engines and devices, their speeds and what auto chooses
    Engines(Engines),
    /// Print a completion script for a shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        #[arg(hide_possible_values = true)]
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    Man {
        /// An existing folder
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Print the help of a command
    Help {
        /// The command, for example: key export
        command: Vec<String>,
    },
    /// Print the version; with --verbose, what a bug report needs
    ///
    /// With --verbose it prints the commit and the compiler of its build, the kernels that it uses on this CPU, its engines, and each
    /// GPU, or why there is none. phalanx --version --verbose prints the same.
    Version,
}

impl Command {
    /// What is said about object stores.
    pub fn take_stores(&mut self) -> Option<StoreArgs> {
        let stores = match self {
            Command::Protect(protect) => &mut protect.stores,
            Command::Unprotect(unprotect) => &mut unprotect.stores,
            Command::Verify(verify) => &mut verify.stores,
            Command::Inspect(inspect) => &mut inspect.stores,
            #[cfg(target_os = "linux")]
            Command::Mount(mount) => &mut mount.stores,
            Command::Mirror(mirror) => &mut mirror.stores,
            Command::Rekey(rekey) => &mut rekey.stores,
            _ => return None,
        };
        Some(std::mem::take(stores))
    }
}

#[derive(Args)]
pub struct Verify {
    /// Protected files or volumes; - is standard input
    #[arg(required = true, value_name = "PATH.phx")]
    pub paths: Vec<PathBuf>,
    /// Check all protected files and volumes in whole folders
    ///
    /// Files without the ending .phx are named and left out. That is not a failure. Whole files are counted, and named only with
    /// --verbose.
    #[arg(short = 'R', long)]
    pub recursive: bool,
    #[command(flatten)]
    pub manifest: PinArgs,
    #[command(flatten)]
    pub signers: SignersArgs,
    #[command(flatten)]
    pub json: JsonArgs,
    #[command(flatten)]
    pub keys: OpenKeys,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub stores: StoreArgs,
}

#[derive(Args)]
#[group(skip)]
pub struct JsonArgs {
    /// Print a line of JSON for each file, and one for the run
    ///
    /// The line of a file has its path and its status: protected, unprotected, whole, left_out or failed. It also has the output and the
    /// number of plaintext bytes of a file that is done, and the message and the exit code of a failure. The last line has a
    /// summary. Messages go to standard error as well.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Engines {
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Measure the speeds again; takes one to two seconds
    ///
    /// Measured speeds are kept until the devices, drivers, CPU or program change. Without this option they are measured
    /// only if none are kept.
    #[arg(long)]
    pub calibrate: bool,
}

impl Verify {
    pub fn validate(self) -> Outcome<Self> {
        self.keys.validate(&self.paths)?;
        self.signers.validate(&self.paths)?;
        self.manifest.validate(&self.paths)?;
        Ok(self)
    }

    /// What is demanded of a mirror's manifest.
    pub fn pins(&self) -> Pins {
        self.manifest.pins()
    }
}
