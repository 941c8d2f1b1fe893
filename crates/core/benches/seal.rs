//! Sealing and opening in memory, in chunks of 1 MiB, compared with the same work by aws-lc-rs and by the crates `aes`,
//! `ctr` and `sha3` (AES-256-CTR, then SHA3-256 of the ciphertext as one stream): first on one core, then on all.
//!
//! `cargo bench -p phalanx-core` runs all, and `-- seal/` a part.

use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::digest;
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use ctr::cipher::{InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper};
use ctr::{CtrCore, flavors::Ctr128BE};
use phalanx_core::engine::{Bind, CpuEngine, Engine, Job, Levels, Op, Unit};
use phalanx_core::{SecretKey, Suite};
use phalanx_kernels::{aes, keccak};
use sha3::Digest;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const CHUNK: usize = 1 << 20;

const SIZES: [(&str, usize); 6] = [
    ("256B", 256),
    ("4KiB", 4 << 10),
    ("64KiB", 64 << 10),
    ("1MiB", CHUNK),
    ("8MiB", 8 * CHUNK),
    ("64MiB", 64 * CHUNK),
];

/// The suites with 32-byte keys, and the prefixes of their rows' names. Suite 4 has its own kernels, so its rows are
/// the same for all levels.
const SUITES: [(&str, Suite); 3] =
    [("", Suite::Aes256CtrSha3), ("turbo-", Suite::Aes256CtrTurboShake), ("gcm-", Suite::Aes256Gcm)];

/// A sealed job of `size` bytes in chunks, so that it can be opened too. Short data are one chunk of their own size.
fn job(engine: &CpuEngine, suite: Suite, size: usize) -> Job {
    let keys = SecretKey::from_slice(&[7; 32]).unwrap().file_keys(suite).content().clone();
    let chunk_log2 = size.clamp(4 << 10, CHUNK).ilog2() as u8;
    let mut job = Job::of_chunks(Op::Seal, suite, chunk_log2, [keys].into(), engine.buffer(size).unwrap());
    for (i, start) in (0..size).step_by(CHUNK).enumerate() {
        let bind = Bind::Chunk { index: i as u64, last: false };
        job.units.push(Unit { key: 0, nonce: [i as u8; 16], bind, data: start..size.min(start + CHUNK), tag: [0; 32] });
    }
    assert!(engine.run(&mut job).unwrap().all_passed());
    job
}

/// Seals or opens. Only `op` is timed, but both run, because a job must be sealed before it can be opened again.
fn timed(engine: &CpuEngine, job: &mut Job, op: Op, iterations: u64) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..iterations {
        for turn in [Op::Open, Op::Seal] {
            job.op = turn;
            let started = Instant::now();
            assert!(engine.run(black_box(job)).unwrap().all_passed());
            if turn == op {
                total += started.elapsed();
            }
        }
    }
    total
}

/// The work of another library, one chunk after another: encrypts and then hashes the ciphertext, or the other way
/// round.
fn peer(op: Op, data: &mut [u8], mut encrypt: impl FnMut(&mut [u8]), mut hash: impl FnMut(&[u8])) {
    for chunk in data.chunks_mut(CHUNK) {
        if op == Op::Seal {
            encrypt(chunk);
        }
        hash(chunk);
        if op == Op::Open {
            encrypt(chunk);
        }
    }
}

fn one_core(c: &mut Criterion) {
    let fastest = Levels::detect();
    let slower_keccak = keccak::Level::available().filter(|k| *k != fastest.keccak);
    let slower_aes = aes::Level::available().filter(|a| *a != fastest.aes);
    let slower: Vec<_> = slower_keccak
        .map(|keccak| Levels { keccak, ..fastest })
        .chain(slower_aes.map(|aes| Levels { aes, ..fastest }))
        .collect();
    let aws = EncryptingKey::ctr(UnboundCipherKey::new(&AES_256, &[7; 32]).unwrap()).unwrap();
    let rust = ::aes::Aes256Enc::new(&[7; 32].into());

    for (name, op) in [("seal", Op::Seal), ("open", Op::Open)] {
        let mut group = c.benchmark_group(name);
        group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
        group.sample_size(15).sampling_mode(SamplingMode::Flat);
        for (label, size) in SIZES {
            group.throughput(Throughput::Bytes(size as u64));
            // The slower kernels run at one size only.
            for levels in [fastest].iter().chain(slower.iter().filter(|_| label == "8MiB")) {
                let engine = CpuEngine::serial(*levels);
                for (prefix, suite) in SUITES {
                    let mut job = job(&engine, suite, size);
                    group.bench_function(format!("{prefix}{}+{}/{label}", levels.aes, levels.keccak), |b| {
                        b.iter_custom(|iterations| timed(&engine, &mut job, op, iterations));
                    });
                }
            }
            let mut data = vec![1; size];
            group.bench_function(format!("aws-lc-rs/{label}"), |b| {
                let context = || EncryptionContext::Iv128((&[9; 16]).into());
                let encrypt = |chunk: &mut [u8]| _ = aws.less_safe_encrypt(chunk, context()).unwrap();
                let hash = |chunk: &[u8]| _ = black_box(digest::digest(&digest::SHA3_256, chunk));
                b.iter(|| peer(op, &mut data, encrypt, hash));
            });
            group.bench_function(format!("crates/{label}"), |b| {
                let encrypt = |chunk: &mut [u8]| {
                    let core = CtrCore::<_, Ctr128BE>::inner_iv_init(rust.clone(), &[9; 16].into());
                    StreamCipherCoreWrapper::from_core(core).apply_keystream(chunk);
                };
                let hash = |chunk: &[u8]| _ = black_box(sha3::Sha3_256::digest(chunk));
                b.iter(|| peer(op, &mut data, encrypt, hash));
            });
        }
    }
}

/// All cores at once, each with its own job. The throughput is that of all together.
fn all_cores(c: &mut Criterion) {
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    let engine = CpuEngine::parallel(cores, Levels::detect());
    let mut group = c.benchmark_group("seal-cores");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    for threads in [1, cores] {
        group.throughput(Throughput::Bytes((threads * 8 * CHUNK) as u64));
        group.bench_function(threads.to_string(), |b| {
            b.iter_custom(|iterations| {
                let start = Barrier::new(threads);
                thread::scope(|scope| {
                    let lane = || {
                        let mut job = job(&engine, Suite::default(), 8 * CHUNK);
                        start.wait();
                        timed(&engine, &mut job, Op::Seal, iterations)
                    };
                    let lanes: Vec<_> = (0..threads).map(|_| scope.spawn(lane)).collect();
                    lanes.into_iter().map(|lane| lane.join().unwrap()).max().unwrap()
                })
            });
        });
    }
}

criterion_group!(benches, one_core, all_cores);
criterion_main!(benches);
