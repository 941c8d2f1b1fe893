//! `phalanx init`: a new volume.

use crate::args::{InitPlan, ProtectKeys};
use crate::failure::{Failure, Outcome, complain, shown};
use crate::secrets::Recipients;
use crate::verbosity::Verbosity;

pub fn run(plan: InitPlan, verbosity: Verbosity) -> Outcome {
    let InitPlan { dir, keys, password, suite, chunk_size } = plan;
    phalanx_volume::check_new(&dir).map_err(|e| Failure::volume(&dir, e))?;
    let recipients =
        Recipients::new(ProtectKeys { keys, password, recipients: Vec::new(), recipients_files: Vec::new() }, false);
    recipients.find()?;
    phalanx_volume::create(&dir, suite, chunk_size, recipients.found()).map_err(|e| Failure::volume(&dir, e))?;
    if !verbosity.quiet {
        complain(format!("{0}: new volume made; mount it with: phalanx mount {0} MOUNTPOINT", shown(&dir)));
    }
    Ok(())
}
