//! The user's keys and passwords. Only rank 0 has them. It gives the other ranks the keys of single files.

use crate::args::{Plan, What};
use phalanx_core::file::SharedFile;
use phalanx_core::{ChunkSize, Error, NewFile, Opener, ProtectedFile, Result, Source, Suite};
use phalanx_host::failure::Outcome;
use phalanx_host::file::{self, Begun, Output, Stamp};
use phalanx_host::secrets::{self, AtHand, Recipients};
use std::path::PathBuf;
use std::sync::Arc;

/// The keys of a run.
pub enum Keys {
    Protect { recipients: Arc<Recipients>, suite: Suite, chunk_size: ChunkSize },
    Open(Box<Opener<AtHand>>),
}

impl Keys {
    /// Reads the keys, and asks for a password if new files need one. `None` in a dry run.
    pub fn find(plan: &Plan) -> Outcome<Option<Self>> {
        // The dry run of a mirror reads its manifest.
        if plan.run.dry_run && plan.mirror.is_none() {
            return Ok(None);
        }
        Ok(Some(match &plan.what {
            What::Protect { keys, suite, chunk_size } => {
                let recipients = Recipients::new(keys.clone(), plan.destination.resume || plan.destination.recursive);
                recipients.find()?;
                Keys::Protect { recipients: Arc::new(recipients), suite: *suite, chunk_size: *chunk_size }
            }
            What::Unprotect { keys, .. } | What::Verify { keys, .. } => {
                Keys::Open(Box::new(secrets::opener(keys, plan.verbosity)?))
            }
        }))
    }

    fn new_file(&self) -> Result<NewFile> {
        match self {
            Keys::Protect { recipients, suite, chunk_size } => {
                NewFile::with_chunk_size(*suite, *chunk_size, recipients.found())
            }
            Keys::Open(_) => unreachable!("nothing new is made when files are opened"),
        }
    }

    /// Makes the keys and the header of a new file for a plaintext of this length.
    pub fn make(&self, len: Option<u64>) -> Result<SharedFile> {
        self.new_file()?.shared(len)
    }

    /// Makes the keys and the header of a new file, or takes those that an interrupted run has left in the output.
    pub fn make_or_go_on(
        &self,
        stamp: Stamp,
        output: &mut Output,
        sync: bool,
    ) -> phalanx_host::Result<(SharedFile, Begun)> {
        let Keys::Protect { recipients, .. } = self else { unreachable!("see above") };
        file::begin_protected(self.new_file()?, stamp, output, recipients.found(), recipients.opener(), sync)
    }

    /// Opens the file with this header. `path` is for messages.
    pub fn open(&self, header: &[u8], path: impl FnOnce() -> PathBuf) -> Result<SharedFile> {
        let source = Source::stream(header);
        match self {
            Keys::Protect { recipients, .. } => {
                let file = ProtectedFile::open(source, recipients.opener())?;
                // This run would make a file for exactly these recipients, so no other will do.
                if file.is_for(recipients.found(), recipients.opener())? {
                    Ok(file.shared())
                } else {
                    Err(Error::WrongKey)
                }
            }
            Keys::Open(opener) => {
                let file = ProtectedFile::open(source, &**opener)?;
                opener.source().tell_sender(path, file.opened_by());
                Ok(file.shared())
            }
        }
    }
}
