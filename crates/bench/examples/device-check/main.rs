//! Checks and measures the devices of a machine. This is one program that can be carried to a machine with a GPU and no
//! network.
//!
//! `list` shows the devices. `check` runs every kernel at all sizes around its edges and compares with the CPU.
//! `measure` prints lines as the bench's `rows.jsonl` has them: a head for each device, and rows. All take an interface, `cuda` or
//! `opencl`, to leave the other out, and `--quick`. `scripts/device-check` calls them in turn.

mod check;
mod engine;
mod measure;

use phalanx_gpu::{Api, Device, DeviceInfo};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut command = None;
    let (mut api, mut quick) = (None, false);
    for argument in &arguments {
        match argument.as_str() {
            "list" | "check" | "measure" if command.is_none() => command = Some(argument.as_str()),
            "cuda" => api = Some(Api::Cuda),
            "opencl" => api = Some(Api::OpenCl),
            "--quick" => quick = true,
            _ => command = Some("help"),
        }
    }
    let (devices, reasons) = phalanx_gpu::devices();
    reasons.iter().for_each(|reason| eprintln!("{reason}"));
    let devices: Vec<DeviceInfo> = devices.into_iter().filter(|info| api.is_none_or(|api| info.api == api)).collect();
    let done = match command {
        Some("list") => {
            devices.iter().for_each(|info| println!("{}", describe(info)));
            Ok(())
        }
        Some("check") => on_each(&devices, |device| check::all(device, quick)),
        Some("measure") => on_each(&devices, |device| measure::all(device, quick)),
        _ => {
            eprintln!("usage: device-check list | check | measure [cuda | opencl] [--quick]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) if devices.is_empty() => {
            eprintln!("no device");
            ExitCode::from(3)
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn describe(info: &DeviceInfo) -> String {
    let DeviceInfo { api, index, name, driver, kind, memory, compute_units, local_memory, .. } = info;
    let (memory, local) = (memory >> 20, local_memory >> 10);
    format!("{api} {index}: {name}, {kind}, {driver}, {compute_units} units, {memory} MiB, {local} KiB local")
}

fn on_each(devices: &[DeviceInfo], work: impl Fn(&Device) -> phalanx_gpu::Result<()>) -> phalanx_gpu::Result<()> {
    for info in devices {
        eprintln!("{}", describe(info));
        work(&Device::open(info)?)?;
    }
    Ok(())
}
