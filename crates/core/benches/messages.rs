//! A million messages of 256 bytes, each under its own key, sealed and opened where they lie and copied into one
//! buffer, by one thread and by two. Each time is for a group of 65,536 messages. Every measurement takes the next
//! group of the million, so that messages and keys come from memory and not from the caches.
//!
//! `cargo bench -p phalanx-core --bench messages`; a part of it with `-- seal/`, for example.

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use phalanx_core::batch::{self, BehindRoom, Copied, Message};
use phalanx_core::engine::{CpuEngine, Levels};
use phalanx_core::{Roster, SecretKey, Suite};
use std::sync::Arc;
use std::time::{Duration, Instant};

const COUNT: usize = 1 << 20;
const GROUP: usize = 1 << 16;
const LEN: usize = 256;

const SUITES: [(&str, Suite); 3] =
    [("suite-1", Suite::Aes256CtrSha3), ("suite-5", Suite::Aes256CtrTurboShake), ("suite-4", Suite::Aes256Gcm)];

fn messages(c: &mut Criterion) {
    let keys: Vec<_> = (0..COUNT as u64)
        .map(|i| {
            let word = i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
            SecretKey::from_slice(&[word; 4].concat()).expect("32 bytes")
        })
        .collect();
    for (name, suite) in SUITES {
        let stored = LEN + suite.overhead();
        let mut data = vec![7; COUNT * stored];
        for threads in [1, 2] {
            let roster = Roster::new(&[Arc::new(CpuEngine::parallel(threads, Levels::detect()))]);
            let mut next = (0..COUNT / GROUP).cycle().map(|i| i * GROUP);
            // Only one of the two is timed, but both run, because only sealed messages can be opened.
            let mut timed = |opens: bool, iterations: u64| {
                let mut total = Duration::ZERO;
                for _ in 0..iterations {
                    let from = next.next().expect("it has no end");
                    let keys = &keys[from..from + GROUP];
                    let records = &mut data[from * stored..(from + GROUP) * stored];
                    for turn in [false, true] {
                        let pairs = keys.iter().zip(records.chunks_exact_mut(stored));
                        let mut set: Vec<_> = pairs
                            .map(|(key, record)| match turn {
                                false => Message::to_seal(key, b"", BehindRoom::new(suite, record).expect("room")),
                                true => Message::to_open(key, b"", record),
                            })
                            .collect();
                        let started = Instant::now();
                        match turn {
                            false => batch::seal(&roster, suite, &mut set).unwrap(),
                            true => batch::open(&roster, suite, &mut set).unwrap(),
                        }
                        if turn == opens {
                            total += started.elapsed();
                        }
                    }
                }
                total
            };
            let mut group = c.benchmark_group(name);
            group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
            group.sample_size(10).sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(GROUP as u64));
            group.bench_function(format!("seal/{threads}"), |b| b.iter_custom(|n| timed(false, n)));
            group.bench_function(format!("open/{threads}"), |b| b.iter_custom(|n| timed(true, n)));
            let mut out = vec![0; GROUP * stored];
            group.bench_function(format!("seal-into/{threads}"), |b| {
                b.iter(|| {
                    let from = next.next().expect("it has no end");
                    let plain = data[from * stored..].chunks_exact(stored).map(|record| &record[..LEN]);
                    let inputs: Vec<_> = keys[from..from + GROUP]
                        .iter()
                        .zip(plain)
                        .map(|(key, bytes)| Copied { key: key.into(), ad: b"", bytes })
                        .collect();
                    batch::seal_into(&roster, suite, &inputs, &mut out).unwrap()
                });
            });
        }
    }
}

criterion_group!(benches, messages);
criterion_main!(benches);
