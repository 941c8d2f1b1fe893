//! Volumes (section 10).

mod files;
mod journals;
mod names;
mod refused;
mod refused_config;
mod rollback;
#[allow(dead_code, missing_docs)]
#[path = "../../../worked_volume.rs"]
pub mod worked_volume;

use super::*;
use phalanx_reference::volume::{
    Entry, Kind, LeftOut, Made as File, Place, Plain, Record, Special, Stored, What, Writer,
};
use reference::volume as v;
use std::collections::BTreeMap;

pub(super) fn all() -> Vec<Made> {
    let mut cases = Vec::new();
    files::add(&mut cases);
    names::add(&mut cases);
    journals::add(&mut cases);
    refused_config::add(&mut cases);
    refused::add(&mut cases);
    rollback::add(&mut cases);
    cases.push(worked_example());
    cases.iter().map(Case::json).collect()
}

/// The worked example of `docs/format-volumes.md`.
fn worked_example() -> Case {
    let mut case = Case::new("worked-example", "the example that docs/format-volumes.md works out");
    let (stored, config, _) = worked_volume::made();
    case.key = Some(std::array::from_fn(|i| i as u8));
    (case.writer.stored, case.writer.config) = (stored, config);
    let content = [&[0; 8192], &b"hello, moon!\n"[..]].concat();
    let xattrs = PlainXattrs::from([(b"user.mime".to_vec(), Some(b"text/plain".to_vec()))]);
    case.tree.insert(vec![b"hello.txt".to_vec()], (Plain::File(Some(vec![Some(content)])), xattrs));
    case.tree.insert(vec![b"link".to_vec()], (Plain::Link(Some(b"hello.txt".to_vec())), PlainXattrs::new()));
    case.journal = Some((1, Vec::new()));
    case
}

/// The names on the way from the root.
type PlainPath = Vec<Vec<u8>>;
/// The expected extended attributes of an entry: each name, and its value unless it is damaged.
type PlainXattrs = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// One file of `vectors/volume`: a volume under construction, and what a reader must find in it. The expectations are recorded
/// while the volume is made. They do not come from the reader of the reference.
struct Case {
    name: String,
    comment: String,
    expect: &'static str,
    password: Option<Vec<u8>>,
    key: Option<[u8; 32]>,
    writer: Writer,
    tree: BTreeMap<PlainPath, (Plain, PlainXattrs)>,
    /// The plain path of each stored path.
    plain: BTreeMap<Vec<u8>, PlainPath>,
    /// With a journal: how many transactions count, and the chunks that are left out.
    journal: Option<(usize, Vec<LeftOut>)>,
    needs_inodes: bool,
}

impl Case {
    /// A volume in suite 1 with chunks of 4096 bytes, that [`key`] opens.
    fn new(name: &str, comment: &str) -> Self {
        Self::of(name, comment, 1, 12, &[key_slot()])
    }

    fn of(name: &str, comment: &str, suite: u8, chunk_log2: u8, ways: &[Slot]) -> Self {
        Self {
            name: name.to_string(),
            comment: comment.to_string(),
            expect: "ok",
            password: None,
            key: Some(key()),
            writer: Writer::new(name, suite, chunk_log2, ways),
            tree: BTreeMap::from([(Vec::new(), (FOLDER, PlainXattrs::new()))]),
            plain: BTreeMap::from([(Vec::new(), Vec::new())]),
            journal: None,
            needs_inodes: false,
        }
    }

    fn root(&self) -> Place {
        self.writer.root()
    }

    /// The stored entries.
    fn stored(&mut self) -> &mut Stored {
        &mut self.writer.stored
    }

    fn note(&mut self, parent: &[u8], name: &[u8], stored: &[u8], plain: Plain) {
        let path = [&self.plain[parent][..], &[name.to_vec()]].concat();
        self.plain.insert(stored.to_vec(), path.clone());
        self.tree.insert(path, (plain, PlainXattrs::new()));
    }

    fn folder(&mut self, parent: &Place, name: &[u8]) -> Place {
        let place = self.writer.folder(parent, name);
        self.note(&parent.path, name, &place.path, FOLDER);
        place
    }

    fn file(&mut self, parent: &Place, name: &[u8], content: &[u8], holes: &[(u64, u64)]) -> File {
        let file = self.writer.file(parent, name, content, holes);
        self.note(&parent.path, name, &file.path, Plain::File(Some(vec![Some(content.to_vec())])));
        file
    }

