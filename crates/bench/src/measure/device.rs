//! The device that the papers' GPU parts are measured on.

use crate::error::{Error, Result};
use crate::measure::machine::cpu_mhz;
use crate::measure::setup::{Found, Setup};
use crate::measure::steps::Rows;
use crate::measure::times::Times;
use crate::paper::equations;
use crate::row::{Over, Row};
use phalanx_core::engine::Engine;
use phalanx_gpu::{Device, DeviceInfo, GpuEngine, Kind};
use std::sync::Arc;

/// P1's Eq. 1 for this device and a number of CPU cores: the computing power of the device, divided by that of the cores
/// that do not serve it.
pub fn ratio(info: &DeviceInfo, cores: usize) -> std::result::Result<f64, String> {
    if info.warp == 0 || info.clock_mhz == 0 {
        return Err("the driver tells neither warp nor clock of the device, which Eq. 1 needs".into());
    }
    let Some(cpu_clock) = cpu_mhz() else {
        return Err("the system does not tell the processor's clock, which Eq. 1 needs".into());
    };
    if cores < 2 {
        return Err("Eq. 1 needs a core beside the one that serves the device".into());
    }
    let [multiprocessors, warp, clock] = [info.compute_units, info.warp, info.clock_mhz].map(f64::from);
    Ok(equations::ratio(multiprocessors, warp, clock, cores as f64, cpu_clock))
}

/// Eq. 1 on this machine, or why there is no such figure.
pub fn eq_1(setup: &Setup) -> std::result::Result<f64, String> {
    let device = setup.device.as_ref().map_err(|why| format!("no device ({why})"))?;
    ratio(device.info(), setup.threads)
}

/// The most bytes on the device at a time. Larger data pass through it in windows.
const WINDOW: u64 = 1 << 30;

/// The length of a window of the data, a multiple of 4 KiB.
pub fn window(info: &DeviceInfo) -> usize {
    let most = WINDOW.min(info.largest_buffer).min(info.memory / 4);
    (most as usize / 4096 * 4096).max(4096)
}

/// The most bytes for a CPU behind OpenCL. Its speed says nothing about GPUs, and a gigabyte would take minutes.
const ON_A_CPU: u64 = 16 << 20;
/// The same in a short run.
const ON_A_CPU_QUICK: u64 = 1 << 20;

/// The device for data of this length, or why they are not run.
pub fn for_bytes(found: &Found, quick: bool, bytes: u64) -> std::result::Result<&Device, String> {
    let device = found.as_ref().map_err(|why| format!("no device ({why})"))?;
    let most = if quick { ON_A_CPU_QUICK } else { ON_A_CPU };
    if device.info().kind != Kind::Gpu && bytes > most {
        return Err(format!("the device is not a GPU: it gets at most {} MiB", most >> 20));
    }
    Ok(device)
}

/// The device as the program's engine, for data of this length, or why they are not run. In `hybrid` the CPU's engine comes
/// first, as in the program, so the CPU does small work.
pub fn engine(setup: &Setup, bytes: u64) -> std::result::Result<Arc<dyn Engine>, String> {
    let device = for_bytes(&setup.device, setup.quick, bytes)?;
    Ok(Arc::new(GpuEngine::new(device.clone(), setup.levels.keccak)))
}

/// Writes rows with times of a device, compared with those of another engine. A device that fails loses its rows. Any other
/// failure ends the run.
pub fn write<const N: usize>(
    rows: &mut Rows<'_>,
    named: [Row; N],
    times: Result<[Times; N]>,
    over: Option<(&str, f64)>,
) -> Result<()> {
    if let Some(why) = times.as_ref().err().and_then(Error::of_device) {
        return named.into_iter().try_for_each(|row| rows.write(row.not_run(&why)));
    }
    let times = times?;
    for (row, times) in named.into_iter().zip(times) {
        let row = times.of(row);
        rows.write(match over {
            Some((name, median_s)) => row.compared(Over { name, median_s }, None),
            None => row,
        })?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use phalanx_gpu::Api;
    use std::sync::OnceLock;

    /// The first OpenCL device. If there is none, says so, or fails if PHALANX_REQUIRE names it.
    pub(crate) fn device() -> Option<Device> {
        static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
        let open = || {
            let (devices, reasons) = phalanx_gpu::devices();
            let Some(info) = devices.iter().find(|info| info.api == Api::OpenCl) else {
                println!("skipped: no OpenCL device ({reasons:?})");
                let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
                assert!(!required.split(',').any(|r| r == "opencl"), "PHALANX_REQUIRE names opencl: {reasons:?}");
                return None;
            };
            Some(Device::open(info).unwrap())
        };
        DEVICE.get_or_init(open).clone()
    }
}
