//! Many users' messages in one call, compared with the reference and the vectors, also when engines fail.

use crate::common::{Random, engines};
use phalanx_core::batch::{self, BehindRoom, Copied, KeyOf, Message};
use phalanx_core::engine::{Buffer, CpuEngine, Engine, EngineInfo, Fault, Job, Levels, Op, Verdicts};
use phalanx_core::{Error, Roster, SecretKey, Suite, UserKeys};
use phalanx_reference as reference;
use phalanx_vectors::{Expect, Message as Vector};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A message to seal: its user, associated data and plaintext.
struct Record {
    user: usize,
    ad: Vec<u8>,
    text: Vec<u8>,
}

/// Users' keys, and records of lengths around the edges of blocks, of the sponge, of slices and of lanes.
fn records(seed: u64, count: usize) -> (Vec<SecretKey>, Vec<Record>) {
    let mut random = Random(seed);
    let keys = (0..count.div_ceil(2)).map(|_| SecretKey::from_slice(&random.bytes(32)).unwrap()).collect();
    let record = |i: usize| {
        let edge = [0, 1, 16, 136, 272, 408, 1000, 4096, 4096, 2 * 4096, 3 * 4096, 9 * 4096][random.below(12)];
        let len = (edge + random.below(5)).saturating_sub(2);
        let ad = random.below(4) * random.below(140);
        Record { user: i / 2, ad: random.bytes(ad), text: random.bytes(len) }
    };
    (keys, (0..count).map(record).collect())
}

fn to_seal<'a>(
    suite: Suite,
    keys: &'a [SecretKey],
    records: &'a [Record],
    stored: &'a mut [Vec<u8>],
) -> Vec<Message<'a>> {
    let message = |(record, data): (&'a Record, &'a mut Vec<u8>)| {
        Message::to_seal(&keys[record.user], &record.ad, BehindRoom::new(suite, data).unwrap())
    };
    records.iter().zip(stored).map(message).collect()
}

fn to_open<'a>(keys: &'a [SecretKey], records: &'a [Record], stored: &'a mut [Vec<u8>]) -> Vec<Message<'a>> {
    let message =
        |(record, data): (&'a Record, &'a mut Vec<u8>)| Message::to_open(&keys[record.user], &record.ad, data);
    records.iter().zip(stored).map(message).collect()
}

/// The messages that are not authentic.
fn failed(opened: phalanx_core::Result<()>) -> Vec<usize> {
    match opened {
        Ok(()) => Vec::new(),
        Err(Error::NotAuthentic { failed }) => failed,
        Err(error) => panic!("{error}"),
    }
}

/// The engines of all tests, and one without its own method for messages.
fn all_engines() -> Vec<Arc<dyn Engine>> {
    let plain: Arc<dyn Engine> = Arc::new(Faulty::after(usize::MAX, CpuEngine::parallel(2, Levels::detect())));
    engines().into_iter().chain([plain]).collect()
}

/// An engine that runs jobs, and fails after a number of them.
struct Faulty {
    inner: CpuEngine,
    info: EngineInfo,
    left: AtomicUsize,
}

impl Faulty {
    fn after(jobs: usize, inner: CpuEngine) -> Self {
        // A batch is several jobs.
        let info = EngineInfo { preferred_job: 256 << 10, ..inner.info().clone() };
        Self { inner, info, left: AtomicUsize::new(jobs) }
    }
}

impl Engine for Faulty {
    fn info(&self) -> &EngineInfo {
        &self.info
    }
    fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
        self.inner.buffer(len)
    }
    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        let left = self.left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map_err(|_| Fault { engine: "faulty".into(), reason: "as the test wants it".into() })?;
        self.inner.run(job)
    }
}

