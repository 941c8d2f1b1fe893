//! `--engine auto`: the engine is chosen by the size of the work, the direction and what was measured.
//!
//! Small work must not pay for the choice. Below [`Calibration::WORTH_A_START`] nothing is looked up. For more, the
//! kept file is read. A device is looked for and measured only if that takes little time compared with the work.

use super::cache::{self, CalibrationFile, Circumstances, DeviceName, Kept};
use super::calibration::{Calibration, Kind};
use super::measure;
use super::ready::{Crew, Ready, survey};
use crate::lines::complain;
use crate::verbosity::Verbosity;
use phalanx_core::Suite;
use phalanx_core::engine::Op;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Engines are measured before the first work of at least this many bytes. Such work takes the CPU a good part of the
/// second that measuring takes, and the result serves all later work.
const WORTH_MEASURING: u64 = 256 << 20;

/// Chooses among the engines of this process.
pub struct Auto {
    serial: Crew,
    cpu: Crew,
    /// The bytes of all files together, as far as they are known.
    expected: AtomicU64,
    knowledge: Mutex<Knowledge>,
    /// Set after the attempt to open a device: `None` if none works.
    device: OnceLock<Option<WithDevice>>,
}

/// What an open device adds.
struct WithDevice {
    calibration: Calibration,
    gpu: Crew,
    hybrid: Crew,
    /// Whether it has failed since.
    broken: Arc<AtomicBool>,
}

impl WithDevice {
    fn new(ready: &Ready, calibration: Calibration) -> Option<Self> {
        let broken = Arc::new(AtomicBool::new(false));
        let crew = |kind| ready.crew_with_fallback(kind, broken.clone());
        Some(Self { calibration, gpu: crew(Kind::Gpu)?, hybrid: crew(Kind::Hybrid)?, broken })
    }
}

impl Auto {
    /// Makes the choice. No device is looked for yet.
    pub fn new(ready: Ready, verbosity: Verbosity) -> Self {
        Self {
            serial: ready.crew(Kind::Serial).expect("the CPU is ready"),
            cpu: ready.crew(Kind::Cpu).expect("the CPU is ready"),
            expected: AtomicU64::new(0),
            knowledge: Mutex::new(Knowledge { ready, verbosity, kept: None }),
            device: OnceLock::new(),
        }
    }

    /// Announces the bytes of all files together.
    pub fn expect(&self, bytes: u64) {
        self.expected.store(bytes, Ordering::Relaxed);
    }

    /// The engines for a file of this size, if its size is known.
    pub fn crew(&self, op: Op, suite: Suite, bytes: Option<u64>) -> &Crew {
        // Only the CPU has AES-GCM.
        let device = if suite == Suite::Aes256Gcm { None } else { self.device(op, bytes) };
        let device = device.filter(|device| !device.broken.load(Ordering::Relaxed));
        let nothing = Calibration::default();
        let calibration = device.map_or(&nothing, |device| &device.calibration);
        match (calibration.choose(op, bytes, device.is_some()), device) {
            (Kind::Gpu, Some(device)) => &device.gpu,
            (Kind::Hybrid, Some(device)) => &device.hybrid,
            (Kind::Serial, _) => &self.serial,
            _ => &self.cpu,
        }
    }

    /// The device, if it is open already or is worth opening now.
    fn device(&self, op: Op, bytes: Option<u64>) -> Option<&WithDevice> {
        if let Some(device) = self.device.get() {
            return device.as_ref();
        }
        // Opening it may pay for all files together. Whether it gets this one is decided later.
        let all = bytes?.max(self.expected.load(Ordering::Relaxed));
        if all < Calibration::WORTH_A_START {
            return None;
        }
        let mut knowledge = self.knowledge.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Another thread may have opened it meanwhile.
        if self.device.get().is_none() && knowledge.is_worth_opening(op, all) {
            let _ = self.device.set(knowledge.open());
        }
        self.device.get()?.as_ref()
    }
}

/// What is known before a device is open.
struct Knowledge {
    ready: Ready,
    verbosity: Verbosity,
    /// The present circumstances and what was kept for them, after they were looked up.
    kept: Option<(Circumstances, Option<Kept>)>,
}

impl Knowledge {
    /// Whether to open a device for this many bytes: because what was kept says so, or to measure it if nothing was
    /// kept.
    fn is_worth_opening(&mut self, op: Op, bytes: u64) -> bool {
        let (now, kept) = self.kept.get_or_insert_with(|| {
            let now = Circumstances::new(self.ready.levels, self.ready.threads);
            let kept = cache::read(&now);
            (now, kept)
        });
        match kept {
            Some(kept) => kept.calibration.choose(op, Some(bytes), false).needs_device(),
            None => bytes >= WORTH_MEASURING && now.has_drivers(),
        }
    }

    /// Opens the device, and measures it unless it is the one that was measured before. If that fails, the CPU does the
    /// work, with a warning. If there is no device, the CPU does the work without a warning.
    fn open(&mut self) -> Option<WithDevice> {
        let (now, known) = self.kept.take()?;
        // If nothing can be kept, nothing is measured: the next run would have to do it again.
        let file = if known.is_none() { Some(CalibrationFile::prepare(&now).ok()?) } else { None };
        let survey = survey(false, self.verbosity);
        let Some((device, opening)) = survey.found else {
            let failed = survey.devices.iter().find_map(|(info, state)| Some((&info.name, state.failure()?)));
            match (failed, file) {
                (Some((name, why)), _) => complain(format!("warning: {name}: {why}: the CPU does the work")),
                // If there is no device, that is kept too, so that later runs do not look for one.
                (None, Some(file)) => {
                    drop(file.keep(&Kept { circumstances: now, device: None, calibration: Calibration::default() }));
                }
                (None, None) => complain("warning: the GPU is no longer there: the CPU does the work"),
            }
            return None;
        };
        let name = DeviceName::of(device.info());
        self.ready.open(device, opening);
        let calibration = match known.filter(|known| known.device.as_ref() == Some(&name)) {
            Some(known) => known.calibration,
            None => self.measure(name, file, now)?,
        };
        WithDevice::new(&self.ready, calibration)
    }

