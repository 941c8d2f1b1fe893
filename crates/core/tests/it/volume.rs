//! The config of a volume, and the headers and chunks of its files.

use phalanx_core::format::{Header, Slot};
use phalanx_core::volume::{Chunks, Config, Features, HEADER_LEN, Holes, MAX_GROUPS, MAX_HOLES, Place, State};
use phalanx_core::{
    ChunkSize, Error, KdfLimit, Opener, ProtectedFile, Reader, Recipient, Roster, SecretKey, Source, Suite, Ways,
};

const CHUNK: usize = 4096;

fn key() -> SecretKey {
    SecretKey::from_slice(&[7; 32]).unwrap()
}

fn opener() -> Opener<SecretKey> {
    Opener::new(key(), KdfLimit::default())
}

fn volume(suite: Suite) -> (Vec<u8>, Config) {
    Config::create(suite, ChunkSize::new(CHUNK as u64).unwrap(), &[Recipient::key(&key())]).unwrap()
}

fn open(bytes: &[u8]) -> Result<Config, Error> {
    Config::open(Source::stream(bytes), &opener())
}

#[test]
fn a_config_opens_with_its_key_and_gives_the_same_keys() {
    for suite in [Suite::Aes256CtrSha3, Suite::Aes256CtrTurboShake] {
        let (bytes, made) = volume(suite);
        let found = open(&bytes).unwrap();
        assert_eq!((found.suite(), found.chunk_size().bytes()), (suite, CHUNK));
        assert!(found.keys().files().matches(made.keys().files()));
        assert_eq!(found.keys().journal_mac(b"x"), made.keys().journal_mac(b"x"));
        let siv = |config: &Config| [&config.keys().folders, &config.keys().names].map(|key| **key);
        assert_eq!(siv(&found), siv(&made));
        assert_ne!(siv(&found)[0], siv(&found)[1]);
    }
}

#[test]
fn a_config_is_not_a_file_and_a_file_is_not_a_config() {
    let (bytes, _) = volume(Suite::default());
    assert!(matches!(ProtectedFile::open(Source::stream(&bytes[..]), &opener()), Err(Error::Volume)));
    assert!(matches!(Reader::open(bytes.clone(), &opener()), Err(Error::Volume)));
    // Its ways in can still be changed.
    assert!(Ways::read(&mut Source::stream(&bytes[..]), &opener()).is_ok());

    let file_key = SecretKey::random().unwrap();
    let keys = file_key.file_keys(Suite::default());
    let wrapped = key().wrapping_key().wrap(phalanx_core::format::Purpose::File, &file_key);
    let way = Slot::Key { id: key().id(), wrapped };
    let file = Header::new(Suite::default(), 12, vec![way.clone()], &keys).unwrap();
    assert!(matches!(open(file.bytes()), Err(Error::Header(_))));
    // The key was wrapped for a file: a volume's slot beside it does not make it a way into a volume.
    let slots = vec![way, Slot::Unknown { kind: 16, body: vec![1, 0, 0, 0, 0, 0, 0, 0] }];
    let posing = Header::new(Suite::default(), 12, slots, &keys).unwrap();
    assert!(matches!(open(posing.bytes()), Err(Error::WrongKey)));
}

#[test]
fn every_altered_byte_of_a_config_is_found() {
    let (bytes, _) = volume(Suite::default());
    for at in (0..bytes.len()).step_by(7) {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        assert!(open(&altered).is_err(), "byte {at}");
    }
    assert!(open(&bytes[..bytes.len() - 1]).is_err());
    assert!(open(&[&bytes[..], &[0]].concat()).is_err());
    let wrong =
        Config::open(Source::stream(&bytes[..]), &Opener::new(SecretKey::random().unwrap(), KdfLimit::default()));
    assert!(matches!(wrong, Err(Error::NoKey { .. })));
}

#[test]
fn suite_4_is_refused() {
    let made = Config::create(Suite::Aes256Gcm, ChunkSize::default(), &[Recipient::key(&key())]);
    assert!(matches!(made, Err(Error::Header(_))));
}

#[test]
fn headers_of_files_keep_their_holes_and_belong_to_one_volume() {
    let (_, config) = volume(Suite::default());
    let (header, keys) = config.new_file().unwrap();
    assert_eq!(header.bytes().len(), HEADER_LEN);
    let (found, holes, state) = config.open_file(&header).unwrap();
    assert_eq!(found.volume_file_id(), keys.volume_file_id());
    assert!(holes.ranges().is_empty() && state.is_none());

    for count in [1, 2, 239, MAX_HOLES as u64] {
        let ranges: Vec<_> = (0..count).map(|i| 3 * i..3 * i + 2).collect();
        let holes = Holes::new(ranges).unwrap();
        let with = config.with(&header, &keys, &holes, None).unwrap();
        assert_eq!(with.bytes().len(), HEADER_LEN);
        assert_eq!(config.open_file(&with).unwrap().1, holes);
        assert_eq!(
            config.open_file(&config.with(&with, &keys, &Holes::default(), None).unwrap()).unwrap().1,
            Holes::default()
        );
        assert_eq!(holes.around(1), Some(0..2));
        assert_eq!(holes.around(2), None);
    }
    assert!(matches!(volume(Suite::default()).1.open_file(&header), Err(Error::Header(_))));
    let (_, turbo) = volume(Suite::Aes256CtrTurboShake);
    assert!(matches!(turbo.open_file(&header), Err(Error::Header(_))));
}

