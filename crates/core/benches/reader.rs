//! Reading protected files through a `Reader`: whole files in order, compared with unprotecting them, and 4 KiB at
//! random places, compared with the bare work of opening chunks. The file is in the page cache, or in memory if a row
//! says so.
//!
//! `cargo bench -p phalanx-core --bench reader`; a part of it with `-- whole/`, for example.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use phalanx_core::engine::{Bind, CpuEngine, Engine, Job, Levels, Op, Unit};
use phalanx_core::format::Header;
use phalanx_core::{
    ChunkSize, KdfLimit, NewFile, Opener, ProtectedFile, ReadAt, Reader, ReaderOptions, Recipient, Roster, SecretKey,
    Sink, Source, Suite,
};
use phalanx_host::file;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Seek, Write};
use std::sync::Arc;
use std::time::Duration;

const MIB: usize = 1 << 20;

fn key() -> SecretKey {
    SecretKey::from_slice(&[7; 32]).unwrap()
}

fn opener() -> Opener<SecretKey> {
    Opener::new(key(), KdfLimit::default())
}

/// A protected file of this many bytes that are not zero.
fn protected(len: usize, chunk: usize) -> File {
    let new =
        NewFile::with_chunk_size(Suite::default(), ChunkSize::new(chunk as u64).unwrap(), &[Recipient::key(&key())]);
    let mut file = tempfile::tempfile().unwrap();
    let plain =
        (0..len as u64 / 8).flat_map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect::<Vec<_>>();
    new.unwrap().protect(&Roster::cpu(), Source::stream(&plain[..]), Sink::Stream(Box::new(&mut file)), &()).unwrap();
    file.flush().unwrap();
    file
}

fn whole(c: &mut Criterion) {
    let mut group = c.benchmark_group("whole");
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(4));
    group.sample_size(15).sampling_mode(SamplingMode::Flat);
    let len = 256 * MIB;
    group.throughput(Throughput::Bytes(len as u64));
    for (label, chunk) in [("1MiB", MIB), ("64KiB", MIB / 16), ("4KiB", MIB / 256)] {
        let file = protected(len, chunk);
        let roster = Arc::new(Roster::cpu());
        group.bench_function(format!("unprotect/{label}"), |b| {
            b.iter(|| {
                let protected = ProtectedFile::open(file::regular(&file).unwrap(), &opener()).unwrap();
                protected.unprotect(&roster, Sink::Stream(Box::new(io::sink())), &()).unwrap()
            });
        });
        group.bench_function(format!("reader/{label}"), |b| {
            let options = ReaderOptions::new().roster(roster.clone());
            let mut buf = vec![0; MIB];
            b.iter(|| {
                let mut reader = Reader::open_with(file.try_clone().unwrap(), &opener(), &options).unwrap();
                while reader.read(&mut buf).unwrap() > 0 {
                    black_box(&buf);
                }
            });
        });
    }
}

/// Numbers that look random.
fn random() -> impl FnMut(u64) -> u64 {
    let mut state = 1u64;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

fn random_reads(c: &mut Criterion) {
    let mut group = c.benchmark_group("random-4KiB");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    group.sample_size(30).throughput(Throughput::Bytes(4096));
    const CHUNK: usize = 4096;
    const CHUNKS: u64 = 16384;
    let suite = Suite::default();
    let mut file = protected(CHUNKS as usize * CHUNK, CHUNK);
    let mut stored = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut stored).unwrap();
    let header = Header::read(&mut &stored[..]).unwrap();
    let record = CHUNK + suite.overhead();

    // The bare work: a record is read, and one core opens it as a job.
    let engine = CpuEngine::serial(Levels::detect());
    let keys = opener().open(&header).unwrap().keys.content().clone();
    let mut job = Job::of_chunks(Op::Open, suite, header.chunk_log2(), [keys].into(), engine.buffer(record).unwrap());
    let data = suite.overhead()..record;
    job.units = vec![Unit { key: 0, nonce: [0; 16], bind: Bind::Chunk { index: 0, last: false }, data, tag: [0; 32] }];
    let mut next = random();
    let mut bare = |group: &mut BenchmarkGroup<'_, WallTime>, label: &str, source: &dyn ReadAt| {
        group.bench_function(format!("bare/{label}"), |b| {
            b.iter(|| {
                // Not the last chunk, which is bound as the last.
                let index = next(CHUNKS - 1);
                source.read_at(&mut job.buf, header.bytes().len() as u64 + index * record as u64).unwrap();
                let (nonce, tag) = job.buf[..suite.overhead()].split_at(suite.nonce_len());
                job.units[0].nonce.copy_from_slice(nonce);
                job.units[0].tag.copy_from_slice(tag);
                job.units[0].bind = Bind::Chunk { index, last: false };
                assert!(engine.run(black_box(&mut job)).unwrap().all_passed());
            });
        });
    };
    let sources: [(&str, Arc<dyn ReadAt + Send + Sync>); 2] = [("memory", Arc::new(stored)), ("file", Arc::new(file))];
    // Side by side, because the machine's speed changes in the course of a run.
    for (label, source) in sources {
        bare(&mut group, label, &*source);
        // Nearly every read opens a chunk.
        let reader = Reader::open_with(source, &opener(), &ReaderOptions::new().cache(MIB)).unwrap();
        let (mut next, mut buf) = (random(), [0; CHUNK]);
        group.bench_function(format!("reader/{label}"), |b| {
            b.iter(|| assert_eq!(reader.read_at(&mut buf, next(CHUNKS - 1) * CHUNK as u64).unwrap(), CHUNK));
        });
    }
}

criterion_group!(benches, whole, random_reads);
criterion_main!(benches);