#[test]
fn every_engine_gives_the_messages_of_the_reference() {
    for engine in all_engines() {
        let roster = Roster::new(std::slice::from_ref(&engine));
        for (seed, &suite) in Suite::ALL.iter().enumerate() {
            let (keys, records) = records(seed as u64, 80);
            let mut stored: Vec<_> = records.iter().map(|r| batch::with_room(suite, &r.text)).collect();
            batch::seal(&roster, suite, &mut to_seal(suite, &keys, &records, &mut stored)).unwrap();
            for (i, (record, stored)) in records.iter().zip(&stored).enumerate() {
                let (key, nonce) = (keys[record.user].expose(), &stored[..suite.nonce_len()]);
                let expected = reference::seal_message(key, suite.id(), &record.ad, nonce, &record.text);
                assert!(*stored == expected, "{}, {}: {i}", engine.info().detail, suite.name());
            }
            batch::open(&roster, suite, &mut to_open(&keys, &records, &mut stored)).unwrap();
            assert!(records.iter().zip(&stored).all(|(record, stored)| stored[suite.overhead()..] == record.text));
        }
    }
}

/// The key of a user, by the reference.
fn of_user(root: &[u8], user: &[u8], label: &str) -> [u8; 32] {
    reference::kmac256(root, user, 256, label).try_into().unwrap()
}

#[test]
fn keys_of_users_are_those_of_the_reference() {
    let root = SecretKey::from_slice(&Random(5).bytes(32)).unwrap();
    for label in ["", "test users", &"x".repeat(122)] {
        let keys = UserKeys::new(&root, label.as_bytes());
        assert_eq!(format!("{keys:?} {:?}", KeyOf::from((&keys, &b"ada"[..]))), "UserKeys(…) KeyOf(…)");
        for len in (0..300).chain([10_000]) {
            let user = Random(len).bytes(len as usize);
            assert_eq!(*keys.key(&user).expose(), of_user(root.expose(), &user, label), "{label}, {len}");
        }
    }
}

/// In batches of all lengths up to several times the lanes of any kernel, with users' names of all kinds of lengths,
/// alone and between keys of their own.
#[test]
fn every_engine_derives_the_keys_of_users() {
    let mut random = Random(77);
    let roots = [random.bytes(32), random.bytes(32)];
    let of = |i: usize| UserKeys::new(&SecretKey::from_slice(&roots[i]).unwrap(), b"test users");
    let (users, own) = ([of(0), of(1)], SecretKey::from_slice(&random.bytes(32)).unwrap());
    for engine in all_engines() {
        let roster = Roster::new(std::slice::from_ref(&engine));
        for count in (0..20).chain([31, 32, 33, 127, 128, 129, 300]) {
            let suite = Suite::ALL[count % Suite::ALL.len()];
            // Consecutive messages have the same user now and then, also under the other root.
            let mut names = vec![Vec::new()];
            for _ in 1..count {
                let len = [0, 1, 16, 131, 132, 133, 136, 300, 5000][random.below(9)];
                let next = if random.below(3) == 0 { names[names.len() - 1].clone() } else { random.bytes(len) };
                names.push(next);
            }
            let mixed: Vec<_> = (0..count).map(|_| random.below(3)).collect();
            let mut stored = vec![batch::with_room(suite, b"text"); count];
            let mut set: Vec<_> = (stored.iter_mut().zip(&names).zip(&mixed))
                .map(|((data, name), &which)| {
                    let key = users.get(which).map_or(KeyOf::Own(&own), |keys| KeyOf::User { keys, user: name });
                    Message::to_seal(key, name, BehindRoom::new(suite, data).unwrap())
                })
                .collect();
            batch::seal(&roster, suite, &mut set).unwrap();
            // By the keys themselves.
            let keys: Vec<_> = (names.iter().zip(&mixed))
                .map(|(name, &which)| match roots.get(which) {
                    Some(root) => SecretKey::from_slice(&of_user(root, name, "test users")).unwrap(),
                    None => own.clone(),
                })
                .collect();
            let set = stored.iter_mut().zip(&keys).zip(&names);
            let mut set: Vec<_> = set.map(|((data, key), name)| Message::to_open(key, name, data)).collect();
            batch::open(&roster, suite, &mut set).unwrap_or_else(|e| panic!("{}, {count}: {e}", engine.info().detail));
            assert!(stored.iter().all(|data| data[suite.overhead()..] == *b"text"));
        }
    }
}

