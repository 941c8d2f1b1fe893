//! From the engine that the user wants to the lanes that do the work.

use crate::args::{EngineArgs, EngineName};
use crate::failure::{Code, Failure, Outcome, complain};
use crate::gpu;
use phalanx_core::chunk::Levels;
use phalanx_core::cpu::CpuEngine;
use phalanx_core::dispatcher::Dispatcher;
use phalanx_core::engine::Engine;
use phalanx_gpu::GpuEngine;
use phalanx_kernels::{aes, keccak};
use std::sync::Arc;
use std::thread;

/// Engines that have been chosen.
pub struct Lanes {
    pub dispatcher: Dispatcher,
    /// For files of a folder that are too small for all lanes.
    pub small: Arc<dyn Engine>,
    /// The threads that work on such files, one file each.
    pub threads: usize,
    /// In words, for `--verbose`.
    pub description: String,
}

/// The engines of a command line.
pub fn choose(args: &EngineArgs) -> Outcome<Lanes> {
    let (threads, levels) = (threads(args), levels()?);
    let serial = || Arc::new(CpuEngine::serial(levels)) as Arc<dyn Engine>;
    let cpu = || Arc::new(CpuEngine::parallel(threads, levels)) as Arc<dyn Engine>;
    let gpu = || gpu::find().map(|device| Arc::new(GpuEngine::new(device, levels.keccak)) as Arc<dyn Engine>);
    let (engines, small, threads) = match args.engine {
        EngineName::Serial => (vec![serial()], serial(), 1),
        EngineName::Auto | EngineName::Cpu => (vec![cpu()], serial(), threads),
        EngineName::Gpu => {
            let failed = |why| Failure::new(Code::Other, format!("engine gpu: {why} (--engine cpu works)"));
            let gpu = gpu().map_err(failed)?;
            (vec![gpu.clone()], gpu.clone(), gpu.info().lanes)
        }
        EngineName::Hybrid => match gpu() {
            Ok(gpu) => (vec![cpu(), gpu], serial(), threads),
            Err(why) => {
                complain(format!("warning: {why}: hybrid runs on the CPU alone"));
                (vec![cpu()], serial(), threads)
            }
        },
    };
    let words = engines.iter().map(|engine| format!("engine {} ({})", engine.info().name, engine.info().detail));
    let description = words.collect::<Vec<_>>().join(" and ");
    // Told only where another engine goes on.
    let dispatcher = Dispatcher::new(&engines).on_fault(|fault| complain(format!("warning: {fault}; the CPU goes on")));
    Ok(Lanes { dispatcher, small, threads, description })
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
