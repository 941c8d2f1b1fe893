//! Tests of the model with made-up curves, and of [`measure`] with made-up engines.

use super::*;
use crate::engines::measure::{SIZES, measure};
use phalanx_core::Roster;
use phalanx_core::engine::{Buffer, CpuEngine, Engine, EngineInfo, Fault, Job, Levels, Verdicts};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The sizes of P1, in bytes.
const P1: [u64; 14] = [
    5_610,
    20_400,
    255_000,
    2_210_000,
    12_500_000,
    34_800_000,
    52_900_000,
    103_000_000,
    191_000_000,
    278_000_000,
    352_000_000,
    470_000_000,
    500_000_000,
    598_000_000,
];
const OPS: [Op; 2] = [Op::Seal, Op::Open];
const GB: f64 = 1e9;

/// A curve of `latency` seconds and then `speed` bytes a second, measured at the usual sizes.
fn curve(start: f64, latency: f64, speed: f64) -> Curve {
    let point = |bytes: u64| (bytes, latency + bytes as f64 / speed);
    let points: Vec<_> = [4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20].map(point).into();
    Curve::new(start, points.clone(), points)
}

/// A CPU of 2 GB/s and a GPU of 20 GB/s that opens in 0.3 s.
fn fast_gpu() -> Calibration {
    let mut calibration = Calibration::default();
    calibration.set(Kind::Serial, curve(0.0, 1e-5, GB));
    calibration.set(Kind::Cpu, curve(0.0, 1e-5, 2.0 * GB));
    calibration.set(Kind::Gpu, curve(0.3, 1e-4, 20.0 * GB));
    calibration.set(Kind::Hybrid, curve(0.3, 2e-4, 21.9 * GB));
    calibration
}

fn choose(calibration: &Calibration, bytes: u64, warm: bool) -> Kind {
    calibration.choose(Op::Seal, Some(bytes), warm)
}

#[test]
fn a_device_is_chosen_where_it_pays() {
    let gpu = fast_gpu();
    assert_eq!(choose(&gpu, 4_000, false), Kind::Serial);
    assert_eq!(choose(&gpu, 100_000_000, false), Kind::Cpu, "opening the device takes longer than the work");
    assert_eq!(choose(&gpu, 1_000_000_000, false), Kind::Gpu);
    assert_eq!(choose(&gpu, 100_000_000_000, false), Kind::Hybrid);
    assert_eq!(choose(&gpu, 4_000, true), Kind::Serial);
    assert_eq!(choose(&gpu, 1_000_000, true), Kind::Gpu, "it is open already");
    assert_eq!(choose(&gpu, 100_000_000, true), Kind::Hybrid);
    // In 0.3 s the CPU does 600 MB, and in the GPU's latency of 0.1 ms it does 200 KB. The rest is the GPU's own time
    // and the margin.
    let passes = |warm| gpu.passes(Kind::Gpu, Kind::Cpu, Op::Seal, warm).unwrap();
    assert!((700_000_000..710_000_000).contains(&passes(false)), "{}", passes(false));
    assert!((210_000..220_000).contains(&passes(true)), "{}", passes(true));
    assert_eq!(gpu.passes(Kind::Serial, Kind::Cpu, Op::Seal, true), None);
}

#[test]
fn no_device_is_opened_for_a_pipe() {
    let choose = |warm| fast_gpu().choose(Op::Open, None, warm);
    assert_eq!([choose(false), choose(true)], [Kind::Cpu, Kind::Hybrid]);
}

#[test]
fn the_cpu_is_chosen_without_measurements() {
    let mut nothing = Calibration::default();
    let want = [(0, Kind::Serial), (1 << 20, Kind::Serial), ((1 << 20) + 1, Kind::Cpu), (1 << 45, Kind::Cpu)];
    for (bytes, kind) in want {
        assert_eq!([choose(&nothing, bytes, false), choose(&nothing, bytes, true)], [kind; 2]);
    }
    nothing.set(Kind::Gpu, curve(0.0, 1e-6, 20.0 * GB));
    assert_eq!(choose(&nothing, 1 << 30, true), Kind::Cpu, "there is nothing to compare the GPU with");
    let crossings = nothing.crossings(Op::Seal, false);
    assert_eq!(crossings, [(0, Kind::Serial), ((1 << 20) + 1, Kind::Cpu)]);
}

