//! `phalanx unprotect`

use crate::args::{UnprotectPlan, Verbosity};
use crate::failure::Outcome;
use crate::paths::{Input, Target};
use crate::secrets::{self, AtHand};
use crate::transfer::{Action, Transfer};
use phalanx_core::Result;
use phalanx_core::dispatcher::Dispatcher;
use phalanx_core::file::{self, Progress};
use phalanx_core::slot::Opener;
use std::ffi::{OsStr, OsString};
use std::path::Path;

pub fn run(plan: UnprotectPlan, verbosity: Verbosity) -> Outcome {
    let action = Unprotect { opener: secrets::opener(&plan.keys)? };
    if plan.salvage {
        return crate::salvage::run(&plan, &action.opener, verbosity);
    }
    Transfer::new(action, plan.destination, &plan.engine, verbosity)?.run(&plan.paths)
}

struct Unprotect {
    opener: Opener<AtHand>,
}

impl Action for Unprotect {
    fn output_name(&self, name: &OsStr) -> Option<OsString> {
        unprotected_name(name)
    }

    fn transfer(
        &self,
        dispatcher: &Dispatcher,
        input: &Input,
        target: &Target,
        progress: &dyn Progress,
    ) -> Result<u64> {
        let mut source = input.source()?;
        let header = source.header()?;
        let keys = self.opener.open(&header)?;
        file::open(dispatcher, &header, &keys, source, target.sink(), progress)
    }
}

/// The name without `.phx`.
pub fn unprotected_name(name: &OsStr) -> Option<OsString> {
    let name = Path::new(name);
    name.extension().filter(|e| *e == "phx").and(name.file_stem()).map(OsStr::to_owned)
}