#[test]
fn a_volume_keeps_its_features_and_headers_their_state() {
    let features = Features { rollback_protection: true };
    let size = ChunkSize::new(CHUNK as u64).unwrap();
    let made = Config::create_with(Suite::default(), size, features, &[Recipient::key(&key())]).unwrap();
    let (bytes, config) = (&made.0, &made.1);
    let found = open(bytes).unwrap();
    assert_eq!((found.features(), config.features()), (features, features));
    assert_eq!(found.keys().volume_id(), config.keys().volume_id());
    assert_eq!(found.keys().batch_mac(&[1; 32], b"x"), config.keys().batch_mac(&[1; 32], b"x"));
    assert_ne!(found.keys().batch_mac(&[1; 32], b"x"), config.keys().batch_mac(&[2; 32], b"x"));
    assert_eq!(open(&volume(Suite::default()).0).unwrap().features(), Features::default());

    let (header, keys) = config.new_file().unwrap();
    // A file has a state in such a volume, and none in others.
    assert!(matches!(config.open_file(&header), Err(Error::Header(_))));
    let holes = |count: u64| Holes::new((0..count).map(|i| 2 * i..2 * i + 1).collect()).unwrap();
    let state = State { group_log2: 3, sums: vec![[7; 16]; MAX_GROUPS as usize] };
    let most = config.max_holes() as u64;
    let full = config.with(&header, &keys, &holes(most), Some(&state)).unwrap();
    assert_eq!(full.bytes().len(), HEADER_LEN);
    let (_, found_holes, found_state) = config.open_file(&full).unwrap();
    assert_eq!((found_holes, found_state), (holes(most), Some(state.clone())));
    let more = config.with(&header, &keys, &holes(most + 1), Some(&state)).unwrap();
    assert!(matches!(config.open_file(&more), Err(Error::Header(_))));
    let (_, plain) = volume(Suite::default());
    let (header, keys) = plain.new_file().unwrap();
    let with = plain.with(&header, &keys, &Holes::default(), Some(&state)).unwrap();
    assert!(matches!(plain.open_file(&with), Err(Error::Header(_))));
    assert_eq!(plain.max_holes(), MAX_HOLES);
}

#[test]
fn sums_depend_on_the_file_the_group_and_the_tags() {
    let (_, config) = volume(Suite::default());
    let (one, other) = (config.new_file().unwrap().1.volume_sums(), config.new_file().unwrap().1.volume_sums());
    let sums =
        [one.sum(0, &[1; 32]), one.sum(1, &[1; 32]), one.sum(0, &[2; 32]), one.sum(0, &[1; 64]), one.sum(0, &[])];
    for (i, sum) in sums.iter().enumerate() {
        assert!(!sums[..i].contains(sum), "{i}");
    }
    assert_ne!(other.sum(0, &[1; 32]), sums[0]);
    assert_eq!(one.sum(0, &[1; 32]), sums[0]);
}

#[test]
fn holes_are_in_order_and_apart() {
    assert!(Holes::new(vec![0..1, 2..3]).is_some());
    assert!(Holes::new(vec![0..2, 2..3]).is_none());
    assert!(Holes::new(vec![3..4, 0..1]).is_none());
    assert!(Holes::new(std::iter::once(1..1).collect()).is_none());
    assert!(Holes::new((0..=MAX_HOLES as u64).map(|i| 2 * i..2 * i + 1).collect()).is_none());
}

#[test]
fn single_chunks_are_sealed_and_opened_in_any_order() {
    let (_, config) = volume(Suite::default());
    let (header, keys) = config.new_file().unwrap();
    let (chunks, roster) = (Chunks::new(&header, &keys), Roster::cpu());
    let places = [
        Place { index: 5, last: false, len: CHUNK },
        Place { index: 1, last: false, len: CHUNK },
        Place { index: 9, last: true, len: 10 },
    ];
    let mut records = chunks.records(3, 10).unwrap();
    for (at, place) in places.iter().enumerate() {
        records.chunk_mut(at, place.len).fill(at as u8 + 1);
    }
    chunks.seal(&roster, &mut records, &places).unwrap();
    let stored = records.bytes().to_vec();
    assert_eq!(stored.len(), 2 * (CHUNK + 48) + 48 + 10);
    assert!(chunks.open(&roster, &mut records, &places).unwrap().all_passed());
    assert_eq!(records.chunk(1, CHUNK), [2; CHUNK]);
    assert_eq!(records.chunk(2, 10), [3; 10]);

    // Only what is damaged fails, and it is wiped.
    records.bytes_mut().copy_from_slice(&stored);
    records.bytes_mut()[CHUNK + 48 + 100] ^= 1;
    let verdicts = chunks.open(&roster, &mut records, &places).unwrap();
    assert_eq!(verdicts.failed(), [1]);
    assert_eq!(records.chunk(1, CHUNK), [0; CHUNK]);
    assert_eq!(records.chunk(0, CHUNK), [1; CHUNK]);

    // A chunk in another place, or with another end, is not authentic.
    for wrong in [Place { index: 6, ..places[0] }, Place { last: true, ..places[0] }] {
        records.bytes_mut().copy_from_slice(&stored);
        let verdicts = chunks.open(&roster, &mut records, &[wrong, places[1], places[2]]).unwrap();
        assert_eq!(verdicts.failed(), [0]);
    }
}
