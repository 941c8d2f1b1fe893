//! Checks and measures the devices of a machine. This is one program that can be carried to a machine with a GPU and no
//! network. `scripts/device-check` calls it, each command with a time limit of its own.
//!
//! - `list` shows the devices.
//! - `check` runs every kernel at all sizes around its edges and compares with the CPU, and then the engine. `takeover` lets the
//!   device be too slow, and the CPU take its place.
//! - `ceilings`, `kernels`, `resident` and `engine` measure. They print lines as the bench's `rows.jsonl` has them: a head for
//!   each device, and rows.
//! - `file FILE BYTES` makes a file to protect. `summary FILE` shows rows on one page.
//!
//! All take an interface, `cuda` or `opencl`, to leave the other out, and `--quick`; `check` takes `--least`, too.

mod check;
mod engine;
mod measure;
mod summary;
mod takeover;

use check::Extent;
use phalanx_gpu::{Api, Device, DeviceInfo};
use std::process::ExitCode;

const USAGE: &str = "usage: device-check list | check | takeover | ceilings | kernels | resident | engine \
                     [cuda | opencl] [--quick | --least], or file FILE BYTES, or summary FILE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let on_files = match arguments[..] {
        ["file", file, bytes] => bytes.parse().map_err(|_| USAGE.into()).and_then(|bytes| summary::make(file, bytes)),
        ["summary", file] => summary::print(file),
        _ => return on_devices(&arguments),
    };
    ended(on_files)
}

fn on_devices(arguments: &[&str]) -> ExitCode {
    let (mut command, mut api, mut extent) = (None, None, Extent::Full);
    for argument in arguments {
        match *argument {
            "cuda" => api = Some(Api::Cuda),
            "opencl" => api = Some(Api::OpenCl),
            "--quick" => extent = Extent::Quick,
            "--least" => extent = Extent::Least,
            other if command.is_none() => command = Some(other),
            _ => command = Some(""),
        }
    }
    let quick = extent != Extent::Full;
    let work: &dyn Fn(&Device) -> phalanx_gpu::Result<()> = match command {
        Some("list") => &|_| Ok(()),
        Some("check") => &|device| {
            check::all(device, extent)?;
            takeover::engines(device, quick)
        },
        Some("takeover") => &|device| takeover::takeover(device),
        Some("ceilings") => &|device| measure::ceilings(device, quick),
        Some("kernels") => &|device| measure::kernels(device, quick),
        Some("resident") => &|device| measure::resident(device, quick),
        Some("engine") => &|device| measure::engine(device, quick),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (devices, reasons) = phalanx_gpu::devices();
    reasons.iter().for_each(|reason| eprintln!("{reason}"));
    let devices: Vec<DeviceInfo> = devices.into_iter().filter(|info| api.is_none_or(|api| info.api == api)).collect();
    if devices.is_empty() {
        eprintln!("no device");
        return ExitCode::from(3);
    }
    ended(devices.iter().try_for_each(|info| {
        if command == Some("list") {
            println!("{}", describe(info));
            return Ok(());
        }
        eprintln!("{}", describe(info));
        let device = Device::open(info).map_err(|error| error.to_string())?;
        eprintln!("kernels of the engine loaded and tested in {:.3} s", device.prepared_in().as_secs_f64());
        work(&device).map_err(|error| error.to_string())
    }))
}

fn ended(done: Result<(), String>) -> ExitCode {
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn describe(info: &DeviceInfo) -> String {
    let DeviceInfo { api, index, name, driver, kind, memory, compute_units, local_memory, .. } = info;
    let (memory, local) = (memory >> 20, local_memory >> 10);
    format!("{api} {index}: {name}, {kind}, {driver}, {compute_units} units, {memory} MiB, {local} KiB local")
}
