//! The command line: its definition, from which help, man pages and completions are made too.
//! Each command's arguments are then validated into a type of its own.
//!
//! The first paragraph of a doc comment is what `--help` shows: it fits one line. The man page shows all of it.

mod changes;
pub mod examples;
mod inspect;
mod mirror;
mod mount;
mod range;
mod rekey;
mod stores;
mod volume;

pub use changes::Changes;
pub use inspect::Inspect;
pub use mirror::{Mirror, Mirrored};
pub use mount::{Background, Mount, MountPlan};
pub use range::ByteRange;
pub use rekey::{Rekey, RekeyPlan};
pub use stores::StoreArgs;
pub use volume::{Init, InitPlan};

use clap::{Args, Parser, Subcommand, ValueHint};
use phalanx_core::{ChunkSize, Suite};
use phalanx_host::args::{Cipher, EngineArgs, EngineName, OpenKeys, PinArgs, ProtectKeys, chunk_size};
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::umask;
use phalanx_host::file::{Carry, is_url};
use phalanx_host::mirror::manifest::Pins;
use phalanx_host::paths::{self, Destination, End, Outputs};
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
    /// --force. Without --key, --key-file, --recipient, --recipients-file or --password-file, the password is that of PHALANX_PASSWORD, or is asked for.
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
    /// Keys are found in the keyring by their ids. A password comes from PHALANX_PASSWORD or from a prompt. If --key,
    /// --key-file or --identity name keys, only these are tried, and the only password is that of --password-file. An
    /// identity is never tried unless it is named. With --recursive PATH may be a volume or the URL of a folder in an object
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
    /// at a time uses a volume. With --engine auto, large pieces of work go to the GPU if phalanx engines has measured that it is
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
    /// Without --key, --key-file or --password-file, the password is that of PHALANX_PASSWORD, or is asked for.
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
            Command::Mount(mount) => &mut mount.stores,
            Command::Mirror(mirror) => &mut mirror.stores,
            Command::Rekey(rekey) => &mut rekey.stores,
            _ => return None,
        };
        Some(std::mem::take(stores))
    }
}

#[derive(Args)]
pub struct Protect {
    /// Files to protect; - is standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    keys: ProtectKeys,
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
    destination: DestinationArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    stores: StoreArgs,
}

#[derive(Args)]
pub struct Unprotect {
    /// Protected files; - is standard input
    #[arg(required = true, value_name = "PATH.phx")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    keys: OpenKeys,
    /// Save the intact chunks of a damaged file
    ///
    /// Lost ranges are filled with zeros and printed, one on a line. The exit status is still 3.
    #[arg(long, conflicts_with_all = ["recursive", "resume", "json"])]
    salvage: bool,
    /// Write a part only: A-B (B exclusive), A- or -N
    ///
    /// A- is from A to the end, and -N is the last N bytes. Numbers may have the suffix K, M, G or T for powers of 1024, and
    /// be added: 1G-1G+64K is 64 KiB from 1 GiB on. What is asked for beyond the end is left out, but a range that begins at
    /// the end or after it is an error. --output or --output-dir must be given. The end of the file is checked too, but no
    /// more chunks than the range needs.
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["salvage", "recursive", "remove", "resume", "json"])]
    range: Option<ByteRange>,
    /// The inputs are stored files of the volume DIR
    ///
    /// PATH is a file in DIR, or a copy of one, such as one from a backup. Its key is that of the volume. --output or
    /// --output-dir must be given: the stored name is not the plain one.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with_all = ["salvage", "recursive", "remove", "range", "resume", "json"])]
    volume: Option<PathBuf>,
    /// Take what a manifest does not list too
    ///
    /// For a mirror whose manifest is lost or damaged, and for what an interrupted run has written after it.
    #[arg(long, requires = "recursive")]
    ignore_manifest: bool,
    /// Restore owner, permissions, ACLs and attributes
    ///
    /// Without it plaintext gets the permissions of a new file, and none that the protected file lacks. Nobody has
    /// authenticated what this option restores: whoever can write to the protected file decides on it. The setuid and
    /// setgid bits are never kept, nor is the sticky bit of a file.
    #[arg(long)]
    preserve: bool,
    #[command(flatten)]
    destination: DestinationArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    stores: StoreArgs,
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
struct DestinationArgs {
    /// Write this file or mirrored folder (-: standard output)
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath, conflicts_with = "output_dir")]
    output: Option<PathBuf>,
    /// Write the outputs into this existing folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output_dir: Option<PathBuf>,
    /// Take whole folders, and mirror them file by file
    ///
    /// A mirror never loses anything. With --force, what lies in it already and has no input is counted at the end, and stays
    /// as it is. Pipes, sockets and devices are named and left out, and so are volumes and files without the ending .phx where
    /// protected files are opened. That is not a failure.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Overwrite existing outputs
    #[arg(short, long)]
    force: bool,
    /// Go on where an interrupted run of the same command ended
    ///
    /// For files of 16 MiB and more. If a run with this option is interrupted or fails, what it has done stays in the output's
    /// folder, as a file .phalanx-*.tmp (with plaintext, if it was unprotect), and protect leaves a small record beside it,
    /// .phalanx-*.resume. The next run with this option checks all that is there and does the rest. If the input has
    /// changed, or the keys, the cipher or the chunk size are others, it starts from the beginning and says so. A
    /// run without this option starts from the beginning too.
    #[arg(long, conflicts_with = "recursive")]
    resume: bool,
    /// Delete each input once its output is on the disk
    #[arg(long, conflicts_with = "no_sync")]
    remove: bool,
    /// Do not wait until the outputs are on the disk
    #[arg(long)]
    no_sync: bool,
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
    /// Delete a key: files that only this key opens are lost
    Rm {
        /// Its name
        name: String,
        /// Do not ask; needed without a terminal
        #[arg(short, long)]
        force: bool,
    },
}

