//! Batches of few messages, sealed by a roster of one thread and by one of two, in turn. A batch that is too small for
//! a second thread must not be slower with it.
//!
//! `cargo bench -p phalanx-core --bench few`

use phalanx_core::batch::{self, BehindRoom, Message};
use phalanx_core::engine::{CpuEngine, Levels};
use phalanx_core::{Roster, SecretKey, Suite};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 301;
const SUITES: [Suite; 3] = [Suite::Aes256CtrSha3, Suite::Aes256CtrTurboShake, Suite::Aes256Gcm];

/// How many messages, and the lengths in KiB of every five of them: equal lengths, and one that is most of the work.
const SHAPES: [(usize, [usize; 5]); 7] =
    [(5, [4; 5]), (5, [16; 5]), (5, [64; 5]), (5, [256; 5]), (5, [1, 2, 8, 32, 256]), (20, [16; 5]), (100, [16; 5])];

fn main() {
    println!(
        "suite | messages | KiB | 1 thread, us, median and best | 2 threads | 2 threads are faster by, median and best"
    );
    let rosters = [1, 2].map(|n| Roster::new(&[Arc::new(CpuEngine::parallel(n, Levels::detect()))]));
    for suite in SUITES {
        for (count, kib) in SHAPES {
            let mut lengths: Vec<_> = kib.iter().cycle().take(count).map(|kib| kib << 10).collect();
            lengths.sort_unstable_by(|a, b| b.cmp(a));
            let keys: Vec<_> = (0..count).map(|_| SecretKey::random().expect("random bytes")).collect();
            let mut data: Vec<_> = lengths.iter().map(|len| vec![7; len + suite.overhead()]).collect();
            let mut times = [vec![], vec![]];
            for _ in 0..ROUNDS {
                for (roster, times) in rosters.iter().zip(&mut times) {
                    let message = |(key, data)| Message::to_seal(key, b"", BehindRoom::new(suite, data).expect("room"));
                    let mut set: Vec<_> =
                        keys.iter().zip(data.iter_mut().map(Vec::as_mut_slice)).map(message).collect();
                    let started = Instant::now();
                    batch::seal(roster, suite, &mut set).expect("it seals");
                    times.push(started.elapsed());
                }
            }
            times.iter_mut().for_each(|times| times.sort_unstable());
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            let [one, two] = times.map(|times| (us(times[ROUNDS / 2]), us(times[0])));
            println!(
                "{} | {count} | {} | {:.1} {:.1} | {:.1} {:.1} | {:.2} {:.2}",
                suite.id(),
                lengths.iter().sum::<usize>() >> 10,
                one.0,
                one.1,
                two.0,
                two.1,
                one.0 / two.0,
                one.1 / two.1
            );
        }
    }
}
