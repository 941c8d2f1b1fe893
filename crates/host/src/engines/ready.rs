//! The engines of this machine that are ready to work, and crews of them.

use super::calibration::Kind;
use crate::lines::complain;
use crate::verbosity::Verbosity;
use phalanx_core::Roster;
use phalanx_core::engine::{CpuEngine, Engine, Fault, Levels, Twice};
use phalanx_gpu::{Device, GpuEngine, Survey};
use phalanx_system::hardening;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Looks for devices, as [`Survey::new`] does. Drivers are loaded only here. They need address space, and may not work
/// in a hardened process. In that case they are tried once more without the hardening.
pub fn survey(all: bool, verbosity: Verbosity) -> Survey {
    hardening::make_room_for_drivers();
    let (survey, is_open) =
        hardening::or_without(|| Survey::new(all), |survey| survey.found.is_none() && survey.is_broken());
    if is_open && verbosity.verbose {
        complain(
            "warning: the GPU's driver does not work in a process that others cannot trace and whose memory is locked: \
             other processes of this user can read this one, and its memory can reach swap",
        );
    }
    survey
}

/// Engines that work together.
pub struct Crew {
    /// The engines, which share all work.
    pub roster: Roster,
    /// Whether it is several threads of the CPU, and nothing else.
    pub is_cpu: bool,
    /// A description in words, for `--verbose`.
    pub description: String,
}

impl Crew {
    /// Makes a crew. If one of its engines fails and another one takes over, a warning says so.
    pub fn new(kind: Kind, engines: &[Arc<dyn Engine>]) -> Self {
        let roster = Roster::new(engines).on_fault(warn);
        Self { roster, is_cpu: kind == Kind::Cpu, description: format!("engine {kind} ({})", detail(engines)) }
    }
}

fn warn(fault: &Fault) {
    complain(format!("warning: {fault}; the CPU goes on"));
}

/// What engines run on and which kernels they use, in words.
pub fn detail(engines: &[Arc<dyn Engine>]) -> String {
    let details: Vec<&str> = engines.iter().map(|engine| engine.info().detail.as_str()).collect();
    details.join("; ")
}

/// How many jobs engines run at the same time.
pub fn workers(engines: &[Arc<dyn Engine>]) -> usize {
    engines.iter().map(|engine| engine.info().workers).sum()
}

/// The engines that are ready to work: the CPU's, and a device's once it is open.
pub struct Ready {
    /// The kernels of the CPU.
    pub levels: Levels,
    /// The threads of the CPU.
    pub threads: usize,
    serial: Arc<dyn Engine>,
    /// All threads of the CPU.
    pub cpu: Arc<dyn Engine>,
    /// The device, once it is open.
    pub gpu: Option<Arc<dyn Engine>>,
    device: Option<Device>,
    /// How long it took to open the device.
    pub opening: Duration,
    is_twice: bool,
}

impl Ready {
    /// The engines of the CPU.
    pub fn new(levels: Levels, threads: usize) -> Self {
        let serial = Arc::new(CpuEngine::serial(levels));
        let cpu = Arc::new(CpuEngine::parallel(threads, levels));
        Self { levels, threads, serial, cpu, gpu: None, device: None, opening: Duration::ZERO, is_twice: false }
    }

    /// Makes the engines do all work twice: see [`Twice`].
    pub fn twice(mut self) -> Self {
        self.is_twice = true;
        (self.serial, self.cpu) = (self.all_work(self.serial.clone()), self.all_work(self.cpu.clone()));
        self
    }

    /// The engine, or one that does all its work twice.
    fn all_work(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        if self.is_twice { Arc::new(Twice::new(engine, self.levels.second())) } else { engine }
    }

    /// Adds the engine of a device.
    pub fn open(&mut self, device: Device, opening: Duration) {
        self.opening = opening;
        self.gpu = Some(self.all_work(Arc::new(GpuEngine::new(device.clone(), self.levels.keccak))));
        self.device = Some(device);
    }

    /// How long it takes to open the device when its driver has compiled the kernels, which it does once on each
    /// machine.
    pub fn opening_again(&self) -> Duration {
        let Some(device) = &self.device else { return self.opening };
        let first = device.prepared_in();
        let again = Device::open(device.info()).map_or(first, |again| again.prepared_in());
        self.opening.saturating_sub(first.saturating_sub(again))
    }

    /// The engines that work together under this name. `None` if one of them is not ready.
    pub fn members(&self, kind: Kind) -> Option<Vec<Arc<dyn Engine>>> {
        let (serial, cpu) = (self.serial.clone(), self.cpu.clone());
        Some(match kind {
            Kind::Serial => vec![serial],
            Kind::Cpu => vec![cpu],
            Kind::Gpu => vec![self.gpu.clone()?],
            Kind::Hybrid => {
                let gpu = self.gpu.clone()?;
                let threads = beside(self.threads, gpu.info().workers);
                vec![self.all_work(Arc::new(CpuEngine::parallel(threads, self.levels))), gpu]
            }
        })
    }

    /// The engines that work together under this name, as a crew. `None` if one of them is not ready.
    pub fn crew(&self, kind: Kind) -> Option<Crew> {
        Some(Crew::new(kind, &self.members(kind)?))
    }

    /// A [`Ready::crew`] with the CPU as its fallback: if it fails, the CPU takes over and `broken` is set. The first
    /// time, a warning says so.
    pub fn crew_with_fallback(&self, kind: Kind, broken: Arc<AtomicBool>) -> Option<Crew> {
        let Crew { roster, is_cpu, description } = self.crew(kind)?;
        let roster = roster.with_fallback(self.cpu.clone()).on_fault(move |fault| {
            if !broken.swap(true, Ordering::Relaxed) {
                warn(fault);
            }
        });
        Some(Crew { roster, is_cpu, description })
    }
}

/// The CPU's threads that work beside a device with this many lanes. The lanes copy and tag on the other cores, at most half
/// of all: an H100 and 16 threads on 16 cores were slower than the H100 alone, and with 8 threads faster.
fn beside(threads: usize, lanes: usize) -> usize {
    (threads - lanes.min(threads / 2)).max(1)
}

#[cfg(test)]
mod tests {
    use super::beside;

    #[test]
    fn the_lanes_of_a_device_have_cores_of_their_own() {
        for (threads, lanes, rest) in [(1, 8, 1), (2, 8, 1), (3, 8, 2), (16, 8, 8), (64, 8, 56), (16, 2, 14)] {
            assert_eq!(beside(threads, lanes), rest, "{threads} threads, {lanes} lanes");
        }
    }
}
