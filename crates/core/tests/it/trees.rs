//! Manifests and contents, compared with the reference and the vectors.

use crate::common::Random;
use phalanx_core::Error;
use phalanx_core::tree::{
    Contents, Digest, Entry, FileEntry, Head, Invalid, Kind, LastChunk, Manifest, ManifestWriter, Time, TreeId,
};
use phalanx_reference::tree::{self as reference, Broken};
use phalanx_vectors::Expect;
use phalanx_vectors::tree::Rule;
use std::collections::BTreeSet;
use std::io::{self, Read};

/// What the core reads, in the words of the reference.
fn read(bytes: impl Read) -> Result<reference::Manifest, Invalid> {
    let (head, mut manifest) = Manifest::open(bytes)?;
    let (mut entries, mut depth) = (Vec::new(), 0);
    while !manifest.is_at_end() {
        match manifest.next()? {
            Some(entry) => {
                let is_folder = entry.kind == Kind::Folder;
                entries.push(to_reference(entry, depth));
                depth += usize::from(is_folder);
            }
            None => depth -= 1,
        }
    }
    Ok(reference::Manifest {
        tree: head.tree.0,
        generation: head.generation,
        written: head.written,
        previous: head.previous.0,
        rules: head.rules.into_bytes(),
        entries,
    })
}

fn to_reference(entry: Entry, depth: usize) -> reference::Entry {
    let kind = match entry.kind {
        Kind::Folder => reference::Kind::Folder,
        Kind::Link(target) => reference::Kind::Link(target),
        Kind::File(FileEntry { len, stored_len, device, inode, contents }) => {
            let contents = reference::Contents { last: contents.last.0, root: contents.root };
            reference::Kind::File { len, stored_len, device, inode, contents }
        }
    };
    let Time { seconds, nanoseconds } = entry.modified;
    reference::Entry { depth, name: entry.name, mode: entry.mode, seconds, nanoseconds, kind }
}

/// What the core writes for a manifest of the reference.
fn write(manifest: &reference::Manifest) -> io::Result<Vec<u8>> {
    let head = Head {
        tree: TreeId(manifest.tree),
        generation: manifest.generation,
        written: manifest.written,
        previous: Digest(manifest.previous),
        rules: String::from_utf8(manifest.rules.clone()).unwrap(),
    };
    let mut writer = ManifestWriter::new(Vec::new(), &head)?;
    let mut open = 0;
    for entry in &manifest.entries {
        (entry.depth..open).try_for_each(|_| writer.end_folder())?;
        writer.entry(&to_core(entry))?;
        open = entry.depth + usize::from(entry.kind == reference::Kind::Folder);
    }
    (0..open).try_for_each(|_| writer.end_folder())?;
    Ok(writer.into_output())
}

fn to_core(entry: &reference::Entry) -> Entry {
    let kind = match &entry.kind {
        reference::Kind::Folder => Kind::Folder,
        reference::Kind::Link(target) => Kind::Link(target.clone()),
        reference::Kind::File { len, stored_len, device, inode, contents } => Kind::File(FileEntry {
            len: *len,
            stored_len: *stored_len,
            device: *device,
            inode: *inode,
            contents: Contents { last: LastChunk(contents.last), root: contents.root },
        }),
    };
    let modified = Time { seconds: entry.seconds, nanoseconds: entry.nanoseconds };
    Entry { name: entry.name.clone(), mode: entry.mode, modified, kind }
}

/// Both read the same, or both refuse. Whether they read it.
fn check(bytes: &[u8]) -> bool {
    match (read(bytes), reference::read_manifest(bytes)) {
        (Ok(found), Ok(expected)) => {
            assert_eq!(found, expected);
            assert_eq!(write(&found).unwrap(), bytes);
            true
        }
        (Err(Invalid::Version), Err(Broken::Version)) => false,
        (Err(Invalid::Malformed(_)), Err(broken)) if broken != Broken::Version => false,
        (found, expected) => panic!("{found:?}, but the reference says {expected:?}: {bytes:02x?}"),
    }
}

/// A small manifest that keeps all rules.
fn random_manifest(random: &mut Random) -> reference::Manifest {
    let rules = ["", "- *.tmp\n", "- /täglich\n- b\n"][random.below(3)];
    let mut entries = vec![entry(random, 0, Vec::new(), reference::Kind::Folder)];
    fill(random, 1, &mut entries);
    reference::Manifest {
        tree: array(random),
        generation: random.next(),
        written: random.next() as i64,
        previous: array(random),
        rules: rules.into(),
        entries,
    }
}

fn fill(random: &mut Random, depth: usize, entries: &mut Vec<reference::Entry>) {
    let names: BTreeSet<Vec<u8>> = (0..random.below(5)).map(|_| name(random)).collect();
    for name in names {
        let kind = match random.below(4) {
            0 => reference::Kind::Folder,
            1 => reference::Kind::Link(name.clone()),
            _ => file(random),
        };
        let is_folder = kind == reference::Kind::Folder;
        entries.push(entry(random, depth, name, kind));
        if is_folder && depth < 5 {
            fill(random, depth + 1, entries);
        }
    }
}

