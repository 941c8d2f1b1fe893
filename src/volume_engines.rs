//! The engines of a mounted volume: small jobs go to the CPU at once, and large ones to the GPU if it was measured to
//! be faster.

use phalanx_core::Suite;
use phalanx_core::engine::Op;
use phalanx_host::args::EngineArgs;
use phalanx_host::engines::cache::{self, Circumstances};
use phalanx_host::engines::calibration::{Calibration, Kind};
use phalanx_host::engines::{Ready, named, open_device, ready};
use phalanx_host::failure::Outcome;
use phalanx_host::lines::complain;
use phalanx_host::verbosity::Verbosity;
use phalanx_volume::StoreOptions;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The shortest job that may go to a GPU, and the longest that a volume has, in bytes.
const SHORTEST: u64 = 64 << 10;
const LONGEST: u64 = 16 << 20;

/// How the files of a volume are stored, with the engines of a command line.
pub fn for_volume(args: &EngineArgs, suite: Suite, verbosity: Verbosity) -> Outcome<StoreOptions> {
    let mut ready = ready(args)?;
    let small = Arc::new(ready.crew(Kind::Serial).expect("the CPU is ready").roster);
    let threshold = match named(args.engine, &mut ready, verbosity)? {
        Some(Kind::Serial | Kind::Cpu) => None,
        Some(Kind::Gpu) => {
            let gpu = Arc::new(ready.crew(Kind::Gpu).expect("the device is open").roster);
            return Ok(StoreOptions { small: gpu.clone(), large: gpu, threshold: 0, ..StoreOptions::default() });
        }
        Some(Kind::Hybrid) => Some(1 << 20),
        None if args.paranoid => None,
        None => measured(&ready).filter(|_| open_device(&mut ready, verbosity).is_ok()),
    };
    let Some(threshold) = threshold else {
        return Ok(StoreOptions { small: small.clone(), large: small, ..StoreOptions::default() });
    };
    let large = ready.crew_with_fallback(Kind::Gpu, Arc::new(AtomicBool::new(false))).expect("the device is open");
    if verbosity.verbose {
        complain(format!("{} for jobs of {threshold} bytes and more in {}", large.description, suite.name()));
    }
    Ok(StoreOptions { small, large: Arc::new(large.roster), threshold, ..StoreOptions::default() })
}

/// The length from which the GPU is faster, by the kept measurements of `phalanx engines`.
fn measured(ready: &Ready) -> Option<usize> {
    let kept = cache::read(&Circumstances::new(ready.levels, ready.threads))?;
    kept.device.as_ref()?;
    crossing(&kept.calibration)
}

/// The shortest job for which an open device is chosen.
fn crossing(calibration: &Calibration) -> Option<usize> {
    let mut lengths = (SHORTEST.ilog2()..=LONGEST.ilog2()).map(|log2| 1u64 << log2);
    let pays = |bytes: &u64| calibration.choose(Op::Seal, Some(*bytes), true).needs_device();
    lengths.find(pays).map(|bytes| bytes as usize)
}
