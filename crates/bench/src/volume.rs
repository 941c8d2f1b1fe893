//! P4's experiment: AES by the size of the data on CPU and GPU, what its ciphertext looks like, whether keystream that is
//! made ahead pays, and mounted volumes beside another program's.

pub mod ahead;
pub mod ciphertext;
mod crew;
pub mod mounts;
pub mod statistics;
pub mod study;

pub use mounts::{unmount_all, versions};

use crate::Result;
use crate::record::Step;
use crate::scratch::Scratch;
use crate::setup::Setup;
use std::path::PathBuf;

/// The experiment's name in rows.
pub const EXPERIMENT: &str = "volume";

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// AES-CTR by the size of the data, on one core, on all cores and on a device.
    Study,
    /// Statistics of ciphertext.
    Ciphertext,
    /// Keystream that is made before the data are there.
    Ahead,
    /// Mounted volumes.
    Mounts,
}

/// What is run, and where.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The parts to run; all if there are none.
    pub parts: Vec<Part>,
    /// The folders that volumes are stored in. If there are none, suitable ones are looked for.
    pub backing: Vec<PathBuf>,
}

impl Options {
    /// Whether a part is run.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

/// The steps of the parts that are run.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let mut steps = Vec::new();
    if setup.volume.has(Part::Study) {
        steps.extend(study::steps(setup)?);
    }
    if setup.volume.has(Part::Ciphertext) {
        steps.push(ciphertext::step(setup));
    }
    if setup.volume.has(Part::Ahead) {
        steps.extend(ahead::steps(setup)?);
    }
    if setup.volume.has(Part::Mounts) {
        steps.extend(mounts::steps(setup, scratch)?);
    }
    Ok(steps)
}
