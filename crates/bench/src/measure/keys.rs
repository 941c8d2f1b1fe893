//! P5: the digest of a key and encryption under it, and finding a key by its digest, in the modes CPU, GPU and CPU-GPU.
//!
//! The paper names a key by its MD5, a broken hash; Phalanx names it by a KMAC256. **MD5 is here to be measured.**

mod device;
mod sealing;

use crate::measure::energy::Counters;
use crate::measure::scratch::{self, random, random_vec};
use crate::measure::sefps::layout::{BlockCipher, Kernels};
use crate::measure::threads::each;
use crate::measure::times::{self, try_rounds};
use crate::measure::ttable::TTable;
use crate::measure::{Error, Result, Row, Rows, Setup, Step, Times, row_of};
use crate::names::keys::{ENERGY, EXPERIMENT, FIND_KMAC, FIND_MD5, OURS, PRINTED};
use crate::paper::p5;
use md5::{Digest, Md5};
use phalanx_core::engine::{CpuEngine, Engine};
use phalanx_core::{KeyId, SecretKey, Suite};
use phalanx_kernels::keccak::{DIGEST, Kmac256, kmac256_many};
use sealing::Sealing;
use std::collections::HashMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The most data for energy, and how long it is measured at least.
const ENERGY_BYTES: u64 = 64 << 20;
const ENERGY_TIME: Duration = Duration::from_secs(2);
const SERIAL: &str = "serial";
const CPU: &str = "cpu";

fn rounds(setup: &Setup) -> usize {
    if setup.quick { 3 } else { 5 }
}

/// Key `i` of a set. The first 16 bytes are the paper's AES key.
fn key(i: u64) -> [u8; 32] {
    random(i)
}

/// Calls `act` again and again for some seconds. Returns how often.
fn again_and_again<E>(mut act: impl FnMut() -> std::result::Result<(), E>) -> std::result::Result<u64, E> {
    let (started, mut rounds) = (Instant::now(), 0);
    while started.elapsed() < ENERGY_TIME {
        act()?;
        rounds += 1;
    }
    Ok(rounds)
}

/// The steps: one for each size, and one for each number of keys.
pub fn steps(setup: &Setup) -> Result<Vec<Step<'_>>> {
    let mut sizes = p5().sweep("sizes", "bytes");
    sizes.retain(|(_, bytes)| !setup.quick || *bytes <= 1 << 20);
    let largest = sizes.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    scratch::require_memory(3 * largest)?;
    let mut steps = Vec::new();
    for (size, bytes) in sizes {
        let weight = bytes / 50 + 10_000;
        steps.push(Step::new(format!("{EXPERIMENT} {size}"), weight, move |rows| one_size(setup, size, bytes, rows)));
    }
    let bytes = largest.min(ENERGY_BYTES);
    steps.push(Step::new(format!("{EXPERIMENT} energy"), 500_000, move |rows| energy(setup, bytes, rows)));
    for count in [1, 10, 100, 1_000, 10_000, 100_000] {
        if !setup.quick || count <= 1_000 {
            let name = format!("{EXPERIMENT} {count} keys");
            steps.push(Step::new(name, 10_000 + 200 * count, move |rows| one_set(setup, count, rows)));
        }
    }
    Ok(steps)
}

fn one_size(setup: &Setup, size: &str, bytes: u64, rows: &mut Rows<'_>) -> Result<()> {
    let printed =
        p5().printed(|v| v.experiment == "sizes" && v.program.as_deref() == Some("CPU") && v.case.bytes == Some(bytes));
    let row = |scheme: &str, engine: &str, threads: usize| {
        row_of(EXPERIMENT, size, ["encrypt", "key digest and encryption", scheme, engine], [bytes, 1], threads)
    };
    let (key, mut data) = (key(0), random_vec(bytes, bytes as usize));
    let times = times::rounds(rounds(setup), || {
        black_box(Md5::digest(&key[..16]));
        TTable::new(&key[..16]).encrypt(&mut data);
    });
    let as_printed = times.of(Row { printed, ..row(PRINTED, SERIAL, 1) });
    let cpu_mode = as_printed.median_s;
    rows.write(as_printed)?;
    let times = times::rounds(rounds(setup), || {
        black_box(Md5::digest(&key[..16]));
        kernels(setup, &key).encrypt(&mut data);
    });
    rows.write(times.of(row(OURS, SERIAL, 1)))?;
    drop(data);
    for suite in [Suite::Aes256CtrSha3, Suite::Aes256CtrTurboShake] {
        sealed(setup, suite, bytes, &row, rows)?;
    }
    device::one_size(setup, bytes, row, cpu_mode, rows)
}

fn kernels(setup: &Setup, key: &[u8; 32]) -> Kernels {
    Kernels::new(setup.levels.aes, &key[..16]).expect("a valid length")
}

