//! Every engine gives the same bytes as the reference. This set of checks runs for each engine. The file that includes
//! it provides the engines in the function `engines`.

use super::common::{SIZES, painted};
use super::engines;
use phalanx_core::engine::{Bind, ContentKeys, Engine, Job, Op, Unit};
use phalanx_core::{SecretKey, Suite};
use phalanx_reference as reference;
use std::ops::Range;

const FILE_KEY: [u8; 32] = [7; 32];

/// One chunk size for each length of slices.
const CHUNK_LOG2S: [u8; 4] = [12, 13, 14, 20];

/// Nonces whose counters carry through 32 bits, through 64, through all, and not at all.
fn nonce(i: usize) -> [u8; 16] {
    let high = (i as u128 + 1) << 64;
    [high, high | 0xffff_fffe, high | 0xffff_ffff_ffff_fffe, u128::MAX - 2][i % 4].to_be_bytes()
}

/// A job of units of these lengths, with gaps between them: chunks of up to 2^`chunk_log2` bytes, or messages.
/// `bind` gives the binding of unit i, and may put associated data
/// before the unit's bytes, from the given place on.
fn job(
    engine: &dyn Engine,
    suite: Suite,
    chunk_log2: Option<u8>,
    keys: Vec<ContentKeys>,
    lengths: &[usize],
    bind: impl Fn(usize, usize) -> (Bind, Vec<u8>),
) -> Job {
    const GAP: usize = 3;
    let mut bytes = Vec::new();
    let mut units = Vec::new();
    for (i, &len) in lengths.iter().enumerate() {
        let (bind, ad) = bind(i, bytes.len());
        bytes.extend(ad);
        let start = bytes.len();
        bytes.extend(painted(len));
        let key = (i % keys.len()) as u32;
        units.push(Unit { key, nonce: nonce(i), bind, data: start..start + len, tag: [0; 32] });
        bytes.extend([0x55; GAP]);
    }
    let buffer = engine.buffer(bytes.len()).unwrap();
    let mut job = match chunk_log2 {
        Some(log2) => Job::of_chunks(Op::Seal, suite, log2, keys.into(), buffer),
        None => Job::of_messages(Op::Seal, suite, keys.into(), buffer),
    };
    job.buf.copy_from_slice(&bytes);
    job.units = units;
    job
}

/// The binding of a file's chunks, in which unit i is chunk `index(i)`.
fn chunk(index: u64, last: bool) -> (Bind, Vec<u8>) {
    (Bind::Chunk { index, last }, Vec::new())
}

/// The stored form of the unit in a file or message.
fn stored(job: &Job, i: usize) -> Vec<u8> {
    let unit = &job.units[i];
    let (nonce, tag) = (&unit.nonce[..job.suite.nonce_len()], &unit.tag[..job.suite.tag_len()]);
    [nonce, tag, &job.buf[unit.data.clone()]].concat()
}

/// Opening gives back the plaintext, and finds each unit that was altered, while the others stay intact.
fn check_opening(engine: &dyn Engine, mut job: Job, plain: &[u8]) {
    let name = &engine.info().name;
    job.op = Op::Open;
    let sealed = job.buf.to_vec();
    assert!(engine.run(&mut job).unwrap().all_passed(), "{name}");
    assert_eq!(&job.buf[..], plain, "{name}");

    type Alter = fn(&mut Unit, &mut [u8]);
    let alterations: [Alter; 5] = [
        |unit, _| unit.tag[15] ^= 1,
        |unit, _| unit.nonce[0] ^= 128,
        |unit, data| if let Some(byte) = data[unit.data.clone()].last_mut() { *byte ^= 1 } else { unit.tag[0] ^= 1 },
        |unit, data| if let Some(byte) = data[unit.data.clone()].first_mut() { *byte ^= 128 } else { unit.tag[0] ^= 1 },
        |unit, data| match &mut unit.bind {
            Bind::Chunk { index, .. } => *index ^= 1 << 63,
            Bind::Message { ad } => data[ad.start] ^= 1,
        },
    ];
    for (round, alter) in alterations.iter().enumerate() {
        job.buf.copy_from_slice(&sealed);
        let units = job.units.clone();
        let altered: Vec<usize> = (0..units.len()).filter(|i| i % 3 == round % 3).collect();
        for &i in &altered {
            alter(&mut job.units[i], &mut job.buf);
        }
        assert_eq!(engine.run(&mut job).unwrap().failed(), altered, "{name}: alteration {round}");
        for (i, unit) in units.iter().enumerate() {
            let range: Range<usize> = unit.data.clone();
            if altered.contains(&i) {
                // The engine may leave any bytes except the plaintext.
                assert!(
                    range.len() < 15 || job.buf[range.clone()] != plain[range],
                    "{name}: alteration {round}, unit {i}"
                );
            } else {
                assert_eq!(job.buf[range.clone()], plain[range], "{name}: alteration {round}, unit {i}");
            }
        }
        job.units = units;
    }
}

