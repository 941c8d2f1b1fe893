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
use phalanx_gpu::{Api, Device, DeviceInfo, Kind};

/// Runs a command.
pub fn run(command: &DeviceCommand) -> Outcome {
    let extent = |on: &On| if on.quick { Extent::Quick } else { Extent::Full };
    match command {
        DeviceCommand::List => all()?.iter().try_for_each(|info| say(describe(info))),
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

/// The devices of the machine. Where an interface has none, the reason is printed.
fn all() -> Outcome<Vec<DeviceInfo>> {
    let (devices, reasons) = phalanx_gpu::devices();
    reasons.iter().for_each(|reason| eprintln!("{reason}"));
    if devices.is_empty() { Err(failed("no device")) } else { Ok(devices) }
}

/// The devices of an interface. If none is named, it is that of the first device: CUDA, if it has one. A GPU often has both, and the
/// slower one would need the time of the other. The CPU is a device only if there is no other.
fn chosen(mut devices: Vec<DeviceInfo>, api: Option<Api>) -> Vec<DeviceInfo> {
    let Some(api) = api.or(devices.first().map(|info| info.api)) else { return devices };
    devices.retain(|info| info.api == api);
    if devices.iter().any(|info| info.kind != Kind::Cpu) {
        devices.retain(|info| info.kind != Kind::Cpu);
    }
    devices
}

/// Does the work with each device.
fn each(on: &On, work: impl Fn(&Device) -> phalanx_gpu::Result<()>) -> Outcome {
    let devices = chosen(all()?, on.api());
    if devices.is_empty() {
        return Err(failed("no device of this interface"));
    }
    devices.iter().try_for_each(|info| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_interface_is_used_and_the_cpu_only_where_it_is_alone() {
        let [gpu, cpu] = [Kind::Gpu, Kind::Cpu];
        let of = |devices: &[(Api, Kind)], api| -> Vec<usize> {
            let info = |(index, &(api, kind))| DeviceInfo {
                api,
                index,
                kind,
                name: String::new(),
                driver: String::new(),
                memory: 0,
                largest_buffer: 0,
                compute_units: 0,
                warp: 0,
                clock_mhz: 0,
                local_memory: 0,
                max_threads: 0,
            };
            chosen(devices.iter().enumerate().map(info).collect(), api).iter().map(|info| info.index).collect()
        };
        let all = [(Api::Cuda, gpu), (Api::Cuda, gpu), (Api::OpenCl, cpu), (Api::OpenCl, gpu)];
        assert_eq!(of(&all, None), [0, 1]);
        assert_eq!(of(&all, Some(Api::Cuda)), [0, 1]);
        assert_eq!(of(&all, Some(Api::OpenCl)), [3]);
        assert_eq!(of(&all[2..3], None), [0]);
        assert_eq!(of(&all[2..3], Some(Api::Cuda)), [0; 0]);
        assert_eq!(of(&[], None), [0; 0]);
    }
}
