//! From the engine that the user names to those that do the work.

use super::auto::Auto;
use super::calibration::Kind;
use super::ready::{Crew, Ready};
use crate::args::{EngineArgs, EngineName};
use crate::failure::{Code, Failure, Outcome, complain};
use crate::hardening;
use crate::verbosity::Verbosity;
use phalanx_core::Suite;
use phalanx_core::chunk::Levels;
use phalanx_core::engine::{Engine, Op};
use phalanx_gpu::Device;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The engines of a command.
pub struct Engines {
    /// The threads that work on small files, one file each.
    pub threads: usize,
    /// For files of a folder that are too small for all engines together.
    small: Arc<dyn Engine>,
    pick: Pick,
}

enum Pick {
    Always(Crew),
    BySize(Box<Auto>),
}

impl Engines {
    /// The engines of a command line.
    pub fn new(args: &EngineArgs, verbosity: Verbosity) -> Outcome<Self> {
        let threads = threads(args);
        let mut ready = Ready::new(levels()?, threads);
        let (kind, small, threads) = match args.engine {
            EngineName::Auto => {
                let small = ready.serial.clone();
                return Ok(Self { threads, small, pick: Pick::BySize(Box::new(Auto::new(ready, verbosity))) });
            }
            EngineName::Serial => (Kind::Serial, ready.serial.clone(), 1),
            EngineName::Cpu => (Kind::Cpu, ready.serial.clone(), threads),
            EngineName::Gpu => {
                let failed = |why| Failure::new(Code::Other, format!("engine gpu: {why} (--engine cpu works)"));
                let gpu = ready.open(find_gpu().map_err(failed)?, Duration::ZERO);
                (Kind::Gpu, gpu.clone(), gpu.info().lanes)
            }
            EngineName::Hybrid => match find_gpu() {
                Ok(device) => {
                    ready.open(device, Duration::ZERO);
                    (Kind::Hybrid, ready.serial.clone(), threads)
                }
                Err(why) => {
                    complain(format!("warning: {why}: hybrid runs on the CPU alone"));
                    (Kind::Cpu, ready.serial.clone(), threads)
                }
            },
        };
        let crew = ready.crew(kind).expect("a device was opened for those that need one");
        Ok(Self { threads, small, pick: Pick::Always(crew) })
    }

    /// One engine alone, for files that are too small for more.
    pub fn small(&self) -> Self {
        let kind = if self.small.info().name == Kind::Gpu.name() { Kind::Gpu } else { Kind::Serial };
        let pick = Pick::Always(Crew::new(kind, std::slice::from_ref(&self.small)));
        Self { threads: 1, small: self.small.clone(), pick }
    }

    /// Says how many bytes there are to come in all: opening a device may pay for all files where it does not for each.
    pub fn expect(&self, bytes: u64) {
        if let Pick::BySize(auto) = &self.pick {
            auto.expect(bytes);
        }
    }

    /// The engines for so many bytes, where that is known.
    pub fn crew(&self, op: Op, suite: Suite, bytes: Option<u64>) -> &Crew {
        match &self.pick {
            Pick::Always(crew) => crew,
            Pick::BySize(auto) => auto.crew(op, suite, bytes),
        }
    }
}

/// The first device that works; if none does, why, in one line.
fn find_gpu() -> Result<Device, String> {
    hardening::make_room_for_drivers();
    phalanx_gpu::find()
}

/// The kernels to use: the fastest of this machine, unless the variable PHALANX_KERNELS names others, for tests and bug
/// reports.
pub fn levels() -> Outcome<Levels> {
    let names = std::env::var("PHALANX_KERNELS").unwrap_or_default();
    names.parse().map_err(|e| Failure::usage(format!("PHALANX_KERNELS: {e}")))
}

/// The CPU threads to use.
pub fn threads(args: &EngineArgs) -> usize {
    args.threads.map_or_else(all_cores, |n| n.get().min(1024))
}

/// One thread a core.
pub fn all_cores() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get())
}