/// Measures the energy that a byte takes, if the machine reports it. The paper asks for this in its outlook. It is the
/// energy of whole processors or of the whole device, with what they take when idle.
fn energy(setup: &Setup, bytes: u64, rows: &mut Rows<'_>) -> Result<()> {
    let mut data = vec![0; bytes as usize];
    let row = |scheme: &str, engine: &str, threads| {
        row_of(
            EXPERIMENT,
            format!("{} MiB, again and again", bytes >> 20),
            ["encrypt", ENERGY, scheme, engine],
            [bytes, 1],
            threads,
        )
    };
    let (tables, kernels) = (TTable::new(&key(0)[..16]), kernels(setup, &key(0)));
    let ciphers: [(&str, &dyn BlockCipher); 2] = [(PRINTED, &tables), (OURS, &kernels)];
    for (scheme, cipher) in ciphers {
        let measured = Counters::find().and_then(|counters| {
            let (joules, Ok(rounds)) = counters.joules(|| {
                again_and_again(|| {
                    cipher.encrypt(black_box(&mut data));
                    Ok::<_, Infallible>(())
                })
            });
            let joules = joules.ok_or_else(|| Error::NotRun("a counter of energy stopped working".into()))?;
            Ok(joules * 1e9 / (rounds * bytes) as f64)
        });
        rows.valued(row(scheme, SERIAL, 1), measured)?;
    }
    device::energy(setup, bytes, |scheme| row(scheme, "gpu", 0), rows)
}

/// Measures Phalanx's own digest of the key, and authenticated chunks, in one suite.
fn sealed(
    setup: &Setup,
    suite: Suite,
    bytes: u64,
    row: &impl Fn(&str, &str, usize) -> Row,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let scheme = format!("KMAC256 and Phalanx's chunks, {}", suite.name());
    let key = SecretKey::from_slice(&key(0)).expect("32 bytes");
    let mut tags = None;
    let mut sealing = |engine: Arc<dyn Engine>| -> Result<Times> {
        let mut sealing = Sealing::new(engine, suite, bytes as usize)?;
        sealing.run(&key)?;
        if *tags.get_or_insert_with(|| sealing.tags()) != sealing.tags() {
            return Err(Error::Program(format!("{scheme}: the engines do not agree")));
        }
        try_rounds(rounds(setup), || {
            black_box(key.id());
            sealing.run(&key)
        })
    };
    let mut on_cpu = Vec::new();
    for (name, threads) in [(SERIAL, 1), (CPU, setup.threads)] {
        let times = sealing(Arc::new(CpuEngine::parallel(threads, setup.levels)))?;
        on_cpu.push(times.of(row(&scheme, name, threads)));
    }
    let one = rows.beside_first(on_cpu, SERIAL)?;
    let times = crate::measure::device::engine(setup, bytes).and_then(sealing);
    rows.measured([row(&scheme, "gpu", 0)], times.map(|times| [times]), one.map(|median| (SERIAL, median)))
}

/// Measures how a receiver with `count` keys finds one. The message names the last one that is tried.
fn one_set(setup: &Setup, count: u64, rows: &mut Rows<'_>) -> Result<()> {
    let keys: Vec<[u8; 32]> = (0..count).map(key).collect();
    let secrets: Vec<SecretKey> = keys.iter().map(|key| SecretKey::from_slice(key).expect("32 bytes")).collect();
    let last = keys.len() - 1;
    let (md5, id) = (Md5::digest(&keys[last][..16]), secrets[last].id());
    let row = |scheme: &str, engine: &str, threads: usize| {
        row_of(EXPERIMENT, format!("{count} keys"), ["find key", "time", scheme, engine], [0, count], threads)
    };
    let mut check = |row: Row, find: &mut dyn FnMut() -> Option<usize>| -> Result<()> {
        if find() != Some(last) {
            return Err(Error::Program(format!("{}: it did not find the key", row.scheme)));
        }
        let times = times::rounds(rounds(setup), || {
            black_box(find());
        });
        rows.write(times.of(row))
    };
    check(row(FIND_MD5, SERIAL, 1), &mut || keys.iter().position(|key| Md5::digest(&key[..16]) == md5))?;
    check(row("KMAC256 of each key", SERIAL, 1), &mut || secrets.iter().position(|key| key.id() == id))?;
    for (engine, threads) in [(SERIAL, 1), (CPU, setup.threads)] {
        check(row(FIND_KMAC, engine, threads), &mut || side_by_side(setup, threads, &keys, &id))?;
    }
    let index: HashMap<KeyId, usize> = secrets.iter().enumerate().map(|(i, key)| (key.id(), i)).collect();
    check(row("an index of KMAC256 ids, made once", SERIAL, 1), &mut || index.get(&id).copied())?;
    device::one_set(setup, &keys, |scheme| row(scheme, "gpu", 0), rows)
}

/// How many ids a thread computes at once.
const BATCH: usize = 64;

fn side_by_side(setup: &Setup, threads: usize, keys: &[[u8; 32]], id: &KeyId) -> Option<usize> {
    let share = keys.len().div_ceil(threads).max(1);
    let found = OnceLock::new();
    each(threads, keys.chunks(share).enumerate(), |(part, keys)| {
        let place = keys.chunks(BATCH).enumerate().find_map(|(i, keys)| {
            let kmacs: Vec<Kmac256> = keys.iter().map(|key| Kmac256::new(key, b"phalanx v1 key id")).collect();
            let inputs: Vec<(&Kmac256, &[u8])> = kmacs.iter().map(|kmac| (kmac, &[][..])).collect();
            let mut ids = vec![[0; DIGEST]; keys.len()];
            kmac256_many(setup.levels.keccak, &inputs, &mut ids);
            ids.iter().position(|full| full[..16] == id.0).map(|found| part * share + i * BATCH + found)
        });
        if let Some(place) = place {
            found.get_or_init(|| place);
        }
    });
    found.into_inner()
}
