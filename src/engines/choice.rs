//! From the engine that the user names to those that do the work.

use super::auto::Auto;
use super::calibration::Kind;
use super::ready::{Crew, Ready, survey};
use crate::args::{EngineArgs, EngineName};
use crate::failure::{Code, Failure, Outcome, complain};
use crate::verbosity::Verbosity;
use phalanx_core::Suite;
use phalanx_core::engine::{Engine, Levels, Op};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The engines of a command.
pub struct Engines {
    /// The threads that work on small files, one file each.
    pub threads: usize,
    /// For files of a folder that are too small for all engines together.
    small: (Kind, Arc<dyn Engine>),
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
        let open = |ready: &mut Ready| survey(false).device().map(|device| drop(ready.open(device, Duration::ZERO)));
        let kind = match args.engine {
            EngineName::Auto => {
                let small = (Kind::Serial, ready.serial.clone());
                return Ok(Self { threads, small, pick: Pick::BySize(Box::new(Auto::new(ready, verbosity))) });
            }
            EngineName::Serial => Kind::Serial,
            EngineName::Cpu => Kind::Cpu,
            EngineName::Gpu => {
                let failed = |why: String| Failure::new(Code::Other, format!("engine gpu: {why} (--engine cpu works)"));
                open(&mut ready).map_err(failed)?;
                Kind::Gpu
            }
            EngineName::Hybrid => match open(&mut ready) {
                Ok(()) => Kind::Hybrid,
                Err(why) => {
                    complain(format!("warning: {why}: hybrid runs on the CPU alone"));
                    Kind::Cpu
                }
            },
        };
        let (threads, small) = match (kind, &ready.gpu) {
            (Kind::Serial, _) => (1, (kind, ready.serial.clone())),
            (Kind::Gpu, Some(gpu)) => (gpu.info().workers, (kind, gpu.clone())),
            _ => (threads, (Kind::Serial, ready.serial.clone())),
        };
        let crew = ready.crew(kind).expect("a device was opened for those that need one");
        Ok(Self { threads, small, pick: Pick::Always(crew) })
    }

    /// One engine alone, for files that are too small for more.
    pub fn small(&self) -> Self {
        let (kind, engine) = &self.small;
        let pick = Pick::Always(Crew::new(*kind, std::slice::from_ref(engine)));
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

/// The kernels to use: the fastest of this machine, unless the variable PHALANX_KERNELS names others, for tests and bug
/// reports.
pub fn levels() -> Outcome<Levels> {
    let names = std::env::var("PHALANX_KERNELS").unwrap_or_default();
    names.parse().map_err(|e| Failure::usage(format!("PHALANX_KERNELS: {e}")))
}

/// The CPU threads to use: one per core, unless the user says otherwise.
pub fn threads(args: &EngineArgs) -> usize {
    match args.threads {
        Some(threads) => threads.get(),
        None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
    }
}
