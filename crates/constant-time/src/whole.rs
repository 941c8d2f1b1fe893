//! The core, with the kernels of each level of this machine: derivation of keys, chunks, batches of messages, and whole files.
//! Named keys, users' keys and texts are secret, and with them all keys that are derived.

use crate::inputs::Inputs::{self, Public, Secret};
use crate::inputs::same;
use crate::valgrind::{known, public};
use crate::verdicts::{GCM, HEADER, KEY_WRAP, MACHINE, TAG, Verdict};
use phalanx_core::batch::{self, BehindRoom, KeyOf, Message};
use phalanx_core::engine::{Bind, Buffer, CpuEngine, Engine, Job, Levels, Op, Twice, Unit};
use phalanx_core::format::Purpose;
use phalanx_core::{ChunkSize, Error, KdfLimit, KeyId, KeySource, NewFile, Opener, Password, ProtectedFile, Recipient};
use phalanx_core::{Result, Roster, SecretKey, Sink, Source, Suite, UserKeys, key_text};
use phalanx_kernels::{aes, keccak};
use std::sync::Arc;

pub fn run() -> Result<()> {
    derivation();
    for levels in levels() {
        println!("AES {}, SHA-3 {}", levels.aes, levels.keccak);
        for suite in Suite::ALL {
            let engine = CpuEngine::serial(levels);
            chunks(&engine, *suite, false);
            chunks(&Twice::new(Arc::new(engine), levels.second()), *suite, true);
            messages(levels, *suite)?;
            file(levels, *suite)?;
        }
    }
    Ok(())
}

/// The slowest kernels together, the next ones together, and so on, so that each is used.
fn levels() -> Vec<Levels> {
    let (aes, keccak): (Vec<_>, Vec<_>) = (aes::Level::available().collect(), keccak::Level::available().collect());
    let at = |i: usize| Levels { aes: aes[i.min(aes.len() - 1)], keccak: keccak[i.min(keccak.len() - 1)] };
    (0..aes.len().max(keccak.len())).map(at).collect()
}

fn roster(levels: Levels) -> Roster {
    Roster::new(&[Arc::new(CpuEngine::serial(levels))])
}

fn key(inputs: Inputs, start: usize) -> SecretKey {
    SecretKey::from_slice(&inputs.bytes(32, start)).expect("32 bytes")
}

/// The verdict about a chunk or message of this suite.
fn verdict(suite: Suite) -> &'static Verdict {
    if suite == Suite::Aes256Gcm { &GCM } else { &TAG }
}

/// Everything that is derived from a key, and keys in other forms.
#[inline(never)]
fn derivation() {
    for suite in Suite::ALL {
        same(|inputs| {
            let (messages, file) = (key(inputs, 1).message_keys(*suite), key(inputs, 1).file_keys(*suite));
            [messages.encrypt(), messages.mac(), file.content().encrypt(), file.content().mac()].concat()
        });
    }
    same(|inputs| {
        let keys = key(inputs, 1).file_keys(Suite::default());
        let tags = [keys.header_tag(b"header"), keys.record_tag(b"record", b"name", b"header")].concat();
        [&tags[..], &keys.volume_file_id(), &keys.recipient_tag("age1")].concat()
    });
    same(|inputs| key(inputs, 1).id().0.to_vec());
    same(|inputs| UserKeys::new(&key(inputs, 1), b"users").key(b"ada").expose().to_vec());
    same(|inputs| key_text::write(&key(inputs, 1)).as_bytes().to_vec());
    same(|inputs| vec![u8::from(known(key(inputs, 1).matches(&key(inputs, 1))))]);
    same(|inputs| {
        let password = |start| Password::new(inputs.bytes(20, start));
        vec![u8::from(known(password(1).matches(&password(2))))]
    });
    for purpose in [Purpose::File, Purpose::Volume] {
        same(|inputs| key(inputs, 1).wrapping_key().wrap(purpose, &key(inputs, 2)).to_vec());
        let wrapped = key(Public, 1).wrapping_key().wrap(purpose, &key(Public, 2));
        same(|inputs| {
            KEY_WRAP.expect(inputs, 1);
            let opened = key(inputs, 1).wrapping_key().unwrap(purpose, &wrapped);
            opened.expect("it is the key").expose().to_vec()
        });
    }
}

