//! Both ends of a transfer, opened safely: the input and the output.

use crate::failure::{Code, Failure, Outcome};
use crate::file::{self, Carry, InputFile, Made, Output, Removal, Stamp};
use crate::lines::{complain, shown};
use crate::paths::{Destination, End, Place, umask};
use crate::{Error, stdio, warnings};
use phalanx_core::{Error as CoreError, Sink, Source};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// From this length on, in bytes, an interrupted run is worth going on with.
const RESUMABLE: u64 = 16 << 20;

/// An input that has been opened.
pub enum Input {
    /// Standard input.
    Stream(File),
    /// A regular file.
    File(InputFile),
}

#[expect(clippy::len_without_is_empty, reason = "the length may be unknown")]
impl Input {
    /// Opens an end.
    pub fn open(end: &End) -> Outcome<Self> {
        match end {
            End::Standard => stdio::input().map(Input::Stream).map_err(|e| Failure::at(end.path(), Error::read(e))),
            End::Path(path) => InputFile::open(path).map(Input::File).map_err(|e| Failure::at(path, e)),
        }
    }

    /// Opens a file in a folder of a tree. Links are not followed.
    pub fn open_in(folder: Arc<File>, name: &OsStr) -> crate::Result<Self> {
        InputFile::open_in(folder, name).map(Input::File)
    }

    /// The opened file.
    pub fn file(&self) -> &File {
        match self {
            Input::Stream(file) => file,
            Input::File(input) => input.file(),
        }
    }

    /// What the pipeline reads.
    pub fn source(&self) -> crate::Result<Source<'_>> {
        match self {
            // It may be a file that was partly read. Reading continues from there.
            Input::Stream(file) => Ok(Source::stream(file)),
            Input::File(input) => file::source(input.file()),
        }
    }

    /// The state of the file, to detect writes to it. `None` for a stream.
    pub fn stamp(&self) -> Option<Stamp> {
        if let Input::File(input) = self { Some(input.stamp()) } else { None }
    }

    /// Whether a change of the file's keys may have been interrupted.
    pub fn rekey_interrupted(&self) -> bool {
        matches!(self, Input::File(input) if file::is_unfinished(input))
    }

    /// Why it does not open: perhaps because a change of its keys was interrupted.
    pub fn interrupted(&self, error: impl Into<Error>) -> Error {
        let error = error.into();
        let is_of_header = matches!(
            error,
            Error::Core(
                CoreError::Header(_)
                    | CoreError::NotPhalanx
                    | CoreError::Version(_)
                    | CoreError::Read(_)
                    | CoreError::NoKey { .. }
                    | CoreError::KeysRefused { .. }
                    | CoreError::WrongKey
                    | CoreError::KdfLimit(_)
            )
        );
        if is_of_header && self.rekey_interrupted() { Error::Interrupted(Box::new(error)) } else { error }
    }

    /// The removal of the input.
    pub fn removal(&self) -> Option<Removal> {
        if let Input::File(input) = self { input.removal() } else { None }
    }

    /// The input's length in bytes, if it is known.
    pub fn len(&self) -> Option<u64> {
        self.stamp().map(|stamp| stamp.len())
    }

    /// The same, for choosing an engine. Files that report a length of 0, as under /proc, have none.
    pub fn known_len(&self) -> Option<u64> {
        self.len().filter(|len| *len > 0)
    }
}

/// An output that has been begun: a new file, or standard output.
pub enum Target {
    /// The output, and whether it will be synced.
    File(Output, bool),
    /// Standard output.
    Stream(File),
    /// The bytes are only checked.
    Nothing,
}

