//! The device that the papers' GPU parts are measured on.

use crate::measure::machine::cpu_mhz;
use crate::measure::{Error, Result, Setup};
use crate::paper::equations;
use phalanx_core::Roster;
use phalanx_core::engine::{Engine, Fault, Nonce};
use phalanx_gpu::{AesLaunch, Buffer, Device, DeviceInfo, Direction, GpuEngine, Kind, RoundKeys, Stream};
use phalanx_kernels::aes::{BLOCK, counter_after};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// P1's Eq. 1: the computing power of the device, divided by that of the CPU cores that do not serve it. The error
/// explains why there is no such figure.
pub fn eq_1(setup: &Setup) -> Result<f64> {
    let (info, cores) = (any(setup)?.info(), setup.threads);
    let none = |why: &str| Error::NotRun(why.into());
    if info.warp == 0 || info.clock_mhz == 0 {
        return Err(none("the driver tells neither warp nor clock of the device, which Eq. 1 needs"));
    }
    let cpu_clock =
        cpu_mhz().ok_or_else(|| none("the system does not tell the processor's clock, which Eq. 1 needs"))?;
    if cores < 2 {
        return Err(none("Eq. 1 needs a core beside the one that serves the device"));
    }
    let [multiprocessors, warp, clock] = [info.compute_units, info.warp, info.clock_mhz].map(f64::from);
    Ok(equations::ratio(multiprocessors, warp, clock, cores as f64, cpu_clock))
}

/// The part of the work that Eq. 1 gives to the device.
pub fn fixed_part(setup: &Setup) -> Result<f64> {
    eq_1(setup).map(|ratio| ratio / (ratio + 1.0))
}

/// The most bytes on the device at a time. Larger data pass through it in windows.
const WINDOW: u64 = 1 << 30;

/// The length of a window of the data, a multiple of 4 KiB.
pub fn window(info: &DeviceInfo) -> usize {
    let most = WINDOW.min(info.largest_buffer).min(info.memory / 4);
    (most as usize / 4096 * 4096).max(4096)
}

/// The most bytes for a device that is the CPU, in a full run and in a short one. Its speed says nothing about GPUs,
/// and a gigabyte would take minutes.
const ON_A_CPU: [u64; 2] = [16 << 20, 1 << 20];

fn any(setup: &Setup) -> Result<&Device> {
    setup.device.as_ref().map_err(|why| Error::NotRun(format!("no device ({why})")))
}

/// The device for data of this length. The error explains why it is not used.
pub fn for_bytes(setup: &Setup, bytes: u64) -> Result<&Device> {
    let device = any(setup)?;
    let most = ON_A_CPU[usize::from(setup.quick)];
    if device.info().kind != Kind::Gpu && bytes > most {
        return Err(Error::NotRun(format!("the device is not a GPU: it gets at most {} MiB", most >> 20)));
    }
    Ok(device)
}

/// The device as the program's engine, for data of this length. The error explains why it is not used. In `hybrid` the
/// CPU's engine comes first, as in the program, so the CPU does small work.
pub fn engine(setup: &Setup, bytes: u64) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(GpuEngine::new(for_bytes(setup, bytes)?.clone(), setup.levels.keccak)))
}

pub struct Crew {
    pub roster: Roster,
    fault: Arc<OnceLock<Fault>>,
}

impl Crew {
    /// These engines, in the order in which work is offered to them.
    pub fn new(engines: &[Arc<dyn Engine>]) -> Self {
        let fault = Arc::new(OnceLock::<Fault>::new());
        let seen = fault.clone();
        let roster = Roster::new(engines).on_fault(move |fault| drop(seen.set(fault.clone())));
        Self { roster, fault }
    }

    /// Fails if one engine took over from another, because the times are then not those of all engines.
    pub fn check(&self) -> Result<()> {
        self.fault.get().map_or(Ok(()), |fault| Err(Error::Core(fault.clone().into())))
    }
}

