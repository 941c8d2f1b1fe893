//! A file of `vectors/volume`: what lies in a folder, and what a reader must find in it.

use phalanx_reference::volume::{Record, Transaction, open_config, read_journal, seal_transaction};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use rustix::io::Errno;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

/// The content of a file: pieces between chunks that are not authentic, each of which is a `None`.
pub type Pieces = Vec<Option<Vec<u8>>>;
/// Extended attributes by name, in hexadecimal. The value is `None` where it is damaged.
pub type Xattrs = BTreeMap<String, Option<Vec<u8>>>;

/// What an entry of a volume is.
#[derive(Clone, PartialEq, Eq)]
pub enum Want {
    Folder {
        is_damaged: bool,
        xattrs: Xattrs,
    },
    /// Without content if it is refused.
    File {
        content: Option<Pieces>,
        xattrs: Xattrs,
    },
    /// Without a target if it is damaged.
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

/// A file of the vectors.
pub struct Model {
    pub expect: String,
    pub key: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    /// By path.
    pub tree: BTreeMap<String, Want>,
    pub transactions: u64,
    /// The indices of the chunks that are left out.
    pub left_out: Vec<u64>,
    /// The digests of files that the journal changes, by path.
    pub after: BTreeMap<String, String>,
    needs_inodes: bool,
    folder: Vec<Entry>,
}

struct Entry {
    path: String,
    inode: u64,
    kind: EntryKind,
    xattrs: BTreeMap<String, Vec<u8>>,
}

enum EntryKind {
    Folder,
    File(Vec<u8>),
    Link(String),
    Fifo,
}

impl Model {
    pub fn load(path: &Path) -> Self {
        let json: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let list = |name: &str| json[name].as_array().cloned().unwrap_or_default();
        let after = json["after"].as_object().cloned().unwrap_or_default();
        Self {
            expect: text(&json, "expect"),
            key: bytes(&json, "key"),
            password: bytes(&json, "password"),
            tree: list("tree").iter().map(|entry| (text(entry, "path"), want(entry))).collect(),
            transactions: json["transactions"].as_u64().unwrap_or(0),
            left_out: list("left_out").iter().map(|chunk| chunk["index"].as_u64().unwrap()).collect(),
            after: after.into_iter().map(|(path, digest)| (path, digest.as_str().unwrap().into())).collect(),
            needs_inodes: json["needs_inodes"] == true,
            folder: list("folder").iter().map(entry).collect(),
        }
    }

    /// The regular files in the folder.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.folder.iter().filter_map(|entry| match &entry.kind {
            EntryKind::File(bytes) => Some((&*entry.path, &**bytes)),
            _ => None,
        })
    }

    /// Makes the folder. `false` if the file system has no extended attributes.
    pub fn lay(&mut self, at: &Path) -> bool {
        let mut inodes: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        for entry in &self.folder {
            let path = at.join(&entry.path);
            match &entry.kind {
                EntryKind::Folder if entry.path.is_empty() => {}
                EntryKind::Folder => fs::create_dir(&path).unwrap(),
                EntryKind::File(bytes) => match inodes.get(&entry.inode) {
                    Some((_, other)) => fs::hard_link(at.join(other), &path).unwrap(),
                    None => fs::write(&path, bytes).unwrap(),
                },
                EntryKind::Link(target) => symlink(target, &path).unwrap(),
                EntryKind::Fifo => {
                    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
                }
            }
            inodes.insert(entry.inode, (path.symlink_metadata().unwrap().ino(), entry.path.clone()));
            for (name, value) in &entry.xattrs {
                match setxattr(&path, name.as_str(), value, XattrFlags::empty()) {
                    Err(Errno::OPNOTSUPP) => return false,
                    set => set.unwrap_or_else(|errno| panic!("{name}: {errno}")),
                }
            }
        }
        if self.needs_inodes {
            self.seal_journal_anew(at, &|inode| inodes.get(&inode).map_or(inode, |(new, _)| *new));
        }
        true
    }

    /// Gives the records of the journal the inode numbers that the files got.
    fn seal_journal_anew(&mut self, at: &Path, new: &dyn Fn(u64) -> u64) {
        let keys: Vec<[u8; 32]> = self.key.iter().map(|key| key[..].try_into().unwrap()).collect();
        let file = |wanted: &str| self.files().find(|(path, _)| *path == wanted).unwrap().1;
        let config = open_config(file("phalanx.volume"), &[], &keys).unwrap();
        let transactions = read_journal(&config.keys.journal, file("phalanx.journal"));
        assert_eq!(transactions.len() as u64, self.transactions, "a journal that this test cannot write again");
        let renumbered = |record: Record| Record { inode: new(record.inode), ..record };
        let seal = |(transaction, _): (Transaction, usize)| {
            let records = transaction.records.into_iter().map(renumbered).collect();
            seal_transaction(&config.keys.journal, &Transaction { records, ..transaction })
        };
        let journal: Vec<u8> = transactions.into_iter().flat_map(seal).collect();
        fs::write(at.join("phalanx.journal"), journal).unwrap();
    }
}

