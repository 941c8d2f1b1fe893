//! Protecting files for recipients: the action of `protect` and `mirror`.

use super::action::{Action, Moved};
use crate::progress::Meter;
use phalanx_core::engine::Op;
use phalanx_core::{ChunkSize, NewFile, Progress, Suite};
use phalanx_host::Result;
use phalanx_host::engines::Engines;
use phalanx_host::failure::Outcome;
use phalanx_host::file::{Ends, Input, Resumable, protected_name, refuse_protected};
use phalanx_host::secrets::Recipients;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

/// Protects files for recipients.
pub struct Protect {
    pub recipients: Arc<Recipients>,
    pub suite: Suite,
    pub chunk_size: ChunkSize,
}

impl Action for Protect {
    fn output_name(&self, name: &OsStr) -> Option<OsString> {
        Some(protected_name(name))
    }

    fn prepare(&self) -> Outcome {
        self.recipients.find()
    }

    fn accept(&self, path: &Path, input: &Input) -> Result<()> {
        refuse_protected(input.file(), path)
    }

    fn transfer<'l>(
        &self,
        engines: &'l Engines,
        Ends { input, target }: &mut Ends,
        meter: &Meter,
        progress: &dyn Progress,
    ) -> Result<Moved<'l>> {
        let new = NewFile::with_chunk_size(self.suite, self.chunk_size, self.recipients.found())?;
        let crew = engines.crew(Op::Seal, self.suite, input.known_len());
        meter.begin();
        let source = input.source()?;
        let bytes = match target.resumable() {
            Some((output, sync)) => {
                let (recipients, opener) = (self.recipients.found(), self.recipients.opener());
                let resumable = Resumable { roster: &crew.roster, output, sync, progress: meter };
                resumable.protect(new, input.file(), recipients, opener, |past| meter.past(past))?
            }
            None => new.protect(&crew.roster, source, target.sink(), progress)?,
        };
        Ok(Moved { bytes, crew, opened: None, by: None })
    }

    fn warns_of_keys(&self) -> bool {
        true
    }
}
