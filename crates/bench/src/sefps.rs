//! P1: files protected and unprotected in SEFPS's layout, by the paper's own means and by Phalanx's kernels, and in
//! Phalanx's format.

pub mod averages;
pub mod equations;
pub mod layout;

use crate::measure::{self, time};
use crate::paper::{Printed, p1};
use crate::row::{Over, Row};
use crate::run::{Rows, Setup, Step};
use crate::scratch::{self, Random, Scratch};
use crate::ttable::TTable;
use crate::{Error, Result};
use layout::{BlockCipher, Kernels};
use phalanx_core::access::{Recipient, new_header};
use phalanx_core::cpu::CpuEngine;
use phalanx_core::dispatcher::Dispatcher;
use phalanx_core::engine::{Engine, SLICE};
use phalanx_core::file::{self, Sink, Source};
use phalanx_core::header::FILE_CHUNK_LOG2;
use phalanx_core::key::SecretKey;
use phalanx_core::{Suite, chunk::Levels};
use phalanx_kernels::{aes, keccak};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};

const EXPERIMENT: &str = "sefps";
/// Where AES runs.
const SERIAL: &str = "serial";
const CPU: &str = "cpu";
/// What there is no engine for yet.
const DEVICE_ENGINES: [&str; 2] = ["gpu", "hybrid"];
const OPERATIONS: [&str; 2] = ["protect", "unprotect"];
/// The paper's own program: AES-128 by tables.
pub const BASELINE: &str = "SEFPS as printed (T-tables), AES-128";

/// The steps: one a file, since all programs are measured in turn on the same file, and one for the averages.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let mut sizes = p1().sweep("protect", "bytes");
    if setup.quick {
        sizes.truncate(5);
    }
    let largest = sizes.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    scratch::require_disk(&setup.out, 4 * largest)?;
    // The layout takes the whole file; files in the page cache take as much three times over.
    scratch::require_memory(5 * largest)?;
    let mut steps = Vec::new();
    for (size, bytes) in &sizes {
        let (case, bytes, rounds) = (size.to_string(), *bytes, rounds(setup, *bytes));
        let weight = (bytes / 1000 + 1000) * rounds as u64;
        steps.push(Step::new(format!("{EXPERIMENT} {case}"), weight, move |rows| {
            one_file(setup, scratch, &case, bytes, rounds, rows)
        }));
    }
    if !setup.quick {
        steps.push(Step::new(format!("{EXPERIMENT} averages"), 1, |rows| {
            averages::of(rows.all()).into_iter().try_for_each(|row| rows.write(row))
        }));
    }
    Ok(steps)
}

/// The paper has 20 runs of each.
fn rounds(setup: &Setup, bytes: u64) -> usize {
    match bytes {
        _ if setup.quick => 2,
        0..10_000_000 => 20,
        10_000_000..100_000_000 => 7,
        _ => 3,
    }
}

/// A program in one engine.
struct Variant {
    scheme: String,
    engine: &'static str,
    threads: usize,
    program: Program,
}

enum Program {
    Layout(Arc<dyn BlockCipher + Send>),
    Format { suite: Suite, dispatcher: Dispatcher, key: SecretKey },
}

