//! Sealing and opening chunks of 1 MiB in memory, on each kernel of this machine, beside the same work by aws-lc-rs
//! (AES-256-CTR, then SHA3-256 of the ciphertext as one stream), on one core; then on more.
//!
//! `cargo bench -p phalanx-core`; a part of it with `-- seal/` and the like.

use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::digest;
use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use phalanx_core::Suite;
use phalanx_core::chunk::Levels;
use phalanx_core::cpu::CpuEngine;
use phalanx_core::engine::{Bind, Engine, Job, Op, Unit};
use phalanx_core::key::SecretKey;
use phalanx_kernels::{aes, keccak};
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const CHUNK: usize = 1 << 20;
const CHUNKS: usize = 8;

/// A job of eight chunks, sealed, so that it can be opened too.
fn job(engine: &CpuEngine) -> Job {
    let keys = SecretKey::from_slice(&[7; 32]).unwrap().file_keys(Suite::default()).content;
    let buffer = engine.buffer(CHUNKS * CHUNK).unwrap();
    let mut job = Job::new(Op::Seal, Suite::default(), [keys].into(), buffer);
    for i in 0..CHUNKS {
        let bind = Bind::Chunk { index: i as u64, last: false };
        job.units.push(Unit { key: 0, nonce: [i as u8; 16], bind, data: i * CHUNK..(i + 1) * CHUNK, tag: [0; 32] });
    }
    engine.run(&mut job).unwrap();
    job
}

/// Seals, or opens: `op` alone is timed, but both run, since an opened job must be sealed before it can be opened again.
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

fn one_core(c: &mut Criterion) {
    for (name, op) in [("seal", Op::Seal), ("open", Op::Open)] {
        let mut group = c.benchmark_group(name);
        group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
        group.sample_size(20).sampling_mode(SamplingMode::Flat).throughput(Throughput::Bytes((CHUNKS * CHUNK) as u64));
        let fastest = Levels::detect();
        let of_keccak = keccak::Level::available().map(|keccak| Levels { keccak, ..fastest });
        let of_aes = aes::Level::available().filter(|aes| *aes != fastest.aes).map(|aes| Levels { aes, ..fastest });
        for levels in of_keccak.chain(of_aes) {
            let engine = CpuEngine::serial(levels);
            let mut job = job(&engine);
            group.bench_function(format!("{}+{}", levels.aes, levels.keccak), |b| {
                b.iter_custom(|iterations| timed(&engine, &mut job, op, iterations));
            });
        }
        let aws = EncryptingKey::ctr(UnboundCipherKey::new(&AES_256, &[7; 32]).unwrap()).unwrap();
        let mut data = vec![1; CHUNKS * CHUNK];
        group.bench_function("aws-lc-rs", |b| {
            b.iter(|| {
                for chunk in data.chunks_mut(CHUNK) {
                    let encrypt = |chunk: &mut [u8]| {
                        aws.less_safe_encrypt(chunk, EncryptionContext::Iv128((&[9; 16]).into())).unwrap()
                    };
                    if op == Op::Seal {
                        encrypt(chunk);
                    }
                    black_box(digest::digest(&digest::SHA3_256, chunk));
                    if op == Op::Open {
                        encrypt(chunk);
                    }
                }
            });
        });
    }
}

/// All cores at once, each with a job of its own; the throughput is that of all together.
fn all_cores(c: &mut Criterion) {
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    let engine = CpuEngine::parallel(cores, Levels::detect());
    let mut group = c.benchmark_group("seal-cores");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    for threads in [1, cores] {
        group.throughput(Throughput::Bytes((threads * CHUNKS * CHUNK) as u64));
        group.bench_function(threads.to_string(), |b| {
            b.iter_custom(|iterations| {
                let start = Barrier::new(threads);
                thread::scope(|scope| {
                    let lane = || {
                        let mut job = job(&engine);
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