/// The lengths of the chunks of a job, the last of which ends in the middle of a block.
const CHUNKS: [usize; 3] = [4096, 4096, 777];
/// The base-2 logarithm of the length of a whole chunk.
const CHUNK_LOG2: u8 = 12;

/// A job for chunks under a file's keys. Nonces and places are public.
fn job(op: Op, suite: Suite, inputs: Inputs) -> Job {
    let keys = key(inputs, 3).file_keys(suite).of_jobs();
    let mut job = Job::of_chunks(op, suite, CHUNK_LOG2, keys, Buffer::paged(CHUNKS.iter().sum()));
    let mut at = 0;
    for (i, len) in CHUNKS.into_iter().enumerate() {
        let bind = Bind::Chunk { index: i as u64, last: i + 1 == CHUNKS.len() };
        job.units.push(Unit { key: 0, nonce: [i as u8; 16], bind, data: at..at + len, tag: [0; 32] });
        at += len;
    }
    job
}

/// What an engine made of a job: text or ciphertext, and tags.
fn result(job: &Job) -> Vec<u8> {
    job.units.iter().fold(job.buf.to_vec(), |all, unit| [&all[..], &unit.tag].concat())
}

fn sealed(engine: &dyn Engine, suite: Suite, inputs: Inputs) -> Job {
    let mut job = job(Op::Seal, suite, inputs);
    let text = inputs.bytes(job.buf.len(), 4);
    job.buf.copy_from_slice(&text);
    assert!(engine.run(&mut job).expect("the CPU fails no job").all_passed());
    job
}

/// Chunks, sealed and opened, once or twice. One is not authentic: its text is secret nevertheless.
#[inline(never)]
fn chunks(engine: &dyn Engine, suite: Suite, is_twice: bool) {
    let seal = |inputs| {
        if is_twice {
            again(suite, Op::Seal, inputs);
        }
        sealed(engine, suite, inputs)
    };
    same(|inputs| result(&seal(inputs)));
    let stored = seal(Public);
    same(|inputs| {
        let mut job = job(Op::Open, suite, inputs);
        job.buf.copy_from_slice(&stored.buf);
        job.units.clone_from(&stored.units);
        job.units[1].tag[5] ^= 1;
        verdict(suite).expect(inputs, CHUNKS.len());
        if is_twice {
            again(suite, Op::Open, inputs);
        }
        let verdicts = engine.run(&mut job).expect("the CPU fails no job");
        assert_eq!(verdicts.failed(), [1]);
        result(&job)
    });
}

/// The verdicts of an engine that does all again. It compares the key schedule, in suite 4 for each chunk, and each chunk that
/// is authentic. In suite 4 it opens what it has sealed; in the others it opens twice.
fn again(suite: Suite, op: Op, inputs: Inputs) {
    let is_gcm = suite == Suite::Aes256Gcm;
    let schedules = if is_gcm { CHUNKS.len() } else { 1 };
    let authentic = if op == Op::Seal { CHUNKS.len() } else { CHUNKS.len() - 1 };
    MACHINE.expect(inputs, schedules + authentic);
    if is_gcm == (op == Op::Seal) {
        verdict(suite).expect(inputs, CHUNKS.len());
    }
}

/// The lengths of messages.
const MESSAGES: [usize; 6] = [100, 0, 4096, 16, 5000, 31];
/// The associated data of messages. They are public, and so are users' names.
const AD: &[u8] = b"associated";

