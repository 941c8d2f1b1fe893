//! Many users at once: each line one measurement beside its named peer, in rounds that take turns, with the ratio of the
//! medians. Bare AES-256-CTR and messages, over P2's workload of 10,000 users; a million short messages; and the flow.
//!
//! `cargo bench -p phalanx-core --bench users`; a part of it with `-- bare`, `-- sealed`, `-- gcm`, `-- short` or `-- flow`.

mod flow;
#[path = "../../../bench/src/users/workload.rs"]
#[allow(dead_code, unused_imports, reason = "the rest is for the bench of the papers, and its tests")]
mod workload;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::digest;
use phalanx_core::Suite;
use phalanx_core::bare::{Cpu, Kind, Scheme, Task};
use phalanx_core::batch;
use phalanx_core::chunk::Levels;
use phalanx_core::cpu::CpuEngine;
use phalanx_core::dispatcher::Dispatcher;
use phalanx_core::key::SecretKey;
use phalanx_core::message::Message;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;
use workload::{Random, Shape};

const USERS: usize = 10_000;
const ROUNDS: usize = 7;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    let levels = Levels::detect();
    println!(
        "{cores} cores, AES {}, SHA-3 {}; medians of {ROUNDS} rounds; GB/s of plaintext",
        levels.aes, levels.keccak
    );
    type Part = fn(usize);
    let parts: [(&str, Part); 5] =
        [("bare", bare), ("sealed", sealed), ("gcm", gcm), ("short", short), ("flow", flow::flow)];
    for (_, run) in parts.iter().filter(|(name, _)| wants(name)) {
        run(cores);
    }
}

/// A name, and what is measured.
type Contender<'a> = (&'a str, Box<dyn FnMut() + 'a>);

/// Runs all contenders in turn, and gives the median of each one's speeds in GB/s.
fn compare(bytes: usize, contenders: &mut [Contender<'_>]) -> Vec<f64> {
    let mut times = vec![Vec::new(); contenders.len()];
    for _ in 0..=ROUNDS {
        for ((_, run), times) in contenders.iter_mut().zip(&mut times) {
            let start = Instant::now();
            run();
            times.push(start.elapsed().as_secs_f64());
        }
    }
    let median = |times: &mut Vec<f64>| {
        // The first round touches the memory.
        times.remove(0);
        times.sort_by(f64::total_cmp);
        bytes as f64 / times[times.len() / 2] / 1e9
    };
    let speeds: Vec<f64> = times.iter_mut().map(median).collect();
    for ((name, _), speed) in contenders.iter().zip(&speeds) {
        println!("  {name:<64} {speed:7.3}");
    }
    speeds
}

fn bar(what: &str, ratio: f64, bar: f64) {
    println!("  = {what:<62} {ratio:7.3} ×   bar {bar} ×   {}", if ratio >= bar { "reached" } else { "MISSED" });
}

/// All users' data in one buffer, each behind `room` bytes.
struct Data {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    room: usize,
    keys: Vec<SecretKey>,
}

impl Data {
    fn new(lengths: Vec<usize>, room: usize) -> Self {
        let mut random = Random::new(2);
        let keys = lengths.iter().map(|_| SecretKey::from_slice(&random.bytes::<32>()).expect("32 bytes")).collect();
        let mut bytes = vec![0; lengths.iter().map(|len| len + room).sum()];
        bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
        Self { bytes, lengths, room, keys }
    }

    fn plaintext(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// Each user's key and part.
    fn users(&mut self) -> Vec<(&SecretKey, &mut [u8])> {
        let mut rest = &mut self.bytes[..];
        let mut users = Vec::with_capacity(self.lengths.len());
        for (key, len) in self.keys.iter().zip(&self.lengths) {
            let (part, behind) = rest.split_at_mut(self.room + len);
            users.push((key, part));
            rest = behind;
        }
        users
    }

    fn tasks(&mut self) -> Vec<Task<'_>> {
        let task = |(key, data): (_, _)| Task { key: SecretKey::expose(key), counter: [9; 16], data };
        self.users().into_iter().map(task).collect()
    }

    fn messages(&mut self) -> Vec<Message<'_>> {
        self.users().into_iter().map(|(key, data)| Message { key, ad: b"", data }).collect()
    }
}

fn in_parallel(cores: usize, bytes: &mut [u8], work: impl Fn(&mut [u8]) + Sync) {
    let part = bytes.len().div_ceil(cores);
    thread::scope(|scope| bytes.chunks_mut(part).for_each(|part| drop(scope.spawn(|| work(part)))));
}

fn aws_ctr(key: &SecretKey, data: &mut [u8]) {
    let key = EncryptingKey::ctr(UnboundCipherKey::new(&AES_256, key.expose()).unwrap()).unwrap();
    key.less_safe_encrypt(data, EncryptionContext::Iv128((&[9; 16]).into())).unwrap();
}