/// Many machines: CPUs from 0.15 to 100 GB/s, and slow and fast devices that open in 30 ms or longer.
fn machines() -> impl Iterator<Item = Calibration> {
    let mut state = 1u64;
    let mut random = move |from: f64, to: f64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        from * (to / from).powf((state >> 11) as f64 / (1u64 << 53) as f64)
    };
    std::iter::repeat_with(move || {
        let serial = random(0.15, 6.0) * GB;
        let (cpu, gpu, both) = (serial * random(1.0, 16.0), random(0.05, 100.0) * GB, random(0.5, 1.0));
        let start = random(0.03, 2.0);
        // Up to a chunk one thread of the CPU does all of it.
        let workers = |points: &[Point]| {
            let cpu = |&(bytes, seconds): &Point| (bytes, if bytes <= 1 << 20 { seconds } else { bytes as f64 / cpu });
            points.iter().map(cpu).collect::<Vec<_>>()
        };
        let one = curve(0.0, 1e-6, serial);
        let all = Curve::new(0.0, workers(one.points(Op::Seal)), workers(one.points(Op::Open)));
        let mut machine = Calibration::default();
        machine.set(Kind::Gpu, curve(start, random(1e-5, 1e-2), gpu));
        machine.set(Kind::Hybrid, curve(start, random(1e-5, 1e-2), (cpu + gpu) * both));
        machine.set(Kind::Serial, one);
        machine.set(Kind::Cpu, all);
        machine
    })
    .take(2000)
}

#[test]
fn no_chosen_engine_is_slower_by_a_tenth() {
    for machine in machines() {
        for (op, bytes, warm) in P1.iter().flat_map(|n| OPS.map(|op| [(op, *n, false), (op, *n, true)])).flatten() {
            let seconds = |kind| machine.curve(kind).unwrap().seconds(op, bytes, warm);
            let best = Kind::ALL.map(seconds).into_iter().fold(f64::INFINITY, f64::min);
            let chosen = machine.choose(op, Some(bytes), warm);
            assert!(seconds(chosen) <= 1.1 * best, "{chosen} for {bytes} bytes, warm {warm}: {machine:?}");
        }
    }
}

#[test]
fn crossings_are_where_the_choice_changes() {
    for machine in machines().take(200) {
        for (op, warm) in OPS.into_iter().flat_map(|op| [(op, false), (op, true)]) {
            let at = |bytes| machine.choose(op, Some(bytes), warm);
            let crossings = machine.crossings(op, warm);
            assert!(crossings.is_sorted_by(|a, b| a.0 < b.0));
            assert_eq!(crossings[0], (0, at(0)));
            for &(from, kind) in &crossings[1..] {
                assert_eq!(at(from), kind);
                assert_ne!(at(from - 1), kind);
            }
            assert_eq!(crossings[crossings.len() - 1].1, at(1 << 40));
        }
    }
}

#[test]
fn times_between_points_lie_on_a_line() {
    let curve = |points: &[Point]| Curve::new(0.5, points.to_vec(), points.to_vec());
    let seconds = |curve: &Curve, bytes| curve.seconds(Op::Open, bytes, true);
    let two = curve(&[(100, 1.0), (200, 3.0)]);
    let want = [(0, 1.0), (100, 1.0), (150, 2.0), (200, 3.0), (300, 5.0)];
    assert_eq!(want.map(|(bytes, _)| seconds(&two, bytes)), want.map(|(_, seconds)| seconds));
    assert_eq!(two.seconds(Op::Seal, 150, false), 2.5, "with the start");
    assert_eq!(two.speed(Op::Seal), 200.0 / 3.0);
    let one = curve(&[(100, 1.0)]);
    assert_eq!([seconds(&one, 50), seconds(&one, 400)], [1.0, 4.0]);
    let noisy = curve(&[(100, 4.0), (200, 2.0)]);
    assert_eq!(seconds(&noisy, 200), 4.0, "more never takes less");
    assert_eq!(seconds(&noisy, 300), 5.0, "at most twice the average speed");
}

#[test]
fn invalid_numbers_are_refused() {
    let good = || vec![(1, 1.0), (2, 2.0)];
    assert!(Curve::new(0.0, good(), good()).is_valid());
    for start in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
        assert!(!Curve::new(start, good(), good()).is_valid(), "{start}");
    }
    let bad = [
        vec![],
        vec![(0, 1.0)],
        vec![(1, 0.0)],
        vec![(1, -1.0)],
        vec![(1, f64::NAN)],
        vec![(1, f64::INFINITY)],
        vec![(1, 1e300)],
        vec![(u64::MAX, 1.0)],
        vec![(2, 1.0), (1, 2.0)],
        vec![(1, 1.0), (1, 1.0)],
        vec![(1, 2.0), (2, 1.0)],
        (1..=33).map(|i| (i, 1.0)).collect(),
    ];
    for points in bad {
        for (seal, open) in [(points.clone(), good()), (good(), points)] {
            let curve = Curve { start_seconds: 0.0, seal, open };
            assert!(!curve.is_valid(), "{curve:?}");
        }
    }
    assert!(Curve::new(86400.0, vec![(1 << 50, 86400.0)], good()).is_valid());
}

