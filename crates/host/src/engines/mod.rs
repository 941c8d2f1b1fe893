//! Choosing the engines for the work of a command: the ones that the user names, or the fastest ones according to
//! measurements.

mod auto;
pub mod cache;
pub mod calibration;
mod choice;
mod drivers;
pub mod measure;
mod ready;

pub use calibration::Kind;
pub use choice::{Engines, cpu, levels, named, open_device, ready, threads};
pub use ready::{Crew, Ready, detail, survey, workers};