/// A message of one user does not open for another one, nor for the same one of another root or label.
#[test]
fn users_have_different_keys() {
    let roster = Roster::new(&engines()[..1]);
    let of = |root: u8, label: &[u8]| UserKeys::new(&SecretKey::from_slice(&[root; 32]).unwrap(), label);
    let (keys, others) = (of(1, b"test users"), [of(2, b"test users"), of(1, b"other users")]);
    for &suite in Suite::ALL {
        let mut stored = batch::with_room(suite, b"text");
        let plaintext = BehindRoom::new(suite, &mut stored).unwrap();
        batch::seal(&roster, suite, &mut [Message::to_seal((&keys, &b"ada"[..]), b"", plaintext)]).unwrap();
        let right = (&keys, &b"ada"[..]);
        let wrong = others.iter().map(|keys| (keys, &b"ada"[..])).chain([(&keys, &b"ad"[..]), (&keys, &b"adab"[..])]);
        let mut copies: Vec<_> = wrong.chain([right]).map(|user| (user, stored.clone())).collect();
        let mut set: Vec<_> = copies.iter_mut().map(|(user, data)| Message::to_open(*user, b"", data)).collect();
        assert_eq!(failed(batch::open(&roster, suite, &mut set)), [0, 1, 2, 3]);
    }
}