fn bare(cores: usize) {
    println!("bare AES-256-CTR, {USERS} irregular users");
    let data = &Mutex::new(Data::new(workload::lengths(USERS, Shape::Irregular, 1), 0));
    let bytes = data.lock().unwrap().plaintext();
    let level = Levels::detect().aes;
    let scheme = |kind, threads| {
        let run = move || Cpu { kind, threads, level }.run(&mut data.lock().unwrap().tasks()).unwrap();
        Box::new(run) as Box<dyn FnMut()>
    };
    let speeds = compare(
        bytes,
        &mut [
            (
                "XOR pass in place, all cores",
                Box::new(move || {
                    let xor = |part: &mut [u8]| part.iter_mut().for_each(|byte| *byte ^= 0x5a);
                    in_parallel(cores, &mut data.lock().unwrap().bytes, xor);
                }),
            ),
            ("CCS, all cores", scheme(Kind::Ccs, cores)),
            ("CCNS, all cores", scheme(Kind::Ccns, cores)),
            ("CNC, all cores", scheme(Kind::Cnc, cores)),
            ("SR, one thread", scheme(Kind::Sr, 1)),
            ("CCS, one thread", scheme(Kind::Ccs, 1)),
            (
                "aws-lc-rs CTR, one by one, one thread",
                Box::new(|| data.lock().unwrap().users().into_iter().for_each(|(key, part)| aws_ctr(key, part))),
            ),
        ],
    );
    bar("CCS over the XOR pass", speeds[1] / speeds[0], 0.85);
    bar("CCS over aws-lc-rs CTR one by one, one thread", speeds[1] / speeds[6], 3.0);
}

fn sealer(threads: usize, suite: Suite, data: &Mutex<Data>) -> Box<dyn FnMut() + '_> {
    let dispatcher = Dispatcher::new(&[Arc::new(CpuEngine::parallel(threads, Levels::detect()))]);
    Box::new(move || batch::seal(&dispatcher, suite, &mut data.lock().unwrap().messages()).unwrap())
}

fn sealed(cores: usize) {
    println!("suite 1, {USERS} irregular users");
    let suite = Suite::Aes256CtrSha3;
    let data = &Mutex::new(Data::new(workload::lengths(USERS, Shape::Irregular, 1), suite.overhead()));
    let bytes = data.lock().unwrap().plaintext();
    let opener = Dispatcher::new(&[Arc::new(CpuEngine::parallel(cores, Levels::detect()))]);
    let speeds = compare(
        bytes,
        &mut [
            ("batch sealed, all cores", sealer(cores, suite, data)),
            (
                "batch opened, all cores",
                Box::new(move || {
                    assert!(batch::open(&opener, suite, &mut data.lock().unwrap().messages()).unwrap().all_passed())
                }),
            ),
            ("batch sealed, one core", sealer(1, suite, data)),
            (
                "aws-lc-rs CTR and SHA3-256, one by one, one thread",
                Box::new(|| {
                    for (key, part) in data.lock().unwrap().users() {
                        aws_ctr(key, part);
                        black_box(digest::digest(&digest::SHA3_256, part));
                    }
                }),
            ),
        ],
    );
    bar("sealed over aws-lc-rs CTR and SHA3-256, one thread", speeds[0] / speeds[3], 11.0);
    bar("sealed, all cores over one", speeds[0] / speeds[2], 0.95 * cores as f64);
}

fn gcm(cores: usize) {
    println!("suite 4, {USERS} irregular users");
    let suite = Suite::Aes256Gcm;
    let data = &Mutex::new(Data::new(workload::lengths(USERS, Shape::Irregular, 1), suite.overhead()));
    let bytes = data.lock().unwrap().plaintext();
    let speeds = compare(
        bytes,
        &mut [
            ("batch sealed, all cores", sealer(cores, suite, data)),
            (
                "aws-lc-rs GCM in a parallel loop, key setup for each user",
                Box::new(move || {
                    let mut data = data.lock().unwrap();
                    let users = Mutex::new(data.users().into_iter());
                    let lane = || {
                        while let Some((key, part)) = { users.lock().unwrap().next() } {
                            let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.expose()).unwrap());
                            let (head, part) = part.split_at_mut(28);
                            let nonce = Nonce::assume_unique_for_key([9; 12]);
                            let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), part).unwrap();
                            head[12..].copy_from_slice(tag.as_ref());
                        }
                    };
                    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(lane))));
                }),
            ),
        ],
    );
    bar("sealed over the parallel loop", speeds[0] / speeds[1], 0.95);
}

fn short(cores: usize) {
    const COUNT: usize = 1_000_000;
    println!("suite 1, {COUNT} messages of 256 bytes, each its own key");
    let suite = Suite::Aes256CtrSha3;
    let data = &Mutex::new(Data::new(vec![256; COUNT], suite.overhead()));
    let one = Dispatcher::new(&[Arc::new(CpuEngine::serial(Levels::detect()))]);
    let speeds = compare(
        256 * COUNT,
        &mut [
            ("batch sealed, all cores", sealer(cores, suite, data)),
            ("batch sealed, one core", sealer(1, suite, data)),
            (
                "the same call for one message at a time, one core",
                Box::new(|| {
                    for message in &mut data.lock().unwrap().messages() {
                        batch::seal(&one, suite, std::slice::from_mut(message)).unwrap();
                    }
                }),
            ),
        ],
    );
    println!("  {:.0} ns a message in the batch, all cores", 256.0 / speeds[0]);
    bar("batch over one at a time", speeds[0] / speeds[2], 3.0);
}