/// Batches of messages, whose users have keys of their own or keys that are derived from a root.
#[inline(never)]
fn messages(levels: Levels, suite: Suite) -> Result<()> {
    let roster = roster(levels);
    let seal = |inputs, are_derived| {
        let texts = MESSAGES.map(|len| batch::with_room(suite, &text_of(inputs, len)));
        of_users(inputs, are_derived, texts, |keys, texts| {
            let plaintext = |text| BehindRoom::new(suite, text).expect("it was made with room");
            let set = texts.iter_mut().zip(keys).map(|(text, key)| Message::to_seal(*key, AD, plaintext(text)));
            batch::seal(&roster, suite, &mut set.collect::<Vec<_>>())
        })
    };
    let open = |inputs, are_derived, stored| {
        of_users(inputs, are_derived, stored, |keys, stored| {
            let set = stored.iter_mut().zip(keys).map(|(stored, key)| Message::to_open(*key, AD, stored));
            batch::open(&roster, suite, &mut set.collect::<Vec<_>>())
        })
    };
    for are_derived in [false, true] {
        let (stored, done) = seal(Secret, are_derived);
        done?;
        // What is stored is public.
        stored.iter().for_each(|stored| public(stored));
        let texts = |opened: &[Vec<u8>; MESSAGES.len()]| {
            opened.iter().for_each(|opened| public(opened));
            opened.iter().zip(MESSAGES).all(|(o, len)| o[suite.overhead()..] == text_of(Public, len))
        };
        let (opened, done) = open(Public, are_derived, stored.clone());
        done?;
        assert!(texts(&opened));
        verdict(suite).expect(Secret, MESSAGES.len());
        let (opened, done) = open(Secret, are_derived, stored.clone());
        done?;
        // The work is over.
        assert!(texts(&opened));
        let mut altered = stored;
        altered[3][20] ^= 1;
        verdict(suite).expect(Secret, MESSAGES.len());
        let (_, done) = open(Secret, are_derived, altered);
        assert!(matches!(done, Err(Error::NotAuthentic { failed }) if failed == [3]));
    }
    Ok(())
}

/// The text of a message of this length.
fn text_of(inputs: Inputs, len: usize) -> Vec<u8> {
    inputs.bytes(len, len)
}

/// Does work on messages with the keys of their users.
fn of_users<const N: usize, R>(
    inputs: Inputs,
    are_derived: bool,
    mut messages: [Vec<u8>; N],
    work: impl FnOnce(&[KeyOf<'_>], &mut [Vec<u8>]) -> R,
) -> ([Vec<u8>; N], R) {
    let own: [SecretKey; N] = std::array::from_fn(|i| key(inputs, 10 + i));
    let root = UserKeys::new(&key(inputs, 7), b"users of this test");
    let names: [[u8; 1]; N] = std::array::from_fn(|i| [i as u8]);
    let keys: [KeyOf<'_>; N] =
        std::array::from_fn(|i| if are_derived { (&root, &names[i][..]).into() } else { (&own[i]).into() });
    let done = work(&keys, &mut messages);
    (messages, done)
}

/// The key that is at hand. Its id is public: it is stored in each file.
struct Held(KeyId, SecretKey);

impl KeySource for Held {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>> {
        Ok((self.0 == *id).then(|| self.1.clone()))
    }

    fn password(&self) -> Result<Option<Password>> {
        Ok(None)
    }
}

/// A whole file with a few chunks. When it is opened, the file key is secret too, since it was wrapped by a secret key.
#[inline(never)]
fn file(levels: Levels, suite: Suite) -> Result<()> {
    let roster = roster(levels);
    let size = ChunkSize::new(1 << CHUNK_LOG2).expect("an allowed size");
    let len = CHUNKS.iter().sum();
    let new = NewFile::with_chunk_size(suite, size, &[Recipient::key(&key(Secret, 5))])?;
    let mut stored = Vec::with_capacity(1 << 16);
    let text = Secret.bytes(len, 6);
    new.protect(&roster, Source::ranged(&text[..]), Sink::stream(&mut stored), &())?;
    // What is stored is public.
    public(&stored);
    for inputs in [Public, Secret] {
        let mut opened = Vec::with_capacity(len);
        let opener = Opener::new(Held(key(Public, 5).id(), key(inputs, 5)), KdfLimit::default());
        KEY_WRAP.expect(inputs, 1);
        HEADER.expect(inputs, 1);
        verdict(suite).expect(inputs, CHUNKS.len());
        let file = ProtectedFile::open(Source::ranged(&stored[..]), &opener)?;
        file.unprotect(&roster, Sink::stream(&mut opened), &())?;
        // The work is over.
        public(&opened);
        assert_eq!(opened, Public.bytes(len, 6));
    }
    Ok(())
}
