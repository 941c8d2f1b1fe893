//! What is done to files, and everything it needs. Single files and whole trees both use it.

use super::meter::Meter;
use crate::args::EngineArgs;
use crate::engines::{Crew, Engines};
use crate::failure::{Code, Failure, Outcome};
use crate::file::{Ends, Input, Made, OutputRules};
use crate::key_files::KeyFiles;
use crate::paths::Destination;
use crate::signatures::Signing;
use crate::verbosity::Verbosity;
use phalanx_core::{ChunkSize, OpenedBy, Progress, Suite};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An operation on files.
pub trait Action: Sync {
    /// The name of the output for an input of this name. `None` if the input is not to be worked on.
    fn output_name(&self, name: &OsStr) -> Option<OsString>;

    /// Asks the user for everything that is needed. Called once, before the first file.
    fn prepare(&self) -> Outcome {
        Ok(())
    }

    /// Whether an input that was named on the command line is to be worked on.
    fn accept(&self, _path: &Path, _input: &Input) -> crate::Result<()> {
        Ok(())
    }

    /// Moves the bytes, and tells the meter when the work begins. The bytes that are done go to `progress`.
    fn transfer<'l>(
        &self,
        engines: &'l Engines,
        ends: &mut Ends,
        meter: &dyn Meter,
        progress: &dyn Progress,
    ) -> crate::Result<Moved<'l>>;

    /// Called when a file has been opened by this, and moved.
    fn opened(&self, _path: impl FnOnce() -> PathBuf, _by: &OpenedBy) {}

    /// Called when a file of a tree without a mirror has been checked.
    fn checked(&self, _path: &Path, _bytes: u64) -> Outcome {
        Ok(())
    }

    /// Called when the transfer of a file of a tree has failed.
    fn failed(&self, _path: &Path) {}

    /// Whether it opens protected files. In a tree it then leaves out files with other names, and volumes.
    fn opens(&self) -> bool {
        false
    }

    /// Whether to warn if a key that is used lies in the tree that is worked on.
    fn warns_of_keys(&self) -> bool {
        false
    }
}

/// What has been done to a file.
pub struct Moved<'l> {
    /// How many bytes of plaintext it has.
    pub bytes: u64,
    /// Its suite and the size of its chunks, if it was protected or opened as a whole.
    pub shape: Option<(Suite, ChunkSize)>,
    /// Who did the work.
    pub crew: &'l Crew,
    /// What opened it, in words, if it was opened.
    pub opened: Option<String>,
    /// What opened it, for [`Action::opened`].
    pub by: Option<OpenedBy>,
}

impl Moved<'_> {
    /// Who did the work, and what opened the file.
    pub fn description(&self) -> String {
        let opened = self.opened.as_ref().map(|by| format!(", opened by {by}")).unwrap_or_default();
        format!("{}{opened}", self.crew.description)
    }
}

/// An action on all of a command's paths.
pub struct Transfer<A> {
    /// What is done to each file.
    pub action: A,
    /// The engines that do the work.
    pub engines: Arc<Engines>,
    /// Where outputs go, and how they are written.
    pub destination: Destination,
    /// How much is said.
    pub verbosity: Verbosity,
    /// The outputs of this run.
    pub made: Arc<Made>,
    /// The files of the keys in use, which nothing replaces or deletes.
    pub keys: Arc<KeyFiles>,
    /// What is done about signatures of files and trees that the command line names.
    pub signing: Signing,
    prepared: OnceLock<Result<(), Code>>,
}

impl<A: Action> Transfer<A> {
    /// An action with the engines that were chosen.
    pub fn new(
        action: A,
        destination: Destination,
        keys: KeyFiles,
        engine: &EngineArgs,
        verbosity: Verbosity,
    ) -> Outcome<Self> {
        Ok(Self::with(action, destination, keys, Arc::new(Engines::new(engine, verbosity)?), verbosity))
    }

    /// An action with engines that are shared with others.
    pub fn with(
        action: A,
        destination: Destination,
        keys: KeyFiles,
        engines: Arc<Engines>,
        verbosity: Verbosity,
    ) -> Self {
        let (made, keys) = (Arc::new(keys.made()), Arc::new(keys));
        let (signing, prepared) = (Signing::default(), OnceLock::new());
        Self { action, engines, destination, verbosity, made, keys, signing, prepared }
    }

    /// Signs, or checks signatures.
    #[must_use]
    pub fn signing(self, signing: Signing) -> Self {
        Self { signing, ..self }
    }

    /// How outputs are made.
    pub fn rules(&self) -> OutputRules<'_> {
        self.destination.rules(&self.made)
    }

    /// Asks the user for everything that is needed, as soon as there is something to do. A failure is reported the
    /// first time.
    pub fn prepare(&self) -> Outcome {
        let ask = || {
            self.action.prepare().map_err(|failure| {
                failure.report();
                failure.code()
            })
        };
        self.prepared.get_or_init(ask).map_err(Failure::written)
    }
}
