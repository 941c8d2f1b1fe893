//! The command line: options of `phalanx`, and some that users of `dcp` know.

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use phalanx_core::{ChunkSize, Suite};
use phalanx_host::args::{
    Cipher, EngineName, MirrorArgs, MirrorPlan, OpenKeys, PinArgs, ProtectKeys, SignersArgs, chunk_size, size, threads,
};
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::{Carry, protected_name, umask, unprotected_name};
use phalanx_host::mirror::manifest::Pins;
use phalanx_host::mirror::run::Options;
use phalanx_host::paths::{self, Destination, End, Outputs};
use phalanx_host::verbosity::Verbosity;
use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Protects files and folders with as many processes as MPI gives.
///
/// Each process reads and writes its own parts of the files, which all processes must see under the same paths. The outputs
/// are those of phalanx, and either program opens what the other has made.
#[derive(Parser)]
#[command(name = "phalanx-mpi", version, max_term_width = 80, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

#[derive(Subcommand)]
pub enum Command {
    /// Protect files: PATH becomes PATH.phx
    Protect(Protect),
    /// Make or renew a protected mirror of a folder
    ///
    /// Only what has changed is written: a file is unchanged if its length and its time of modification are. The manifest
    /// phalanx.tree in MIRROR lists every entry, so that verify and unprotect find what is missing, added, exchanged or
    /// older. Rank 0 compares SOURCE with the last manifest, and all processes write the files.
    Mirror(Mirror),
    /// Get protected files back: PATH.phx becomes PATH
    ///
    /// A folder with a manifest is compared with it first, and only what is listed and right is written.
    Unprotect(Unprotect),
    /// Check every chunk of protected files; write nothing
    ///
    /// A folder with a manifest is compared with it, and each file must hold what the manifest lists.
    Verify(Verify),
}

#[derive(Args)]
pub struct Protect {
    /// Files to protect, or folders with --recursive
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    keys: ProtectKeys,
    /// aes-256 (default), aes-192, aes-128, aes-256-turbo, aes-256-gcm
    #[arg(long, value_enum, value_name = "CIPHER", hide_possible_values = true)]
    cipher: Option<Cipher>,
    /// Bytes of a chunk, 4K to 16M (default: 1M)
    #[arg(long, value_name = "SIZE", value_parser = chunk_size)]
    chunk_size: Option<ChunkSize>,
    #[command(flatten)]
    destination: DestinationArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    dry_run: DryRun,
}

#[derive(Args)]
pub struct Mirror {
    #[command(flatten)]
    args: MirrorArgs,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Args)]
pub struct Unprotect {
    /// Protected files, or folders with --recursive
    #[arg(required = true, value_name = "PATH.phx")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    keys: OpenKeys,
    /// Take what a manifest does not list too
    ///
    /// For a mirror whose manifest is lost or damaged, and for what an interrupted run has written after it.
    #[arg(long, requires = "recursive", conflicts_with = "signers")]
    ignore_manifest: bool,
    /// Restore owner, group, permissions, ACLs and attributes
    #[arg(long)]
    preserve: bool,
    #[command(flatten)]
    signers: SignersArgs,
    #[command(flatten)]
    destination: DestinationArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    dry_run: DryRun,
}

#[derive(Args)]
pub struct Verify {
    /// Protected files, or folders with --recursive
    #[arg(required = true, value_name = "PATH.phx")]
    paths: Vec<PathBuf>,
    /// Check all protected files in whole folders
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    manifest: PinArgs,
    #[command(flatten)]
    signers: SignersArgs,
    #[command(flatten)]
    keys: OpenKeys,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    dry_run: DryRun,
}