fn entry(random: &mut Random, depth: usize, name: Vec<u8>, kind: reference::Kind) -> reference::Entry {
    let (mode, seconds) = (random.below(0o10000) as u32, random.next() as i64);
    reference::Entry { depth, name, mode, seconds, nanoseconds: random.below(1_000_000_000) as u32, kind }
}

/// Short, so that some begin others.
fn name(random: &mut Random) -> Vec<u8> {
    let letters = b"ab.\x01\x7f\x80\xff";
    let name: Vec<u8> = (0..1 + random.below(4)).map(|_| letters[random.below(letters.len())]).collect();
    if name == b"." || name == b".." { b"...".to_vec() } else { name }
}

fn file(random: &mut Random) -> reference::Kind {
    let stored_len = 1 + (random.next() >> (1 + random.below(60)));
    let contents = reference::Contents { last: array(random), root: array(random) };
    let (len, device, inode) = (random.next() % stored_len, random.next(), random.next());
    reference::Kind::File { len, stored_len, device, inode, contents }
}

fn array<const N: usize>(random: &mut Random) -> [u8; N] {
    random.bytes(N).try_into().unwrap()
}

#[test]
fn what_the_core_writes_the_reference_reads_and_the_other_way_round() {
    let mut random = Random(1);
    for _ in 0..500 {
        let manifest = random_manifest(&mut random);
        let written = write(&manifest).unwrap();
        assert_eq!(written, reference::write_manifest(&manifest));
        assert_eq!(reference::read_manifest(&written).as_ref(), Ok(&manifest));
        assert_eq!(read(&written[..]).unwrap(), manifest);
    }
}

#[test]
fn altered_manifests_are_read_by_both_or_by_none() {
    let mut random = Random(2);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut bytes = reference::write_manifest(&random_manifest(&mut random));
        for _ in 0..=random.below(2) {
            alter(&mut random, &mut bytes);
        }
        accepted += usize::from(check(&bytes));
    }
    assert!((2000..18_000).contains(&accepted), "{accepted} are still manifests");
}

fn alter(random: &mut Random, bytes: &mut Vec<u8>) {
    let (one, other) = (random.below(bytes.len()), random.below(bytes.len()));
    let (from, to) = (one.min(other), one.max(other));
    match random.below(6) {
        0 => bytes[from] ^= 1 << random.below(8),
        1 => bytes[from] = random.below(5) as u8,
        2 => bytes.truncate(to.max(1)),
        3 => drop(bytes.drain(from + 1..=to)),
        4 => bytes.insert(from, [0, 1, 2, 3, b'a', 255][random.below(6)]),
        _ => {
            let piece = bytes[from..to].to_vec();
            bytes.splice(from..from, piece);
        }
    }
}

#[test]
fn entries_that_break_a_rule_are_refused_by_both() {
    let mut random = Random(3);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut manifest = random_manifest(&mut random);
        let at = random.below(manifest.entries.len());
        alter_entry(&mut random, &mut manifest.entries[at]);
        accepted += usize::from(check(&reference::write_manifest(&manifest)));
    }
    assert!((2000..18_000).contains(&accepted), "{accepted} are still manifests");
}

fn alter_entry(random: &mut Random, entry: &mut reference::Entry) {
    match random.below(5) {
        0 => entry.mode = 0o10000 - 2 + random.below(4) as u32,
        1 => entry.nanoseconds = 1_000_000_000 - 2 + random.below(4) as u32,
        2 => entry.name = [&b""[..], b".", b"..", b"a/b", b"\0", b"zz", b"..."][random.below(7)].to_vec(),
        3 => {
            entry.name = vec![b'n'; 4094 + random.below(5)];
        }
        _ => match &mut entry.kind {
            reference::Kind::Folder => {}
            reference::Kind::Link(target) => {
                *target = [&b""[..], b"/", b"a\0", &[b'x'; 65535]][random.below(4)].to_vec()
            }
            reference::Kind::File { len, stored_len, .. } => {
                *stored_len = [0, 1, (1 << 63) - 1, 1 << 63, u64::MAX][random.below(5)];
                *len = stored_len.wrapping_sub(random.below(3) as u64);
            }
        },
    }
}

