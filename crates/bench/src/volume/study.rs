//! P4's study: AES-CTR in memory by the size of the data, on one core, on all cores and on a device, with one stream and with
//! several, with 16, 32 or 64 bytes a thread of the device, and with 64 to 1024 threads a block.
//!
//! The keys are expanded before, on the CPU and on the device, as in a file system that keeps them.

mod device;

pub use device::{MORE_THREADS, SEVERAL, scheme_of_threads};

use super::{EXPERIMENT, crew};
use crate::measure::{Times, try_rounds};
use crate::paper::{Printed, p4};
use crate::record::{Rows, Step};
use crate::row::{Over, Row};
use crate::scratch::{Random, require_memory};
use crate::setup::{Setup, processors};
use crate::ttable::TTable;
use crate::{Error, Result};
use phalanx_core::engine::Nonce;
use phalanx_kernels::aes::{self, BLOCK, counter_after};

/// The lengths of AES keys in bits.
pub const KEYS: [u64; 3] = [128, 192, 256];
/// AES as in the paper's time, on the CPU and on the device.
pub const TABLES: &str = "T-tables";
/// Phalanx's kernels: AES instructions on the CPU, and bit planes on the device.
pub const OURS: &str = "Phalanx's kernels";
/// What the rows do.
pub const OPERATION: &str = "encrypt";
/// The bytes that the paper hands to the GPU at a time.
pub const PART: usize = 32_000;
/// The first counter block. Its low half is near its end, so that carries occur.
const COUNTER: Nonce = *b"\0\0\0\0\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\0";

/// The data of a row.
#[derive(Clone, Copy)]
struct Input {
    /// The length of a part. Parts are handed to a device one after another, or each to a stream of its own.
    part: usize,
    parts: usize,
}

impl Input {
    fn bytes(self) -> usize {
        self.part * self.parts
    }

    fn name(self) -> String {
        match (self.part, self.parts) {
            (part, 1) => size(part),
            (part, parts) => format!("{parts} × {}", size(part)),
        }
    }
}

/// A length in words.
fn size(bytes: usize) -> String {
    match bytes {
        n if n.is_multiple_of(1 << 20) => format!("{} MiB", n >> 20),
        n if n.is_multiple_of(1 << 10) => format!("{} KiB", n >> 10),
        n => format!("{n} bytes"),
    }
}

/// The inputs in order of their lengths. The paper's own are 32,000 bytes and five times as many.
fn inputs(quick: bool) -> Vec<Input> {
    let one = |part| Input { part, parts: 1 };
    let five = Input { part: PART, parts: 5 };
    if quick {
        return vec![one(4 << 10), one(PART), five, one(1 << 20)];
    }
    let powers = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20].map(one);
    let mut inputs: Vec<Input> = powers.into_iter().chain([one(PART), five]).collect();
    inputs.sort_by_key(|input| input.bytes());
    inputs
}

/// The name of a measure for a length of keys.
#[must_use]
pub fn measure(bits: u64) -> String {
    format!("AES-{bits}-CTR")
}

/// The measure of the device's speed over that of the CPU's cores.
#[must_use]
pub fn over_measure(bits: u64, cores: &str) -> String {
    format!("{}: times as fast as {cores}", measure(bits))
}

/// What the device is compared with.
pub const ONE_CORE: &str = "one core";
/// What the device is compared with.
pub const ALL_CORES: &str = "all cores";

/// The steps: one for each input.
pub fn steps(setup: &Setup) -> Result<Vec<Step<'_>>> {
    let inputs = inputs(setup.quick);
    let largest = inputs.iter().map(|input| input.bytes()).max().unwrap_or(0);
    require_memory(8 * largest as u64)?;
    let step = |input: Input| {
        let name = format!("{EXPERIMENT} study {}", input.name());
        Step::new(name, input.bytes() as u64 / 10 + 100_000, move |rows| one_input(setup, input, rows))
    };
    Ok(inputs.into_iter().map(step).collect())
}

fn rounds(setup: &Setup) -> usize {
    if setup.quick { 3 } else { 7 }
}

fn one_input(setup: &Setup, input: Input, rows: &mut Rows<'_>) -> Result<()> {
    for bits in KEYS {
        let row = |scheme: &str, engine: &str, threads: usize| Row {
            experiment: EXPERIMENT.into(),
            case: input.name(),
            operation: OPERATION.into(),
            measure: measure(bits),
            scheme: scheme.into(),
            engine: engine.into(),
            bytes: input.bytes() as u64,
            items: 1,
            threads,
            ..Row::default()
        };
        let key = &key()[..bits as usize / 8];
        let plain = plaintext(input.bytes());
        let mut wanted = plain.clone();
        aes::ctr_xor(setup.levels.aes, &aes::Key::new(key), &COUNTER, &mut wanted);
        let mut cores = Vec::new();
        for (scheme, cipher) in [(TABLES, Cipher::tables(key)), (OURS, Cipher::ours(setup, key))] {
            let mut one = None;
            for threads in if setup.threads > 1 { vec![1, setup.threads] } else { vec![1] } {
                let times = on_cores(&cipher, threads, &plain, &wanted, rounds(setup))?;
                let engine = if threads == 1 { "serial" } else { "cpu" };
                let row = row(scheme, engine, threads);
                let mut row = Row { runs_per_time: times.runs_per_time, ..row }.timed(times.seconds);
                match one {
                    None => one = row.median_s,
                    Some(median_s) => {
                        row = row.compared(Over { name: ONE_CORE, median_s }, Some(processors(threads)));
                    }
                }
                cores.push((scheme, if threads == 1 { ONE_CORE } else { ALL_CORES }, row.median_s));
                rows.write(row)?;
            }
        }
        let on_device = device::rows_of(setup, input, key, &plain, &wanted, &row, rows)?;
        for scheme in [TABLES, OURS] {
            for over in [ONE_CORE, ALL_CORES] {
                let of = |(name, cores, _): &&(&str, &str, _)| (*name, *cores) == (scheme, over);
                let peer = cores.iter().find(of).and_then(|(.., median)| *median);
                let row = Row { measure: over_measure(bits, over), over: Some(over.into()), ..row(scheme, "gpu", 1) };
                let printed = if scheme == TABLES { printed(input, bits, over) } else { Vec::new() };
                let row = Row { printed, note: on_device.note.clone(), ..row };
                rows.write(match (on_device.median(scheme), peer) {
                    (Err(why), _) => row.not_run(why),
                    (_, None) => row.not_run("this machine has one core"),
                    (Ok(median), Some(peer)) => Row { speedup: Some(peer / median), ..row },
                })?;
            }
        }
    }
    Ok(())
}

