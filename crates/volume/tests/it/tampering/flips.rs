//! Files that have flipped bytes, are cut or extended, or have holes punched into them.

use super::{CHUNK, HEADER, Lab, RECORD, Seen, at_hand, check_found, is_in, key, lost, path};
use crate::mounted::{Refused, Unsynced, mount, walk};
use crate::vectors::model::Want;
use phalanx_core::volume::Config;
use phalanx_core::{KdfLimit, Opener};
use phalanx_host::file;
use phalanx_volume::tree::{Tree, TreeOptions};
use phalanx_volume::{Store, VolumeError};
use rustix::fs::{FallocateFlags, XattrFlags, fallocate, getxattr, listxattr, removexattr, setxattr};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

const LONG: &[u8] = &[b'n'; 200];

/// All files of the volume: names and the number of chunks.
const FILES: [(&[&[u8]], usize); 6] = [
    (&[b"one"], 1),
    (&[b"three"], 3),
    (&[b"sparse"], 4),
    (&[LONG], 2),
    (&[b"folder", b"inner"], 1),
    (&[b"folder", b"one"], 1),
];

fn is_exhaustive() -> bool {
    let is_exhaustive = std::env::var_os("PHALANX_EXHAUSTIVE").is_some();
    if !is_exhaustive {
        println!("skipped: exhaustive sweep (PHALANX_EXHAUSTIVE=1)");
    }
    is_exhaustive
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

/// Another letter of base64url.
fn other_letter(letter: u8) -> u8 {
    if letter == b'A' { b'B' } else { b'A' }
}

#[test]
fn every_flipped_byte_of_a_file_is_found() {
    let lab = Lab::new();
    let before = lab.look().0;
    let step = if is_exhaustive() { 1 } else { 7 };
    for (names, chunks) in FILES {
        let stored = lab.stored(names);
        let (len, place) = (fs::metadata(&stored).unwrap().len(), path(names));
        assert_eq!(len.saturating_sub(HEADER as u64).div_ceil(RECORD as u64), chunks as u64);
        let Some(Want::File { content: Some(content), .. }) = before.get(&place) else { panic!("a file") };
        let mounted = lab.mount();
        let number = names.iter().fold(1, |parent, name| mounted.tree.lookup(parent, name).unwrap().number);
        let (mut at, mut told) = (0, BTreeSet::new());
        while at < len {
            let chunk = at.checked_sub(HEADER as u64).map(|at| (at / RECORD as u64) as usize);
            let is_hole = names == [b"sparse"] && matches!(chunk, Some(1 | 2));
            flip(&stored, at);
            match (chunk, mounted.store.open_file(mounted.tree.open_file(number, true).unwrap())) {
                (Some(chunk), Ok(backing)) if chunk + 1 < chunks => {
                    for (index, old) in content.iter().enumerate() {
                        let read = backing.read_at((index * CHUNK) as u64, CHUNK);
                        match index == chunk && !is_hole {
                            true => assert!(matches!(read, Err(VolumeError::Damaged(_))), "{place}: byte {at}"),
                            false => assert_eq!(read.unwrap(), *old.as_ref().unwrap(), "{place}: byte {at}"),
                        }
                    }
                }
                (_, opened) => assert!(matches!(opened, Err(VolumeError::Damaged(_))), "{place}: byte {at}"),
            }
            // A mount reports the same text only once.
            let new = std::mem::take(&mut *mounted.told.lock().unwrap());
            assert!(new.len() <= usize::from(!is_hole), "{place}: byte {at}: {new:?}");
            told.extend(new);
            flip(&stored, at);
            at += if chunk.is_some() { step } else { 1 };
        }
        let damaged: Vec<_> = (0..chunks - 1).filter(|chunk| names != [b"sparse"] || *chunk == 0).collect();
        for chunk in &damaged {
            assert!(told.iter().any(|line| line.ends_with(&format!("in chunk {chunk}"))), "{place}: {told:?}");
        }
        assert!(told.len() > damaged.len(), "{place}: {told:?}");
        drop(mounted);
        for at in [100, HEADER as u64 + 5, len - 1] {
            flip(&stored, at);
            check_found(&lab, &before, &[&place], &format!("{place}: byte {at}"));
            flip(&stored, at);
        }
    }
    assert!(lab.look() == (before, Vec::new()));
}

#[test]
fn every_other_length_of_a_file_is_found() {
    let lab = Lab::new();
    let before = lab.look().0;
    for (names, chunks) in FILES {
        let stored = lab.stored(names);
        let whole = fs::read(&stored).unwrap();
        let ends = (0..=chunks).map(|chunk| HEADER + chunk * RECORD);
        let near = ends.flat_map(|end| [end - 1, end, end + 1, end + 48, end + 49]);
        let mut lens: Vec<usize> = near.chain([0, 1, 100, whole.len() - 1, whole.len() + 1]).collect();
        lens.extend([whole.len() + 48, whole.len() + RECORD, 10 * RECORD]);
        lens.sort_unstable();
        lens.dedup();
        for len in lens.into_iter().filter(|len| *len != whole.len()) {
            let mut bytes = whole.clone();
            bytes.resize(len, 0);
            fs::write(&stored, bytes).unwrap();
            check_found(&lab, &before, &[&path(names)], &format!("{} with {len} bytes", path(names)));
        }
        fs::write(&stored, whole).unwrap();
    }
    assert!(lab.look() == (before, Vec::new()));
}

#[test]
fn holes_that_somebody_else_punches_are_found() {
    let lab = Lab::new();
    let before = lab.look().0;
    for (names, chunks) in FILES {
        let stored = lab.stored(names);
        let whole = fs::read(&stored).unwrap();
        let mut ranges = vec![(0, HEADER), (HEADER, whole.len() - HEADER)];
        ranges.extend((0..chunks).map(|chunk| (HEADER + chunk * RECORD, RECORD)));
        for (start, len) in ranges {
            let file = OpenOptions::new().write(true).open(&stored).unwrap();
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&file, punch, start as u64, len as u64).unwrap();
            let what = format!("{}: a hole from {start} on", path(names));
            if names == [b"sparse"] && [HEADER + RECORD, HEADER + 2 * RECORD].contains(&start) {
                // The header lists it as a hole.
                assert!(lab.look() == (before.clone(), Vec::new()), "{what}");
            } else {
                check_found(&lab, &before, &[&path(names)], &what);
            }
            fs::write(&stored, &whole).unwrap();
        }
    }
    assert!(lab.look() == (before, Vec::new()));
}