fn entry(json: &Value) -> Entry {
    let kind = match &*text(json, "kind") {
        "folder" => EntryKind::Folder,
        "file" => EntryKind::File(parts(&json["bytes"]).into_iter().flat_map(Option::unwrap).collect()),
        "link" => EntryKind::Link(text(json, "target")),
        "fifo" => EntryKind::Fifo,
        other => panic!("unknown kind {other}"),
    };
    let xattrs = json["xattrs"].as_object().cloned().unwrap_or_default();
    let xattrs = xattrs.into_iter().map(|(name, value)| (name, unhex(value.as_str().unwrap()))).collect();
    Entry { path: text(json, "path"), inode: json["inode"].as_u64().unwrap(), kind, xattrs }
}

fn want(json: &Value) -> Want {
    let is_damaged = json["damaged"] == true;
    let xattrs = json["xattrs"].as_object().cloned().unwrap_or_default();
    let xattrs: Xattrs = xattrs.into_iter().map(|(name, value)| (name, value.as_str().map(unhex))).collect();
    match &*text(json, "kind") {
        "folder" => Want::Folder { is_damaged, xattrs },
        "file" => Want::File { content: (!is_damaged).then(|| pieces(&parts(&json["content"]))), xattrs },
        "link" => Want::Link((!is_damaged).then(|| bytes(json, "target").unwrap())),
        "fifo" => Want::Fifo,
        other => panic!("unknown kind {other}"),
    }
}

fn text(json: &Value, name: &str) -> String {
    json[name].as_str().unwrap().into()
}

fn bytes(json: &Value, name: &str) -> Option<Vec<u8>> {
    json[name].as_str().map(unhex)
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Each part of `bytes` or `content`, `None` for `null`.
fn parts(json: &Value) -> Vec<Option<Vec<u8>>> {
    let part = |part: &Value| match part {
        Value::Null => None,
        Value::String(hex) => Some(unhex(hex)),
        Value::Number(zeros) => Some(vec![0; zeros.as_u64().unwrap() as usize]),
        painted => {
            let (from, len) = (painted[0].as_u64().unwrap(), painted[1].as_u64().unwrap());
            Some((from..from + len).map(|i| (i % 251) as u8).collect())
        }
    };
    json.as_array().unwrap().iter().map(part).collect()
}

/// Joins what follows without a `None` between.
pub fn pieces(parts: &[Option<Vec<u8>>]) -> Pieces {
    let mut pieces: Pieces = Vec::new();
    for part in parts {
        match (pieces.last_mut(), part) {
            (Some(Some(before)), Some(part)) => before.extend(part),
            _ => pieces.push(part.clone()),
        }
    }
    // A file of 0 bytes has one chunk and no part.
    if pieces.is_empty() {
        pieces.push(Some(Vec::new()));
    }
    pieces
}
