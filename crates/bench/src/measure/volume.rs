//! P4's experiment: AES by the size of the data on CPU and GPU, statistics of its ciphertext, whether it pays to make
//! keystream ahead, and mounted volumes compared with those of another program.

pub mod ahead;
pub mod ciphertext;
mod crew;
pub mod mounts;
pub mod statistics;
pub mod study;

use crate::measure::setup::VolumePart;
use crate::measure::{Result, Scratch, Setup, Step};

/// The steps of the parts that are run.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let of_part = |part| match part {
        VolumePart::Study => study::steps(setup),
        VolumePart::Ciphertext => Ok(vec![ciphertext::step(setup)]),
        VolumePart::Ahead => ahead::steps(setup),
        VolumePart::Mounts => mounts::steps(setup, scratch),
    };
    let parts = [VolumePart::Study, VolumePart::Ciphertext, VolumePart::Ahead, VolumePart::Mounts];
    let steps = parts.into_iter().filter(|part| setup.volume.has(*part)).map(of_part);
    Ok(steps.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}