/// Looks at a volume with its own tree, which costs less than a mount.
struct Looker<'a> {
    lab: &'a Lab,
    store: &'a Store,
    config: Config,
    before: &'a Seen,
}

impl Looker<'_> {
    fn check(&self, place: &str, what: &str) {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = told.clone();
        let options = TreeOptions {
            read_only: false,
            plain_len: Box::new(Some),
            on_damage: Arc::new(move |line: &str| log.lock().unwrap().push(line.into())),
        };
        let tree = Tree::open(File::open(self.lab.path()).unwrap().into(), &self.config, options).unwrap();
        let lost = lost(self.before, &walk(&tree, self.store));
        assert!(!lost.is_empty(), "{place}: {what}: nothing has happened");
        assert!(lost.iter().all(|path| is_in(path, &[place])), "{place}: {what}: {lost:?}");
        assert!(!told.lock().unwrap().is_empty(), "{place}: {what}: nothing was told");
    }
}

#[test]
fn every_flipped_byte_of_names_folders_links_and_attributes_is_found() {
    let lab = Lab::new();
    let before = lab.look().0;
    let folders: [&[&[u8]]; 2] = [&[b"folder"], &[b"other"]];
    let links: [&[&[u8]]; 2] = [&[b"link"], &[b"folder", b"link"]];
    let all = FILES.iter().map(|(names, _)| *names).chain(folders).chain(links);
    let all: Vec<_> = all.map(|names| (names, path(names), lab.stored(names))).collect();
    let mounted = lab.mount();
    let file = File::open(lab.path().join("phalanx.volume")).unwrap();
    let config = Config::open(file::regular(&file).unwrap(), &Opener::new(key(), KdfLimit::default())).unwrap();
    let looker = Looker { lab: &lab, store: &mounted.store, config, before: &before };
    for (names, place, stored) in &all {
        let name = stored.file_name().unwrap().as_bytes().to_vec();
        // Without the prefix of long names, it is no entry of the volume, as if it were deleted.
        let first = if *names == [LONG] { b"phalanx.name.".len() } else { 0 };
        for at in first..name.len() {
            let mut other = name.clone();
            other[at] = other_letter(other[at]);
            let other = stored.with_file_name(OsStr::from_bytes(&other));
            fs::rename(stored, &other).unwrap();
            looker.check(place, "a letter of the name");
            fs::rename(&other, stored).unwrap();
        }
        if links.contains(names) {
            let target = fs::read_link(stored).unwrap().as_os_str().as_bytes().to_vec();
            for at in 0..target.len() {
                let mut other = target.clone();
                other[at] = other_letter(other[at]);
                fs::remove_file(stored).unwrap();
                symlink(OsStr::from_bytes(&other), stored).unwrap();
                looker.check(place, "a letter of the target");
            }
            fs::remove_file(stored).unwrap();
            symlink(OsStr::from_bytes(&target), stored).unwrap();
        }
        let small = match () {
            () if *names == [LONG] => stored.with_file_name(OsStr::from_bytes(&[&name[..], b".full"].concat())),
            () if folders.contains(names) => stored.join("phalanx.folder"),
            () => continue,
        };
        let bytes = fs::read(&small).unwrap();
        for at in 0..bytes.len() {
            flip(&small, at as u64);
            looker.check(place, "a byte of a small file");
            flip(&small, at as u64);
        }
        for len in [0, 1, bytes.len() - 1, bytes.len() + 1, 2 * bytes.len() + 1, 300] {
            let mut other = bytes.clone();
            other.resize(len, 0);
            fs::write(&small, other).unwrap();
            looker.check(place, "another length of a small file");
        }
        fs::remove_file(&small).unwrap();
        looker.check(place, "no small file");
        fs::write(&small, bytes).unwrap();
    }
    for (names, place, stored) in &all {
        if [&[b"one" as &[u8]][..], &[b"folder"]].contains(names) {
            attributes(&looker, place, stored);
        }
    }
    drop(mounted);
    assert!(lab.look() == (before, Vec::new()));
}

