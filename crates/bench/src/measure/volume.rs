//! P4's experiment: AES by the size of the data on CPU and GPU, what its ciphertext looks like, whether keystream that is
//! made ahead pays, and mounted volumes beside another program's.

pub mod ahead;
pub mod ciphertext;
mod crew;
pub mod mounts;
pub mod statistics;
pub mod study;

use crate::error::Result;
use crate::measure::scratch::Scratch;
use crate::measure::setup::{Setup, VolumePart};
use crate::measure::steps::Step;

/// The steps of the parts that are run.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let mut steps = Vec::new();
    if setup.volume.has(VolumePart::Study) {
        steps.extend(study::steps(setup)?);
    }
    if setup.volume.has(VolumePart::Ciphertext) {
        steps.push(ciphertext::step(setup));
    }
    if setup.volume.has(VolumePart::Ahead) {
        steps.extend(ahead::steps(setup)?);
    }
    if setup.volume.has(VolumePart::Mounts) {
        steps.extend(mounts::steps(setup, scratch)?);
    }
    Ok(steps)
}
