//! The first steps of a process.

use crate::Error;
use crate::failure::Outcome;
use crate::{signals, stdio};
use phalanx_system::hardening;

/// The first call of a program: keeps other processes and core dumps from the memory, and checks that standard error is
/// open.
///
/// # Errors
/// If standard error is closed, or limits on file sizes cannot be made survivable.
pub fn begin() -> Outcome {
    hardening::harden();
    signals::survive_limits()?;
    stdio::check_error().map_err(Error::write)?;
    Ok(())
}

/// Called before anything secret is read and before there are other threads: keeps secrets out of swap, and takes the
/// signals that end the process.
///
/// # Errors
/// If signals cannot be caught.
pub fn begin_work() -> Outcome {
    hardening::lock_memory();
    signals::clean_up()
}
