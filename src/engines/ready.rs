//! The engines of this machine that are ready to work, and crews of them.

use super::calibration::Kind;
use crate::failure::complain;
use crate::hardening;
use phalanx_core::Roster;
use phalanx_core::engine::{CpuEngine, Engine, Fault, Levels};
use phalanx_gpu::{Device, GpuEngine, Survey};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Looks for devices, as [`Survey::new`] does. Drivers are loaded only here, and need room.
pub fn survey(all: bool) -> Survey {
    hardening::make_room_for_drivers();
    Survey::new(all)
}

/// Engines at work together.
pub struct Crew {
    pub roster: Roster,
    /// In words, for `--verbose`.
    pub description: String,
}

impl Crew {
    /// Where one fails and another goes on, a line tells of it.
    pub fn new(kind: Kind, engines: &[Arc<dyn Engine>]) -> Self {
        let roster = Roster::new(engines).on_fault(warn);
        Self { roster, description: format!("engine {kind} ({})", detail(engines)) }
    }
}

fn warn(fault: &Fault) {
    complain(format!("warning: {fault}; the CPU goes on"));
}

/// What the engines run on and by which kernels, in words.
fn detail(engines: &[Arc<dyn Engine>]) -> String {
    let details: Vec<&str> = engines.iter().map(|engine| engine.info().detail.as_str()).collect();
    details.join("; ")
}

/// The engines that are ready to work: the CPU's, and a device's once it is open.
pub struct Ready {
    pub levels: Levels,
    pub threads: usize,
    pub serial: Arc<dyn Engine>,
    pub cpu: Arc<dyn Engine>,
    pub gpu: Option<Arc<dyn Engine>>,
    /// What it took to open the device.
    pub opening: Duration,
}

impl Ready {
    /// Those of the CPU.
    pub fn new(levels: Levels, threads: usize) -> Self {
        let serial = Arc::new(CpuEngine::serial(levels));
        let cpu = Arc::new(CpuEngine::parallel(threads, levels));
        Self { levels, threads, serial, cpu, gpu: None, opening: Duration::ZERO }
    }

    /// And that of a device, which it took so long to open.
    pub fn open(&mut self, device: Device, opening: Duration) -> Arc<dyn Engine> {
        self.opening = opening;
        self.gpu.insert(Arc::new(GpuEngine::new(device, self.levels.keccak))).clone()
    }

    /// The engines that go by this name together, if they are ready.
    pub fn members(&self, kind: Kind) -> Option<Vec<Arc<dyn Engine>>> {
        let (serial, cpu) = (self.serial.clone(), self.cpu.clone());
        Some(match kind {
            Kind::Serial => vec![serial],
            Kind::Cpu => vec![cpu],
            Kind::Gpu => vec![self.gpu.clone()?],
            Kind::Hybrid => vec![cpu, self.gpu.clone()?],
        })
    }

    /// What they run on and by which kernels, in words.
    pub fn detail(&self, kind: Kind) -> Option<String> {
        Some(detail(&self.members(kind)?))
    }

    /// How many jobs they run at the same time.
    pub fn workers(&self, kind: Kind) -> Option<usize> {
        Some(self.members(kind)?.iter().map(|engine| engine.info().workers).sum())
    }

    /// The engines that go by this name, as a crew.
    pub fn crew(&self, kind: Kind) -> Option<Crew> {
        Some(Crew::new(kind, &self.members(kind)?))
    }

    /// The same, but the CPU takes over where they fail, and `broken` is then set. A line tells of it, the first time.
    pub fn crew_with_fallback(&self, kind: Kind, broken: Arc<AtomicBool>) -> Option<Crew> {
        let Crew { roster, description } = self.crew(kind)?;
        let roster = roster.with_fallback(self.cpu.clone()).on_fault(move |fault| {
            if !broken.swap(true, Ordering::Relaxed) {
                warn(fault);
            }
        });
        Some(Crew { roster, description })
    }
}