fn attributes(looker: &Looker, place: &str, stored: &Path) {
    let mut list = vec![0; 1000];
    let len = listxattr(stored, &mut list[..]).unwrap();
    let name = list[..len].split(|byte| *byte == 0).find(|name| name.starts_with(b"user.phalanx.")).unwrap();
    let mut value = vec![0; 1000];
    let len = getxattr(stored, name, &mut value[..]).unwrap();
    value.truncate(len);
    for at in 0..len {
        let mut other = value.clone();
        other[at] ^= 1;
        setxattr(stored, name, &other, XattrFlags::REPLACE).unwrap();
        looker.check(place, "a byte of an attribute's value");
    }
    removexattr(stored, name).unwrap();
    for at in b"user.phalanx.".len()..name.len() {
        let mut other = name.to_vec();
        other[at] = other_letter(other[at]);
        setxattr(stored, &*other, &value, XattrFlags::CREATE).unwrap();
        looker.check(place, "a letter of an attribute's name");
        removexattr(stored, &*other).unwrap();
    }
    setxattr(stored, name, &value, XattrFlags::CREATE).unwrap();
}

#[test]
fn a_config_or_a_root_that_was_altered_is_refused() {
    let lab = Lab::new();
    let refused = || mount(lab.path(), at_hand(), false, Arc::new(Unsynced)).err();
    for name in ["phalanx.volume", "phalanx.folder"] {
        let stored = lab.path().join(name);
        let whole = fs::read(&stored).unwrap();
        let check = |what: &str| {
            let refused = refused();
            let is_right = match name {
                "phalanx.volume" => matches!(refused, Some(Refused::Volume(VolumeError::Core(_)))),
                _ => matches!(refused, Some(Refused::Tree(VolumeError::Damaged(_)))),
            };
            assert!(is_right, "{name}: {what}: {refused:?}");
        };
        for at in 0..whole.len() as u64 {
            flip(&stored, at);
            check(&format!("byte {at}"));
            flip(&stored, at);
        }
        for len in (0..whole.len()).chain([whole.len() + 1, 2 * whole.len() + 1]) {
            let mut bytes = whole.clone();
            bytes.resize(len, 0);
            fs::write(&stored, bytes).unwrap();
            check(&format!("{len} bytes"));
        }
        fs::write(&stored, whole).unwrap();
    }
    assert!(refused().is_none());
}
