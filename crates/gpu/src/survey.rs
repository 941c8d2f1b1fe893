//! The GPUs of this machine: which ones exist, which may be used, and the first that works.

use crate::{Device, DeviceInfo, Kind, Reason};
use std::env;
use std::fmt;
use std::time::{Duration, Instant};

/// If this environment variable is 1, a device may be the CPU itself, through OpenCL or simulated, for tests of the engine without a
/// GPU.
pub const CPU_VARIABLE: &str = "PHALANX_OPENCL_CPU";

/// Whether a device is used, and why not.
pub enum State {
    /// It passed its self-test, and the engines gpu and hybrid use it.
    Taken,
    /// It passed its self-test, but an earlier device is used.
    Spare,
    /// It is not used, for this reason.
    Left(String),
    /// It could not be opened, failed its self-test, or has failed since, for this reason.
    Failed(String),
}

impl State {
    /// Why the device failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        if let State::Failed(why) = self { Some(why) } else { None }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Taken => f.write_str("self-test passed"),
            State::Spare => f.write_str("self-test passed; not used, for another one is"),
            State::Left(why) => write!(f, "not used: {why}"),
            State::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}

/// The result of looking for devices on this machine.
#[derive(Default)]
pub struct Survey {
    /// Each device that was examined, and its state.
    pub devices: Vec<(DeviceInfo, State)>,
    /// Why an interface has no devices, in one line for each.
    pub absent: Vec<String>,
    /// Whether an interface has none because its driver failed.
    has_failed: bool,
    /// The first device that works, and how long it took to find, open and test it.
    pub found: Option<(Device, Duration)>,
}

impl Survey {
    /// Looks for devices and opens them in order: until one works, or each of them if `all` is set.
    #[must_use]
    pub fn new(all: bool) -> Self {
        let started = Instant::now();
        let (devices, absent) = crate::devices();
        let has_failed = absent.iter().any(|error| !matches!(error.reason, Reason::Absent(_)));
        let absent = absent.iter().map(ToString::to_string).collect();
        let mut survey = Self { absent, has_failed, ..Self::default() };
        for info in devices {
            if survey.found.is_some() && !all {
                break;
            }
            let state = match unfit(&info) {
                Some(why) => State::Left(why),
                None => survey.open(&info, started),
            };
            survey.devices.push((info, state));
        }
        survey
    }

    fn open(&mut self, info: &DeviceInfo, started: Instant) -> State {
        match Device::open(info) {
            Err(error) => State::Failed(error.reason.to_string()),
            Ok(_) if self.found.is_some() => State::Spare,
            Ok(device) => {
                self.found = Some((device, started.elapsed()));
                State::Taken
            }
        }
    }

    /// Whether there is a driver or a device that does not work.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.has_failed || self.devices.iter().any(|(_, state)| state.failure().is_some())
    }

    /// Records that the chosen device has failed since.
    pub fn fail(&mut self, why: String) {
        if let Some((_, state)) = self.devices.iter_mut().find(|(_, state)| matches!(state, State::Taken)) {
            *state = State::Failed(why);
        }
    }

    /// The chosen device.
    ///
    /// # Errors
    /// The reason in one line, if there is none.
    pub fn device(self) -> Result<Device, String> {
        let Self { devices, absent, found, .. } = self;
        let state = |(info, state): (DeviceInfo, State)| format!("{}: {}: {state}", info.api, info.name);
        let reasons = || absent.into_iter().chain(devices.into_iter().map(state)).collect::<Vec<_>>().join("; ");
        found.map(|(device, _)| device).ok_or_else(reasons)
    }
}

/// Why a device must not be used; `None` if it may.
fn unfit(info: &DeviceInfo) -> Option<String> {
    // The CPU's own engine is faster than OpenCL on the CPU, or than a simulated GPU.
    let is_cpu = info.kind == Kind::Cpu;
    let is_admitted = || env::var_os(CPU_VARIABLE).is_some_and(|value| value == "1");
    match info.kind {
        Kind::Gpu => None,
        _ if is_cpu && is_admitted() => None,
        _ if info.is_simulated() => Some(format!("it is simulated, on the CPU itself ({CPU_VARIABLE}=1 admits it)")),
        _ if is_cpu => Some(format!("it is the CPU itself ({CPU_VARIABLE}=1 admits it)")),
        _ => Some("it is no GPU".into()),
    }
}

/// The CUDA device with this number, as CUDA's other libraries count, opened and tested.
///
/// # Errors
/// The reason in one line, if it cannot be used.
pub fn find_cuda(number: usize) -> Result<Device, String> {
    let devices = crate::cuda::devices().map_err(|error| error.to_string())?;
    let count = devices.len();
    let info = devices.into_iter().nth(number).ok_or_else(|| format!("CUDA: no device {number}, of {count}"))?;
    if let Some(why) = unfit(&info) {
        return Err(format!("{}: {}: not used: {why}", info.api, info.name));
    }
    Device::open(&info).map_err(|error| error.to_string())
}

/// The first device that opens and passes its self-test.
///
/// # Errors
/// The reason in one line, if there is none.
pub fn find() -> Result<Device, String> {
    Survey::new(false).device()
}