fn variants(setup: &Setup) -> Vec<Variant> {
    let mut key = [0; 32];
    Random::new(1).fill(&mut key);
    let mut variants = Vec::new();
    let engines = [(SERIAL, 1), (CPU, setup.threads)];
    let mut layout = |scheme: &str, engines: &[(&'static str, usize)], cipher: Arc<dyn BlockCipher + Send>| {
        for &(engine, threads) in engines {
            variants.push(Variant { scheme: scheme.into(), engine, threads, program: Program::Layout(cipher.clone()) });
        }
    };
    let kernels = |bits: usize| Arc::new(Kernels::new(setup.levels.aes, &key[..bits / 8]).expect("a lawful length"));
    layout(BASELINE, &engines, Arc::new(TTable::new(&key[..16])));
    layout(&ours(128), &engines, kernels(128));
    // What longer keys cost shows in one engine.
    layout(&ours(192), &engines[1..], kernels(192));
    layout(&ours(256), &engines[1..], kernels(256));
    for suite in [Suite::Aes128CtrSha3, Suite::Aes256CtrSha3] {
        for (name, threads) in engines {
            let engine: Arc<dyn Engine> = match name {
                SERIAL => Arc::new(CpuEngine::serial(setup.levels)),
                _ => Arc::new(CpuEngine::parallel(threads, setup.levels)),
            };
            let key = SecretKey::from_slice(&key).expect("32 bytes");
            let program = Program::Format { suite, dispatcher: Dispatcher::new(&[engine]), key };
            variants.push(Variant { scheme: format(suite), engine: name, threads, program });
        }
    }
    variants
}

/// SEFPS by Phalanx's kernels.
pub fn ours(bits: usize) -> String {
    format!("SEFPS with Phalanx's kernels, AES-{bits}")
}

fn format(suite: Suite) -> String {
    format!("Phalanx's format, {}", suite.name())
}

/// The times of one run in seconds; the format does AES and hashing in one go.
#[derive(Clone, Copy)]
struct Run {
    total: f64,
    aes: Option<f64>,
    hash: Option<f64>,
}

impl Variant {
    /// Protects or unprotects a file as a program of its own would: it opens, reads, works and writes.
    fn run(&self, operation: &str, from: &Path, to: &Path) -> Result<Run> {
        let (total, parts) = time(|| match &self.program {
            Program::Layout(cipher) => self.layout(&**cipher, operation, from, to).map(Some),
            Program::Format { suite, dispatcher, key } => {
                format_run(dispatcher, *suite, key, operation, from, to).map(|()| None)
            }
        });
        let parts = parts?;
        let seconds = |part: fn(&layout::Parts) -> std::time::Duration| parts.as_ref().map(|p| part(p).as_secs_f64());
        Ok(Run { total, aes: seconds(|p| p.aes), hash: seconds(|p| p.hash) })
    }

    fn layout(&self, cipher: &dyn BlockCipher, operation: &str, from: &Path, to: &Path) -> Result<layout::Parts> {
        let mut input = File::open(from).map_err(Error::at(from))?;
        let len = input.metadata().map_err(Error::at(from))?.len() as usize;
        let mut file = Vec::with_capacity(len + layout::SHORTEST);
        input.read_to_end(&mut file).map_err(Error::at(from))?;
        let parts = match operation {
            "protect" => layout::protect(cipher, self.threads, &mut file),
            _ => layout::unprotect(cipher, self.threads, &mut file)
                .map_err(|e| Error::Program(format!("{}: it refuses its own file: {e:?}", self.scheme)))?,
        };
        fs::write(to, &file).map_err(Error::at(to))?;
        Ok(parts)
    }
}

fn format_run(
    dispatcher: &Dispatcher,
    suite: Suite,
    key: &SecretKey,
    operation: &str,
    from: &Path,
    to: &Path,
) -> Result<()> {
    let input = File::open(from).map_err(Error::at(from))?;
    let output = File::create(to).map_err(Error::at(to))?;
    let mut source = Source::new(&input).map_err(Error::at(from))?;
    if operation == "protect" {
        let (header, keys) = new_header(suite, FILE_CHUNK_LOG2, &[Recipient::key(key)])?;
        file::seal(dispatcher, &header, &keys, source, Sink::File(&output), &())?;
    } else {
        let header = source.header()?;
        let opener = phalanx_core::access::Opener::new(OneKey(key), Default::default());
        file::open(dispatcher, &header, &opener.open(&header)?, source, Sink::File(&output), &())?;
    }
    Ok(())
}

/// The one key at hand.
struct OneKey<'a>(&'a SecretKey);

