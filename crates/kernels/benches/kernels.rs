//! Both kernels on every level that this machine has, compared with aws-lc-rs and the RustCrypto crates, on one core.
//!
//! `cargo bench -p phalanx-kernels` runs all of it, and `cargo bench -p phalanx-kernels -- aes-256-ctr/vaes` a part.

use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::digest;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use criterion::{SamplingMode, measurement::WallTime};
use ctr::cipher::{InnerIvInit, KeyInit, StreamCipher};
use phalanx_kernels::{aes, keccak};
use sha3::Digest;
use std::hint::black_box;
use std::time::Duration;

const SIZES: [(&str, usize); 7] = [
    ("256B", 256),
    ("4KiB", 4 << 10),
    ("16KiB", 16 << 10),
    ("64KiB", 64 << 10),
    ("1MiB", 1 << 20),
    ("16MiB", 16 << 20),
    ("64MiB", 64 << 20),
];
const SLICE: usize = 4096;

fn group<'a>(c: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = c.benchmark_group(name);
    group.warm_up_time(Duration::from_millis(150));
    group.measurement_time(Duration::from_millis(600));
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    group
}

fn ctr(c: &mut Criterion) {
    let mut group = group(c, "aes-256-ctr");
    let key = [7; 32];
    let counter = [9; 16];
    for (name, size) in SIZES {
        let mut data = vec![1; size];
        group.throughput(Throughput::Bytes(size as u64));
        for level in aes::Level::available() {
            let key = aes::Key::new(&key);
            group.bench_function(BenchmarkId::new(level.name(), name), |b| {
                b.iter(|| aes::ctr_xor(level, &key, &counter, black_box(&mut data)));
            });
        }
        let aws = EncryptingKey::ctr(UnboundCipherKey::new(&AES_256, &key).unwrap()).unwrap();
        group.bench_function(BenchmarkId::new("aws-lc-rs", name), |b| {
            b.iter(|| {
                let context = EncryptionContext::Iv128((&counter).into());
                aws.less_safe_encrypt(black_box(&mut data), context).unwrap()
            });
        });
        let rust = ::aes::Aes256Enc::new(&key.into());
        group.bench_function(BenchmarkId::new("ctr-crate", name), |b| {
            b.iter(|| {
                let core = ctr::CtrCore::<_, ctr::flavors::Ctr128BE>::inner_iv_init(rust.clone(), &counter.into());
                ctr::cipher::StreamCipherCoreWrapper::from_core(core).apply_keystream(black_box(&mut data));
            });
        });
    }
}

fn sha3(c: &mut Criterion) {
    let mut group = group(c, "sha3-256-slices");
    for (name, size) in SIZES {
        let data = vec![1; size];
        slices(&mut group, name, &data, keccak::sha3_256_many);
        // One stream without slices, which suits these libraries best.
        group.bench_function(BenchmarkId::new("aws-lc-rs", name), |b| {
            b.iter(|| digest::digest(&digest::SHA3_256, black_box(&data)));
        });
        group.bench_function(BenchmarkId::new("sha3-crate", name), |b| {
            b.iter(|| sha3::Sha3_256::digest(black_box(&data)));
        });
    }
}

fn turboshake(c: &mut Criterion) {
    let mut group = group(c, "turboshake256-slices");
    for (name, size) in SIZES {
        slices(&mut group, name, &vec![1; size], keccak::turboshake256_many::<0x50>);
    }
}

/// A function that hashes many inputs.
type Many = fn(keccak::Level, &[&[u8]], &mut [[u8; keccak::DIGEST]]);

/// The digests of the data's slices, on every level.
fn slices(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, data: &[u8], many: Many) {
    let slices: Vec<&[u8]> = data.chunks(SLICE).collect();
    let mut out = vec![[0; keccak::DIGEST]; slices.len()];
    group.throughput(Throughput::Bytes(data.len() as u64));
    for level in keccak::Level::available() {
        group.bench_function(BenchmarkId::new(level.name(), name), |b| {
            b.iter(|| many(level, black_box(&slices), &mut out));
        });
    }
}

fn kmac(c: &mut Criterion) {
    let mut group = group(c, "kmac256");
    let keys: Vec<_> = (0..64u8).map(|i| keccak::Kmac256::new(&[i; 32], b"bench")).collect();
    // The tags of short messages, and of chunks of 1 MiB, which are over a nonce, an index and 256 digests.
    for (name, count, size) in [("1000x100B", 1000, 100), ("16x8217B", 16, 8217)] {
        let data = vec![1; count * size];
        let inputs: Vec<_> = data.chunks(size).enumerate().map(|(i, m)| (&keys[i % keys.len()], m)).collect();
        let mut out = vec![[0; keccak::DIGEST]; inputs.len()];
        group.throughput(Throughput::Bytes(data.len() as u64));
        for level in keccak::Level::available() {
            group.bench_function(BenchmarkId::new(level.name(), name), |b| {
                b.iter(|| keccak::kmac256_many(level, black_box(&inputs), &mut out));
            });
        }
    }
}

/// Inputs of all lengths up to two slices: this shows what is lost when lanes do not end together.
fn ragged(c: &mut Criterion) {
    let mut group = group(c, "sha3-256-ragged");
    let data = vec![1; 4 << 20];
    let mut rest = &data[..];
    let mut inputs = Vec::new();
    for i in 0..900usize {
        let (input, behind) = rest.split_at(i * 4099 % 8191);
        inputs.push(input);
        rest = behind;
    }
    let mut out = vec![[0; keccak::DIGEST]; inputs.len()];
    group.throughput(Throughput::Bytes(inputs.iter().map(|i| i.len() as u64).sum()));
    for level in keccak::Level::available() {
        group.bench_function(BenchmarkId::new(level.name(), "900x0-8190B"), |b| {
            b.iter(|| keccak::sha3_256_many(level, black_box(&inputs), &mut out));
        });
    }
}

criterion_group!(kernels, ctr, sha3, turboshake, kmac, ragged);
criterion_main!(kernels);
