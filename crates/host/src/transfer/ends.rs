//! Both ends of a route: how they are opened and committed, and which of them failed.

use crate::Error;
use crate::failure::{Code, Failure, Outcome};
use crate::file::{Committed, Ends, Input, Made, OutputPlace, OutputRules, Removal, Target};
use crate::lines::shown;
use crate::paths::{End, Route};
use crate::signatures::beside;
use crate::stdio;
use crate::warnings::{warn_of_resource_fork, warn_of_special_bits};
use phalanx_core::Error as CoreError;
use std::path::Path;

/// From this length of the input on, in bytes, an output is kept if the run is interrupted.
const RESUMABLE: u64 = 16 << 20;

impl End {
    /// Opens it as an input.
    pub fn open(&self) -> Outcome<Input> {
        let opened = match self {
            End::Standard => stdio::input().map(Input::Stream).map_err(Error::read),
            End::Path(path) => Input::open(path),
            End::Object(url) => Input::open_object(url),
        };
        opened.map_err(|e| Failure::at(self.path(), e))
    }
}

impl Route {
    /// Begins the output of the opened input. `made` are the outputs of this run.
    pub fn begin(&self, input: Input, rules: &OutputRules<'_>, made: &Made) -> Outcome<Ends> {
        let at_output = |e| Failure::at_output(self.output.path(), e);
        let place = match &self.output {
            End::Standard => {
                let stdout = stdio::output().map_err(Error::write).map_err(at_output)?;
                made.check_open(&stdout).map_err(at_output)?;
                OutputPlace::Stream(stdout)
            }
            End::Path(path) => OutputPlace::Path(path),
            End::Object(url) => OutputPlace::Object(url),
        };
        let resume = rules.resume && input.len().is_some_and(|len| len >= RESUMABLE);
        Ends::begin(input, place, &OutputRules { resume, ..*rules }).map_err(|e| match e {
            Error::NoLocks => {
                let why = "its file system has no locks, which --resume needs";
                Failure::new(Code::InputOutput, format!("{}: {why}", shown(self.output.path())))
                    .hint("run without --resume")
            }
            Error::SameFile if self.output.is_standard() => Failure::at(self.input.path(), e),
            e => at_output(e),
        })
    }

    /// Gives the output its name. With `removal`, deletes the input once the output is proven to be on the disk.
    pub fn commit(&self, ends: Ends, rules: &OutputRules<'_>, removal: Option<Removal>) -> Outcome {
        self.commit_with(ends, rules, removal, || Ok(()))
    }

    /// As [`Route::commit`] does. `then` is done when the output has its name, and before the input is deleted.
    pub fn commit_with(
        &self,
        ends: Ends,
        rules: &OutputRules<'_>,
        removal: Option<Removal>,
        then: impl FnOnce() -> Outcome,
    ) -> Outcome {
        if let Ends { input: Input::File(input), target: Target::File(..) } = &ends {
            warn_of_special_bits(self.input.path(), input.file(), rules.carry);
            warn_of_resource_fork(self.input.path(), input.file());
        }
        let committed = ends.commit(rules).map_err(|e| self.blame(e))?;
        then()?;
        match (committed, removal) {
            (Some(committed), Some(removal)) => delete(removal, self.input.path(), &committed, self.output.path()),
            _ => Ok(()),
        }
    }

    /// Assigns an error to the path where it happened.
    pub fn blame(&self, error: Error) -> Failure {
        blame(self.input.path(), self.output.path(), error)
    }
}

/// Assigns an error to the path where it happened: that of the input or of the output.
pub fn blame(input: &Path, output: &Path, error: Error) -> Failure {
    Failure::at(if error.is_of_output() { output } else { input }, error)
}

/// Deletes an input, and then its signature if that goes too, whose output is on the disk, if the output still has its name.
pub fn delete(mut removal: Removal, input: &Path, committed: &Committed, output: &Path) -> Outcome {
    let at_output = |e| Failure::at(output, e);
    if !committed.is_in_place().map_err(at_output)? {
        return Err(at_output(Error::Displaced));
    }
    let signature = removal.take_signature();
    removal.run().map_err(|e| not_deleted(input, e))?;
    signature.map_or(Ok(()), Removal::run).map_err(|e| Failure::at(&beside(input), e))
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