impl phalanx_core::access::KeySource for OneKey<'_> {
    fn key(&self, id: &phalanx_core::key::KeyId) -> phalanx_core::Result<Option<SecretKey>> {
        Ok(Some(self.0.clone()).filter(|key| key.id() == *id))
    }

    fn password(&self) -> phalanx_core::Result<Option<phalanx_core::key::Password>> {
        Ok(None)
    }
}

/// Measures all programs in turn on one file, `rounds` times, and checks each one's outcome.
fn one_file(
    setup: &Setup,
    scratch: &Scratch,
    case: &str,
    bytes: u64,
    rounds: usize,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let plain = scratch.file("plain", bytes, bytes)?;
    let (sealed, back) = (scratch.path("sealed"), scratch.path("back"));
    let variants = variants(setup);
    let mut runs: Vec<[Vec<Run>; 2]> = variants.iter().map(|_| Default::default()).collect();
    for round in 0..rounds {
        for (variant, runs) in variants.iter().zip(&mut runs) {
            runs[0].push(variant.run("protect", &plain, &sealed)?);
            runs[1].push(variant.run("unprotect", &sealed, &back)?);
            if round == 0 && !same(&plain, &back)? {
                return Err(Error::Program(format!("{}: what came back is not the file", variant.scheme)));
            }
            // Removed before their write-back begins, so that it does not run into the next run.
            scratch::remove(&sealed)?;
            scratch::remove(&back)?;
        }
    }
    let case = Case { name: case, bytes };
    let mut serial: HashMap<_, Row> = HashMap::new();
    for (variant, runs) in variants.iter().zip(&runs) {
        for (operation, runs) in OPERATIONS.iter().zip(runs) {
            let total: Vec<f64> = runs.iter().map(|run| run.total).collect();
            let aes: Option<Vec<f64>> = runs.iter().map(|run| run.aes).collect();
            let hash: Option<Vec<f64>> = runs.iter().map(|run| run.hash).collect();
            for (measure, seconds) in [("AES", aes), ("hash", hash), ("total", Some(total))] {
                let Some(seconds) = seconds else { continue };
                let mut row = case.row(variant, operation, measure).timed(seconds);
                let key = |measure: &'static str| (variant.scheme.clone(), *operation, measure);
                if variant.engine == SERIAL {
                    serial.insert(key(measure), row.clone());
                } else if let Some(one) = serial.get(&key(measure)) {
                    let median_s = one.median_s.unwrap_or(f64::NAN);
                    // Eq. 6 is of AES, which is all that the threads share.
                    let cores = (measure == "AES").then(|| crate::run::processors(variant.threads));
                    row = row.compared(Over { name: SERIAL, median_s }, cores);
                    row.amdahl = serial.get(&key("AES")).filter(|_| measure == "total").and_then(|aes| {
                        let parallel = aes.median_s? / one.median_s?;
                        Some(equations::amdahl(parallel, crate::run::processors(variant.threads) as f64))
                    });
                }
                rows.write(row)?;
            }
        }
    }
    fused_apart(setup, &case, &plain, rounds, rows)?;
    for operation in OPERATIONS {
        for engine in DEVICE_ENGINES {
            for measure in ["total", "AES"] {
                rows.write(case.without_device(operation, engine, measure))?;
            }
        }
    }
    scratch::remove(&plain)
}

struct Case<'a> {
    name: &'a str,
    bytes: u64,
}

