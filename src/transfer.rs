//! One file's way from its input to its output, the same for protecting and for unprotecting.

use crate::args::{EngineArgs, Verbosity};
use crate::failure::{self, Code, Failure, Outcome, complain, shown};
use crate::lanes::{Crew, Lanes};
use crate::paths::{self, Destination, Input, Place, Target, blame, is_dash};
use crate::progress::{Meter, arrow};
use crate::tree;
use phalanx_core::file::Progress;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// What is done to the bytes.
pub trait Action: Sync {
    /// The name of the output that belongs to an input of this name.
    fn output_name(&self, name: &OsStr) -> Option<OsString>;

    /// Finds out what is needed from the user: called once, before the first file.
    fn prepare(&self) -> Outcome {
        Ok(())
    }

    /// Moves the bytes. Returns how many, of plaintext, and who did it.
    fn transfer<'l>(
        &self,
        lanes: &'l Lanes,
        input: &Input,
        target: &Target,
        progress: &dyn Progress,
    ) -> phalanx_core::Result<(u64, &'l Crew)>;
}

/// An action on all of a command's paths.
pub struct Transfer<A> {
    pub action: A,
    pub lanes: Lanes,
    pub destination: Destination,
    pub verbosity: Verbosity,
}

impl<A: Action> Transfer<A> {
    pub fn new(action: A, destination: Destination, engine: &EngineArgs, verbosity: Verbosity) -> Outcome<Self> {
        Ok(Self { action, lanes: Lanes::new(engine, verbosity)?, destination, verbosity })
    }

    /// Does it for each path. A failure does not stop the others.
    pub fn run(&self, paths: &[PathBuf]) -> Outcome {
        let places = self.places(paths)?;
        // Nobody is asked for a password only to hear that there is nothing to do.
        if places.iter().any(|place| self.is_promising(place)) {
            self.action.prepare()?;
        }
        self.lanes.expect(places.iter().filter_map(|place| paths::file_len(&place.input)).sum());
        failure::each(&places, |place| {
            if is_dash(&place.input) || !place.input.is_dir() {
                return self.file(place);
            }
            if !self.destination.recursive {
                let line = format!("{}: it is a folder (--recursive takes all that is in it)", shown(&place.input));
                return Err(Failure::new(Code::InputOutput, line));
            }
            tree::run(self, place)
        })
    }

    fn places(&self, paths: &[PathBuf]) -> Outcome<Vec<Place>> {
        self.destination
            .places(paths, |path: &Path| Some(path.with_file_name(self.action.output_name(path.file_name()?)?)))
    }

    /// Whether, at a glance, the input is there and no output stands in its way. Where this says no, so will the real checks.
    fn is_promising(&self, place: &Place) -> bool {
        let output_free =
            is_dash(&place.output) || self.destination.force || !place.output.is_symlink() && !place.output.exists();
        let input_there = place.input.exists() && (self.destination.recursive || !place.input.is_dir());
        output_free && (is_dash(&place.input) || input_there)
    }

    fn file(&self, place: &Place) -> Outcome {
        let input = Input::open(&place.input)?;
        let target = Target::create(place, &input, &self.destination)?;
        let meter = Meter::file(shown(&place.input), input.len(), self.verbosity);
        let done = self.action.transfer(&self.lanes, &input, &target, &meter);
        meter.finish();
        let (bytes, crew) = done.map_err(|e| blame(place, e))?;
        target.commit(place, &input, &self.destination)?;
        if self.verbosity.verbose {
            let (from, to) = (shown(&place.input), shown(&place.output));
            complain(format!("{from} {} {to}: {}, {}", arrow(), meter.summary(bytes), crew.description));
        }
        Ok(())
    }
}
