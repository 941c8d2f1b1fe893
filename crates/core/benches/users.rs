//! A batch of 10,000 messages of 256 bytes: each under a key of its own, each under the key of another user of one
//! [`UserKeys`], and the same with [`UserKeys::key`] called before the batch for each. Median of turns, in milliseconds.
//!
//! `cargo bench -p phalanx-core --bench users`

use phalanx_core::batch::{self, BehindRoom, KeyOf, Message};
use phalanx_core::engine::{CpuEngine, Levels};
use phalanx_core::{Roster, SecretKey, Suite, UserKeys};
use std::sync::Arc;
use std::time::{Duration, Instant};

const COUNT: usize = 10_000;
const LEN: usize = 256;
const TURNS: usize = 51;

fn main() {
    let root = UserKeys::new(&SecretKey::random().expect("random bytes"), b"example.org bench");
    let names: Vec<_> = (0..COUNT).map(|i| format!("user-{i:011}")).collect();
    let own: Vec<_> = names.iter().map(|_| SecretKey::random().expect("random bytes")).collect();
    println!("suite | threads | own keys, ms | users' keys | users' keys one by one");
    for suite in [Suite::Aes256CtrSha3, Suite::Aes256CtrTurboShake, Suite::Aes256Gcm] {
        let mut data = vec![7; COUNT * (LEN + suite.overhead())];
        for threads in [1, 2] {
            let roster = Roster::new(&[Arc::new(CpuEngine::parallel(threads, Levels::detect()))]);
            let mut seal = |keys: &mut dyn Iterator<Item = KeyOf<'_>>| {
                let parts = data.chunks_mut(LEN + suite.overhead());
                let message = |(key, data)| Message::to_seal(key, b"", BehindRoom::new(suite, data).expect("room"));
                batch::seal(&roster, suite, &mut keys.zip(parts).map(message).collect::<Vec<_>>()).expect("it seals");
            };
            let mut times = [vec![], vec![], vec![]];
            for _ in 0..TURNS {
                times[0].push(time(|| seal(&mut own.iter().map(KeyOf::from))));
                times[1].push(time(|| seal(&mut names.iter().map(|name| (&root, name.as_bytes()).into()))));
                times[2].push(time(|| {
                    let keys: Vec<_> = names.iter().map(|name| root.key(name.as_bytes())).collect();
                    seal(&mut keys.iter().map(KeyOf::from));
                }));
            }
            times.iter_mut().for_each(|times| times.sort_unstable());
            let [own, users, single] = times.map(|times| times[TURNS / 2].as_secs_f64() * 1e3);
            println!("{} | {threads} | {own:.2} | {users:.2} | {single:.2}", suite.id());
        }
    }
}

fn time(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}
