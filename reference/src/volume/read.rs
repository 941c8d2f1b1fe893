//! Opening a volume: all of its plain names and contents.

use super::apply::{Applied, apply_journal_with};
use super::backing::{Backing, read_backing};
use super::config::{Config, open_config};
use super::names::{folder_id, link_target, plain_name, plain_xattr};
use super::stored::{Entry, Kind, Special, Stored, join};
use super::versions::{Table, is_same, version};
use crate::Error;

/// Why a volume does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no regular file `phalanx.volume`.
    NoConfig,
    /// The config does not open (§10.2).
    Config(Error),
    /// The root has no id (§10.4).
    Root,
    /// Something other than a regular file has the journal's place (§10.1).
    Journal,
    /// The table of versions is missing or was altered (§10.9).
    Versions,
}

/// A volume that has been opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The config.
    pub config: Config,
    /// The result of applying the journal.
    pub applied: Applied,
    /// The folder after the journal has been applied.
    pub stored: Stored,
    /// The entries, sorted by path; the root first.
    pub tree: Vec<PlainEntry>,
}

/// An entry of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainEntry {
    /// The names on the way from the root. None for the root itself.
    pub path: Vec<Vec<u8>>,
    /// What it is.
    pub plain: Plain,
    /// The names of the extended attributes and their values, or `None` where a value is damaged.
    pub xattrs: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What an entry of a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plain {
    /// A folder that belongs in its place, or `None`.
    Folder(Option<[u8; 16]>),
    /// A file's chunks, each `None` where it is not authentic; or `None` for a file that must be refused.
    File(Option<Vec<Option<Vec<u8>>>>),
    /// A link's target, or `None` where it is damaged.
    Link(Option<Vec<u8>>),
    /// An entry without data.
    Special(Special),
}

/// Opens a volume with the given passwords and keys: its config, its root, its journal, and then all entries.
pub fn open_volume(stored: &Stored, passwords: &[&[u8]], keys: &[[u8; 32]]) -> Result<Opened, Refusal> {
    let config = stored.file(b"phalanx.volume").ok_or(Refusal::NoConfig)?;
    let config = open_config(config, passwords, keys).map_err(Refusal::Config)?;
    let mut stored = stored.clone();
    root_id(&config, &stored).ok_or(Refusal::Root)?;
    if stored.entries.get(&b"phalanx.journal"[..]).is_some_and(|entry| !matches!(entry.kind, Kind::File(_))) {
        return Err(Refusal::Journal);
    }
    let mut table = None;
    if config.has_versions {
        let bytes = stored.file(b"phalanx.versions").ok_or(Refusal::Versions)?;
        table = Some(Table::read(&config.keys, bytes).ok_or(Refusal::Versions)?);
    }
    let before = table.clone();
    let applied = apply_journal_with(&config, &mut stored, table.as_mut());
    if let (Some(before), Some(table), 1..) = (before, &table, applied.transactions) {
        append_changes(&config, &mut stored, &before, table);
    }

    let root = Place { path: b"", plain: &[], parent: [0; 16], name: b"" };
    let mut tree = Vec::new();
    let volume = Volume { config: &config, stored: &stored, table: table.as_ref() };
    read_folder(&volume, &root, &mut tree);
    tree.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Opened { config, applied, stored, tree })
}

/// Appends a batch to the table with what the journal has changed, so that the journal does not count any more (§10.9).
fn append_changes(config: &Config, stored: &mut Stored, before: &Table, table: &Table) {
    let set = table.entries.iter().filter(|(id, version)| before.entries.get(*id) != Some(version));
    let set: Vec<_> = set.map(|(id, version)| (*id, *version)).collect();
    let removed: Vec<_> = before.entries.keys().filter(|id| !table.entries.contains_key(*id)).copied().collect();
    // A writer takes random bytes. The reference makes the same volume each time.
    let batch = before.seal(&config.keys, &[0; 16], &set, &removed);
    if let Some(Entry { kind: Kind::File(bytes), .. }) = stored.entries.get_mut(&b"phalanx.versions"[..]) {
        bytes.truncate(before.end);
        bytes.extend(batch);
    }
}

fn root_id(config: &Config, stored: &Stored) -> Option<[u8; 16]> {
    folder_id(&config.keys, &[0; 16], b"", stored.file(b"phalanx.folder")?)
}

/// A volume whose journal has been applied.
struct Volume<'a> {
    config: &'a Config,
    stored: &'a Stored,
    table: Option<&'a Table>,
}

impl Volume<'_> {
    /// Opens the header of a file, which must be the last one (§10.9).
    fn backing(&self, bytes: &[u8]) -> Option<Backing> {
        let is_last = |backing: &Backing| match self.table {
            Some(table) => table.entries.get(&backing.file_id).is_some_and(|entry| is_same(entry, &version(bytes))),
            None => true,
        };
        read_backing(self.config, bytes).filter(is_last)
    }
}

/// A folder, and how the reader came to it.
struct Place<'a> {
    path: &'a [u8],
    plain: &'a [Vec<u8>],
    parent: [u8; 16],
    name: &'a [u8],
}

fn read_folder(volume: &Volume, place: &Place, tree: &mut Vec<PlainEntry>) {
    let Volume { config, stored, .. } = *volume;
    let records = stored.file(&join(place.path, b"phalanx.folder"));
    let id = records.and_then(|records| folder_id(&config.keys, &place.parent, place.name, records));
    let xattrs = stored.entries.get(place.path).zip(id).map(|(entry, id)| read_xattrs(config, entry, id));
    tree.push(PlainEntry { path: place.plain.to_vec(), plain: Plain::Folder(id), xattrs: xattrs.unwrap_or_default() });
    let Some(id) = id else { return };
    for (name, entry) in stored.list(place.path) {
        let full = stored.file(&join(place.path, &[name, b".full"].concat()));
        let Some(plain) = plain_name(&config.keys, &id, name, full) else { continue };
        let plain = [place.plain, &[plain]].concat();
        let path = join(place.path, name);
        match &entry.kind {
            Kind::Folder => {
                let inner = Place { path: &path, plain: &plain, parent: id, name };
                read_folder(volume, &inner, tree);
            }
            Kind::File(bytes) => {
                let backing = volume.backing(bytes);
                let chunks = backing.as_ref().and_then(|backing| backing.open_chunks(bytes));
                let owner = backing.filter(|_| chunks.is_some()).map(|backing| backing.file_id);
                let xattrs = owner.map(|owner| read_xattrs(config, entry, owner)).unwrap_or_default();
                tree.push(PlainEntry { path: plain, plain: Plain::File(chunks), xattrs });
            }
            Kind::Link(points_to) => {
                let target = link_target(&config.keys, &id, name, points_to);
                tree.push(PlainEntry { path: plain, plain: Plain::Link(target), xattrs: Vec::new() });
            }
            Kind::Special(kind) => {
                tree.push(PlainEntry { path: plain, plain: Plain::Special(*kind), xattrs: Vec::new() });
            }
        }
    }
}

fn read_xattrs(config: &Config, entry: &Entry, owner: [u8; 16]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut xattrs: Vec<_> =
        entry.xattrs.iter().filter_map(|(name, value)| plain_xattr(&config.keys, &owner, name, value)).collect();
    xattrs.sort();
    xattrs
}
