//! `--engine auto`: the engine by the size of the work, the direction and what was measured.
//!
//! Small work must not pay for the choice. Up to [`Calibration::WORTH_A_START`] it is made without a look at anything; from
//! there on what was kept is read; and only where a device could win back a second is one looked for and measured.

use crate::args::Verbosity;
use crate::calibrate;
use crate::devices::{DeviceName, Open, State, Survey};
use crate::failure::complain;
use crate::kept::{self, Circumstances, Kept};
use crate::lanes::{Crew, Ready};
use phalanx_core::Suite;
use phalanx_core::calibration::{Calibration, Kind};
use phalanx_core::engine::Op;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Engines are measured before the first work of so many bytes: the CPU is busy with it for a good part of the second that
/// measuring takes, and what is found serves all that follows.
const WORTH_MEASURING: u64 = 256 << 20;

/// Chooses among the engines of this process.
pub struct Auto {
    verbosity: Verbosity,
    serial: Crew,
    cpu: Crew,
    /// The bytes of all files together, as far as they are known.
    expected: AtomicU64,
    learned: Mutex<Learned>,
    /// What there is with a device, once one was asked to open.
    device: OnceLock<Option<WithDevice>>,
}

struct Learned {
    /// Without a device before one is open.
    ready: Option<Ready>,
    now: Option<Circumstances>,
    kept: Option<Kept>,
}

/// What an open device adds.
struct WithDevice {
    calibration: Calibration,
    gpu: Crew,
    hybrid: Crew,
    /// Whether it has failed.
    broken: Arc<AtomicBool>,
}

impl Auto {
    /// Nothing is looked for yet.
    pub fn new(ready: Ready, verbosity: Verbosity) -> Self {
        Self {
            verbosity,
            serial: ready.serial_crew(),
            cpu: ready.cpu_crew(),
            expected: AtomicU64::new(0),
            learned: Mutex::new(Learned { ready: Some(ready), now: None, kept: None }),
            device: OnceLock::new(),
        }
    }

    /// Says how many bytes there are to come in all.
    pub fn expect(&self, bytes: u64) {
        self.expected.store(bytes, Ordering::Relaxed);
    }

    /// The engines for so many bytes, where that is known.
    pub fn crew(&self, op: Op, suite: Suite, bytes: Option<u64>) -> &Crew {
        // A device pays for all files together; which of them it gets is another question.
        let all = bytes.map(|bytes| bytes.max(self.expected.load(Ordering::Relaxed)));
        let is_small = suite == Suite::Aes256Gcm || all.is_none_or(|all| all < Calibration::WORTH_A_START);
        let device = match self.device.get() {
            None if is_small => None,
            None => self.ask(op, suite, all),
            Some(device) => device.as_ref(),
        };
        match device.filter(|device| !device.broken.load(Ordering::Relaxed)) {
            None => self.without_device(op, suite, bytes),
            Some(device) => match device.calibration.choose(op, suite, bytes, true) {
                Kind::Serial => &self.serial,
                Kind::Cpu => &self.cpu,
                Kind::Gpu => &device.gpu,
                Kind::Hybrid => &device.hybrid,
            },
        }
    }
}