/// The paper's answers to its first question.
fn printed(input: Input, bits: u64, over: &str) -> Vec<Printed> {
    let experiment = if over == ONE_CORE { "one-core" } else { "many-cores" };
    p4().printed(|v| {
        v.experiment == experiment && v.case.bytes == Some(input.bytes() as u64) && v.case.key_bits == Some(bits)
    })
}

fn key() -> [u8; 32] {
    let mut key = [0; 32];
    Random::new(4).fill(&mut key);
    key
}

fn plaintext(len: usize) -> Vec<u8> {
    let mut plain = vec![0; len];
    Random::new(len as u64).fill(&mut plain);
    plain
}

/// A way of computing AES on the CPU.
enum Cipher {
    Tables(Box<TTable>),
    Ours(aes::Level, Box<aes::Key>),
}

impl Cipher {
    fn tables(key: &[u8]) -> Self {
        Self::Tables(Box::new(TTable::new(key)))
    }

    fn ours(setup: &Setup, key: &[u8]) -> Self {
        Self::Ours(setup.levels.aes, Box::new(aes::Key::new(key)))
    }

    fn ctr_xor(&self, counter: &Nonce, data: &mut [u8]) {
        match self {
            Cipher::Tables(key) => key.ctr_xor(counter, data),
            Cipher::Ours(level, key) => aes::ctr_xor(*level, key, counter, data),
        }
    }
}

/// A part of the data, with the counter of its first block.
fn lanes(data: &[u8], count: usize) -> Vec<(Nonce, Vec<u8>)> {
    let len = data.len().div_ceil(count).next_multiple_of(BLOCK);
    let lane = |(i, part): (usize, &[u8])| (counter_after(&COUNTER, (i * len / BLOCK) as u64), part.to_vec());
    data.chunks(len).enumerate().map(lane).collect()
}

/// The times of threads that each encrypt their part, after the bytes were found to be right.
fn on_cores(cipher: &Cipher, threads: usize, plain: &[u8], wanted: &[u8], rounds: usize) -> Result<Times> {
    let mut lanes = lanes(plain, threads);
    let work = |(counter, part): &mut (Nonce, Vec<u8>)| {
        cipher.ctr_xor(counter, part);
        Ok(())
    };
    crew::with(&mut lanes, work, |run| run())?;
    if !are(lanes.iter().map(|(_, part)| &part[..]), wanted) {
        return Err(Error::Program(format!("{threads} threads: other bytes than the kernel's")));
    }
    crew::with(&mut lanes, work, |run| try_rounds(rounds, run))
}

/// Whether parts that follow each other are these bytes.
fn are<'a>(parts: impl IntoIterator<Item = &'a [u8]>, mut wanted: &[u8]) -> bool {
    let mut all = parts.into_iter().all(|part| match wanted.split_at_checked(part.len()) {
        Some((front, rest)) => {
            wanted = rest;
            front == part
        }
        None => false,
    });
    all &= wanted.is_empty();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_ascend_and_have_the_papers() {
        let all = inputs(false);
        assert!(all.is_sorted_by_key(|input| input.bytes()) && all.len() == 10);
        for quick in [false, true] {
            let names: Vec<String> = inputs(quick).into_iter().map(Input::name).collect();
            assert!(
                ["32000 bytes", "5 × 32000 bytes", "4 KiB", "1 MiB"].iter().all(|name| names.contains(&(*name).into()))
            );
        }
        for input in inputs(false).into_iter().filter(|input| input.part == PART) {
            for bits in KEYS {
                assert_eq!(printed(input, bits, ONE_CORE).len(), 1);
                assert_eq!(printed(input, bits, ALL_CORES).len(), 1);
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bytes() {
        let setup = Setup::of_tests("");
        let key = &key()[..24];
        for len in [16, 4096, 32_000] {
            let plain = plaintext(len);
            let mut wanted = plain.clone();
            aes::ctr_xor(setup.levels.aes, &aes::Key::new(key), &COUNTER, &mut wanted);
            for threads in [1, 2, 3, 7] {
                for cipher in [Cipher::tables(key), Cipher::ours(&setup, key)] {
                    on_cores(&cipher, threads, &plain, &wanted, 1).unwrap();
                }
            }
            wanted[len / 2] ^= 1;
            assert!(on_cores(&Cipher::ours(&setup, key), 2, &plain, &wanted, 1).is_err());
        }
    }
}