/// Fails unless the device has produced the bytes of the CPU.
pub fn require_right(device: &Device, is_right: bool) -> Result<()> {
    match is_right {
        true => Ok(()),
        false => Err(Error::Program(format!("{}: other bytes than the CPU's", device.info().name))),
    }
}

/// AES on a stream of the device, through which data pass in windows.
pub struct Aes {
    pub stream: Stream,
    /// How kernels are launched.
    pub launch: AesLaunch,
    /// The first counter block in CTR mode. Without one, the mode is ECB.
    counter: Option<Nonce>,
    key: Vec<u8>,
    keys: Option<RoundKeys>,
    window: Buffer,
    room: usize,
}

impl Aes {
    /// A stream with the key for encryption, and with windows of `room` bytes.
    pub fn new(
        device: &Device,
        launch: AesLaunch,
        key: &[u8],
        counter: Option<Nonce>,
        room: usize,
    ) -> phalanx_gpu::Result<Self> {
        let mut stream = device.stream()?;
        let keys = Some(stream.round_keys(&[key], Direction::Encrypt)?);
        let window = stream.buffer(room)?;
        Ok(Self { stream, launch, counter, key: key.to_vec(), keys, window, room })
    }

    /// Sends the key to the device again, into the memory that it already has, because allocating takes long.
    pub fn bring_key(&mut self, direction: Direction) -> phalanx_gpu::Result<()> {
        self.keys = Some(self.stream.round_keys_again(&[&self.key], direction, self.keys.take())?);
        Ok(())
    }

    /// Encrypts or decrypts data in the host's memory.
    pub fn run(&mut self, host: &mut [u8]) -> phalanx_gpu::Result<()> {
        for (i, part) in host.chunks_mut(self.room).enumerate() {
            self.stream.upload(&mut self.window, 0, part)?;
            self.launch((i * self.room / BLOCK) as u64, part.len(), false)?;
            self.stream.download(&self.window, 0, part)?;
        }
        Ok(())
    }

    /// How long the kernels take for `len` bytes, by the device's clock.
    pub fn kernels(&mut self, len: usize) -> phalanx_gpu::Result<Duration> {
        let mut windows = (0..len).step_by(self.room);
        windows.try_fold(Duration::ZERO, |sum, at| Ok(sum + self.launch(0, self.room.min(len - at), true)?))
    }

    /// Launches the kernel for the beginning of the window. With `is_timed`, waits for its time.
    fn launch(&mut self, first_block: u64, len: usize, is_timed: bool) -> phalanx_gpu::Result<Duration> {
        let Self { stream, launch, counter, keys, window, .. } = self;
        let keys = keys.as_ref().expect("it was brought");
        let counter = counter.map(|counter| counter_after(&counter, first_block));
        let mut work = |stream: &mut Stream| match &counter {
            Some(counter) => stream.aes_ctr(launch, keys, 0, counter, window, 0..len),
            None => stream.aes_ecb(launch, keys, 0, window, 0..len),
        };
        match is_timed {
            true => stream.timed(work).map(|((), time)| time),
            false => work(stream).map(|()| Duration::ZERO),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use phalanx_gpu::Api;
    use std::sync::OnceLock;

    /// The first OpenCL device. If there is none, prints a line, or fails if PHALANX_REQUIRE names it.
    pub(crate) fn device() -> Option<Device> {
        static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
        let open = || {
            let (devices, reasons) = phalanx_gpu::devices();
            let Some(info) = devices.iter().find(|info| info.api == Api::OpenCl) else {
                println!("skipped: no OpenCL device ({reasons:?})");
                let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
                assert!(!required.split(',').any(|r| r == "opencl"), "PHALANX_REQUIRE names opencl: {reasons:?}");
                return None;
            };
            Some(Device::open(info).unwrap())
        };
        DEVICE.get_or_init(open).clone()
    }
}
