//! From the engine that the user wants to the lanes that do the work.

use crate::args::{EngineArgs, EngineName, Verbosity};
use crate::auto::Auto;
use crate::failure::{Code, Failure, Outcome, complain};
use crate::hardening;
use phalanx_core::calibration::Kind;
use phalanx_core::engine::{CpuEngine, Engine, Fault, Levels, Op};
use phalanx_core::{Roster, Suite};
use phalanx_gpu::{Device, GpuEngine};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The engines of a command.
pub struct Lanes {
    /// The threads that work on small files, one file each.
    pub threads: usize,
    /// For files of a folder that are too small for all lanes.
    small: Arc<dyn Engine>,
    pick: Pick,
}

enum Pick {
    Always(Crew),
    BySize(Box<Auto>),
}

/// Engines at work together.
pub struct Crew {
    pub dispatcher: Roster,
    /// In words, for `--verbose`.
    pub description: String,
}

impl Crew {
    /// Where one fails and another goes on, a line tells of it.
    fn new(kind: Kind, engines: &[Arc<dyn Engine>]) -> Self {
        let dispatcher = Roster::new(engines).on_fault(warn);
        Self { dispatcher, description: format!("engine {kind} ({})", detail(engines)) }
    }
}

fn warn(fault: &Fault) {
    complain(format!("warning: {fault}; the CPU goes on"));
}

/// What the engines run on and by which kernels, in words.
fn detail(engines: &[Arc<dyn Engine>]) -> String {
    let details: Vec<&str> = engines.iter().map(|engine| engine.info().detail.as_str()).collect();
    details.join("; ")
}

impl Lanes {
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
                (Kind::Gpu, gpu.clone(), gpu.info().workers)
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

/// The engines that are ready to work: the CPU's, and a device's once it is open.
pub struct Ready {
    pub levels: Levels,
    pub threads: usize,
    pub serial: Arc<dyn Engine>,
    pub cpu: Arc<dyn Engine>,
    pub gpu: Option<Arc<dyn Engine>>,
    /// What it took to open the device.
    pub opening: Duration,
}

impl Ready {
    /// Those of the CPU.
    pub fn new(levels: Levels, threads: usize) -> Self {
        let serial = Arc::new(CpuEngine::serial(levels));
        let cpu = Arc::new(CpuEngine::parallel(threads, levels));
        Self { levels, threads, serial, cpu, gpu: None, opening: Duration::ZERO }
    }

    /// And that of a device, which it took so long to open.
    pub fn open(&mut self, device: Device, opening: Duration) -> Arc<dyn Engine> {
        self.opening = opening;
        self.gpu.insert(Arc::new(GpuEngine::new(device, self.levels.keccak))).clone()
    }

    /// The engines that go by this name together, if they are ready.
    pub fn members(&self, kind: Kind) -> Option<Vec<Arc<dyn Engine>>> {
        let (serial, cpu) = (self.serial.clone(), self.cpu.clone());
        Some(match kind {
            Kind::Serial => vec![serial],
            Kind::Cpu => vec![cpu],
            Kind::Gpu => vec![self.gpu.clone()?],
            Kind::Hybrid => vec![cpu, self.gpu.clone()?],
        })
    }

    /// What they run on and by which kernels, in words.
    pub fn detail(&self, kind: Kind) -> Option<String> {
        Some(detail(&self.members(kind)?))
    }

    /// How many jobs they run at the same time.
    pub fn lanes(&self, kind: Kind) -> Option<usize> {
        Some(self.members(kind)?.iter().map(|engine| engine.info().workers).sum())
    }

    /// They as a crew.
    pub fn crew(&self, kind: Kind) -> Option<Crew> {
        Some(Crew::new(kind, &self.members(kind)?))
    }

    /// The same, but the CPU takes over where they fail, and `broken` is then set. A line tells of it, the first time.
    pub fn crew_with_fallback(&self, kind: Kind, broken: Arc<AtomicBool>) -> Option<Crew> {
        let Crew { dispatcher, description } = self.crew(kind)?;
        let dispatcher = dispatcher.with_fallback(self.cpu.clone()).on_fault(move |fault| {
            if !broken.swap(true, Ordering::Relaxed) {
                warn(fault);
            }
        });
        Some(Crew { dispatcher, description })
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
