//! Protecting files for recipients: the action of `protect` and `mirror`.

use super::action::{Action, Moved, Transfer};
use super::meter::Meter;
use crate::Result;
use crate::engines::Engines;
use crate::failure::Outcome;
use crate::file::{Ends, Input, Resumable, ResumableUpload, Target, protected_name, refuse_protected_source};
use crate::mirror::manifests::Sealing;
use crate::mirror::state::Trees;
use crate::secrets::Recipients;
use phalanx_core::engine::Op;
use phalanx_core::{ChunkSize, NewFile, Progress, Suite};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

/// Protects files for recipients.
pub struct Protect {
    /// Who can open them.
    pub recipients: Arc<Recipients>,
    /// Their suite.
    pub suite: Suite,
    /// Bytes of plaintext in a chunk.
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
        refuse_protected_source(|| input.source(), path)
    }

    fn transfer<'l>(
        &self,
        engines: &'l Engines,
        Ends { input, target }: &mut Ends,
        meter: &dyn Meter,
        progress: &dyn Progress,
    ) -> Result<Moved<'l>> {
        let new = NewFile::with_chunk_size(self.suite, self.chunk_size, self.recipients.found())?;
        let shape = Some((new.suite(), new.chunk_size()));
        let crew = engines.crew(Op::Seal, self.suite, input.known_len());
        meter.begin();
        let source = input.source()?;
        let (recipients, opener) = (self.recipients.found(), || self.recipients.opener());
        let tell = |past| meter.past(past);
        if let Target::Object(object, true) = target {
            let resumable = ResumableUpload { roster: &crew.roster, object: &**object, progress: meter };
            let bytes = resumable.protect(new, input, recipients, opener(), tell)?;
            return Ok(Moved { bytes, shape, crew, opened: None, by: None });
        }
        let bytes = match target.resumable() {
            Some((output, sync)) => {
                let resumable = Resumable { roster: &crew.roster, output, sync, progress: meter };
                resumable.protect(new, input.file(), recipients, opener(), tell)?
            }
            None => new.protect(&crew.roster, source, target.sink(input), progress)?,
        };
        Ok(Moved { bytes, shape, crew, opened: None, by: None })
    }

    fn warns_of_keys(&self) -> bool {
        true
    }
}

impl Transfer<Protect> {
    /// How the manifest of a mirror is written beside its files.
    pub fn sealing(&self) -> Sealing<'_> {
        Sealing {
            recipients: &self.action.recipients,
            suite: self.action.suite,
            roster: Arc::new(self.engines.small_crew().roster),
            sync: self.destination.sync,
            carry: self.destination.carry,
            trees: Trees::of_user(),
            resumes: self.destination.resume,
            signer: self.signing.signer().cloned(),
            signers: None,
        }
    }
}
