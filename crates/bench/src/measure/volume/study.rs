//! P4's study: AES-CTR in memory by the size of the data, on one core, on all cores and on a device, with one stream
//! and with several, with 16, 32 or 64 bytes a thread of the device, and with 64 to 1024 threads a block.
//!
//! The keys are expanded before, on the CPU and on the device, as in a file system that keeps them.

mod device;
pub(crate) mod input;

use crate::measure::scratch::require_memory;
use crate::measure::times::try_rounds;
use crate::measure::ttable::TTable;
use crate::measure::volume::crew;
use crate::measure::volume::study::input::{COUNTER, Input, are, inputs, key, plaintext, rounds};
use crate::measure::{Error, Result, Row, Rows, Setup, Step, Times, engine, row_of};
use crate::names::study::{
    ALL_CORES, FASTEST, KEYS, ONE_CORE, OPERATION, OURS, TABLES, measure, over_measure, scheme as device_scheme,
};
use crate::names::volume::EXPERIMENT;
use crate::paper::{Printed, p4};
use phalanx_core::engine::Nonce;
use phalanx_kernels::aes::{self, BLOCK, counter_after};

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

fn one_input(setup: &Setup, input: Input, rows: &mut Rows<'_>) -> Result<()> {
    let plain = plaintext(input.bytes());
    for bits in KEYS {
        let row = |scheme: &str, engine: &str, threads: usize| {
            row_of(
                EXPERIMENT,
                input.name(),
                [OPERATION, &measure(bits), scheme, engine],
                [input.bytes() as u64, 1],
                threads,
            )
        };
        let key = &key()[..bits as usize / 8];
        let mut wanted = plain.clone();
        aes::ctr_xor(setup.levels.aes, &aes::Key::new(key), &COUNTER, &mut wanted);
        let mut cores = Vec::new();
        for (scheme, cipher) in [(TABLES, Cipher::tables(key)), (OURS, Cipher::ours(setup, key))] {
            let mut of_scheme = Vec::new();
            for threads in [1].into_iter().chain(Some(setup.threads).filter(|n| *n > 1)) {
                let times = on_cores(&cipher, threads, &plain, &wanted, rounds(setup))?;
                of_scheme.push(times.of(row(scheme, engine(threads), threads)));
            }
            rows.beside_first(of_scheme.iter().cloned(), ONE_CORE)?;
            cores.extend([ONE_CORE, ALL_CORES].into_iter().zip(of_scheme));
        }
        device::rows_of(setup, input, key, &plain, &wanted, &row, rows)?;
        // There is one stream. Of the programs with tables, this is the one that the paper calls the fastest.
        for (scheme, program) in [(TABLES, Some(FASTEST)), (OURS, None)] {
            let program = row(&device_scheme(program, 1), "gpu", 1);
            let on_device = rows.all().iter().find(|row| row.key() == program.key()).cloned().unwrap_or(program);
            for over in [ONE_CORE, ALL_CORES] {
                let peer = cores.iter().find(|(cores, row)| *cores == over && row.scheme == scheme);
                let peer = peer.and_then(|(_, row)| row.median_s);
                let row = Row { measure: over_measure(bits, over), over: Some(over.into()), ..row(scheme, "gpu", 1) };
                let printed = if scheme == TABLES { printed(input, bits, over) } else { Vec::new() };
                let row = Row { printed, note: on_device.note.clone(), ..row };
                rows.write(match (on_device.median_s, peer) {
                    (None, _) => row,
                    (_, None) => row.not_run("this machine has one core"),
                    (Some(median), Some(peer)) => Row { speedup: Some(peer / median), ..row },
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

/// Checks the bytes of threads that each encrypt their part, and then returns their times.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::volume::study::input::PART;

    #[test]
    fn inputs_ascend_and_include_the_papers() {
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
