//! This machine: its processor, memory, system and device.

use crate::head::{DeviceHead, Head};
use crate::measure::Setup;
use phalanx_gpu::DeviceInfo;
use std::fs;
use std::path::Path;
use std::thread;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The head of a run that begins now.
pub fn head(setup: &Setup, peers: Vec<String>) -> Head {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    Head {
        date: now.format(&Rfc3339).unwrap_or_default(),
        phalanx: env!("CARGO_PKG_VERSION").into(),
        commit: env!("BUILT_FROM").into(),
        rustc: env!("BUILT_BY").into(),
        quick: setup.quick,
        cpu: cpu(),
        cores: thread::available_parallelism().map_or(1, |n| n.get()),
        memory: memory("MemTotal").unwrap_or(0),
        system: system(),
        aes: setup.levels.aes.to_string(),
        keccak: setup.levels.keccak.to_string(),
        file_system: file_system(&setup.out),
        device: setup.device.as_ref().ok().map(|device| device_head(device.info())),
        peers,
    }
}

/// The head of a device.
pub fn device_head(info: &DeviceInfo) -> DeviceHead {
    DeviceHead {
        name: info.name.clone(),
        kind: info.kind.to_string(),
        api: info.api.to_string(),
        driver: info.driver.clone(),
        memory: info.memory,
        multiprocessors: info.compute_units,
        warp: info.warp,
        clock_mhz: info.clock_mhz,
    }
}

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let name = field("model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    match (field("cpu family"), field("model\t")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name,
    }
}

/// The processor's clock in MHz: the highest one or, if the system does not report it, the present one.
pub fn cpu_mhz() -> Option<f64> {
    let at_most = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    if let Some(khz) = at_most.ok().and_then(|text| text.trim().parse::<f64>().ok()) {
        return Some(khz / 1e3);
    }
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines().find(|line| line.starts_with("cpu MHz"))?.split_once(':')?.1.trim().parse().ok()
}

/// A line of the system's report on its memory, in bytes.
pub fn memory(name: &str) -> Option<u64> {
    number("/proc/meminfo", name).map(|kib| kib << 10)
}

/// The largest resident memory of a process so far, in KiB.
pub fn peak_kib(process: u32) -> Option<u64> {
    number(&format!("/proc/{process}/status"), "VmHWM")
}

/// The number after a name and a colon in a file of /proc.
pub fn number(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

fn system() -> String {
    let uname = rustix::system::uname();
    let kernel = format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    match release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")) {
        Some(name) => format!("{}, {kernel}", name.trim_matches('"')),
        None => kernel,
    }
}

/// The kind of file system that a folder lies on.
pub fn file_system(folder: &Path) -> String {
    let Ok(stat) = rustix::fs::statfs(folder) else { return "unknown".into() };
    match stat.f_type as u32 {
        0xef53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683e => "btrfs".into(),
        0x0102_1994 => "tmpfs".into(),
        0x794c_7630 => "overlayfs".into(),
        0x6969 => "nfs".into(),
        magic => format!("a file system of type {magic:#x}"),
    }
}
