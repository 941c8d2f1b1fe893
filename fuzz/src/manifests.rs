//! Manifests put together from pieces, most of them sound, and what the core reads.

use crate::Steer;
use phalanx_core::tree::{Entry, FileEntry, Head, Invalid, Kind, Manifest, ManifestWriter};
use phalanx_reference::tree as reference;
use std::io::Read;

/// A manifest made from few bytes, and perhaps altered after that.
pub fn pieces(steer: &mut Steer) -> Vec<u8> {
    let rules = [&b""[..], b"- *.tmp\n", "- /é\n".as_bytes(), b"\xff"];
    let mut manifest = reference::Manifest {
        tree: [steer.byte(); 16],
        generation: steer.u64(),
        written: steer.u64() as i64,
        previous: [steer.byte(); 32],
        rules: rules[steer.below(32) / 10].to_vec(),
        entries: Vec::new(),
    };
    let root = reference::Kind::Folder;
    manifest.entries.push(entry(steer, 0, Vec::new(), root));
    // The names in each open folder so far.
    let mut open = vec![0u16];
    while !steer.is_empty() && manifest.entries.len() < 300 {
        if open.len() > 1 && steer.byte().is_multiple_of(4) {
            open.pop();
        }
        let depth = open.len();
        let name = name(steer, &mut open[depth - 1]);
        let kind = kind(steer);
        if kind == reference::Kind::Folder {
            open.push(0);
        }
        manifest.entries.push(entry(steer, depth, name, kind));
    }
    let mut bytes = reference::write_manifest(&manifest);
    if steer.byte() > 127 {
        alter(steer, &mut bytes);
    }
    bytes
}

fn entry(steer: &mut Steer, depth: usize, name: Vec<u8>, kind: reference::Kind) -> reference::Entry {
    let mode = u32::from(steer.u16() & 0o7777) + u32::from(steer.byte() / 255);
    let nanoseconds = [0, 1, 999_999_999, 1_000_000_000][steer.below(64) / 21];
    reference::Entry { depth, name, mode, seconds: i64::from(steer.byte()) - 128, nanoseconds, kind }
}

/// Mostly greater than the last one, which has this number.
fn name(steer: &mut Steer, last: &mut u16) -> Vec<u8> {
    *last = last.saturating_add(u16::from(steer.byte()));
    match steer.byte() {
        0..=250 => [&[(*last >> 7) as u8 | 128, *last as u8 | 128], steer.take(1)].concat(),
        251 => Vec::new(),
        252 => b"..".to_vec(),
        253 => b"\xff/".to_vec(),
        254 => vec![255; 4096],
        255 => vec![255; 4097],
    }
}

fn kind(steer: &mut Steer) -> reference::Kind {
    match steer.byte() % 4 {
        0 => reference::Kind::Folder,
        1 => {
            let len = steer.below(30);
            reference::Kind::Link(steer.take(len).to_vec())
        }
        _ => {
            let len = steer.u64() >> steer.below(64);
            let stored_len = len.wrapping_add(u64::from(steer.byte()));
            let (device, inode) = (u64::from(steer.byte()), steer.u64());
            let contents = reference::Contents { last: [steer.byte(); 48], root: [steer.byte(); 32] };
            reference::Kind::File { len, stored_len, device, inode, contents }
        }
    }
}

fn alter(steer: &mut Steer, bytes: &mut Vec<u8>) {
    let (one, other) = (steer.below(bytes.len().min(65536)), steer.below(bytes.len().min(65536)));
    match steer.byte() % 5 {
        0 => bytes[one] ^= 1 << steer.below(8),
        1 => bytes.truncate(one),
        2 => drop(bytes.drain(one.min(other)..one.max(other))),
        3 => bytes.insert(one, steer.byte() % 5),
        _ => bytes.push(steer.byte()),
    }
}

/// What the core reads, in the words of the reference, and what it then writes.
pub fn read(input: impl Read) -> Result<(reference::Manifest, Vec<u8>), Invalid> {
    let (head, mut manifest) = Manifest::open(input)?;
    let mut writer = ManifestWriter::new(Vec::new(), &head).expect("it was read");
    let (mut entries, mut depth) = (Vec::new(), 0);
    while !manifest.is_at_end() {
        match manifest.next()? {
            Some(entry) => {
                writer.entry(&entry).expect("it was read");
                let is_folder = entry.kind == Kind::Folder;
                entries.push(to_reference(entry, depth));
                depth += usize::from(is_folder);
            }
            None => {
                writer.end_folder().expect("memory");
                depth -= 1;
            }
        }
    }
    assert_eq!(depth, 0);
    Ok((manifest_of(head, entries), writer.into_output()))
}

fn manifest_of(head: Head, entries: Vec<reference::Entry>) -> reference::Manifest {
    reference::Manifest {
        tree: head.tree.0,
        generation: head.generation,
        written: head.written,
        previous: head.previous.0,
        rules: head.rules.into_bytes(),
        entries,
    }
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
    let (seconds, nanoseconds) = (entry.modified.seconds, entry.modified.nanoseconds);
    reference::Entry { depth, name: entry.name, mode: entry.mode, seconds, nanoseconds, kind }
}