#[derive(Args)]
#[group(skip)]
struct DestinationArgs {
    /// Write this file or mirrored folder
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath, conflicts_with = "output_dir")]
    output: Option<PathBuf>,
    /// Write the outputs into this existing folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output_dir: Option<PathBuf>,
    /// Take whole folders, and mirror them file by file
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Overwrite existing outputs
    #[arg(short, long)]
    force: bool,
    /// Go on where the same command was interrupted
    ///
    /// Large files keep the chunks that are done. In a folder, an output is kept if its length and its time fit its input, and it
    /// is for the same keys. Do not combine this with --no-sync in folders: after a crash of a machine, an output may have its
    /// length and time, and not its content.
    #[arg(long)]
    resume: bool,
    /// Do not wait until the outputs are on the disk
    #[arg(long)]
    no_sync: bool,
}

#[derive(Args, Clone)]
#[group(skip)]
pub struct RunArgs {
    /// cpu (default), serial, gpu or hybrid, in each process
    #[arg(short, long, value_enum, default_value_t = EngineName::Cpu, value_name = "ENGINE")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub engine: EngineName,
    /// CPU threads of each process
    ///
    /// Without it: the cores that the process is bound to or, if it is not bound, its part of the machine's cores.
    #[arg(short, long, value_name = "N", value_parser = threads)]
    pub threads: Option<NonZeroUsize>,
    /// dynamic (default) or static
    ///
    /// With dynamic, a process that is done takes the next part. With static, all parts are given out beforehand, in equal shares.
    #[arg(long, value_enum, default_value_t = Division::Dynamic, value_name = "DIVISION")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub division: Division,
    /// The most bytes that a thread reads or writes at once
    #[arg(short, long, value_name = "SIZE", value_parser = size)]
    pub bufsize: Option<u64>,
    /// Print progress every N seconds (default: 10; 0: never)
    #[arg(long, value_name = "N", default_value_t = 10, hide_default_value = true)]
    pub progress: u64,
    /// Whether nothing is done.
    #[arg(skip)]
    pub dry_run: bool,
}

#[derive(Args)]
#[group(skip)]
struct DryRun {
    /// Print what would be done, and do nothing
    #[arg(short = 'n', long, alias = "dryrun")]
    dry_run: bool,
}

/// How the work is divided.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Division {
    /// A process that is done takes the next part.
    Dynamic,
    /// All parts are given out beforehand.
    Static,
}

/// What is to be done.
pub struct Plan {
    pub what: What,
    /// The mirror that is made or renewed, if one is.
    pub mirror: Option<Options>,
    pub paths: Vec<PathBuf>,
    pub destination: Destination,
    pub run: RunArgs,
    /// Who must have signed the manifests of folders.
    pub signers: SignersArgs,
    pub verbosity: Verbosity,
}

/// What is done to files.
pub enum What {
    Protect { keys: ProtectKeys, suite: Suite, chunk_size: ChunkSize },
    Unprotect { keys: OpenKeys, ignores_manifest: bool },
    Verify { keys: OpenKeys, quick: bool, pins: Pins },
}

impl Plan {
    /// Whether what is replaced in a mirror is kept elsewhere.
    pub fn keeps_replaced(&self) -> bool {
        self.mirror.as_ref().is_some_and(|options| options.backup_dir.is_some())
    }

    /// Whether each output is named when it is done.
    pub fn names_outputs(&self) -> bool {
        self.verbosity.verbose && self.mirror.is_none()
    }

    /// The name of a file's output. `None` if the file is not to be worked on.
    pub fn output_name(&self, of: &OsStr) -> Option<OsString> {
        if !matches!(self.what, What::Protect { .. }) {
            return unprotected_name(of);
        }
        Some(protected_name(of))
    }

    /// The name of the file whose output has this name. `None` if there is none.
    pub fn input_name(&self, output: &OsStr) -> Option<OsString> {
        match self.what {
            What::Protect { .. } => unprotected_name(output),
            _ => Some(protected_name(output)),
        }
    }
}