/// An engine with one worker that is slow, and may give wrong bytes or fail.
struct MadeUp {
    info: EngineInfo,
    wait: Duration,
    /// Before the first job.
    wait_once: Duration,
    /// Which call fails, counted from 0.
    faulty: Option<usize>,
    wrong: bool,
    calls: AtomicUsize,
}

impl MadeUp {
    fn new(wait: Duration) -> Self {
        let info = EngineInfo { name: "made up".into(), ..CpuEngine::serial(Levels::detect()).info().clone() };
        Self { info, wait, wait_once: Duration::ZERO, faulty: None, wrong: false, calls: AtomicUsize::new(0) }
    }

    fn measure(self, budget: Duration) -> phalanx_core::Result<Curve> {
        measure(&Roster::new(&[Arc::new(self)]), Levels::detect(), &SIZES, budget)
    }
}

impl Engine for MadeUp {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
        Ok(Buffer::paged(len))
    }

    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if call == 0 {
            std::thread::sleep(self.wait_once);
        }
        if self.faulty == Some(call) {
            return Err(Fault { engine: self.info.name.clone(), reason: "made to fail".into() });
        }
        std::thread::sleep(self.wait);
        let verdicts = CpuEngine::serial(Levels::detect()).run(job)?;
        if self.wrong {
            job.units[0].tag[31] ^= 1;
        }
        Ok(verdicts)
    }
}

#[test]
fn a_slow_engine_is_measured_as_such() {
    let wait = Duration::from_millis(20);
    let slow = MadeUp::new(wait).measure(Duration::from_millis(200)).unwrap();
    for op in OPS {
        assert_eq!(slow.points(op)[0].0, 4 << 10);
        assert!(slow.points(op).iter().all(|(_, seconds)| *seconds >= wait.as_secs_f64()));
    }
    let mut calibration = Calibration::default();
    let fast = curve(0.0, 0.01, 100.0 * GB);
    for (cpu, gpu, best) in [(&slow, &fast, Kind::Gpu), (&fast, &slow, Kind::Serial)] {
        for (kind, curve) in [(Kind::Serial, cpu), (Kind::Cpu, cpu), (Kind::Gpu, gpu)] {
            calibration.set(kind, curve.clone());
        }
        assert_eq!(choose(&calibration, 4096, true), best);
    }
}

#[test]
fn the_cpu_is_measured() {
    for engine in [CpuEngine::serial(Levels::detect()), CpuEngine::parallel(3, Levels::detect())] {
        // A slow machine has the time too.
        let (roster, long) = (Roster::new(&[Arc::new(engine)]), Duration::from_secs(600));
        let curve = measure(&roster, Levels::detect(), &SIZES[..4], long).unwrap();
        for op in OPS {
            assert_eq!(curve.points(op).len(), 4);
            assert!(curve.speed(op) > 0.0);
        }
    }
}

#[test]
fn one_time_costs_count_as_the_start() {
    let once = Duration::from_millis(300);
    let engine = MadeUp { wait_once: once, ..MadeUp::new(Duration::ZERO) };
    let curve = engine.measure(Duration::from_secs(60)).unwrap();
    // In four rounds the smallest size takes less than a wait of 300 ms once.
    assert!(curve.start_seconds > 0.0 && curve.start_seconds + curve.points(Op::Seal)[0].1 >= once.as_secs_f64());
}

/// If an engine is slow, only its smallest size is measured beyond the time limit.
#[test]
fn measuring_ends_in_time() {
    let wait = Duration::from_millis(100);
    let started = Instant::now();
    let curve = MadeUp::new(wait).measure(Duration::from_millis(50)).unwrap();
    // The smallest size is run twice; a second size would be two more waits at least.
    assert_eq!(curve.points(Op::Seal).len(), 1);
    assert_eq!(curve.points(Op::Open).len(), 1);
    assert!(started.elapsed() >= 4 * wait);
}

#[test]
fn a_faulty_engine_has_no_curve() {
    for call in 0..4 {
        let engine = MadeUp { faulty: Some(call), ..MadeUp::new(Duration::ZERO) };
        let error = engine.measure(Duration::from_millis(100)).unwrap_err().to_string();
        assert_eq!(error, "engine made up failed: made to fail");
    }
    let engine = MadeUp { wrong: true, ..MadeUp::new(Duration::ZERO) };
    let error = engine.measure(Duration::from_millis(100)).unwrap_err().to_string();
    assert!(error.contains("not those of the CPU"), "{error}");
}