    /// Stores the bytes of a file under a name. The file is expected to be damaged.
    fn damaged_file(&mut self, parent: &Place, name: &[u8], bytes: Vec<u8>) -> Vec<u8> {
        let file = self.writer.raw_file(parent, name, [0; 32], bytes);
        self.note(&parent.path, name, &file.path, Plain::File(None));
        file.path
    }

    fn link(&mut self, parent: &Place, name: &[u8], target: &[u8]) -> Vec<u8> {
        let path = self.writer.link(parent, name, target);
        self.note(&parent.path, name, &path, Plain::Link(Some(target.to_vec())));
        path
    }

    fn special(&mut self, parent: &Place, name: &[u8], special: Special) {
        let path = self.writer.special(parent, name, special);
        self.note(&parent.path, name, &path, Plain::Special(special));
    }

    fn xattr(&mut self, path: &[u8], owner: &[u8; 16], n: &[u8], value: &[u8]) {
        self.writer.xattr(path, owner, n, value);
        self.tree.get_mut(&self.plain[path]).unwrap().1.insert([b"user.", n].concat(), Some(value.to_vec()));
    }

    /// Replaces the recorded expectation for a stored path.
    fn want(&mut self, stored: &[u8], plain: Plain) {
        self.tree.get_mut(&self.plain[stored]).unwrap().0 = plain;
    }

    fn want_content(&mut self, file: &File, content: &[u8]) {
        self.want(&file.path, Plain::File(Some(vec![Some(content.to_vec())])));
    }

    /// Expects that a stored path and all that lies in it are not listed.
    fn unlisted(&mut self, stored: &[u8]) {
        let path = self.plain[stored].clone();
        self.tree.retain(|other, _| !other.starts_with(&path));
    }

    /// Expects that a stored path is listed, and nothing in it.
    fn damaged_folder(&mut self, stored: &[u8]) {
        self.unlisted(stored);
        self.tree.insert(self.plain[stored].clone(), (Plain::Folder(None), PlainXattrs::new()));
    }

    /// Adds a journal, in which this many transactions count.
    fn journal(&mut self, journal: Vec<u8>, transactions: usize) {
        self.writer.put(b"phalanx.journal", Kind::File(journal));
        self.journal = Some((transactions, Vec::new()));
    }

    fn refused(mut self, expect: &'static str) -> Self {
        self.expect = expect;
        self
    }

    fn json(&self) -> Made {
        let mut fields = vec![("comment", string(&self.comment)), ("expect", string(self.expect))];
        fields.extend(self.password.as_ref().map(|password| ("password", hex(password))));
        fields.extend(self.key.as_ref().map(|key| ("key", hex(key))));
        if self.needs_inodes {
            fields.push(("needs_inodes", "true".to_string()));
        }
        if self.expect == "ok" {
            fields.push(("volume_key", hex(&self.writer.config.keys.volume)));
        }
        let entries = self.writer.stored.entries.iter().map(|(path, entry)| stored_json(path, entry));
        fields.push(("folder", lines(entries.collect())));
        if self.expect == "ok" {
            let entries = self.tree.iter().map(|(path, (plain, xattrs))| plain_json(path, plain, xattrs));
            fields.push(("tree", lines(entries.collect())));
        }
        if let Some((transactions, left_out)) = &self.journal {
            fields.push(("transactions", transactions.to_string()));
            let left_out =
                left_out.iter().map(|(id, index)| format!("{{\"file_id\": {}, \"index\": {index}}}", hex(id)));
            fields.push(("left_out", format!("[{}]", left_out.collect::<Vec<_>>().join(", "))));
            fields.push(("after", self.after()));
        }
        (self.name.clone(), object(&fields))
    }

    /// The SHA3-256 of each stored file that the journal changes, and of the journal, after it has been applied.
    fn after(&self) -> String {
        let mut stored = self.writer.stored.clone();
        let mut table = self.writer.config.has_versions.then(|| self.writer.table.clone());
        v::apply_journal_with(&self.writer.config, &mut stored, table.as_mut());
        let changed = stored.entries.iter().filter(|(path, entry)| self.writer.stored.entries[*path] != **entry);
        let digest = |(path, _): (&Vec<u8>, &Entry)| {
            let digest = reference::sha3_256(stored.file(path).unwrap());
            format!("{}: {}", text(path), hex(&digest))
        };
        format!("{{{}}}", changed.map(digest).collect::<Vec<_>>().join(", "))
    }
}

/// A folder that belongs in its place. Its id is not a part of the vectors.
const FOLDER: Plain = Plain::Folder(Some([0; 16]));

/// Byte i is (from + i) mod 251.
fn painted_from(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (i % 251) as u8).collect()
}

