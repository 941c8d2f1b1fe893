//! `phalanx protect`

use crate::args::{Format, ProtectPlan, Verbosity};
use crate::failure::Outcome;
use crate::lanes::{Crew, Lanes};
use crate::paths::{self, Input, Target};
use crate::secrets::Recipients;
use crate::transfer::{Action, Transfer};
use phalanx_core::engine::Op;
use phalanx_core::file::{self, Progress};
use phalanx_core::header::FILE_CHUNK_LOG2;
use phalanx_core::{Result, Suite, access};
use std::ffi::{OsStr, OsString};

pub fn run(plan: ProtectPlan, verbosity: Verbosity) -> Outcome {
    paths::refuse_terminal(&plan.destination, &plan.paths)?;
    if plan.format == Format::Sefps {
        return crate::sefps::protect(plan, verbosity);
    }
    let action = Protect { recipients: Recipients::new(plan.keys), suite: plan.suite };
    Transfer::new(action, plan.destination, &plan.engine, verbosity)?.run(&plan.paths)
}

struct Protect {
    recipients: Recipients,
    suite: Suite,
}

impl Action for Protect {
    fn output_name(&self, name: &OsStr) -> Option<OsString> {
        let mut name = name.to_owned();
        name.push(".phx");
        Some(name)
    }

    fn prepare(&self) -> Outcome {
        self.recipients.find()
    }

    fn transfer<'l>(
        &self,
        lanes: &'l Lanes,
        input: &Input,
        target: &Target,
        progress: &dyn Progress,
    ) -> Result<(u64, &'l Crew)> {
        let (header, keys) = access::new_header(self.suite, FILE_CHUNK_LOG2, self.recipients.found())?;
        let crew = lanes.crew(Op::Seal, self.suite, input.known_len());
        Ok((file::seal(&crew.dispatcher, &header, &keys, input.source()?, target.sink(), progress)?, crew))
    }
}
