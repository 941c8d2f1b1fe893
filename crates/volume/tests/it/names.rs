//! Names, targets of links and extended attributes, encrypted one by one.

use phalanx_core::volume::Config;
use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};
use phalanx_volume::names::{MAX_ATTRIBUTE, Names, is_entry, is_long, target_len};
use rustix::io::Errno;

const HERE: [u8; 16] = [1; 16];
const ELSEWHERE: [u8; 16] = [2; 16];

fn names() -> Names {
    let recipient = Recipient::key(&SecretKey::from_slice(&[7; 32]).unwrap());
    let config = Config::create(Suite::default(), ChunkSize::new(4096).unwrap(), &[recipient]).unwrap().1;
    Names::new(config.keys())
}

#[test]
fn names_of_all_lengths_return_only_in_their_folder() {
    let (names, other) = (names(), names());
    for len in 1..=255 {
        let name: Vec<u8> = (0..len).map(|i| b'a' + (i % 26) as u8).collect();
        let stored = names.seal(&HERE, &name).unwrap();
        assert_eq!(stored, names.seal(&HERE, &name).unwrap());
        assert!(is_entry(&stored.entry) && stored.entry.len() <= 255, "{len}");
        assert_eq!(stored.full.is_some(), len > 175);
        assert_eq!(is_long(&stored.entry), len > 175);
        let open = |names: &Names, folder| match &stored.full {
            None => names.open(folder, &stored.entry),
            Some(sealed) => names.open_long(folder, &stored.entry, sealed),
        };
        assert_eq!(open(&names, &HERE).as_ref(), Some(&name));
        assert_eq!(open(&names, &ELSEWHERE), None);
        assert_eq!(open(&other, &HERE), None);
    }
}

#[test]
fn every_altered_byte_of_a_stored_name_is_found() {
    let names = names();
    for len in [1, 2, 3, 16, 175] {
        let stored = names.seal(&HERE, &vec![b'n'; len]).unwrap().entry;
        for place in 0..stored.len() {
            for flip in [1, 2, 4, 32, 128] {
                let mut altered = stored.to_vec();
                altered[place] ^= flip;
                assert_eq!(names.open(&HERE, &altered), None, "byte {place} of {len}");
            }
        }
        assert_eq!(names.open(&HERE, &[&*stored, b"="].concat()), None);
        assert_eq!(names.open(&HERE, &stored[1..]), None);
    }
    let stored = names.seal(&HERE, &[b'n'; 200]).unwrap();
    let full = stored.full.unwrap();
    for place in 0..full.len() {
        let mut altered = full.to_vec();
        altered[place] ^= 1;
        assert_eq!(names.open_long(&HERE, &stored.entry, &altered), None);
    }
    let other = names.seal(&HERE, &[b'm'; 200]).unwrap();
    assert_eq!(names.open_long(&HERE, &other.entry, &full), None);
}

#[test]
fn spare_bits_of_base64_are_refused() {
    let names = names();
    // 17 bytes leave a last character with 4 spare bits.
    let stored = names.seal(&HERE, b"x").unwrap().entry;
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let read: Vec<u8> = (alphabet.iter())
        .filter(|last| names.open(&HERE, &[&stored[..stored.len() - 1], &[**last]].concat()).is_some())
        .copied()
        .collect();
    assert_eq!(read, [stored[stored.len() - 1]]);
}

#[test]
fn invalid_names_are_refused() {
    let names = names();
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
        assert_eq!(names.seal(&HERE, name), Err(Errno::INVAL));
    }
    assert_eq!(names.seal(&HERE, &[b'a'; 256]), Err(Errno::NAMETOOLONG));
    for stored in [&b""[..], b"A", b"phalanx.folder", b"AAAAAAAAAAAAAAAAAAAAAA", &[b'A'; 255], &[0xff; 40]] {
        assert_eq!(names.open(&HERE, stored), None);
    }
}

#[test]
fn links_are_bound_to_folder_and_name_and_their_length_is_known() {
    let names = names();
    for len in [1, 2, 3, 4, 5, 100, 2999, 3000] {
        let target = vec![b't'; len];
        let stored = names.seal_link(&HERE, b"name", &target).unwrap();
        assert_eq!(target_len(stored.len() as u64), Some(len as u64));
        assert_eq!(names.open_link(&HERE, b"name", stored.as_bytes()), Some(target));
        assert_eq!(names.open_link(&ELSEWHERE, b"name", stored.as_bytes()), None);
        assert_eq!(names.open_link(&HERE, b"other", stored.as_bytes()), None);
    }
    assert_eq!(names.seal_link(&HERE, b"name", &[b't'; 3001]), Err(Errno::NAMETOOLONG));
    assert_eq!(names.seal_link(&HERE, b"name", b""), Err(Errno::NOENT));
    for stored in [0, 1, 21, 22, 25, 4023, 4096, u64::MAX] {
        assert_eq!(target_len(stored), None, "{stored}");
    }
}

#[test]
fn attributes_are_bound_to_their_owner_and_their_name() {
    let names = names();
    for len in 1..=MAX_ATTRIBUTE {
        let name = vec![b'x'; len];
        let stored = names.seal_attribute(&HERE, &name).unwrap();
        assert!(stored.len() <= 255);
        assert_eq!(names.open_attribute(&HERE, stored.as_bytes()), Some(name));
        assert_eq!(names.open_attribute(&ELSEWHERE, stored.as_bytes()), None);
    }
    assert_eq!(names.seal_attribute(&HERE, &[b'x'; MAX_ATTRIBUTE + 1]), Err(Errno::RANGE));
    for len in [0, 1, 15, 16, 17, 5000] {
        let value = vec![3; len];
        let stored = names.seal_value(&HERE, b"x", &value);
        assert_eq!(names.open_value(&HERE, b"x", &stored), Some(value));
        assert_eq!(names.open_value(&HERE, b"y", &stored), None);
        assert_eq!(names.open_value(&ELSEWHERE, b"x", &stored), None);
    }
}
