//! Whether time depends on secrets: a statistical test in the manner of dudect (Reparaz, Balasch and Verbauwhede, 2017), with
//! the fastest kernels of this machine.
//!
//! Each work is done with inputs of two classes, in random order: the same fixed keys and texts, or new random ones. If time
//! does not depend on them, the mean times of both classes are equal, but for chance. Welch's t says how far they differ:
//! beyond ±4.5 is suspicious, beyond ±10 a leak. A planted leak must be found. The slowest tenth of all samples is left out:
//! these are interrupts.
//!
//! `cargo bench -p phalanx-constant-time`, on an idle machine. `PHALANX_SAMPLES` sets the number of samples (100,000).

use phalanx_core::engine::{Bind, Buffer, CpuEngine, Engine, Job, Levels, Op, Unit};
use phalanx_core::format::Purpose;
use phalanx_core::{SecretKey, Suite};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use subtle::ConstantTimeEq;

/// Beyond this, time certainly depends on the class.
const LEAK: f64 = 10.0;
/// The length of the chunks.
const CHUNK: usize = 16 << 10;
/// How often a work of nanoseconds is repeated in one sample.
const REPEATED: usize = 100;

fn main() -> ExitCode {
    let samples = std::env::var("PHALANX_SAMPLES").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let levels = Levels::detect();
    println!("AES {}, SHA-3 {}; {samples} samples each", levels.aes, levels.keccak);
    let test = Test { samples };
    let mut leaks = false;
    for suite in Suite::ALL.iter().copied() {
        for op in [Op::Seal, Op::Open] {
            leaks |= test.leaks(&format!("{op:?} a chunk, {}", suite.name()), &mut Chunk::new(levels, suite, op));
        }
    }
    leaks |= test.leaks("derive a file's keys", &mut Derivation);
    leaks |= test.leaks("unwrap a key", &mut Unwrapping);
    leaks |= test.leaks("compare tags", &mut Comparison(|one, other| one.ct_eq(other).into()));
    let found = test.leaks("planted: compare tags until they differ", &mut Comparison(until_they_differ));
    match (leaks, found) {
        (false, true) => ExitCode::SUCCESS,
        (true, _) => {
            eprintln!("time depends on secrets");
            ExitCode::FAILURE
        }
        (false, false) => {
            eprintln!("the planted leak was not found: too few samples");
            ExitCode::FAILURE
        }
    }
}

/// Work whose time is measured.
trait Work {
    /// How many secret bytes it takes.
    const SECRETS: usize;
    type Input;
    /// Makes an input of secrets. Its time does not count.
    fn prepare(&mut self, secrets: &[u8]) -> Self::Input;
    fn run(&mut self, input: &mut Self::Input);
}

struct Test {
    samples: usize,
}

impl Test {
    /// Measures, prints t, and returns whether time depends on the class.
    fn leaks<W: Work>(&self, name: &str, work: &mut W) -> bool {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_nanos() as u64);
        let mut random = Random(seed);
        let fixed = random.bytes(W::SECRETS);
        let mut times: Vec<(bool, f64)> = Vec::with_capacity(self.samples);
        for i in 0..self.samples + 1000 {
            // Both classes cost the same before the work, and touch the same memory: caches are as full.
            let fresh = random.bytes(W::SECRETS);
            let is_fixed = random.next() & 1 == 1;
            let mask = black_box(0_u8.wrapping_sub(u8::from(is_fixed)));
            let chosen: Vec<u8> = fixed.iter().zip(&fresh).map(|(one, other)| one & mask | other & !mask).collect();
            let mut input = work.prepare(&chosen);
            let start = Instant::now();
            work.run(black_box(&mut input));
            let time = start.elapsed().as_nanos() as f64;
            // The first ones find cold caches.
            if i >= 1000 {
                times.push((is_fixed, time));
            }
        }
        let mut sorted: Vec<f64> = times.iter().map(|(_, time)| *time).collect();
        sorted.sort_by(f64::total_cmp);
        let most = sorted[sorted.len() * 9 / 10];
        let class = |wanted| Moments::of(times.iter().filter(|(is, time)| *is == wanted && *time <= most).map(|s| s.1));
        let (fixed, other) = (class(true), class(false));
        let t = fixed.welch(&other);
        let judged = if t.abs() > LEAK { "  LEAK" } else { "" };
        println!("{name}: t = {t:.2}, {} and {} samples, {:.0} ns{judged}", fixed.count, other.count, other.mean);
        t.abs() > LEAK
    }
}

