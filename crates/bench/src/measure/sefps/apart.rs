//! The two parts of sealing in Phalanx's format, measured separately and in memory: AES, and the hashes of slices.

use crate::error::{Error, Result};
use crate::measure::sefps::case::Case;
use crate::measure::sefps::programs::format;
use crate::measure::setup::Setup;
use crate::measure::steps::Rows;
use crate::measure::times;
use crate::names::sefps::{CPU, EXPERIMENT, SERIAL};
use crate::row::Row;
use phalanx_core::Suite;
use phalanx_core::engine::{Levels, SLICE};
use phalanx_kernels::{aes, keccak};
use std::fs;
use std::path::Path;
use std::sync::Mutex;

/// AES of whole slices, and the hashes of slices.
pub fn rows_of(setup: &Setup, case: &Case<'_>, plain: &Path, rounds: usize, rows: &mut Rows<'_>) -> Result<()> {
    let mut data = fs::read(plain).map_err(Error::at(plain))?;
    for (engine, threads) in [(SERIAL, 1), (CPU, setup.threads)] {
        for suite in [Suite::Aes128CtrSha3, Suite::Aes256CtrSha3] {
            let key = aes::Key::new(&[7; 32][..suite.key_len()]);
            let times = times::rounds(rounds, || by_slices(threads, &mut data, |part| ctr(setup.levels, &key, part)));
            write_apart(case, rows, "AES", suite, engine, threads, times)?;
        }
        let suite = Suite::Aes256CtrSha3;
        let times = times::rounds(rounds, || by_slices(threads, &mut data, |part| hash(setup.levels, part)));
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
    times: times::Times,
) -> Result<()> {
    let row = Row {
        bytes: case.bytes,
        items: 1,
        threads,
        runs_per_time: times.runs_per_time,
        note: Some("in memory, apart from the rest: the format does AES and hashing in one go".into()),
        ..Row::of(EXPERIMENT, case.name, ["protect", measure, &format(suite), engine])
    };
    rows.write(row.timed(times.seconds))
}

/// The most bytes that a thread takes at once.
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
