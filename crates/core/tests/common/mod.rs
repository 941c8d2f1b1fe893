//! Shared helpers of the core's tests.
#![allow(dead_code, reason = "each test program uses a part")]

use phalanx_core::engine::{CpuEngine, Engine, Levels, Twice};
use phalanx_core::{KeyId, KeySource, Password, SecretKey, Suite};
use phalanx_kernels::{aes, keccak};
use std::sync::Arc;

/// Bytes that show their place: byte i is i mod 251.
pub fn painted(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// The sizes around every edge of blocks, slices and chunks of 1 MiB.
pub const SIZES: &[usize] = &[
    0,
    1,
    15,
    16,
    17,
    135,
    136,
    137,
    4095,
    4096,
    4097,
    8 * 4096 - 1,
    8 * 4096,
    8 * 4096 + 1,
    100_000,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
];

/// The suites. Miri cannot run AES-GCM, which is assembly, and takes one of the others.
pub const SUITES: &[Suite] = if cfg!(miri) { &[Suite::Aes256CtrSha3] } else { Suite::ALL };

/// The serial engine with every kernel of this machine, and the parallel engine with the fastest.
pub fn engines() -> Vec<Arc<dyn Engine>> {
    let fastest = Levels::detect();
    let of_aes = aes::Level::available().map(|aes| Levels { aes, ..fastest });
    let of_keccak = keccak::Level::available().map(|keccak| Levels { keccak, ..fastest });
    let serial = of_aes.chain(of_keccak).map(|levels| Arc::new(CpuEngine::serial(levels)) as Arc<dyn Engine>);
    let parallel: Arc<dyn Engine> = Arc::new(CpuEngine::parallel(4, fastest));
    let twice = Arc::new(Twice::new(parallel.clone(), fastest.second()));
    serial.chain([parallel, twice]).collect()
}

/// Given keys and a password.
#[derive(Clone, Default)]
pub struct AtHand {
    pub keys: Vec<SecretKey>,
    pub password: Option<Password>,
}

impl KeySource for AtHand {
    fn key(&self, id: &KeyId) -> phalanx_core::Result<Option<SecretKey>> {
        Ok(self.keys.iter().find(|key| key.id() == *id).cloned())
    }

    fn password(&self) -> phalanx_core::Result<Option<Password>> {
        Ok(self.password.clone())
    }
}

/// The step of a sweep: `all` if PHALANX_EXHAUSTIVE is set. Otherwise `part`, and a line says so.
pub fn sweep_by(all: usize, part: usize) -> usize {
    if std::env::var_os("PHALANX_EXHAUSTIVE").is_some() {
        return all;
    }
    println!("skipped: exhaustive sweep (PHALANX_EXHAUSTIVE=1)");
    part
}

/// A generator of test data: splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
