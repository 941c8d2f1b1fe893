//! Messages whose traces are searched for, and the engines that work on them.

use crate::memory::{Hunt, key, secret, tidily, write};
use crate::schedule::expand;
use phalanx_core::batch::coalescer::MessageKey;
use phalanx_core::batch::{BehindRoom, KeyOf, Message};
use phalanx_core::engine::{Buffer, CpuEngine, Engine, EngineInfo, Fault, Job, Levels, Op, Verdicts};
use phalanx_core::{Roster, SecretKey, Suite, UserKeys, batch};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use zeroize::Zeroize;

/// Lengths around the edges of blocks, slices and lanes, and one message that several threads share.
pub const LENGTHS: [usize; 14] =
    [100, 64, 4096, 0, 135, 137, 12_345, 4097, (1 << 20) + 777, 8 * 4096, 300, 16, 9 * 4096 + 5, 999];

/// The associated data of all messages.
pub const AD: &[u8] = b"associated";

/// The first seed of keys.
pub const KEYS: u64 = 1 << 32;

/// New seeds, which neither another set nor the test of the search has used. That test uses the first few.
pub fn seeds() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1000);
    NEXT.fetch_add(LENGTHS.len() as u64, Ordering::Relaxed)
}

/// The keys of a set.
enum Keys {
    Own(Vec<Arc<SecretKey>>),
    /// The key of each is derived from a root.
    Users(Arc<UserKeys>),
}

/// The name of a user.
fn user(i: usize) -> &'static [u8] {
    &b"the names of all the users of a set"[i..]
}

/// A caller's messages. No two sets have the same keys or texts.
pub struct Set {
    pub suite: Suite,
    keys: Keys,
    /// Room and the plaintext, or the stored message.
    pub data: Vec<Vec<u8>>,
    first: u64,
}

impl Set {
    /// A set to be sealed or opened, with a key for each message.
    pub fn new(op: Op, suite: Suite) -> Self {
        Self::with(op, suite, |first| {
            let keys = (first..).take(LENGTHS.len()).map(|i| Arc::new(key(KEYS + i)));
            Keys::Own(keys.collect())
        })
    }

    /// A set to be sealed or opened, with a user for each message.
    pub fn of_users(op: Op, suite: Suite) -> Self {
        Self::with(op, suite, |first| Keys::Users(Arc::new(UserKeys::new(&key(KEYS + first), b"users of tests"))))
    }

    fn with(op: Op, suite: Suite, keys: impl FnOnce(u64) -> Keys) -> Self {
        tidily(|| {
            let first = seeds();
            let of = |(i, len)| {
                let mut data = vec![0; suite.overhead() + len];
                write(first + i, &mut data[suite.overhead()..]);
                data
            };
            let data = (0..).zip(LENGTHS).map(of).collect();
            let mut set = Self { suite, keys: keys(first), data, first };
            if op == Op::Open {
                batch::seal(&cpu(), suite, &mut set.messages(Op::Seal)).unwrap();
            }
            set
        })
    }

    /// Searches for all secrets of the set, and for the keystream if it is known beforehand.
    pub fn hunt(&self, op: Op) -> Hunt {
        let mut hunt = Hunt::default();
        tidily(|| {
            hunt.seek("key 0, or the root", secret(KEYS + self.first).take(32));
            for ((i, at), data) in (0..).zip(self.first..).zip(&self.data) {
                let stored = &data[self.suite.overhead()..];
                let text = || secret(at).take(stored.len());
                hunt.seek(format!("plaintext {i}"), text());
                let key = match &self.keys {
                    Keys::Own(keys) => (*keys[i]).clone(),
                    Keys::Users(keys) => keys.key(user(i)),
                };
                hunt.seek(format!("key {i}"), key.expose().iter().copied());
                let keys = key.message_keys(self.suite);
                hunt.seek(format!("K_mac {i}"), keys.mac().iter().copied());
                let mut schedule = expand(keys.encrypt());
                hunt.seek(format!("round keys {i}"), schedule.iter().copied());
                schedule.zeroize();
                if op == Op::Open {
                    hunt.seek(format!("keystream {i}"), stored.iter().zip(text()).map(|(a, b)| a ^ b));
                }
            }
        });
        hunt
    }