#[test]
fn the_longest_rules_and_the_deepest_folders_are_read_by_both_and_more_by_none() {
    let mut manifest = random_manifest(&mut Random(4));
    for (len, is_lawful) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        manifest.rules = vec![b'\n'; len];
        assert_eq!(check(&reference::write_manifest(&manifest)), is_lawful, "{len} bytes of rules");
        assert_eq!(write(&manifest).is_ok(), is_lawful);
    }
    manifest.rules.clear();
    let folder = |depth: usize| {
        let name = if depth == 0 { Vec::new() } else { b"x".to_vec() };
        reference::Entry { depth, name, mode: 0, seconds: 0, nanoseconds: 0, kind: reference::Kind::Folder }
    };
    for (depth, is_lawful) in [(65_536, true), (65_537, false)] {
        manifest.entries = (0..depth).map(folder).collect();
        assert_eq!(check(&reference::write_manifest(&manifest)), is_lawful, "{depth} folders within each other");
        assert_eq!(write(&manifest).is_ok(), is_lawful);
    }
}

#[test]
fn contents_are_those_of_the_vectors() {
    for (name, vector) in phalanx_vectors::contents() {
        let file = vector.file();
        let found = Contents::read(&file);
        let expect = match &found {
            Ok(_) => Expect::Ok,
            Err(Error::NotPhalanx) => Expect::NotPhalanx,
            Err(Error::Version(_)) => Expect::Version,
            Err(Error::Header(_)) => Expect::Header,
            Err(Error::Truncated(_) | Error::Extended(_)) => Expect::Altered,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(expect, vector.expect, "{name}");
        if let Ok(contents) = found {
            let expected = (vector.last.unwrap().array(), vector.root.unwrap().array());
            assert_eq!((contents.last.0, contents.root), expected, "{name}");
            assert_eq!(LastChunk::read(&file).unwrap().0, contents.last, "{name}");
        }
    }
}

/// What a manifest of the vectors says is compared in the tests of the reference, with which the core agrees here.
#[test]
fn manifests_of_the_vectors_are_read_or_break_their_rule() {
    for (name, vector) in phalanx_vectors::manifests() {
        match read(&vector.manifest[..]) {
            Ok(_) => assert_eq!(vector.expect, Rule::Ok, "{name}"),
            Err(invalid) => assert_eq!(rule(&invalid), vector.expect, "{name}"),
        }
        check(&vector.manifest);
    }
}

fn rule(invalid: &Invalid) -> Rule {
    let Invalid::Malformed(why) = invalid else {
        assert!(matches!(invalid, Invalid::Version), "{invalid:?}");
        return Rule::Version;
    };
    match *why {
        "it does not begin like one" => Rule::Magic,
        "it is cut short" => Rule::Cut,
        "its rules are too long" | "its rules are not text" => Rule::Rules,
        "it has no root" | "its first entry is not the root" => Rule::Root,
        "an entry is of an unknown kind" => Rule::Kind,
        "a name is too long" | "a name is no file's name" => Rule::Name,
        "its names are not in order" => Rule::Order,
        "a mode has more than permissions" => Rule::Mode,
        "a time has more than a second of nanoseconds" => Rule::Time,
        "a file has an impossible length" => Rule::Length,
        "a link leads to no path" => Rule::Target,
        "its number of entries is wrong" => Rule::Count,
        "it goes on after its end" => Rule::Extended,
        other => panic!("{other}"),
    }
}

#[test]
fn what_is_signed_is_made_of_the_stored_file_or_while_it_is_written() {
    use phalanx_core::tree::{Recorder, Signed, SignedText};
    use phalanx_core::{ChunkSize, NewFile, Recipient, Roster, SecretKey, Sink, Source, Suite};
    let recipients = [Recipient::key(&SecretKey::from_slice(&[9; 32]).unwrap())];
    for (&suite, len) in Suite::ALL.iter().zip([0, 1, 4096, 4097, 20_000]) {
        let plaintext = vec![7; len];
        let (size, mut file) = (ChunkSize::new(4096).unwrap(), Vec::new());
        let new = NewFile::with_chunk_size(suite, size, &recipients).unwrap();
        let recorder = Recorder::new(&());
        new.protect(&Roster::cpu(), Source::stream(&plaintext[..]), Sink::stream(&mut file), &recorder).unwrap();
        let contents = recorder.contents().unwrap();
        assert_eq!(contents.last.is_of_gcm(), suite == Suite::Aes256Gcm);
        let mut heads = 0;
        for (signed, kind) in [(Signed::File, "file"), (Signed::Tree, "tree")] {
            let made = SignedText::new(signed, (suite, size), len as u64, &contents);
            let read = SignedText::read(&file, signed, |_| heads += 1).unwrap();
            assert_eq!(made, read);
            let root: String =
                reference::contents(&file).unwrap().root.iter().map(|byte| format!("{byte:02x}")).collect();
            let text =
                format!("phalanx signed {kind} 1\nsuite {}\nchunk 4096\nplaintext {len}\nroot {root}\n", suite.id());
            let expected = (suite != Suite::Aes256Gcm).then_some(text);
            assert_eq!(read.map(|text| text.to_string()), expected);
        }
        assert_eq!(heads, if suite == Suite::Aes256Gcm { 0 } else { 2 * len.div_ceil(4096).max(1) });
    }
}
