//! One file's way from its input to its output, the same for protecting, unprotecting and verifying.

use crate::args::{EngineArgs, KeyArgs, Verbosity};
use crate::ends::{Input, Target, blame};
use crate::failure::{self, Code, Failure, Outcome, complain, shown};
use crate::key_files::KeyFiles;
use crate::lanes::{Crew, Lanes};
use crate::paths::{self, Destination, End, Place};
use crate::progress::{Meter, arrow, is_terminal};
use crate::tree;
use phalanx_core::file::Made;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What is done to the bytes.
pub trait Action: Sync {
    /// The name of the output that belongs to an input of this name; `None` where the input is not to be worked on.
    fn output_name(&self, name: &OsStr) -> Option<OsString>;

    /// Finds out what is needed from the user: called once, before the first file.
    fn prepare(&self) -> Outcome {
        Ok(())
    }

    /// Whether an input that was named on the command line is to be worked on.
    fn accept(&self, _end: &End, _input: &Input) -> phalanx_core::Result<()> {
        Ok(())
    }

    /// Moves the bytes. Returns how many, of plaintext, and who did it. The meter is told when the work begins.
    fn transfer<'l>(
        &self,
        lanes: &'l Lanes,
        input: &Input,
        target: &Target,
        meter: &Meter,
    ) -> phalanx_core::Result<(u64, &'l Crew)>;

    /// A file of a tree without a mirror has been checked.
    fn checked(&self, _path: &Path, _bytes: u64) -> Outcome {
        Ok(())
    }

    /// Whether to warn that the keys which are used lie in the tree that is worked on.
    fn warns_of_keys(&self) -> bool {
        false
    }
}

/// An action on all of a command's paths.
pub struct Transfer<A> {
    pub action: A,
    pub lanes: Lanes,
    pub destination: Destination,
    pub verbosity: Verbosity,
    /// What this run has made.
    pub made: Arc<Made>,
    pub keys: Arc<KeyFiles>,
    prepared: OnceLock<Result<(), Code>>,
}

impl<A: Action> Transfer<A> {
    pub fn new(
        action: A,
        destination: Destination,
        keys: &KeyArgs,
        engine: &EngineArgs,
        verbosity: Verbosity,
    ) -> Outcome<Self> {
        let lanes = Lanes::new(engine, verbosity)?;
        let (made, keys) = (Arc::default(), Arc::new(KeyFiles::new(keys)));
        Ok(Self { action, lanes, destination, verbosity, made, keys, prepared: OnceLock::new() })
    }

    /// Does it for each path. A failure does not stop the others.
    pub fn run(&self, paths: &[PathBuf]) -> Outcome {
        let (places, named) = self.destination.places(paths, |name| self.action.output_name(name))?;
        self.lanes.expect(places.iter().filter_map(|place| paths::file_len(place.input.path())).sum());
        let done = failure::each(&places, |place| match (&place.input, &place.output) {
            (End::Path(input), output) if input.is_dir() => {
                if !self.destination.recursive {
                    let line = format!("{}: it is a folder (--recursive takes all that is in it)", shown(input));
                    return Err(Failure::new(Code::InputOutput, line));
                }
                tree::run(self, input, Some(output.path()))?.outcome()
            }
            _ => self.file(place),
        });
        failure::worse(named, done)
    }

    /// Finds out what is needed from the user, once there is something to do. What failed is told the first time.
    pub fn prepare(&self) -> Outcome {
        let ask = || {
            self.action.prepare().map_err(|failure| {
                failure.report();
                failure.code()
            })
        };
        self.prepared.get_or_init(ask).map_err(Failure::told)
    }

    fn file(&self, place: &Place) -> Outcome {
        let input = Input::open(&place.input)?;
        let at_input = |e| Failure::at(place.input.path(), e);
        self.action.accept(&place.input, &input).map_err(at_input)?;
        let target = Target::create(place, &input, &self.destination, &self.made)?;
        self.prepare()?;
        let meter = Meter::file(shown(place.input.path()), input.len(), self.verbosity);
        let done = self.action.transfer(&self.lanes, &input, &target, &meter);
        meter.finish();
        let (bytes, crew) = done.map_err(|e| blame(place, e))?;
        let removal = if self.deletes(place, &input) { input.removal() } else { None };
        target.commit(place, &input, &self.destination, &self.made, removal)?;
        let (from, to) = (shown(place.input.path()), shown(place.output.path()));
        if self.verbosity.verbose {
            complain(format!("{from} {} {to}: {}, {}", arrow(), meter.summary(bytes), crew.description));
        } else if !self.verbosity.quiet && is_terminal() && !place.output.is_standard() {
            complain(format!("{from} {} {to}: {}", arrow(), meter.brief(bytes)));
        }
        Ok(())
    }

    /// Whether the input is to be deleted: not what it is protected with.
    fn deletes(&self, place: &Place, input: &Input) -> bool {
        let holds_key = input.stamp().is_some_and(|stamp| self.keys.holds(stamp.id()));
        let path = shown(place.input.path());
        if holds_key && self.destination.remove {
            complain(format!("warning: {path}: not deleted, since it holds a key or password"));
        }
        if holds_key && self.action.warns_of_keys() {
            complain(format!("warning: {path} is protected with itself: keep a copy of it elsewhere"));
        }
        self.destination.remove && !holds_key
    }
}