#[derive(Args)]
pub struct Engines {
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Measure the speeds again; takes about a second
    ///
    /// Measured speeds are kept until the devices, drivers, CPU or program change. Without this option they are measured
    /// only if none are kept.
    #[arg(long)]
    pub calibrate: bool,
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
}

impl Protect {
    pub fn validate(self) -> Outcome<ProtectPlan> {
        let destination = self.destination.validate(&self.paths, Carry::All)?;
        check_json(self.json.json, &self.paths, &destination)?;
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
        let (keys, suite, engine) = (self.keys, self.cipher.unwrap_or(Cipher::Aes256).into(), self.engine);
        let chunk_size = self.chunk_size.unwrap_or_default();
        Ok(ProtectPlan { paths: self.paths, destination, keys, suite, chunk_size, engine, json: self.json.json, abort })
    }
}

/// What `unprotect` is to do.
pub struct UnprotectPlan {
    pub paths: Vec<PathBuf>,
    pub destination: Destination,
    pub keys: OpenKeys,
    pub engine: EngineArgs,
    pub salvage: bool,
    pub range: Option<ByteRange>,
    pub volume: Option<PathBuf>,
    pub ignore_manifest: bool,
    pub json: bool,
}

impl Unprotect {
    pub fn validate(self) -> Outcome<UnprotectPlan> {
        // Nobody has authenticated it, so it does not decide who may read the plaintext.
        let carry = if self.preserve { Carry::All } else { Carry::New { umask: umask() } };
        let destination = self.destination.validate(&self.paths, carry)?;
        check_json(self.json.json, &self.paths, &destination)?;
        self.keys.validate(&self.paths)?;
        if self.range.is_some() {
            check_range(&self.paths, &destination, &self.engine)?;
        }
        if self.salvage || self.volume.is_some() {
            let output = match &destination.outputs {
                Outputs::At(End::Object(url)) => Some(url.path().to_owned()),
                Outputs::In(folder) => Some(folder.clone()),
                _ => None,
            };
            let what = if self.salvage { "--salvage" } else { "--volume" };
            paths::no_urls(what, self.paths.iter().chain(&output))?;
        }
        let to_store = match &destination.outputs {
            Outputs::At(end) => matches!(end, End::Object(_)),
            Outputs::In(folder) => is_url(folder),
            Outputs::Beside => false,
        };
        if destination.resume && to_store {
            return Err(Failure::usage("--resume goes on with uploads of protect only"));
        }
        if self.volume.is_some() && matches!(destination.outputs, Outputs::Beside) {
            return Err(Failure::usage("--volume needs --output or --output-dir").hint(TO_STDOUT));
        }
        let Self { paths, keys, engine, salvage, range, volume, ignore_manifest, json, .. } = self;
        Ok(UnprotectPlan { paths, destination, keys, engine, salvage, range, volume, ignore_manifest, json: json.json })
    }
}

/// Standard output has lines of JSON or an output, and not both.
fn check_json(json: bool, paths: &[PathBuf], destination: &Destination) -> Outcome {
    if json && destination.writes_stdout(paths) {
        return Err(Failure::usage("--json needs standard output for itself").hint("name an output with --output"));
    }
    Ok(())
}

const TO_STDOUT: &str = "--output - is standard output";
/// For work that no other engine does.
const CPU_ENGINES: &str = "--engine cpu or --engine serial does it";

/// What cannot go with a range.
fn check_range(paths: &[PathBuf], destination: &Destination, engine: &EngineArgs) -> Outcome {
    Err(match () {
        () if paths.len() > 1 => Failure::usage("--range takes one file"),
        () if paths.iter().any(|path| paths::is_dash(path)) => {
            Failure::usage("--range needs a file, not - (which is read in order)")
        }
        // The name that belongs to the file must not go to a part of it.
        () if matches!(destination.outputs, Outputs::Beside) => {
            Failure::usage("--range needs --output or --output-dir").hint(TO_STDOUT)
        }
        () if matches!(engine.engine, EngineName::Gpu | EngineName::Hybrid) => {
            Failure::usage("--range runs on the CPU").hint(CPU_ENGINES)
        }
        () => return Ok(()),
    })
}

impl Verify {
    pub fn validate(self) -> Outcome<Self> {
        self.keys.validate(&self.paths)?;
        self.manifest.validate(&self.paths)?;
        Ok(self)
    }

    /// What is demanded of a mirror's manifest.
    pub fn pins(&self) -> Pins {
        self.manifest.pins()
    }
}

impl DestinationArgs {
    fn validate(self, paths: &[PathBuf], carry: Carry) -> Outcome<Destination> {
        let Self { output, output_dir, force, remove, no_sync, recursive, resume } = self;
        let outputs = match (output, output_dir) {
            (Some(output), _) => Outputs::At(End::from(output)),
            (None, Some(folder)) => Outputs::In(folder),
            (None, None) => Outputs::Beside,
        };
        let destination = Destination { outputs, force, remove, sync: !no_sync, recursive, resume, carry };
        destination.check(paths)?;
        Ok(destination)
    }
}
