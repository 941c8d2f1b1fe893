//! Checks and measurements of the devices of a machine. `crates/gpu/scripts/device-check` runs on a machine with a GPU
//! and no network, and calls each command of this program with its own time limit.

mod check;
mod engine;
mod measure;
mod opened;
mod summary;
mod takeover;

use super::args::{DeviceCommand, On};
use super::failure::{Code, Failure, Outcome, say};
use check::Extent;
use phalanx_gpu::{Device, DeviceInfo};

/// Runs a command.
pub fn run(command: &DeviceCommand) -> Outcome {
    let extent = |on: &On| if on.quick { Extent::Quick } else { Extent::Full };
    match command {
        DeviceCommand::List(on) => found(on)?.iter().try_for_each(|info| say(describe(info))),
        DeviceCommand::Check { on, least } => each(on, |device| {
            check::all(device, if *least { Extent::Least } else { extent(on) })?;
            takeover::engines(device, *least || on.quick)
        }),
        DeviceCommand::Takeover(on) => each(on, takeover::takeover),
        DeviceCommand::Ceilings(on) => each(on, |device| measure::ceilings(device, on.quick)),
        DeviceCommand::Kernels(on) => each(on, |device| measure::kernels(device, on.quick)),
        DeviceCommand::Resident(on) => each(on, |device| measure::resident(device, on.quick)),
        DeviceCommand::Opened(on) => each(on, |device| opened::opened(device, on.quick)),
        DeviceCommand::Engine(on) => each(on, |device| measure::engine(device, on.quick)),
        DeviceCommand::Crews(on) => each(on, |device| measure::crews(device, on.quick)),
        DeviceCommand::File { file, bytes } => summary::make(file, *bytes).map_err(failed),
        DeviceCommand::Summary { file } => summary::print(file).map_err(failed),
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Other, why.to_string())
}

/// The devices of the requested interface.
fn found(on: &On) -> Outcome<Vec<DeviceInfo>> {
    let (devices, reasons) = phalanx_gpu::devices();
    reasons.iter().for_each(|reason| eprintln!("{reason}"));
    let devices: Vec<DeviceInfo> = devices.into_iter().filter(|info| on.wants(info.api)).collect();
    if devices.is_empty() { Err(failed("no device")) } else { Ok(devices) }
}

/// Does the work with each device.
fn each(on: &On, work: impl Fn(&Device) -> phalanx_gpu::Result<()>) -> Outcome {
    found(on)?.iter().try_for_each(|info| {
        eprintln!("{}", describe(info));
        let device = Device::open(info).map_err(failed)?;
        eprintln!("kernels of the engine loaded and tested in {:.3} s", device.prepared_in().as_secs_f64());
        work(&device).map_err(failed)
    })
}

fn describe(info: &DeviceInfo) -> String {
    let DeviceInfo { api, index, name, driver, kind, memory, compute_units, local_memory, .. } = info;
    let (memory, local) = (memory >> 20, local_memory >> 10);
    format!("{api} {index}: {name}, {kind}, {driver}, {compute_units} units, {memory} MiB, {local} KiB local")
}
