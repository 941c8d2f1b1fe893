//! Trees (§13): the contents of stored files, and manifests.

use crate::file::stored_chunks;
use crate::header::read_header;
use crate::keys::Suite;
use crate::sha3::sha3_256;
use crate::{Error, array};

/// The magic and the version (§13.3).
const MAGIC: [u8; 7] = *b"PHXTREE";
const VERSION: u8 = b'1';
/// The bounds of §13.3.
const MAX_RULES: usize = 1_048_576;
const MAX_NAME: usize = 4096;
const MAX_FOLDERS: usize = 65_536;
const MAX_MODE: u32 = 0o7777;
const MAX_NANOSECONDS: u32 = 999_999_999;
const MAX_STORED: u64 = (1 << 63) - 1;

/// What a stored file holds (§13.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The last chunk's nonce and tag, and zeros up to 48 bytes.
    pub last: [u8; 48],
    /// The root of the hash tree.
    pub root: [u8; 32],
}

/// Reads the contents of a stored file (§13.2).
pub fn contents(file: &[u8]) -> Result<Contents, Error> {
    let header = read_header(file)?;
    let overhead = Suite::of(header.suite).expect("a known suite").overhead();
    let heads: Vec<&[u8]> = stored_chunks(file, &header)?.iter().map(|chunk| &chunk[..overhead]).collect();
    let mut last = heads[heads.len() - 1].to_vec();
    last.resize(48, 0);
    Ok(Contents { last: array(&last), root: merkle_tree_hash(&heads) })
}

/// MTH (RFC 9162 §2.1.1) with SHA3-256, of one entry or more.
fn merkle_tree_hash(entries: &[&[u8]]) -> [u8; 32] {
    if let [only] = entries {
        return sha3_256(&[&[0], *only].concat());
    }
    let mut k = 1;
    while k * 2 < entries.len() {
        k *= 2; // at last the largest power of two below n
    }
    let (left, right) = (merkle_tree_hash(&entries[..k]), merkle_tree_hash(&entries[k..]));
    sha3_256(&[&[1], &left[..], &right].concat())
}

/// A manifest (§13.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The tree's number.
    pub tree: [u8; 16],
    /// Grows from manifest to manifest.
    pub generation: u64,
    /// When it was written.
    pub written: i64,
    /// The digest of the manifest before it.
    pub previous: [u8; 32],
    /// What was left out.
    pub rules: Vec<u8>,
    /// All entries in their order, the root first.
    pub entries: Vec<Entry>,
}

/// An entry of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// In how many folders it lies: 0 for the root.
    pub depth: usize,
    /// Its name.
    pub name: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
    /// When it was modified.
    pub seconds: i64,
    /// Nanoseconds after that.
    pub nanoseconds: u32,
    /// What it is.
    pub kind: Kind,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder. Its entries follow, one deeper.
    Folder,
    /// A file.
    File {
        /// The plaintext's length.
        len: u64,
        /// The stored file's length.
        stored_len: u64,
        /// The source's device.
        device: u64,
        /// The source's inode.
        inode: u64,
        /// What the stored file holds.
        contents: Contents,
    },
    /// A symbolic link, and where it leads.
    Link(Vec<u8>),
}

/// The rule of §13.3 that a manifest breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The magic is wrong.
    Magic,
    /// It has another version.
    Version,
    /// It ends too early.
    Cut,
    /// The rules are too long or no UTF-8.
    Rules,
    /// It does not begin with the root.
    Root,
    /// An entry is of an unknown kind.
    Kind,
    /// A name is none.
    Name,
    /// The names of a folder are not in order.
    Order,
    /// Too many folders lie within each other.
    Depth,
    /// A mode is more than permissions.
    Mode,
    /// Nanoseconds make a second.
    Time,
    /// The lengths of a file are impossible.
    Length,
    /// A target is empty or has a zero byte.
    Target,
    /// The count is wrong.
    Count,
    /// It goes on after its end.
    Extended,
}

/// Reads a manifest: first its parts, then the rules for them.
pub fn read_manifest(bytes: &[u8]) -> Result<Manifest, Broken> {
    let mut rest = bytes;
    let manifest = read_parts(&mut rest)?;
    check_entries(&manifest.entries)?;
    if u64::from_le_bytes(take(&mut rest)?) != manifest.entries.len() as u64 {
        return Err(Broken::Count);
    }
    if rest.is_empty() { Ok(manifest) } else { Err(Broken::Extended) }
}

/// The head and the entries up to the end of the root.
fn read_parts(rest: &mut &[u8]) -> Result<Manifest, Broken> {
    let magic: [u8; 8] = take(rest)?;
    if magic[..7] != MAGIC {
        return Err(Broken::Magic);
    }
    if magic[7] != VERSION {
        return Err(Broken::Version);
    }
    let (tree, generation) = (take(rest)?, u64::from_le_bytes(take(rest)?));
    let (written, previous) = (i64::from_le_bytes(take(rest)?), take(rest)?);
    let rules_len = u32::from_le_bytes(take(rest)?) as usize;
    if rules_len > MAX_RULES {
        return Err(Broken::Rules);
    }
    let rules = take_bytes(rest, rules_len)?;
    if std::str::from_utf8(&rules).is_err() {
        return Err(Broken::Rules);
    }
    Ok(Manifest { tree, generation, written, previous, rules, entries: read_entries(rest)? })
}