    /// The key of a message, as a batch takes it.
    fn key(keys: &Keys, i: usize) -> KeyOf<'_> {
        match keys {
            Keys::Own(keys) => (&keys[i]).into(),
            Keys::Users(keys) => (&**keys, user(i)).into(),
        }
    }

    /// The key of a message, as a coalescer takes it.
    pub fn submitted_key(&self, i: usize) -> MessageKey {
        match &self.keys {
            Keys::Own(keys) => (&keys[i]).into(),
            Keys::Users(keys) => (keys, user(i)).into(),
        }
    }

    pub fn messages(&mut self, op: Op) -> Vec<Message<'_>> {
        let (suite, keys) = (self.suite, &self.keys);
        let message = |(i, data): (usize, _)| match op {
            Op::Seal => Message::to_seal(Self::key(keys, i), AD, BehindRoom::new(suite, data).unwrap()),
            Op::Open => Message::to_open(Self::key(keys, i), AD, data),
        };
        self.data.iter_mut().map(Vec::as_mut_slice).enumerate().map(message).collect()
    }

    /// The messages to be copied.
    pub fn inputs(&self, op: Op) -> Vec<batch::Copied<'_>> {
        let from = if op == Op::Seal { self.suite.overhead() } else { 0 };
        let each = self.data.iter().enumerate();
        each.map(|(i, data)| batch::Copied { key: Self::key(&self.keys, i), ad: AD, bytes: &data[from..] }).collect()
    }

    /// Wipes the caller's buffers.
    pub fn wipe(mut self) {
        self.data.iter_mut().for_each(|data| wipe(data));
    }
}

/// Wipes the bytes as a caller does, and not beyond their end.
pub fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    black_box(bytes);
}

/// The CPU with three threads.
pub fn cpu() -> Roster {
    Roster::new(&[Arc::new(CpuEngine::parallel(3, Levels::detect()))])
}

/// An engine that copies messages into jobs. After `left` jobs it fails in its own way.
pub struct ByJobs {
    inner: CpuEngine,
    info: EngineInfo,
    left: AtomicUsize,
    fail: fn() -> Fault,
}

impl ByJobs {
    pub fn roster(jobs: usize, fail: fn() -> Fault) -> Roster {
        let inner = CpuEngine::parallel(2, Levels::detect());
        // A batch is several jobs.
        let info = EngineInfo { preferred_job: 256 << 10, ..inner.info().clone() };
        Roster::new(&[Arc::new(Self { inner, info, left: AtomicUsize::new(jobs), fail })])
    }
}

impl Engine for ByJobs {
    fn info(&self) -> &EngineInfo {
        &self.info
    }
    fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
        self.inner.buffer(len)
    }
    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        // It does the work before it fails, so that there is something that could be left in memory.
        let verdicts = self.inner.run(job)?;
        let left = self.left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(|_| verdicts).map_err(|_| (self.fail)())
    }
}

pub fn fault() -> Fault {
    Fault { engine: "this".into(), reason: "as the test wants it".into() }
}

pub fn panics() -> Fault {
    panic!("as the test wants it")
}

/// The CPU. It calls a function after the work.
pub struct After<F>(CpuEngine, F);

impl<F: Fn() + Send + Sync + 'static> After<F> {
    pub fn roster(work: F) -> Roster {
        Roster::new(&[Arc::new(Self(CpuEngine::serial(Levels::detect()), work))])
    }
}

impl<F: Fn() + Send + Sync> Engine for After<F> {
    fn info(&self) -> &EngineInfo {
        self.0.info()
    }
    fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
        self.0.buffer(len)
    }
    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        self.0.run(job)
    }
    fn messages(&self, op: Op, suite: Suite, set: &mut [Message<'_>]) -> Option<Result<Verdicts, Fault>> {
        let verdicts = self.0.messages(op, suite, set);
        (self.1)();
        verdicts
    }
}