#[test]
fn chunks_are_those_of_the_reference() {
    let engines = engines();
    for &suite in Suite::ALL {
        let keys = reference::file_keys(&FILE_KEY, suite.id());
        for (&size, &chunk_log2) in SIZES.iter().flat_map(|size| CHUNK_LOG2S.iter().map(move |log2| (size, log2))) {
            // Engines work the same for every length of chunks. The reference is slow, so the shortest slices stand for
            // all short ones, unless the sweep is exhaustive.
            let is_left_out = [13, 14].contains(&chunk_log2) && std::env::var_os("PHALANX_EXHAUSTIVE").is_none();
            if size > 20_000 && chunk_log2 < 20 || is_left_out {
                continue;
            }
            let bind = |i: usize| (i as u64 * 1_000_000_007, i == 2);
            let lengths = if size < 100_000 { [size; 3].to_vec() } else { vec![size] };
            let job = |engine| {
                let content = SecretKey::from_slice(&FILE_KEY).unwrap().file_keys(suite).content().clone();
                job(engine, suite, Some(chunk_log2), vec![content], &lengths, |i, _| chunk(bind(i).0, bind(i).1))
            };
            let Some(first) = engines.first() else { return };
            let like = job(&**first);
            let seal = |(i, unit): (usize, &Unit)| {
                let (index, last) = bind(i);
                reference::seal_chunk(
                    &keys,
                    chunk_log2,
                    index,
                    last.into(),
                    &unit.nonce[..suite.nonce_len()],
                    &like.buf[unit.data.clone()],
                )
            };
            let expected: Vec<_> = like.units.iter().enumerate().map(seal).collect();
            for engine in engines.iter().filter(|engine| engine.info().suites.contains(&suite)) {
                check(&**engine, job(&**engine), &expected);
            }
        }
    }
}

#[test]
fn messages_of_many_keys_are_those_of_the_reference() {
    // Lengths that leave lanes partly filled in every way, and more units than one group takes.
    let lengths: Vec<usize> = (0..150).map(|i| [0, 1, 16, 4095, 4096, 4097, 9000, 300][i % 8] + i).collect();
    let users: Vec<[u8; 32]> = (0..20).map(|i| [i; 32]).collect();
    let ad = |i: usize| format!("record {i}").into_bytes();
    let engines = engines();
    for &suite in Suite::ALL {
        let job = |engine| {
            let keys = users.iter().map(|u| SecretKey::from_slice(u).unwrap().message_keys(suite)).collect();
            job(engine, suite, None, keys, &lengths, |i, at| (Bind::Message { ad: at..at + ad(i).len() }, ad(i)))
        };
        let Some(first) = engines.first() else { return };
        let like = job(&**first);
        let seal = |(i, unit): (usize, &Unit)| {
            let (key, data) = (&users[unit.key as usize], &like.buf[unit.data.clone()]);
            reference::seal_message(key, suite.id(), &ad(i), &unit.nonce[..suite.nonce_len()], data)
        };
        let expected: Vec<_> = like.units.iter().enumerate().map(seal).collect();
        for engine in engines.iter().filter(|engine| engine.info().suites.contains(&suite)) {
            check(&**engine, job(&**engine), &expected);
        }
    }
}

/// Sealing gives the expected form of each unit, and opening gives it back.
fn check(engine: &dyn Engine, mut job: Job, expected: &[Vec<u8>]) {
    let plain = job.buf.to_vec();
    assert!(engine.run(&mut job).unwrap().all_passed());
    for (i, expected) in expected.iter().enumerate() {
        let (engine, suite, len) = (&engine.info().detail, job.suite.name(), job.units[i].data.len());
        assert!(stored(&job, i) == *expected, "{engine}, {suite}, {len} bytes, unit {i}");
    }
    check_opening(engine, job, &plain);
}

#[test]
fn a_job_without_units_does_nothing() {
    for engine in engines() {
        let keys = vec![SecretKey::from_slice(&FILE_KEY).unwrap().file_keys(Suite::default()).content().clone()];
        let mut job = job(&*engine, Suite::default(), Some(20), keys, &[], |_, _| unreachable!());
        assert!(engine.run(&mut job).unwrap().all_passed());
    }
}

#[test]
fn bytes_outside_of_units_are_unchanged() {
    for engine in engines() {
        let keys = vec![SecretKey::from_slice(&FILE_KEY).unwrap().file_keys(Suite::default()).content().clone()];
        let lengths = [1, 4096, 33, 70_000];
        let mut job = job(&*engine, Suite::default(), Some(20), keys, &lengths, |i, _| chunk(i as u64, false));
        let before = job.buf.to_vec();
        assert!(engine.run(&mut job).unwrap().all_passed());
        let inside = |at: usize| job.units.iter().any(|unit| unit.data.contains(&at));
        assert!((0..before.len()).all(|at| inside(at) || job.buf[at] == before[at]));
    }
}