    fn measure(&self, device: DeviceName, file: Option<CalibrationFile>, now: Circumstances) -> Option<Calibration> {
        if self.verbosity.verbose {
            complain(format!("measuring the CPU and {}, once: up to a second", device.name));
        }
        let measured = measure::all(&self.ready);
        let calibration = measured.inspect_err(|e| complain(format!("warning: {e}: the CPU does the work"))).ok()?;
        if let Some(file) = file.or_else(|| CalibrationFile::prepare(&now).ok()) {
            let kept = Kept { circumstances: now, device: Some(device), calibration: calibration.clone() };
            let _ = file.keep(&kept);
        }
        Some(calibration)
    }
}

#[cfg(test)]
mod tests {
    use super::super::calibration::Curve;
    use super::*;
    use phalanx_core::engine::{Buffer, CpuEngine, Engine, EngineInfo, Fault, Job, Levels, Verdicts};
    use phalanx_core::{KdfLimit, NewFile, Opener, ProtectedFile, Recipient, SecretKey, Sink, Source};
    use std::io::{self, Write};
    use std::sync::atomic::AtomicUsize;

    /// A device that succeeds in its first `good` calls and then always fails.
    struct Failing {
        info: EngineInfo,
        good: usize,
        calls: AtomicUsize,
    }

    impl Failing {
        fn call(&self) -> Result<(), Fault> {
            let fault = || Fault { engine: "gpu".into(), reason: "made to fail".into() };
            if self.calls.fetch_add(1, Ordering::Relaxed) < self.good { Ok(()) } else { Err(fault()) }
        }
    }

    impl Engine for Failing {
        fn info(&self) -> &EngineInfo {
            &self.info
        }

        fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
            self.call().map(|()| Buffer::paged(len))
        }

        fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
            self.call().and_then(|()| CpuEngine::serial(Levels::detect()).run(job))
        }
    }

    /// `auto` with an open device that seems a thousand times faster than the CPU.
    fn auto(good: usize, kind: Kind) -> Auto {
        let mut ready = Ready::new(Levels::detect(), 2);
        let info = EngineInfo { name: "gpu".into(), detail: "made up".into(), ..ready.cpu.info().clone() };
        ready.gpu = Some(Arc::new(Failing { info, good, calls: AtomicUsize::new(0) }));
        let mut calibration = Calibration::default();
        for each in Kind::ALL {
            let points = vec![(1 << 20, if each == kind { 1e-6 } else { 1e-3 })];
            calibration.set(each, Curve::new(0.0, points.clone(), points));
        }
        let device = WithDevice::new(&ready, calibration);
        let auto = Auto::new(ready, Verbosity { quiet: false, verbose: false });
        assert!(auto.device.set(device).is_ok());
        auto
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_device_that_fails_is_left_alone() {
        let plain: Vec<u8> = (0..=250).cycle().take((9 << 20) + 5).collect();
        let key = SecretKey::random().unwrap();
        let opener = Opener::new(key.clone(), KdfLimit::default());
        for (good, kind) in (0..5).flat_map(|good| [(good, Kind::Gpu), (good, Kind::Hybrid)]) {
            let auto = auto(good, kind);
            let crew = |op| auto.crew(op, Suite::default(), Some(plain.len() as u64));
            assert!(crew(Op::Seal).description.starts_with(&format!("engine {kind} (")));
            let new = NewFile::new(Suite::default(), &[Recipient::key(&key)]).unwrap();
            let sealed = Shared::default();
            let sink = Sink::Stream(Box::new(sealed.clone()));
            new.protect(&crew(Op::Seal).roster, Source::stream(&plain[..]), sink, &()).unwrap();
            if kind == Kind::Gpu {
                assert!(crew(Op::Open).description.starts_with("engine cpu ("), "after {good} calls");
            }
            let (sealed, opened) = (std::mem::take(&mut *sealed.0.lock().unwrap()), Shared::default());
            let protected = ProtectedFile::open(Source::stream(&sealed[..]), &opener).unwrap();
            let sink = Sink::Stream(Box::new(opened.clone()));
            protected.unprotect(&crew(Op::Open).roster, sink, &()).unwrap();
            assert!(*opened.0.lock().unwrap() == plain);
        }
    }

    #[test]
    fn a_device_that_works_is_used() {
        let auto = auto(usize::MAX, Kind::Gpu);
        let engine = |suite, bytes| auto.crew(Op::Seal, suite, bytes).description.split(' ').nth(1).unwrap().to_owned();
        assert_eq!(engine(Suite::default(), Some(1 << 30)), "gpu");
        assert_eq!(engine(Suite::default(), Some(1)), "gpu", "it is open");
        assert_eq!(engine(Suite::default(), None), "gpu");
        assert_eq!(engine(Suite::Aes256Gcm, Some(1 << 30)), "cpu");
        assert_eq!(engine(Suite::Aes256Gcm, None), "cpu");
        assert_eq!(engine(Suite::Aes256Gcm, Some(1)), "serial");
    }
}