#[test]
fn every_vector_has_its_expected_outcome() {
    let all: Vec<Vector> = phalanx_vectors::messages().into_iter().map(|(_, vector)| vector).collect();
    for engine in all_engines() {
        let roster = Roster::new(std::slice::from_ref(&engine));
        for &suite in Suite::ALL {
            let of_suite: Vec<&Vector> = all.iter().filter(|vector| vector.suite == suite.id()).collect();
            let keys: Vec<_> = of_suite.iter().map(|v| SecretKey::from_slice(&v.key).unwrap()).collect();
            let mut stored: Vec<_> = of_suite.iter().map(|v| v.message.to_vec()).collect();
            let each = keys.iter().zip(&of_suite).zip(&mut stored);
            let mut set: Vec<_> = each.map(|((key, v), data)| Message::to_open(key, &v.ad, data)).collect();
            let verdicts = failed(batch::open(&roster, suite, &mut set));
            for (i, vector) in of_suite.iter().enumerate() {
                let (what, failed) = (&vector.comment, verdicts.contains(&i));
                match &vector.plaintext {
                    Some(plaintext) => {
                        assert!(!failed && vector.expect == Expect::Ok, "{what}");
                        assert!(stored[i][suite.overhead()..] == plaintext[..], "{what}");
                    }
                    None => {
                        assert!(failed && vector.expect == Expect::Altered, "{what}");
                        assert!(stored[i].iter().all(|byte| *byte == 0), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn one_altered_message_harms_no_other() {
    let roster = Roster::new(&engines());
    for &suite in Suite::ALL {
        let (keys, records) = records(7, 300);
        let mut sealed: Vec<_> = records.iter().map(|r| batch::with_room(suite, &r.text)).collect();
        batch::seal(&roster, suite, &mut to_seal(suite, &keys, &records, &mut sealed)).unwrap();
        let (nonce, tag) = (0, suite.nonce_len());
        let mut stored = sealed.clone();
        let mut expected = Vec::new();
        for (i, data) in stored.iter_mut().enumerate().filter(|(i, _)| i % 7 == 3) {
            let at = [nonce, tag, data.len() - 1][i % 3];
            data[at] ^= 1 << (i % 8);
            expected.push(i);
        }
        stored[0].truncate(suite.overhead() - 1);
        stored[299].clear();
        stored[150].push(0);
        expected.extend([0, 150, 299]);
        expected.sort_unstable();
        expected.dedup();
        let verdicts = failed(batch::open(&roster, suite, &mut to_open(&keys, &records, &mut stored)));
        assert_eq!(verdicts, expected);
        for (i, (record, stored)) in records.iter().zip(&stored).enumerate() {
            if expected.contains(&i) {
                assert!(stored.iter().all(|byte| *byte == 0), "{i}");
            } else {
                assert!(stored[suite.overhead()..] == record.text, "{i}");
            }
        }
    }
}

#[test]
fn keys_and_associated_data_are_bound() {
    let roster = Roster::new(&engines()[..1]);
    for &suite in Suite::ALL {
        let (keys, mut records) = records(8, 40);
        let mut stored: Vec<_> = records.iter().map(|r| batch::with_room(suite, &r.text)).collect();
        batch::seal(&roster, suite, &mut to_seal(suite, &keys, &records, &mut stored)).unwrap();
        records[3].ad.push(0);
        records[10].user += 1;
        records.swap(20, 30);
        let verdicts = failed(batch::open(&roster, suite, &mut to_open(&keys, &records, &mut stored)));
        assert_eq!(verdicts, [3, 10, 20, 30]);
    }
}

#[test]
fn a_giant_message_among_small_ones_is_sealed_and_opened() {
    let one_lane = Roster::new(&engines()[..1]);
    let keys = [SecretKey::from_slice(&[3; 32]).unwrap()];
    for engines in [vec![engines().pop().unwrap()], engines()] {
        let roster = Roster::new(&engines);
        for &suite in Suite::ALL {
            // The giant is the first, the last, or one in between. Its length is not a multiple of a slice or of a
            // thread's part.
            for place in [0, 1000, 2000] {
                let mut random = Random(place as u64);
                let mut record = |i: usize| {
                    let text = random.bytes(if i == place { (2 << 20) + 777 } else { i % 40 });
                    Record { user: 0, ad: random.bytes(i % 3), text }
                };
                let records: Vec<_> = (0..=2000).map(&mut record).collect();
                let mut stored: Vec<_> = records.iter().map(|r| batch::with_room(suite, &r.text)).collect();
                batch::seal(&roster, suite, &mut to_seal(suite, &keys, &records, &mut stored)).unwrap();
                // Opened by one thread, sealed by one, opened by several, both altered in its last byte and unaltered.
                let mut copy = stored.clone();
                let opened = failed(batch::open(&one_lane, suite, &mut to_open(&keys, &records, &mut copy)));
                assert!(opened.is_empty() && copy[place][suite.overhead()..] == records[place].text);
                batch::seal(&one_lane, suite, &mut to_seal(suite, &keys, &records, &mut copy)).unwrap();
                let small = (place + 5) % 2001;
                copy[small][0] ^= 1;
                *stored[place].last_mut().unwrap() ^= 1;
                for (stored, lost) in [(&mut copy, small), (&mut stored, place)] {
                    let opened = failed(batch::open(&roster, suite, &mut to_open(&keys, &records, stored)));
                    assert_eq!(opened, [lost]);
                    assert!(stored[lost].iter().all(|byte| *byte == 0));
                    let is_open = |i: &usize| stored[*i][suite.overhead()..] == records[*i].text;
                    assert!((0..=2000).filter(|i| *i != lost).all(|i| is_open(&i)));
                }
            }
        }
    }
}

/// The associated data are so long that several threads would share a message of that length.
#[test]
fn long_associated_data_of_a_short_text_are_authenticated() {
    let keys = [SecretKey::from_slice(&[3; 32]).unwrap()];
    let roster = Roster::new(&[engines().pop().unwrap()]);
    for &suite in Suite::ALL {
        for len in [0, 1, 5000, 3 << 20] {
            let mut random = Random(len as u64);
            let records = [Record { user: 0, ad: random.bytes(3 << 20), text: random.bytes(len) }];
            let mut stored = vec![batch::with_room(suite, &records[0].text)];
            batch::seal(&roster, suite, &mut to_seal(suite, &keys, &records, &mut stored)).unwrap();
            let one_lane = Roster::new(&engines()[..1]);
            let mut copy = stored.clone();
            batch::open(&one_lane, suite, &mut to_open(&keys, &records, &mut copy)).unwrap();
            assert!(copy[0][suite.overhead()..] == records[0].text);
            stored[0][suite.nonce_len()] ^= 1;
            let opened = failed(batch::open(&roster, suite, &mut to_open(&keys, &records, &mut stored)));
            assert_eq!(opened, [0]);
        }
    }
}

#[test]
fn messages_of_a_million_users_are_sealed_and_opened() {
    const USERS: usize = 1_000_000;
    let roster = Roster::new(&engines()[engines().len() - 1..]);
    let suite = Suite::default();
    let key = |i: usize| SecretKey::from_slice(&[&i.to_le_bytes()[..], &[9; 24]].concat()).unwrap();
    let keys: Vec<_> = (0..USERS).map(key).collect();
    let inputs: Vec<_> =
        keys.iter().map(|key| Copied { key: key.into(), ad: b"", bytes: &key.expose()[..8] }).collect();
    let mut sealed = vec![0; USERS * (suite.overhead() + 8)];
    let places = batch::seal_into(&roster, suite, &inputs, &mut sealed).unwrap();
    let stored: Vec<_> = keys
        .iter()
        .zip(&places)
        .map(|(key, place)| Copied { key: key.into(), ad: b"", bytes: &sealed[place.clone()] })
        .collect();
    let mut opened = vec![0; sealed.len()];
    let places = batch::open_into(&roster, suite, &stored, &mut opened).unwrap();
    assert!(keys.iter().zip(places).all(|(key, place)| opened[place.unwrap()] == key.expose()[..8]));
}

#[test]
fn messages_are_sealed_and_opened_into_one_buffer() {
    let roster = Roster::new(&engines());
    for &suite in Suite::ALL {
        let (keys, records) = records(11, 100);
        let inputs: Vec<_> =
            records.iter().map(|r| Copied { key: (&keys[r.user]).into(), ad: &r.ad, bytes: &r.text }).collect();
        let len: usize = records.iter().map(|r| r.text.len() + suite.overhead()).sum();
        let mut out = vec![0x55; len + 3];
        let places = batch::seal_into(&roster, suite, &inputs, &mut out).unwrap();
        assert_eq!((places[0].start, places[99].end, &out[len..]), (0, len, &[0x55; 3][..]));
        let stored: Vec<_> =
            inputs.iter().zip(&places).map(|(input, place)| Copied { bytes: &out[place.clone()], ..*input }).collect();
        for (record, stored) in records.iter().zip(&stored) {
            let opened = reference::open_message(keys[record.user].expose(), suite.id(), stored.ad, stored.bytes);
            assert!(opened.unwrap() == record.text);
        }
        let mut back = vec![0x55; len];
        let places = batch::open_into(&roster, suite, &stored, &mut back).unwrap();
        let places: Vec<_> = places.into_iter().map(Option::unwrap).collect();
        assert!(records.iter().zip(places).all(|(record, place)| back[place] == record.text));

        let error = batch::seal_into(&roster, suite, &inputs, &mut back[..len - 1]).unwrap_err();
        assert!(matches!(error, Error::Message { index: 99, .. }), "{error}");
    }
}

#[test]
fn impossible_messages_are_refused() {
    let key = SecretKey::random().unwrap();
    let roster = Roster::new(&engines()[..1]);
    for &suite in Suite::ALL {
        let (mut room, mut none) = (batch::with_room(suite, b"text"), vec![1; suite.overhead() - 1]);
        // A plaintext without room cannot be passed, and a message to be opened cannot be sealed by mistake.
        assert!(BehindRoom::new(suite, &mut none).is_none());
        let first = Message::to_seal(&key, b"", BehindRoom::new(suite, &mut room).unwrap());
        let mut set = [first, Message::to_open(&key, b"", &mut none)];
        let error = batch::seal(&roster, suite, &mut set).unwrap_err();
        assert_eq!(error.to_string(), "message 1: it is one to be opened");
        assert_eq!(room, batch::with_room(suite, b"text"));
        batch::seal(&roster, suite, &mut []).unwrap();
        batch::open(&roster, suite, &mut []).unwrap();
    }
    assert_eq!(format!("{:?}", Message::to_open(&key, b"secret", &mut [7; 50])), "Message(50 bytes)");
}

#[test]
fn another_engine_takes_over() {
    let cpu = || CpuEngine::parallel(1, Levels::detect());
    for jobs in [0, 1, 3] {
        let roster = Roster::new(&[Arc::new(Faulty::after(jobs, cpu())), Arc::new(cpu())]);
        for &suite in Suite::ALL {
            let (keys, records) = records(12, 500);
            let mut stored: Vec<_> = records.iter().map(|r| batch::with_room(suite, &r.text)).collect();
            batch::seal(&roster, suite, &mut to_seal(suite, &keys, &records, &mut stored)).unwrap();
            let opened = failed(batch::open(&roster, suite, &mut to_open(&keys, &records, &mut stored)));
            assert!(opened.is_empty());
            assert!(records.iter().zip(&stored).all(|(record, stored)| stored[suite.overhead()..] == record.text));
        }
    }
}

#[test]
fn nothing_changes_without_a_working_engine() {
    let faulty = |jobs| Roster::new(&[Arc::new(Faulty::after(jobs, CpuEngine::parallel(3, Levels::detect())))]);
    for &suite in Suite::ALL {
        let (keys, records) = records(13, 600);
        let room: Vec<_> = records.iter().map(|r| batch::with_room(suite, &r.text)).collect();
        let mut stored = room.clone();
        for jobs in [0, 4] {
            let error =
                batch::seal(&faulty(jobs), suite, &mut to_seal(suite, &keys, &records, &mut stored)).unwrap_err();
            assert!(matches!(error, Error::Fault(_)), "{error}");
            assert!(records.iter().zip(&stored).all(|(record, stored)| stored[suite.overhead()..] == record.text));

            let mut out = vec![0x55; room.iter().map(Vec::len).sum()];
            let inputs: Vec<_> =
                records.iter().map(|r| Copied { key: (&keys[r.user]).into(), ad: &r.ad, bytes: &r.text }).collect();
            batch::seal_into(&faulty(jobs), suite, &inputs, &mut out).unwrap_err();
            assert!(out.iter().all(|byte| *byte == 0));
        }
        let able = Roster::new(&engines()[..1]);
        batch::seal(&able, suite, &mut to_seal(suite, &keys, &records, &mut stored)).unwrap();
        stored[5][0] ^= 1;
        let mut sealed = stored.clone();
        batch::open(&faulty(4), suite, &mut to_open(&keys, &records, &mut stored)).unwrap_err();
        // A message that was found altered before the fault is wiped. The rest is unchanged.
        if stored[5].iter().all(|byte| *byte == 0) {
            sealed[5].fill(0);
        }
        assert!(stored == sealed);
    }
}

#[test]
fn engines_without_the_suite_are_not_used() {
    struct Without(CpuEngine, EngineInfo);
    impl Engine for Without {
        fn info(&self) -> &EngineInfo {
            &self.1
        }
        fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
            self.0.buffer(len)
        }
        fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
            assert!(self.1.suites.contains(&job.suite) && job.op == Op::Seal);
            self.0.run(job)
        }
    }
    let cpu = || CpuEngine::serial(Levels::detect());
    let without: Arc<dyn Engine> =
        Arc::new(Without(cpu(), EngineInfo { suites: &Suite::ALL[..3], ..cpu().info().clone() }));
    let key = SecretKey::random().unwrap();
    for &suite in Suite::ALL {
        let mut data = batch::with_room(suite, b"text");
        let mut set = [Message::to_seal(&key, b"", BehindRoom::new(suite, &mut data).unwrap())];
        let alone = batch::seal(&Roster::new(std::slice::from_ref(&without)), suite, &mut set);
        assert_eq!(alone.is_ok(), without.info().suites.contains(&suite));
        if let Err(error) = alone {
            assert_eq!(error.to_string(), format!("engine serial failed: it has no {}", suite.name()));
            batch::seal(&Roster::new(&[without.clone(), Arc::new(cpu())]), suite, &mut set).unwrap();
        }
    }
}
