//! Finding the engines that do the work for the engine that the user names.

use super::auto::Auto;
use super::calibration::Kind;
use super::ready::{Crew, Ready, survey, workers};
use crate::args::{EngineArgs, EngineName};
use crate::failure::{Code, Failure, Outcome};
use crate::lines::{complain, complain_with};
use crate::verbosity::Verbosity;
use phalanx_core::Suite;
use phalanx_core::engine::{Engine, Levels, Op};
use std::num::NonZeroUsize;
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

/// The engines of a command.
pub struct Engines {
    /// The threads that work on small files, one file each.
    pub threads: usize,
    /// The engines for the small files of a folder.
    small: (Kind, Vec<Arc<dyn Engine>>),
    /// The engines for single messages.
    messages: (Kind, Vec<Arc<dyn Engine>>),
    pick: Pick,
}

enum Pick {
    Always(Crew),
    BySize(Box<Auto>),
}

impl Engines {
    /// The engines of a command line.
    pub fn new(args: &EngineArgs, verbosity: Verbosity) -> Outcome<Self> {
        let mut ready = ready(args)?;
        let kind = match named(args.engine, &mut ready, verbosity)? {
            // The measured speeds are for work that is done once.
            None if args.paranoid => Some(Kind::Cpu),
            kind => kind,
        };
        let small = if kind == Some(Kind::Gpu) { Kind::Gpu } else { Kind::Serial };
        let members = ready.members(small).expect("the device is open");
        let threads = if kind == Some(small) { workers(&members) } else { ready.threads };
        // A single message is not worth the way to a device and back.
        let each = match kind {
            Some(kind @ (Kind::Serial | Kind::Gpu)) => kind,
            _ => Kind::Cpu,
        };
        let messages = (each, ready.members(each).expect("the device is open"));
        let pick = match kind {
            Some(kind) => Pick::Always(ready.crew(kind).expect("the device is open")),
            None => Pick::BySize(Box::new(Auto::new(ready, verbosity))),
        };
        Ok(Self { threads, small: (small, members), messages, pick })
    }

    /// A single engine, for files that are too small for more.
    pub fn small(&self) -> Self {
        let pick = Pick::Always(self.small_crew());
        Self { threads: 1, small: self.small.clone(), messages: self.messages.clone(), pick }
    }

    /// The engine for small files.
    pub fn small_crew(&self) -> Crew {
        let (kind, members) = &self.small;
        Crew::new(*kind, members)
    }

    /// The engines for messages that arrive one by one: all cores, unless the user names another engine.
    pub fn message_crew(&self) -> Crew {
        let (kind, members) = &self.messages;
        Crew::new(*kind, members)
    }

    /// Announces the bytes of all files together, because opening a device may pay for all files and not for each.
    pub fn expect(&self, bytes: u64) {
        if let Pick::BySize(auto) = &self.pick {
            auto.expect(bytes);
        }
    }

    /// The engines for a file of this size, if its size is known.
    pub fn crew(&self, op: Op, suite: Suite, bytes: Option<u64>) -> &Crew {
        match &self.pick {
            Pick::Always(crew) => crew,
            Pick::BySize(auto) => auto.crew(op, suite, bytes),
        }
    }
}

/// What the user's engine is, with its device open if it has one. `None` for `auto`. Without a device, `hybrid` is the CPU.
pub fn named(engine: EngineName, ready: &mut Ready, verbosity: Verbosity) -> Outcome<Option<Kind>> {
    Ok(Some(match engine {
        EngineName::Auto => return Ok(None),
        EngineName::Serial => Kind::Serial,
        EngineName::Cpu => Kind::Cpu,
        EngineName::Gpu => {
            open_device(ready, verbosity).map_err(|why| no_gpu(&why))?;
            Kind::Gpu
        }
        EngineName::Hybrid => match open_device(ready, verbosity) {
            Ok(()) => Kind::Hybrid,
            Err(why) => {
                complain(format!("warning: {why}: hybrid runs on the CPU alone"));
                Kind::Cpu
            }
        },
    }))
}

/// Adds the engine of the device that the machine has, or says why there is none.
pub fn open_device(ready: &mut Ready, verbosity: Verbosity) -> Result<(), String> {
    survey(false, verbosity).device().map(|device| ready.open(device, Duration::ZERO))
}

/// A failure because the engine `gpu` has no device.
fn no_gpu(why: &str) -> Failure {
    Failure::new(Code::Other, format!("engine gpu: {why}")).hint("--engine cpu works")
}

/// The kernels to use: the fastest of this machine, unless the variable PHALANX_KERNELS names others, for tests and bug
/// reports.
pub fn levels() -> Outcome<Levels> {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        for kernel in Levels::wrong() {
            let line = format!("warning: this machine computes {kernel} wrongly: slower kernels do the work");
            complain_with(line, Some("do not trust this machine"));
        }
    });
    let names = std::env::var("PHALANX_KERNELS").unwrap_or_default();
    names.parse().map_err(|e| Failure::usage(format!("PHALANX_KERNELS: {e}")))
}

/// The engines of the CPU, with the threads and kernels of a command line.
pub fn ready(args: &EngineArgs) -> Outcome<Ready> {
    let ready = Ready::new(levels()?, threads(args));
    Ok(if args.paranoid { ready.twice() } else { ready })
}

/// One engine of the CPU: a single thread, or all.
pub fn cpu(args: &EngineArgs) -> Outcome<Arc<dyn Engine>> {
    let ready = ready(args)?;
    let kind = if args.engine == EngineName::Serial { Kind::Serial } else { Kind::Cpu };
    Ok(ready.members(kind).expect("the CPU is ready").remove(0))
}

/// The CPU threads to use: one per core, unless the user says otherwise.
pub fn threads(args: &EngineArgs) -> usize {
    match args.threads {
        Some(threads) => threads.get(),
        None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
    }
}