fn stored_json(path: &[u8], entry: &Entry) -> String {
    let mut fields =
        vec![("path", text(path)), ("kind", string(kind_of(&entry.kind))), ("inode", entry.inode.to_string())];
    match &entry.kind {
        Kind::File(bytes) => fields.push(("bytes", parts(bytes, false))),
        Kind::Link(target) => fields.push(("target", text(target))),
        Kind::Folder | Kind::Special(_) => {}
    }
    if !entry.xattrs.is_empty() {
        let xattrs = entry.xattrs.iter().map(|(name, value)| format!("{}: {}", text(name), hex(value)));
        fields.push(("xattrs", format!("{{{}}}", xattrs.collect::<Vec<_>>().join(", "))));
    }
    inline(&fields)
}

fn kind_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::Folder => "folder",
        Kind::File(_) => "file",
        Kind::Link(_) => "link",
        Kind::Special(special) => special_of(*special),
    }
}

fn special_of(special: Special) -> &'static str {
    match special {
        Special::Fifo => "fifo",
        Special::Socket => "socket",
        Special::Device => "device",
    }
}

fn plain_json(path: &[Vec<u8>], plain: &Plain, xattrs: &PlainXattrs) -> String {
    let path: Vec<String> = path.iter().map(|name| hex(name).replace('"', "")).collect();
    let mut fields = vec![("path", string(&path.join("/")))];
    let damaged = ("damaged", "true".to_string());
    match plain {
        Plain::Folder(id) => {
            fields.push(("kind", string("folder")));
            if id.is_none() {
                fields.push(damaged);
            }
        }
        Plain::File(chunks) => {
            fields.push(("kind", string("file")));
            fields.push(chunks.as_ref().map_or(damaged, |chunks| ("content", content(chunks))));
        }
        Plain::Link(target) => {
            fields.push(("kind", string("link")));
            fields.push(target.as_ref().map_or(damaged, |target| ("target", hex(target))));
        }
        Plain::Special(special) => fields.push(("kind", string(special_of(*special)))),
    }
    if !xattrs.is_empty() {
        let value = |value: &Option<Vec<u8>>| value.as_ref().map_or("null".to_string(), |value| hex(value));
        let xattrs = xattrs.iter().map(|(name, bytes)| format!("{}: {}", hex(name), value(bytes)));
        fields.push(("xattrs", format!("{{{}}}", xattrs.collect::<Vec<_>>().join(", "))));
    }
    inline(&fields)
}

/// The parts of all chunks, `null` for one that is damaged.
fn content(chunks: &[Option<Vec<u8>>]) -> String {
    let mut all: Vec<String> = Vec::new();
    for chunk in chunks {
        match chunk {
            None => all.push("null".to_string()),
            Some(bytes) => all.extend(part_list(bytes, true)),
        }
    }
    format!("[{}]", all.join(", "))
}

pub(super) fn parts(bytes: &[u8], with_painted: bool) -> String {
    format!("[{}]", part_list(bytes, with_painted).join(", "))
}

/// Bytes in short form: a text is hexadecimal, a number stands for that many zeros, and `[from, n]` stands for n painted bytes.
fn part_list(bytes: &[u8], with_painted: bool) -> Vec<String> {
    const SHORT: usize = 32;
    let (mut list, mut literal, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let zeros = bytes[at..].iter().take_while(|byte| **byte == 0).count();
        let from = bytes[at];
        let paint = (0..251).contains(&from) && with_painted;
        let is_next = |(i, byte): &(usize, &u8)| usize::from(**byte) == (usize::from(from) + i) % 251;
        let painted = if paint { bytes[at..].iter().enumerate().take_while(is_next).count() } else { 0 };
        let (len, part) = if zeros >= SHORT {
            (zeros, zeros.to_string())
        } else if painted >= SHORT {
            (painted, format!("[{from}, {painted}]"))
        } else {
            at += 1;
            continue;
        };
        if literal < at {
            list.push(hex(&bytes[literal..at]));
        }
        list.push(part);
        at += len;
        literal = at;
    }
    if literal < at {
        list.push(hex(&bytes[literal..at]));
    }
    list
}

/// Stored names and targets are ASCII, except what a scenario alters.
fn text(bytes: &[u8]) -> String {
    string(std::str::from_utf8(bytes).expect("a stored name in ASCII"))
}

fn inline(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    format!("{{{}}}", fields.join(", "))
}

/// A JSON array with one element on each line.
fn lines(elements: Vec<String>) -> String {
    format!("[\n    {}\n  ]", elements.join(",\n    "))
}
