//! From the engine that the user wants to the lanes that do the work.

use crate::args::{EngineArgs, EngineName, Verbosity};
use crate::auto::Auto;
use crate::devices::Open;
use crate::failure::{Code, Failure, Outcome, complain};
use phalanx_core::Suite;
use phalanx_core::calibration::Kind;
use phalanx_core::chunk::Levels;
use phalanx_core::cpu::CpuEngine;
use phalanx_core::dispatcher::Dispatcher;
use phalanx_core::engine::{Engine, Op};
use phalanx_kernels::{aes, keccak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The engines of a command.
pub struct Lanes {
    /// The CPU threads that work on many small files, one file each.
    pub threads: usize,
    serial: Arc<dyn Engine>,
    pick: Pick,
}

enum Pick {
    Always(Crew),
    BySize(Box<Auto>),
}

/// Engines at work together.
pub struct Crew {
    pub dispatcher: Dispatcher,
    /// In words, for `--verbose`.
    pub description: String,
}

impl Crew {
    fn new(kind: Kind, engines: &[Arc<dyn Engine>]) -> Self {
        Self { dispatcher: Dispatcher::new(engines), description: format!("engine {kind} ({})", detail(engines)) }
    }
}

/// What the engines run on and by which kernels, in words.
fn detail(engines: &[Arc<dyn Engine>]) -> String {
    let details: Vec<&str> = engines.iter().map(|engine| engine.info().detail.as_str()).collect();
    details.join("; ")
}

impl Lanes {
    /// The engines of a command line.
    pub fn new(args: &EngineArgs, verbosity: Verbosity) -> Outcome<Self> {
        let ready = Ready::new(levels()?, threads(args));
        let serial = ready.serial.clone();
        let pick = match args.engine {
            EngineName::Auto => return Ok(Self::auto(ready, verbosity)),
            EngineName::Serial => Pick::Always(ready.serial_crew()),
            EngineName::Cpu => Pick::Always(ready.cpu_crew()),
            EngineName::Gpu => {
                let line = "engine gpu: this build has no GPU engine (--engine cpu works)";
                return Err(Failure::new(Code::Other, line));
            }
            EngineName::Hybrid => {
                complain("warning: this build has no GPU engine: hybrid runs on the CPU alone");
                Pick::Always(ready.cpu_crew())
            }
        };
        let threads = if args.engine == EngineName::Serial { 1 } else { threads(args) };
        Ok(Self { threads, serial, pick })
    }

    /// Engines by the size of the work.
    fn auto(ready: Ready, verbosity: Verbosity) -> Self {
        let (threads, serial) = (ready.threads, ready.serial.clone());
        Self { threads, serial, pick: Pick::BySize(Box::new(Auto::new(ready, verbosity))) }
    }

    /// One lane, for what is too small for more.
    pub fn single(&self) -> Self {
        let pick = Pick::Always(Crew::new(Kind::Serial, std::slice::from_ref(&self.serial)));
        Self { threads: 1, serial: self.serial.clone(), pick }
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

/// The engines that are ready to work: the CPU's, and a device's once it is open.
pub struct Ready {
    pub levels: Levels,
    pub threads: usize,
    pub serial: Arc<dyn Engine>,
    pub cpu: Arc<dyn Engine>,
    pub device: Option<Open>,
}

impl Ready {
    /// Those of the CPU.
    pub fn new(levels: Levels, threads: usize) -> Self {
        let serial = Arc::new(CpuEngine::serial(levels));
        Self { levels, threads, serial, cpu: Arc::new(CpuEngine::parallel(threads, levels)), device: None }
    }

    /// The engines that go by this name together, if they are ready.
    pub fn members(&self, kind: Kind) -> Option<Vec<Arc<dyn Engine>>> {
        let device = || Some(self.device.as_ref()?.engine.clone());
        Some(match kind {
            Kind::Serial => vec![self.serial.clone()],
            Kind::Cpu => vec![self.cpu.clone()],
            Kind::Gpu => vec![device()?],
            Kind::Hybrid => vec![device()?, self.cpu.clone()],
        })
    }

    /// What they run on and by which kernels, in words.
    pub fn detail(&self, kind: Kind) -> Option<String> {
        Some(detail(&self.members(kind)?))
    }

    /// How many jobs they run at the same time.
    pub fn lanes(&self, kind: Kind) -> Option<usize> {
        Some(self.members(kind)?.iter().map(|engine| engine.info().lanes).sum())
    }

    /// Those of a device, where the CPU takes over after a fault: `broken` is set then, and a line tells of it once.
    pub fn crew_that_goes_on(&self, kind: Kind, broken: Arc<AtomicBool>) -> Option<Crew> {
        let Crew { dispatcher, description } = Crew::new(kind, &self.members(kind)?);
        let dispatcher = dispatcher.with_fallback(self.cpu.clone()).on_fault(move |fault| {
            if !broken.swap(true, Ordering::Relaxed) {
                complain(format!("warning: {fault}: the CPU goes on"));
            }
        });
        Some(Crew { dispatcher, description })
    }

    /// One CPU thread.
    pub fn serial_crew(&self) -> Crew {
        Crew::new(Kind::Serial, std::slice::from_ref(&self.serial))
    }

    /// All CPU threads.
    pub fn cpu_crew(&self) -> Crew {
        Crew::new(Kind::Cpu, std::slice::from_ref(&self.cpu))
    }
}

/// The kernels to use: the fastest of this machine, unless the variable PHALANX_KERNELS names others, for tests and bug
/// reports: `AES,KECCAK`, where either may be empty.
pub fn levels() -> Outcome<Levels> {
    let fastest = Levels::detect();
    let wanted = std::env::var("PHALANX_KERNELS").unwrap_or_default();
    let (aes, keccak) = wanted.split_once(',').unwrap_or((&wanted, ""));
    let refuse = |name| Failure::usage(format!("PHALANX_KERNELS: this machine has no kernel named {name}"));
    let pick_aes = |name: &str| name.parse().ok().filter(|level: &aes::Level| level.is_available());
    let pick_keccak = |name: &str| name.parse().ok().filter(|level: &keccak::Level| level.is_available());
    Ok(Levels {
        aes: if aes.is_empty() { fastest.aes } else { pick_aes(aes).ok_or_else(|| refuse(aes))? },
        keccak: if keccak.is_empty() { fastest.keccak } else { pick_keccak(keccak).ok_or_else(|| refuse(keccak))? },
    })
}

/// The CPU threads to use.
pub fn threads(args: &EngineArgs) -> usize {
    args.threads.map_or_else(all_cores, |n| n.get().min(1024))
}

/// One thread a core.
pub fn all_cores() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get())
}