impl Target {
    /// Begins the output of a place.
    pub fn create(place: &Place, input: &Input, destination: &Destination, made: &Made) -> Outcome<Self> {
        let is_input = |id| input.stamp().is_some_and(|stamp| stamp.id() == id);
        let same = |end: &End| Failure::at(end.path(), Error::SameFile);
        let path = match &place.output {
            End::Standard => {
                let stdout = stdio::output().map_err(|e| Failure::at(place.output.path(), Error::write(e)))?;
                let id = stdout.metadata().ok().filter(|meta| meta.is_file()).map(|meta| (meta.dev(), meta.ino()));
                if id.is_some_and(is_input) {
                    return Err(same(&place.input));
                }
                made.check_open(&stdout).map_err(|e| Failure::at_output(place.output.path(), e))?;
                return Ok(Target::Stream(stdout));
            }
            End::Path(path) => path,
        };
        if fs::metadata(path).is_ok_and(|meta| is_input((meta.dev(), meta.ino()))) {
            return Err(same(&place.output));
        }
        let existing = destination.existing(made);
        let is_large = input.len().is_some_and(|len| len >= RESUMABLE);
        let output = if destination.resume && is_large {
            Output::resume(path, existing)
        } else {
            Output::create(path, existing)
        };
        let output = output.map_err(|e| match e {
            Error::NoLocks => {
                let why = "its file system has no locks, which --resume needs";
                Failure::new(Code::InputOutput, format!("{}: {why}", shown(path))).hint("run without --resume")
            }
            e => Failure::at_output(path, e),
        })?;
        // Somebody may have given the input the name of an unfinished file.
        if output.file().metadata().is_ok_and(|meta| is_input((meta.dev(), meta.ino()))) {
            return Err(same(&place.output));
        }
        Ok(Target::File(output, destination.sync))
    }

    /// The output that stays if the run is interrupted, and whether it will be synced.
    pub fn resumable(&mut self) -> Option<(&mut Output, bool)> {
        match self {
            Target::File(output, sync) if output.is_kept() => Some((output, *sync)),
            _ => None,
        }
    }

    /// What the pipeline writes to.
    pub fn sink(&self) -> Sink<'_> {
        match self {
            Target::File(output, sync) => file::sink(output.file(), *sync),
            Target::Stream(file) => Sink::Stream(Box::new(file)),
            Target::Nothing => Sink::Nothing,
        }
    }

    /// The opened file, to write to it in order.
    pub fn file(&self) -> Option<&File> {
        match self {
            Target::File(output, _) => Some(output.file()),
            Target::Stream(file) => Some(file),
            Target::Nothing => None,
        }
    }

    /// Gives the output its name. With `removal`, deletes the input once the output is proven to be on the disk.
    pub fn commit(
        self,
        place: &Place,
        input: &Input,
        destination: &Destination,
        made: &Made,
        removal: Option<Removal>,
    ) -> Outcome {
        let at_output = |e| Failure::at(place.output.path(), e);
        let output = match self {
            Target::File(output, _) => output,
            Target::Stream(file) => return file::check_close(&file).map_err(at_output),
            Target::Nothing => return Ok(()),
        };
        if output.is_kept() && destination.sync {
            // This may take long. Until it is done, nobody but the user can open the file, and a later run can go on with it.
            output.sync_kept().map_err(at_output)?;
        }
        match input {
            Input::File(input) => {
                warn_of_special_bits(place.input.path(), input.file(), destination.carry);
                output.carry(input.file(), destination.carry)
            }
            Input::Stream(_) => output.set_mode(0o666 & !umask()),
        }
        .map_err(at_output)?;
        let committed = output.commit(destination.existing(made), destination.sync).map_err(at_output)?;
        let Some(removal) = removal else { return Ok(()) };
        if !committed.is_in_place().map_err(at_output)? {
            return Err(at_output(Error::Displaced));
        }
        removal.run().map_err(|e| not_deleted(place.input.path(), e))
    }
}

/// Says once that some permissions are not carried over.
pub fn warn_of_special_bits(path: &Path, file: &File, carry: Carry) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if let Some(line) = warnings::special_bits(path, file, carry)
        && !SAID.swap(true, Ordering::Relaxed)
    {
        complain(line);
    }
}

/// Why an input is still there although its output is done.
pub fn not_deleted(path: &Path, error: Error) -> Failure {
    match error {
        Error::Core(CoreError::Read(e) | CoreError::Write(e)) => {
            let line = format!("{}: its output is on the disk, but the input could not be deleted: {e}", shown(path));
            Failure::new(Code::InputOutput, line)
        }
        error => Failure::at(path, error),
    }
}

/// Assigns an error of the pipeline to the path where it happened.
pub fn blame(place: &Place, error: Error) -> Failure {
    let end = if error.is_of_output() { &place.output } else { &place.input };
    Failure::at(end.path(), error)
}