impl Cli {
    /// Checks everything that can be checked without looking at the paths.
    pub fn validate(self) -> Outcome<Plan> {
        let verbosity = self.verbosity;
        let plan = match self.command {
            Command::Protect(args) => {
                let destination = args.destination.destination(Carry::All);
                if destination.resume && args.keys.only_recipients() {
                    let line =
                        "--resume needs a key or a password: public keys cannot open what an interrupted run has left";
                    return Err(Failure::usage(line));
                }
                if destination.resume && matches!(args.cipher, Some(Cipher::Aes256Gcm)) {
                    let line = "--resume does not work with aes-256-gcm, whose chunks are written once";
                    return Err(Failure::usage(line));
                }
                let suite = args.cipher.unwrap_or(Cipher::Aes256).into();
                let what = What::Protect { keys: args.keys, suite, chunk_size: args.chunk_size.unwrap_or_default() };
                let run = args.run.with(&args.dry_run);
                let signers = SignersArgs::default();
                Plan { what, mirror: None, paths: args.paths, destination, run, signers, verbosity }
            }
            Command::Mirror(args) => {
                let MirrorPlan { options, destination, keys, suite, chunk_size } = args.args.validate()?;
                paths::no_urls("phalanx-mpi", [&options.mirror])?;
                let what = What::Protect { keys, suite, chunk_size };
                let run = RunArgs { dry_run: options.dry_run, ..args.run };
                let paths = vec![options.source.clone()];
                let signers = SignersArgs::default();
                Plan { what, mirror: Some(options), paths, destination, run, signers, verbosity }
            }
            Command::Unprotect(args) => {
                let carry = if args.preserve { Carry::All } else { Carry::New { umask: umask() } };
                let destination = args.destination.destination(carry);
                let what = What::Unprotect { keys: args.keys, ignores_manifest: args.ignore_manifest };
                let run = args.run.with(&args.dry_run);
                let signers = args.signers;
                Plan { what, mirror: None, paths: args.paths, destination, run, signers, verbosity }
            }
            Command::Verify(args) => {
                let destination = Destination::nowhere(args.recursive);
                args.manifest.validate(&args.paths)?;
                if args.manifest.accept && !args.recursive {
                    return Err(Failure::usage("--accept goes with --recursive"));
                }
                let PinArgs { quick, .. } = args.manifest;
                let what = What::Verify { keys: args.keys, quick, pins: args.manifest.pins() };
                let run = args.run.with(&args.dry_run);
                let signers = args.signers;
                Plan { what, mirror: None, paths: args.paths, destination, run, signers, verbosity }
            }
        };
        let to_stdout = matches!(plan.destination.outputs, Outputs::At(End::Standard));
        match &plan.what {
            What::Protect { keys, .. } => paths::one_stdin(keys.keys.files().chain(&keys.recipients_files))?,
            What::Unprotect { keys, .. } | What::Verify { keys, .. } => {
                paths::one_stdin(keys.keys.files().chain(&keys.identities))?;
            }
        }
        if to_stdout || plan.paths.iter().any(|path| paths::is_dash(path)) {
            return Err(Failure::usage(
                "several processes cannot share standard input or output: - does not work here",
            ));
        }
        if plan.signers.files().next().is_some() && !plan.destination.recursive {
            let line = "--signers needs --recursive: phalanx-mpi checks the signatures of manifests";
            return Err(Failure::usage(line).hint("phalanx checks those of files"));
        }
        if plan.signers.files().next().is_some() && plan.destination.resume {
            return Err(Failure::usage("--resume would leave plaintext whose signature was not checked yet"));
        }
        plan.destination.check(&plan.paths)?;
        Ok(plan)
    }
}

impl RunArgs {
    fn with(self, dry_run: &DryRun) -> Self {
        Self { dry_run: dry_run.dry_run, ..self }
    }
}

impl DestinationArgs {
    fn destination(self, carry: Carry) -> Destination {
        let Self { output, output_dir, recursive, force, resume, no_sync } = self;
        let outputs = match (output, output_dir) {
            (Some(output), _) => Outputs::At(End::from(output)),
            (None, Some(folder)) => Outputs::In(folder),
            (None, None) => Outputs::Beside,
        };
        Destination { outputs, force, remove: false, sync: !no_sync, recursive, resume, carry }
    }
}