impl Case<'_> {
    fn row(&self, variant: &Variant, operation: &str, measure: &str) -> Row {
        let printed = if variant.scheme.starts_with("SEFPS") && variant.scheme.ends_with("AES-128") {
            self.printed(operation, variant.engine, measure)
        } else {
            Vec::new()
        };
        Row {
            experiment: EXPERIMENT.into(),
            case: self.name.into(),
            operation: operation.into(),
            measure: measure.into(),
            scheme: variant.scheme.clone(),
            engine: variant.engine.into(),
            bytes: self.bytes,
            items: 1,
            threads: if measure == "hash" { 1 } else { variant.threads },
            printed,
            ..Row::default()
        }
    }

    fn without_device(&self, operation: &str, engine: &str, measure: &str) -> Row {
        let row = Row {
            experiment: EXPERIMENT.into(),
            case: self.name.into(),
            operation: operation.into(),
            measure: measure.into(),
            scheme: ours(128),
            engine: engine.into(),
            bytes: self.bytes,
            items: 1,
            printed: self.printed(operation, engine, measure),
            ..Row::default()
        };
        row.not_run("no device")
    }

    fn printed(&self, operation: &str, engine: &str, measure: &str) -> Vec<Printed> {
        p1().printed(|v| {
            v.experiment == operation
                && v.engine.as_deref() == Some(engine)
                && v.measure == format!("{measure} speed")
                && v.case.bytes == Some(self.bytes)
        })
    }
}

/// What the format does in one go, in memory and apart: AES of whole slices, and the hashes of slices.
fn fused_apart(setup: &Setup, case: &Case<'_>, plain: &Path, rounds: usize, rows: &mut Rows<'_>) -> Result<()> {
    let mut data = fs::read(plain).map_err(Error::at(plain))?;
    for (engine, threads) in [(SERIAL, 1), (CPU, setup.threads)] {
        for suite in [Suite::Aes128CtrSha3, Suite::Aes256CtrSha3] {
            let key = aes::Key::new(&[7; 32][..suite.key_len()]);
            let times = measure::rounds(rounds, || by_slices(threads, &mut data, |part| ctr(setup.levels, &key, part)));
            write_apart(case, rows, "AES", suite, engine, threads, times)?;
        }
        let suite = Suite::Aes256CtrSha3;
        let times = measure::rounds(rounds, || by_slices(threads, &mut data, |part| hash(setup.levels, part)));
        write_apart(case, rows, "hash", suite, engine, threads, times)?;
    }
    Ok(())
}

fn write_apart(
    case: &Case<'_>,
    rows: &mut Rows<'_>,
    measure: &str,
    suite: Suite,
    engine: &str,
    threads: usize,
    times: measure::Times,
) -> Result<()> {
    let row = Row {
        experiment: EXPERIMENT.into(),
        case: case.name.into(),
        operation: "protect".into(),
        measure: measure.into(),
        scheme: format(suite),
        engine: engine.into(),
        bytes: case.bytes,
        items: 1,
        threads,
        runs_per_time: times.runs_per_time,
        note: Some("in memory, apart from the rest: the format does AES and hashing in one go".into()),
        ..Row::default()
    };
    rows.write(row.timed(times.seconds))
}

/// As much as a thread takes at once.
const PART: usize = 64 * SLICE;

/// Lets threads take one part of the data after another.
fn by_slices(threads: usize, data: &mut [u8], work: impl Fn(&mut [u8]) + Sync) {
    let parts = Mutex::new(data.chunks_mut(PART));
    let next = || parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| std::iter::from_fn(next).for_each(&work));
        }
        std::iter::from_fn(next).for_each(&work);
    });
}

fn ctr(levels: Levels, key: &aes::Key, part: &mut [u8]) {
    aes::ctr_xor(levels.aes, key, &[0; 16], part);
}

fn hash(levels: Levels, part: &mut [u8]) {
    let slices: Vec<&[u8]> = part.chunks(SLICE).collect();
    let mut digests = vec![[0; keccak::DIGEST]; slices.len()];
    keccak::sha3_256_many(levels.keccak, &slices, &mut digests);
    std::hint::black_box(&digests);
}

fn same(a: &Path, b: &Path) -> Result<bool> {
    Ok(fs::read(a).map_err(Error::at(a))? == fs::read(b).map_err(Error::at(b))?)
}
