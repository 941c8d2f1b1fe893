//! `phalanx protect`

use crate::args::ProtectPlan;
use crate::progress::Meter;
use crate::transfer::{self, Action, Moved, Transfer};
use phalanx_core::engine::Op;
use phalanx_core::{ChunkSize, NewFile, Suite};
use phalanx_host::Result;
use phalanx_host::age;
use phalanx_host::engines::Engines;
use phalanx_host::failure::Outcome;
use phalanx_host::file::{Ends, Input, Resumable, protected_name, refuse_protected};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain_with, shown};
use phalanx_host::paths;
use phalanx_host::report::{self, Status};
use phalanx_host::secrets::Recipients;
use phalanx_host::verbosity::Verbosity;
use std::ffi::{OsStr, OsString};
use std::path::Path;

pub fn run(plan: ProtectPlan, verbosity: Verbosity) -> Outcome {
    paths::refuse_terminal(&plan.destination, &plan.paths)?;
    if plan.destination.recursive && plan.keys.recipients_files.is_empty() && !verbosity.quiet {
        for path in plan.paths.iter().filter(|path| age::is_public(path)) {
            let path = shown(path);
            let hint = format!("--recipients-file {path} protects for them; -R takes folders");
            complain_with(format!("{path} holds public keys"), Some(&hint));
        }
    }
    if plan.json {
        report::begin(Status::Protected);
    }
    report::end(protect(plan, verbosity))
}

fn protect(plan: ProtectPlan, verbosity: Verbosity) -> Outcome {
    let mut keys = KeyFiles::new(&plan.keys.keys, &[]);
    if !plan.keys.recipients.is_empty() || !plan.keys.recipients_files.is_empty() {
        keys = keys.sparing_identities();
    }
    let recipients = Recipients::new(plan.keys, plan.destination.resume);
    let action = Protect { recipients, suite: plan.suite, chunk_size: plan.chunk_size };
    transfer::run(&Transfer::new(action, plan.destination, keys, &plan.engine, verbosity)?, &plan.paths)
}

struct Protect {
    recipients: Recipients,
    suite: Suite,
    chunk_size: ChunkSize,
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
            None => new.protect(&crew.roster, source, target.sink(), meter)?,
        };
        Ok(Moved { bytes, crew, opened: None, by: None })
    }

    fn warns_of_keys(&self) -> bool {
        true
    }
}
