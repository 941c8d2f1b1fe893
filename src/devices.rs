//! The GPUs of this machine: which there are, and which one works.

use crate::drivers::CPU_VARIABLE;
use phalanx_core::engine::Engine;
use phalanx_gpu::{Device, DeviceInfo, GpuEngine, Kind};
use phalanx_kernels::keccak;
use std::env;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What became of a device.
pub enum State {
    /// It passed its self-test, and the engines gpu and hybrid use it.
    Taken,
    /// It passed its self-test, but one before it is used.
    Spare,
    /// It is not asked to do anything, and why.
    Left(String),
    /// It was not opened, or failed its self-test.
    Failed(String),
}

impl State {
    /// Why it should have worked and did not.
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
            State::Failed(why) => write!(f, "{why}"),
        }
    }
}

/// A device that is open and passed its self-test.
pub struct Open {
    pub info: DeviceInfo,
    pub engine: Arc<dyn Engine>,
    /// How long it took to find, open and test it.
    pub start: Duration,
}

/// All devices.
#[derive(Default)]
pub struct Survey {
    pub devices: Vec<(DeviceInfo, State)>,
    /// Why an interface has none, one line each.
    pub absent: Vec<String>,
    pub open: Option<Open>,
}

impl Survey {
    /// Looks for devices and opens them in order, until one works, or, where all are wanted, each of them.
    pub fn new(level: keccak::Level, all: bool) -> Self {
        let started = Instant::now();
        let (found, absent) = phalanx_gpu::devices();
        let mut survey = Self { absent: absent.iter().map(ToString::to_string).collect(), ..Self::default() };
        for info in found {
            if survey.open.is_some() && !all {
                break;
            }
            let state = survey.try_one(&info, level, started);
            survey.devices.push((info, state));
        }
        survey
    }
}

impl Survey {
    fn try_one(&mut self, info: &DeviceInfo, level: keccak::Level, started: Instant) -> State {
        if info.kind == Kind::Cpu && env::var_os(CPU_VARIABLE).is_none_or(|value| value != "1") {
            return State::Left(format!("it is the CPU itself ({CPU_VARIABLE}=1 has it used all the same)"));
        }
        match Device::open(info) {
            Err(error) => State::Failed(error.to_string()),
            Ok(_) if self.open.is_some() => State::Spare,
            Ok(device) => {
                let engine = Arc::new(GpuEngine::new(device, level));
                self.open = Some(Open { info: info.clone(), engine, start: started.elapsed() });
                State::Taken
            }
        }
    }

    /// The device that was taken has failed since.
    pub fn fail(&mut self, why: String) {
        if let Some((_, state)) = self.devices.iter_mut().find(|(_, state)| matches!(state, State::Taken)) {
            *state = State::Failed(why);
        }
    }
}
