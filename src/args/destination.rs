//! Where outputs go, as arguments, and what is printed about them.

use clap::{Args, ValueHint};
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::Carry;
use phalanx_host::paths::{Destination, End, Outputs};
use std::path::PathBuf;

#[derive(Args)]
#[group(skip)]
pub struct DestinationArgs {
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
    /// Go on where the same command was interrupted
    ///
    /// For files of 16 MiB and more. If a run with this option is interrupted or fails, what it has done stays in the output's
    /// folder, as a file .phalanx-*.tmp (with plaintext, if it was unprotect), with a small record beside it,
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

impl DestinationArgs {
    pub fn validate(self, paths: &[PathBuf], carry: Carry) -> Outcome<Destination> {
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

/// Standard output has lines of JSON or an output, and not both.
pub fn check_json(json: bool, paths: &[PathBuf], destination: &Destination) -> Outcome {
    if json && destination.writes_stdout(paths) {
        return Err(Failure::usage("--json needs standard output for itself").hint("name an output with --output"));
    }
    Ok(())
}
