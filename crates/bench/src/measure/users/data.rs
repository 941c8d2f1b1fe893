//! The users' data in memory, and the schemes that work on them in turn.

use crate::measure::threads::{each, try_each};
use crate::measure::users::bare::{Cpu, Task};
use crate::measure::users::workload::Random;
use crate::measure::{Contestant, Error, Result, Row, engine, in_turns};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::digest;
use phalanx_core::batch::{BehindRoom, Message};
use phalanx_core::engine::{CpuEngine, Levels, Op};
use phalanx_core::{Roster, SecretKey, Suite, batch};
use std::cell::RefCell;
use std::hint::black_box;
use std::slice;
use std::sync::Arc;

/// The first counter block of every user. Each user has its own key.
pub const COUNTER: [u8; 16] = [9; 16];

/// All users' data in one buffer, each after some room, and each user's key.
pub struct Data {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    room: usize,
    keys: Vec<SecretKey>,
}

impl Data {
    /// Data of these lengths, each after `room` bytes. The bytes have no meaning.
    pub fn new(lengths: Vec<usize>, room: usize) -> Self {
        let mut random = Random::new(2);
        let keys = lengths.iter().map(|_| SecretKey::from_slice(&random.bytes::<32>()).expect("32 bytes")).collect();
        let len = lengths.iter().map(|len| len + room).sum();
        let mut data = Self { bytes: vec![0; len], lengths, room, keys };
        // This writes to every page, so that the system allocates it.
        data.paint();
        data
    }

    /// Restores the original bytes.
    pub fn paint(&mut self) {
        self.bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = painted(i));
    }

    /// Whether every user's data are the original ones. The room is not compared.
    pub fn is_painted(&self) -> bool {
        let mut at = 0;
        self.each().all(|(_, data)| {
            let start = at + self.room;
            at = start + data.len();
            data.iter().zip(start..).all(|(byte, i)| *byte == painted(i))
        })
    }

    pub fn users(&self) -> usize {
        self.lengths.len()
    }

    /// The length of all plaintexts in bytes.
    pub fn plaintext(&self) -> usize {
        self.lengths.iter().sum()
    }

    pub fn each(&self) -> impl Iterator<Item = (&SecretKey, &[u8])> {
        let mut rest = &self.bytes[..];
        self.keys.iter().zip(&self.lengths).map(move |(key, len)| {
            let (part, after) = rest.split_at(self.room + len);
            rest = after;
            (key, &part[self.room..])
        })
    }

    /// Each user's key, and its part of the buffer including the room.
    pub fn parts(&mut self) -> Vec<(&SecretKey, &mut [u8])> {
        let mut rest = &mut self.bytes[..];
        let mut parts = Vec::with_capacity(self.lengths.len());
        for (key, len) in self.keys.iter().zip(&self.lengths) {
            let (part, after) = rest.split_at_mut(self.room + len);
            parts.push((key, part));
            rest = after;
        }
        parts
    }

    /// The tasks of the bare schemes, under the first bytes of each key.
    fn tasks(&mut self, key_len: usize) -> Vec<Task<'_>> {
        let task = |(key, data)| Task { key: &SecretKey::expose(key)[..key_len], counter: COUNTER, data };
        self.parts().into_iter().map(task).collect()
    }

    pub fn messages(&mut self, op: Op) -> Vec<Message<'_>> {
        let suite = Suite::ALL.iter().copied().find(|suite| suite.overhead() == self.room).unwrap_or_default();
        let message = |(key, data)| match op {
            Op::Seal => Message::to_seal(key, b"", BehindRoom::new(suite, data).expect("each part begins with room")),
            Op::Open => Message::to_open(key, b"", data),
        };
        self.parts().into_iter().map(message).collect()
    }
}

/// The original byte at a place of the buffer.
fn painted(at: usize) -> u8 {
    at as u8
}

type Act = Box<dyn Fn(&mut Data) -> Result<()>>;

/// A way of working on all of the data.
pub struct Scheme {
    pub name: &'static str,
    pub threads: usize,
    act: Act,
}

impl Scheme {
    fn new(name: &'static str, threads: usize, act: impl Fn(&mut Data) -> Result<()> + 'static) -> Self {
        Self { name, threads, act: Box::new(act) }
    }

    pub fn bare(scheme: Cpu, key_len: usize) -> Self {
        Self::new(scheme.name(), scheme.threads, move |data| {
            scheme.run(&mut data.tasks(key_len));
            Ok(())
        })
    }

    /// Seals all messages in one call.
    pub fn batch(suite: Suite, threads: usize, levels: Levels) -> Self {
        let cpu = roster(threads, levels);
        Self::new(BATCH, threads, move |data| Ok(batch::seal(&cpu, suite, &mut data.messages(Op::Seal))?))
    }

    /// Seals one message at a time with the call for batches, by one thread.
    pub fn one_by_one(suite: Suite, levels: Levels) -> Self {
        let cpu = roster(1, levels);
        Self::new(ONE_BY_ONE, 1, move |data| {
            let mut messages = data.messages(Op::Seal);
            messages.iter_mut().try_for_each(|message| Ok(batch::seal(&cpu, suite, slice::from_mut(message))?))
        })
    }

    /// Reads, changes and writes every byte, with all threads.
    pub fn xor_pass(threads: usize) -> Self {
        Self::new(XOR_PASS, threads, move |data| {
            let part = data.bytes.len().div_ceil(threads).max(1);
            each(threads, data.bytes.chunks_mut(part), |part| part.iter_mut().for_each(|byte| *byte ^= 0x5a));
            Ok(())
        })
    }

    /// AES-256-CTR of aws-lc-rs for one user after another, by one thread.
    pub fn aws_ctr() -> Self {
        Self::new(AWS_CTR, 1, |data| data.parts().into_iter().try_for_each(|(key, part)| aws_ctr(key, part)))
    }

