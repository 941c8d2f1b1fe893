//! From the engine that the user wants to the lanes that do the work.

use crate::args::{EngineArgs, EngineName};
use crate::failure::{Code, Failure, Outcome, complain};
use phalanx_core::chunk::Levels;
use phalanx_core::cpu::CpuEngine;
use phalanx_core::dispatcher::Dispatcher;
use phalanx_core::engine::Engine;
use std::sync::Arc;
use std::thread;

/// Engines that have been chosen.
pub struct Lanes {
    pub dispatcher: Dispatcher,
    /// The CPU threads that work on many small files, one file each.
    pub threads: usize,
    /// In words, for `--verbose`.
    pub description: String,
}

/// The engines of a command line.
pub fn choose(args: &EngineArgs) -> Outcome<Lanes> {
    let threads = threads(args);
    let engine: Arc<dyn Engine> = match args.engine {
        EngineName::Serial => Arc::new(CpuEngine::serial(Levels::detect())),
        EngineName::Auto | EngineName::Cpu => Arc::new(CpuEngine::parallel(threads, Levels::detect())),
        EngineName::Gpu => {
            return Err(Failure::new(Code::Other, "engine gpu: this build has no GPU engine (--engine cpu works)"));
        }
        EngineName::Hybrid => {
            complain("warning: this build has no GPU engine: hybrid runs on the CPU alone");
            Arc::new(CpuEngine::parallel(threads, Levels::detect()))
        }
    };
    let description = format!("engine {} ({})", engine.info().name, engine.info().detail);
    let threads = if args.engine == EngineName::Serial { 1 } else { threads };
    Ok(Lanes { dispatcher: Dispatcher::new(&[engine]), threads, description })
}

/// The CPU threads to use.
pub fn threads(args: &EngineArgs) -> usize {
    args.threads.map_or_else(|| thread::available_parallelism().map_or(1, |n| n.get()), |n| n.get().min(1024))
}
