//! Writing a volume of the vectors to a real folder, and what a reader must find in it.

use phalanx_reference::volume::{Record, Transaction, open_config, read_journal_of, seal_transaction};
use phalanx_vectors::Hex;
use phalanx_vectors::volume::{Pieces, Plain, PlainKind, StoredKind, Volume};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

/// Extended attributes by name, in hexadecimal. The value is `None` where it is damaged.
pub type Xattrs = BTreeMap<String, Option<Vec<u8>>>;

/// What an entry of a volume is.
#[derive(Clone, PartialEq, Eq)]
pub enum Want {
    Folder {
        is_damaged: bool,
        xattrs: Xattrs,
    },
    /// A regular file, without content if it is refused.
    File {
        content: Option<Pieces>,
        xattrs: Xattrs,
    },
    /// A link, without a target if it is damaged.
    Link(Option<Vec<u8>>),
    Fifo,
}

impl Want {
    /// Whether anything in it is damaged.
    pub fn is_damaged(&self) -> bool {
        let any = |xattrs: &Xattrs| xattrs.values().any(Option::is_none);
        match self {
            Self::Folder { is_damaged, xattrs } => *is_damaged || any(xattrs),
            Self::File { content, xattrs } => {
                content.as_ref().is_none_or(|pieces| pieces.iter().any(Option::is_none)) || any(xattrs)
            }
            Self::Link(target) => target.is_none(),
            Self::Fifo => false,
        }
    }
}

impl std::fmt::Debug for Want {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder { is_damaged, xattrs } => write!(f, "folder, damaged: {is_damaged}, {xattrs:?}"),
            Self::File { content, xattrs } => {
                let lens =
                    |pieces: &Pieces| pieces.iter().map(|piece| piece.as_ref().map(Vec::len)).collect::<Vec<_>>();
                write!(f, "file of {:?}, {xattrs:?}", content.as_ref().map(lens))
            }
            Self::Link(target) => write!(f, "link to {target:?}"),
            Self::Fifo => f.write_str("fifo"),
        }
    }
}

/// The entries that a reader must find, by path.
pub fn wanted(volume: &Volume) -> BTreeMap<String, Want> {
    volume.tree.iter().map(|entry| (entry.path.clone(), want(entry))).collect()
}

fn want(entry: &Plain) -> Want {
    let value = |value: &Option<Hex>| value.as_ref().map(|value| value.to_vec());
    let xattrs = entry.xattrs.iter().map(|(name, bytes)| (name.clone(), value(bytes))).collect();
    match &entry.kind {
        PlainKind::Folder => Want::Folder { is_damaged: entry.damaged, xattrs },
        PlainKind::File { content } => Want::File { content: content.clone(), xattrs },
        PlainKind::Link { target } => Want::Link(value(target)),
        PlainKind::Fifo => Want::Fifo,
    }
}

/// The regular files in the stored folder.
pub fn files(volume: &Volume) -> impl Iterator<Item = (&str, &[u8])> {
    volume.folder.iter().filter_map(|entry| match &entry.kind {
        StoredKind::File { bytes } => Some((&*entry.path, &**bytes)),
        _ => None,
    })
}

/// Makes the stored folder. `false` if the file system has no extended attributes.
pub fn lay(volume: &Volume, at: &Path) -> bool {
    let mut inodes: BTreeMap<u64, (u64, &str)> = BTreeMap::new();
    for entry in &volume.folder {
        let path = at.join(&entry.path);
        match &entry.kind {
            StoredKind::Folder if entry.path.is_empty() => {}
            StoredKind::Folder => fs::create_dir(&path).unwrap(),
            StoredKind::File { bytes } => match inodes.get(&entry.inode) {
                Some((_, other)) => fs::hard_link(at.join(other), &path).unwrap(),
                None => fs::write(&path, bytes).unwrap(),
            },
            StoredKind::Link { target } => symlink(target, &path).unwrap(),
            StoredKind::Fifo => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        }
        inodes.insert(entry.inode, (path.symlink_metadata().unwrap().ino(), &entry.path));
        for (name, value) in &entry.xattrs {
            match setxattr(&path, name.as_str(), value, XattrFlags::empty()) {
                Err(Errno::OPNOTSUPP) => return false,
                set => set.unwrap_or_else(|errno| panic!("{name}: {errno}")),
            }
        }
    }
    if volume.needs_inodes {
        renumber_journal(volume, at, &|inode| inodes.get(&inode).map_or(inode, |(new, _)| *new));
    }
    true
}

/// Gives the records of the journal the inode numbers that the files got.
fn renumber_journal(volume: &Volume, at: &Path, new: &dyn Fn(u64) -> u64) {
    let keys: Vec<[u8; 32]> = volume.key.iter().map(Hex::array).collect();
    let file = |wanted: &str| files(volume).find(|(path, _)| *path == wanted).unwrap().1;
    let config = open_config(file("phalanx.volume"), &[], &keys).unwrap();
    let journal = file("phalanx.journal");
    let epoch = config.has_versions.then(|| journal[8..24].try_into().unwrap());
    let transactions = read_journal_of(&config.keys.journal, journal, epoch);
    assert_eq!(transactions.len(), volume.transactions, "a journal that this test cannot write again");
    let renumbered = |record: Record| Record { inode: new(record.inode), ..record };
    let seal = |(transaction, _): (Transaction, usize)| {
        let records = transaction.records.into_iter().map(renumbered).collect();
        seal_transaction(&config.keys.journal, &Transaction { records, ..transaction })
    };
    let journal: Vec<u8> = transactions.into_iter().flat_map(seal).collect();
    fs::write(at.join("phalanx.journal"), journal).unwrap();
}