/// Number, mean and variance.
struct Moments {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Moments {
    fn of(times: impl Iterator<Item = f64> + Clone) -> Self {
        let count = times.clone().count() as f64;
        let mean = times.clone().sum::<f64>() / count;
        let variance = times.map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Self { count, mean, variance }
    }

    /// Welch's t.
    fn welch(&self, other: &Self) -> f64 {
        (self.mean - other.mean) / (self.variance / self.count + other.variance / other.count).sqrt()
    }
}

/// Numbers that are random enough for this: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(len).collect()
    }
}

fn key(bytes: &[u8]) -> SecretKey {
    SecretKey::from_slice(&bytes[..32]).expect("32 bytes")
}

/// Sealing or opening one chunk, with its key and its text.
struct Chunk {
    engine: CpuEngine,
    suite: Suite,
    op: Op,
}

impl Chunk {
    fn new(levels: Levels, suite: Suite, op: Op) -> Self {
        Self { engine: CpuEngine::serial(levels), suite, op }
    }

    fn run_job(&self, job: &mut Job) {
        assert!(self.engine.run(job).expect("the CPU fails no job").all_passed());
    }
}

impl Work for Chunk {
    const SECRETS: usize = 32 + CHUNK;
    type Input = Job;

    fn prepare(&mut self, secrets: &[u8]) -> Job {
        let keys = key(secrets).file_keys(self.suite).of_jobs();
        let mut job = Job::of_chunks(Op::Seal, self.suite, 14, keys, Buffer::paged(CHUNK));
        job.buf.copy_from_slice(&secrets[32..]);
        let bind = Bind::Chunk { index: 0, last: true };
        job.units.push(Unit { key: 0, nonce: [9; 16], bind, data: 0..CHUNK, tag: [0; 32] });
        if self.op == Op::Open {
            self.run_job(&mut job);
            job.op = Op::Open;
        }
        job
    }

    fn run(&mut self, job: &mut Job) {
        self.run_job(job);
    }
}

/// Deriving the keys of a file, with their schedules.
struct Derivation;

impl Work for Derivation {
    const SECRETS: usize = 32;
    type Input = SecretKey;

    fn prepare(&mut self, secrets: &[u8]) -> SecretKey {
        key(secrets)
    }

    fn run(&mut self, key: &mut SecretKey) {
        black_box(key.file_keys(Suite::default()));
    }
}

/// Unwrapping a file key.
struct Unwrapping;

impl Work for Unwrapping {
    const SECRETS: usize = 64;
    type Input = (SecretKey, [u8; 40]);

    fn prepare(&mut self, secrets: &[u8]) -> Self::Input {
        let (kek, file_key) = (key(secrets), key(&secrets[32..]));
        let wrapped = kek.wrapping_key().wrap(Purpose::File, &file_key);
        (kek, wrapped)
    }

    fn run(&mut self, (kek, wrapped): &mut Self::Input) {
        assert!(kek.wrapping_key().unwrap(Purpose::File, wrapped).is_some());
    }
}

/// As a tag must not be compared.
#[inline(never)]
fn until_they_differ(one: &[u8], other: &[u8]) -> bool {
    one.iter().zip(other).all(|(a, b)| a == b)
}

/// Comparing a tag with another one, which differs in the first byte or in the last. In one class it is always the same place.
struct Comparison(fn(&[u8], &[u8]) -> bool);

impl Work for Comparison {
    const SECRETS: usize = 33;
    type Input = ([u8; 32], [u8; 32]);

    fn prepare(&mut self, secrets: &[u8]) -> Self::Input {
        let tag: [u8; 32] = *secrets.first_chunk().expect("32 bytes");
        let mut other = tag;
        other[usize::from(secrets[32] >> 7) * 31] ^= 1;
        (tag, other)
    }

    fn run(&mut self, (tag, other): &mut Self::Input) {
        for _ in 0..REPEATED {
            black_box((self.0)(black_box(&tag[..]), black_box(&other[..])));
        }
    }
}