fn read_entries(rest: &mut &[u8]) -> Result<Vec<Entry>, Broken> {
    let mut entries = Vec::new();
    let mut depth = 0;
    loop {
        let [tag] = take(rest)?;
        match tag {
            // Only the root lies in no folder.
            0 | 2 | 3 if depth == 0 => return Err(Broken::Root),
            0 => depth -= 1,
            1..=3 => entries.push(read_entry(rest, tag, depth)?),
            _ => return Err(Broken::Kind),
        }
        if tag == 1 {
            depth += 1;
        }
        if depth == 0 {
            return Ok(entries);
        }
    }
}

fn read_entry(rest: &mut &[u8], tag: u8, depth: usize) -> Result<Entry, Broken> {
    let name_len = u16::from_le_bytes(take(rest)?);
    let name = take_bytes(rest, name_len.into())?;
    let mode = u32::from_le_bytes(take(rest)?);
    let (seconds, nanoseconds) = (i64::from_le_bytes(take(rest)?), u32::from_le_bytes(take(rest)?));
    let kind = match tag {
        1 => Kind::Folder,
        2 => Kind::File {
            len: u64::from_le_bytes(take(rest)?),
            stored_len: u64::from_le_bytes(take(rest)?),
            device: u64::from_le_bytes(take(rest)?),
            inode: u64::from_le_bytes(take(rest)?),
            contents: Contents { last: take(rest)?, root: take(rest)? },
        },
        _ => {
            let target_len = u16::from_le_bytes(take(rest)?);
            Kind::Link(take_bytes(rest, target_len.into())?)
        }
    };
    Ok(Entry { depth, name, mode, seconds, nanoseconds, kind })
}

/// The rules for entries.
fn check_entries(entries: &[Entry]) -> Result<(), Broken> {
    if !entries[0].name.is_empty() {
        return Err(Broken::Root);
    }
    // The last name of each folder in which the current entry lies.
    let mut last_names: Vec<&[u8]> = Vec::new();
    for entry in entries {
        check_fields(entry)?;
        if entry.kind == Kind::Folder && entry.depth >= MAX_FOLDERS {
            return Err(Broken::Depth);
        }
        last_names.truncate(entry.depth + 1);
        if last_names.len() <= entry.depth {
            last_names.push(&entry.name);
        } else if last_names[entry.depth] < &entry.name[..] {
            last_names[entry.depth] = &entry.name;
        } else {
            return Err(Broken::Order);
        }
    }
    Ok(())
}

fn check_fields(entry: &Entry) -> Result<(), Broken> {
    let name = &entry.name[..];
    let is_special = name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0);
    if entry.depth > 0 && (name.is_empty() || name.len() > MAX_NAME || is_special) {
        return Err(Broken::Name);
    }
    if entry.mode > MAX_MODE {
        return Err(Broken::Mode);
    }
    if entry.nanoseconds > MAX_NANOSECONDS {
        return Err(Broken::Time);
    }
    match &entry.kind {
        Kind::File { len, stored_len, .. } if len >= stored_len || *stored_len > MAX_STORED => Err(Broken::Length),
        Kind::Link(target) if target.is_empty() || target.contains(&0) => Err(Broken::Target),
        _ => Ok(()),
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Broken> {
    let (taken, after) = rest.split_first_chunk().ok_or(Broken::Cut)?;
    *rest = after;
    Ok(*taken)
}

fn take_bytes(rest: &mut &[u8], len: usize) -> Result<Vec<u8>, Broken> {
    let (taken, after) = rest.split_at_checked(len).ok_or(Broken::Cut)?;
    *rest = after;
    Ok(taken.to_vec())
}

/// Writes a manifest. It checks nothing, so that tests can break the rules.
///
/// # Panics
/// If a name or target has more than 65535 bytes.
pub fn write_manifest(manifest: &Manifest) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], &[VERSION], &manifest.tree].concat();
    bytes.extend(manifest.generation.to_le_bytes());
    bytes.extend(manifest.written.to_le_bytes());
    bytes.extend(manifest.previous);
    bytes.extend((manifest.rules.len() as u32).to_le_bytes());
    bytes.extend(&manifest.rules);
    let mut open = 0;
    for entry in &manifest.entries {
        // A folder ends before the next entry that does not lie in it.
        bytes.resize(bytes.len() + open - entry.depth, 0);
        bytes.extend(write_entry(entry));
        open = entry.depth + usize::from(entry.kind == Kind::Folder);
    }
    bytes.resize(bytes.len() + open, 0);
    bytes.extend((manifest.entries.len() as u64).to_le_bytes());
    bytes
}

fn write_entry(entry: &Entry) -> Vec<u8> {
    let with_len = |bytes: &[u8]| {
        let len = u16::try_from(bytes.len()).expect("at most 65535 bytes");
        [&len.to_le_bytes(), bytes].concat()
    };
    let (tag, more) = match &entry.kind {
        Kind::Folder => (1, Vec::new()),
        Kind::File { len, stored_len, device, inode, contents } => {
            let numbers: Vec<u8> = [len, stored_len, device, inode].iter().flat_map(|n| n.to_le_bytes()).collect();
            (2, [&numbers[..], &contents.last, &contents.root].concat())
        }
        Kind::Link(target) => (3, with_len(target)),
    };
    let mut bytes = vec![tag];
    bytes.extend(with_len(&entry.name));
    bytes.extend(entry.mode.to_le_bytes());
    bytes.extend(entry.seconds.to_le_bytes());
    bytes.extend(entry.nanoseconds.to_le_bytes());
    bytes.extend(more);
    bytes
}
