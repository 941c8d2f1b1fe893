//! The arguments of `phalanx unprotect`.

use super::{ByteRange, DestinationArgs, JsonArgs, StoreArgs, check_json};
use clap::{Args, ValueHint};
use phalanx_host::args::{EngineArgs, EngineName, OpenKeys, SignersArgs};
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::umask;
use phalanx_host::file::{Carry, is_url};
use phalanx_host::paths::{self, Destination, End, Outputs};
use std::path::PathBuf;

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
    #[arg(conflicts_with_all = ["salvage", "recursive", "remove", "range", "resume", "json", "signers"])]
    volume: Option<PathBuf>,
    /// Take what a manifest does not list too
    ///
    /// For a mirror whose manifest is lost or damaged, and for what an interrupted run has written after it.
    #[arg(long, requires = "recursive", conflicts_with = "signers")]
    ignore_manifest: bool,
    /// Restore owner, permissions, ACLs and attributes
    ///
    /// Without it plaintext gets the permissions of a new file, and none that the protected file lacks. Nobody has
    /// authenticated what this option restores: whoever can write to the protected file decides on it. The setuid and
    /// setgid bits are never kept, nor is the sticky bit of a file.
    #[arg(long)]
    preserve: bool,
    #[command(flatten)]
    signers: SignersArgs,
    #[command(flatten)]
    destination: DestinationArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    pub stores: StoreArgs,
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
    pub signers: SignersArgs,
}

impl Unprotect {
    pub fn validate(self) -> Outcome<UnprotectPlan> {
        // Nobody has authenticated it, so it does not decide who may read the plaintext.
        let carry = if self.preserve { Carry::All } else { Carry::New { umask: umask() } };
        let destination = self.destination.validate(&self.paths, carry)?;
        check_json(self.json.json, &self.paths, &destination)?;
        self.keys.validate(&self.paths)?;
        self.signers.validate(&self.paths)?;
        if self.signers.files().next().is_some() {
            check_signers(self.salvage, self.range.is_some(), destination.resume)?;
        }
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
        let Self { paths, keys, engine, salvage, range, volume, ignore_manifest, json, signers, .. } = self;
        let json = json.json;
        Ok(UnprotectPlan { paths, destination, keys, engine, salvage, range, volume, ignore_manifest, json, signers })
    }
}

const TO_STDOUT: &str = "--output - is standard output";
/// For work that no other engine does.
pub const CPU_ENGINES: &str = "--engine cpu or --engine serial does it";

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

/// What cannot go with signers.
fn check_signers(salvage: bool, range: bool, resume: bool) -> Outcome {
    Err(match () {
        () if resume => Failure::usage("--resume would leave plaintext whose signature was not checked yet"),
        () if salvage => Failure::usage("--salvage saves damaged files, which are not what anybody has signed")
            .hint("without --signers it saves what nobody vouches for"),
        () if range => Failure::usage("--range reads a part, and a signature is of the whole file")
            .hint("verify --signers checks the whole file first"),
        () => return Ok(()),
    })
}
