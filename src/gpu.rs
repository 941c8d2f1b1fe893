//! The GPU of this machine: found, opened and put to its self-test.

use crate::hardening;
use phalanx_gpu::{Api, Device, DeviceInfo, Kind};
use std::env;

/// Admits an OpenCL device that is the CPU, if it is 1: for tests of the engine without a GPU. The CPU's own engine is
/// faster there.
const ADMIT_CPU: &str = "PHALANX_OPENCL_CPU";

/// The devices that the engine may run on, the best first; and why others, or whole interfaces, are out of the question,
/// one line each.
pub fn candidates() -> (Vec<DeviceInfo>, Vec<String>) {
    hardening::make_room_for_drivers();
    let (devices, reasons) = phalanx_gpu::devices();
    let mut reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    let admit_cpu = env::var_os(ADMIT_CPU).is_some_and(|value| value == "1");
    let (fit, unfit): (Vec<_>, Vec<_>) =
        devices.into_iter().partition(|info| info.kind == Kind::Gpu || (admit_cpu && is_cpu(info)));
    reasons.extend(unfit.iter().map(|info| {
        let hint = if is_cpu(info) { format!(" ({ADMIT_CPU}=1 admits it)") } else { String::new() };
        format!("{}: {} is no GPU{hint}", info.api, info.name)
    }));
    (fit, reasons)
}

fn is_cpu(info: &DeviceInfo) -> bool {
    info.api == Api::OpenCl && info.kind == Kind::Cpu
}

/// The first candidate that opens and passes its self-test; if none does, why, in one line.
pub fn find() -> Result<Device, String> {
    let (candidates, mut reasons) = candidates();
    for info in &candidates {
        match Device::open(info) {
            Ok(device) => return Ok(device),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(reasons.join("; "))
}
