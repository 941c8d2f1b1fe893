//! Opening a protected file: what `unprotect` and `verify` do with each.

use super::action::Moved;
use super::meter::Meter;
use crate::Result;
use crate::engines::Engines;
use crate::file::{Ends, Resumable};
use phalanx_core::engine::Op;
use phalanx_core::{KeySource, OpenedBy, Opener, Progress, ProtectedFile};

/// Opens a protected file into its output, if it has one. `describe` says in words what opened it: a slot and a way in.
pub fn open<'l>(
    opener: &Opener<impl KeySource>,
    describe: impl FnOnce(usize, &OpenedBy) -> Option<String>,
    engines: &'l Engines,
    Ends { input, target }: &mut Ends,
    meter: &dyn Meter,
    progress: &dyn Progress,
) -> Result<Moved<'l>> {
    let protected = ProtectedFile::open(input.source()?, opener).map_err(|e| input.interrupted(e))?;
    let shape = Some((protected.suite(), protected.chunk_size()));
    let crew = engines.crew(Op::Open, protected.suite(), input.known_len());
    let opened = describe(protected.opened_slot(), protected.opened_by());
    let by = Some(protected.opened_by().clone());
    meter.begin();
    let bytes = match target.resumable() {
        Some((output, sync)) => {
            let resumable = Resumable { roster: &crew.roster, output, sync, progress: meter };
            resumable.unprotect(protected, input.file(), |past| meter.past(past))?
        }
        None => protected.unprotect(&crew.roster, target.sink(input), progress)?,
    };
    Ok(Moved { bytes, shape, crew, opened, by })
}
