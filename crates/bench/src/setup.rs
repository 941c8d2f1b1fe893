//! What a run is made with.

use crate::{hpc, volume};
use phalanx_core::engine::Levels;
use phalanx_gpu::Device;
use std::path::PathBuf;

/// What a run is made with.
pub struct Setup {
    /// The run's folder.
    pub out: PathBuf,
    /// Fewer and smaller cases.
    pub quick: bool,
    /// Continue the folder's run.
    pub resume: bool,
    /// The kernels in use.
    pub levels: Levels,
    /// The threads of the `cpu` engine.
    pub threads: usize,
    /// The device that GPU parts are measured on.
    pub device: Found,
    /// The program `phalanx`, for measurements of whole commands.
    pub program: PathBuf,
    /// What the experiment on volumes runs, and where.
    pub volume: volume::Options,
    /// What the experiment with many threads and processes runs, and with which program.
    pub hpc: hpc::Options,
}

#[cfg(test)]
impl Setup {
    /// Quick, with two threads and without a device.
    pub(crate) fn of_tests(out: impl Into<PathBuf>) -> Self {
        Self {
            out: out.into(),
            quick: true,
            resume: false,
            levels: Levels::detect(),
            threads: 2,
            device: Err("none was looked for".into()),
            program: "phalanx".into(),
            volume: volume::Options::default(),
            hpc: hpc::Options::default(),
        }
    }
}

/// The device, or one line that says why there is none.
pub type Found = std::result::Result<Device, String>;

/// The number of processors that `threads` threads can use on this machine.
pub fn processors(threads: usize) -> usize {
    std::thread::available_parallelism().map_or(threads, |cores| threads.min(cores.get()))
}
