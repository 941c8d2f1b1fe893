//! From the engine that the user wants to the lanes that do the work.

use crate::args::{EngineArgs, EngineName};
use crate::failure::{Code, Failure, Outcome, complain};
use phalanx_core::chunk::Levels;
use phalanx_core::cpu::CpuEngine;
use phalanx_core::dispatcher::Dispatcher;
use phalanx_core::engine::Engine;
use phalanx_kernels::{aes, keccak};
use std::sync::Arc;
use std::thread;

/// Engines that have been chosen.
pub struct Lanes {
    pub dispatcher: Dispatcher,
    /// One lane, for what is too small for more.
    pub serial: Arc<dyn Engine>,
    /// The CPU threads that work on many small files, one file each.
    pub threads: usize,
    /// In words, for `--verbose`.
    pub description: String,
}

/// The engines of a command line.
pub fn choose(args: &EngineArgs) -> Outcome<Lanes> {
    let (threads, levels) = (threads(args), levels()?);
    let engine: Arc<dyn Engine> = match args.engine {
        EngineName::Serial => Arc::new(CpuEngine::serial(levels)),
        EngineName::Auto | EngineName::Cpu => Arc::new(CpuEngine::parallel(threads, levels)),
        EngineName::Gpu => {
            return Err(Failure::new(Code::Other, "engine gpu: this build has no GPU engine (--engine cpu works)"));
        }
        EngineName::Hybrid => {
            complain("warning: this build has no GPU engine: hybrid runs on the CPU alone");
            Arc::new(CpuEngine::parallel(threads, levels))
        }
    };
    let description = format!("engine {} ({})", engine.info().name, engine.info().detail);
    let threads = if args.engine == EngineName::Serial { 1 } else { threads };
    Ok(Lanes {
        dispatcher: Dispatcher::new(&[engine]),
        serial: Arc::new(CpuEngine::serial(levels)),
        threads,
        description,
    })
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