    /// AES-256-CTR of aws-lc-rs, like [`Scheme::aws_ctr`], and then SHA3-256 of each ciphertext.
    pub fn aws_ctr_sha3() -> Self {
        Self::new(AWS_CTR_SHA3, 1, |data| {
            let room = data.room;
            data.parts().into_iter().try_for_each(|(key, part)| {
                aws_ctr(key, &mut part[room..])?;
                black_box(digest::digest(&digest::SHA3_256, &part[room..]));
                Ok(())
            })
        })
    }

    /// A loop around AES-256-GCM of aws-lc-rs, in which each thread takes the next user.
    pub fn aws_gcm(threads: usize) -> Self {
        Self::new(AWS_GCM, threads, move |data| try_each(threads, data.parts(), |(key, part)| aws_gcm(key, part)))
    }
}

/// Lets all schemes work on the same data in turn. `row` makes a row from scheme, engine and threads.
pub fn take_turns(
    data: &mut Data,
    schemes: &[Scheme],
    rounds: usize,
    row: impl Fn(&str, &str, usize) -> Row,
) -> Result<Vec<Row>> {
    let data = RefCell::new(data);
    let mut contestants = Vec::new();
    for Scheme { name, threads, act } in schemes {
        let row = row(name, engine(*threads), *threads);
        contestants.push(Contestant::repeated(row, || act(&mut data.borrow_mut())));
    }
    Ok(in_turns(contestants, 1, rounds)?.concat())
}

pub const BATCH: &str = "batch";
pub const ONE_BY_ONE: &str = "our own seal, one by one";
pub const XOR_PASS: &str = "XOR pass in place";
pub const AWS_CTR: &str = "aws-lc-rs CTR, one by one";
pub const AWS_CTR_SHA3: &str = "aws-lc-rs CTR and SHA3-256, one by one";
pub const AWS_GCM: &str = "aws-lc-rs GCM in a parallel loop";

/// The lanes of a `cpu` engine.
pub fn roster(threads: usize, levels: Levels) -> Roster {
    Roster::new(&[Arc::new(CpuEngine::parallel(threads, levels))])
}

fn aws_ctr(key: &SecretKey, data: &mut [u8]) -> Result<()> {
    let key = UnboundCipherKey::new(&AES_256, key.expose()).and_then(EncryptingKey::ctr);
    let iv = EncryptionContext::Iv128((&COUNTER).into());
    key.and_then(|key| key.less_safe_encrypt(data, iv)).map(drop).map_err(|_| aws_failed())
}

/// Encrypts one part as a message of suite 4: nonce, tag, ciphertext.
fn aws_gcm(key: &SecretKey, part: &mut [u8]) -> Result<()> {
    let (head, data) = part.split_at_mut(Suite::Aes256Gcm.overhead());
    let (nonce, tag) = head.split_at_mut(Suite::Aes256Gcm.nonce_len());
    nonce.copy_from_slice(&COUNTER[..nonce.len()]);
    let key = UnboundKey::new(&AES_256_GCM, key.expose()).map(LessSafeKey::new).map_err(|_| aws_failed())?;
    let given = Nonce::try_assume_unique_for_key(nonce).map_err(|_| aws_failed())?;
    let made = key.seal_in_place_separate_tag(given, Aad::empty(), data).map_err(|_| aws_failed())?;
    tag.copy_from_slice(made.as_ref());
    Ok(())
}

fn aws_failed() -> Error {
    Error::Program("aws-lc-rs failed".into())
}

#[cfg(test)]
mod tests {
    use super::super::bare::Kind;
    use super::*;

    const LENGTHS: [usize; 4] = [0, 1, 4096, 100_003];

    /// Only the same work can be compared: the peers must produce the same bytes as our own calls.
    #[test]
    fn peers_and_schemes_encrypt_to_the_same_bytes() {
        let encrypted = |scheme: Scheme| {
            let mut data = Data::new(LENGTHS.to_vec(), 0);
            (scheme.act)(&mut data).unwrap();
            data.bytes
        };
        let want = encrypted(Scheme::aws_ctr());
        assert!(want != Data::new(LENGTHS.to_vec(), 0).bytes);
        let level = Levels::detect().aes;
        for (kind, threads) in [(Kind::Ccs, 2), (Kind::Ccns, 2), (Kind::Cnc, 2), (Kind::Sr, 1)] {
            assert!(encrypted(Scheme::bare(Cpu { kind, threads, level }, 32)) == want, "{kind:?}");
            assert!(encrypted(Scheme::bare(Cpu { kind, threads, level }, 16)) != want, "{kind:?}");
        }
        assert!(encrypted(Scheme::aws_ctr_sha3()) == want);
        let passed = encrypted(Scheme::xor_pass(2));
        assert!(passed.iter().enumerate().all(|(i, byte)| *byte == i as u8 ^ 0x5a));
    }

    #[test]
    fn sealed_data_open() {
        let cpu = roster(2, Levels::detect());
        for suite in [Suite::Aes256CtrSha3, Suite::Aes256Gcm] {
            let levels = Levels::detect();
            for scheme in [Scheme::batch(suite, 2, levels), Scheme::one_by_one(suite, levels)] {
                let mut data = Data::new(LENGTHS.to_vec(), suite.overhead());
                let before = data.bytes.clone();
                (scheme.act)(&mut data).unwrap();
                assert!(data.bytes != before);
                assert!(batch::open(&cpu, suite, &mut data.messages(Op::Open)).is_ok());
                assert!(data.is_painted());
                *data.bytes.last_mut().unwrap() ^= 1;
                assert!(!data.is_painted());
            }
        }
    }
}
