//! A volume's own core without a mount: its tree and its store, called as the kernel's requests call them.
//!
//! A script makes requests one after another and writes to standard error what was answered. So whoever reads that knows what was
//! acknowledged when the world ended. It stops at the first error.

use crate::random::Random;
use crate::view::key;
use phalanx_core::engine::{CpuEngine, Levels};
use phalanx_core::{KdfLimit, Opener, Roster, SecretKey};
use phalanx_volume::front::{Ended, Front};
use phalanx_volume::fuse::Filesystem;
use phalanx_volume::mount::Kernel;
use phalanx_volume::tree::{Kind, Owner, ROOT, RenameMode, Tree};
use phalanx_volume::{Backing, Result, Store, StoreOptions, Volume, VolumeError, Witness};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// One request. Names are those of [`NAMES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Create(usize),
    Write(usize, u64, Vec<u8>),
    Len(usize, u64),
    /// A program closes the file.
    Flush(usize),
    Sync(usize),
    /// A program syncs a folder: the root, or `d`.
    SyncFolder(bool),
    Rename(usize, usize),
    Remove(usize),
}

/// The names of files: in the root, and in a folder.
pub const NAMES: [&str; 6] = [
    "a",
    "b",
    "c",
    "d/a",
    "d/b",
    "d/long name of a file, and so long that it is stored otherwise \
    than others, because it has more than a hundred and seventy-five bytes of text in it, which is the longest that fits beside \
    its tag in the name of a stored file",
];

/// What a run does with a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// Makes a folder and files, and syncs them.
    Begin,
    /// Makes these requests.
    Requests(Vec<Request>),
    /// Writes names and contents to standard output.
    Dump,
}

impl Request {
    /// In words.
    pub fn text(&self) -> String {
        match self {
            Self::Write(name, offset, bytes) => format!("Write({name}, {offset}, {} bytes)", bytes.len()),
            other => format!("{other:?}"),
        }
    }
}

impl Request {
    /// The names of the files that it is about.
    pub fn names(&self) -> Vec<usize> {
        match self {
            Self::Create(name) | Self::Write(name, ..) | Self::Len(name, _) => vec![*name],
            Self::Flush(name) | Self::Sync(name) | Self::Remove(name) => vec![*name],
            Self::Rename(from, to) => vec![*from, *to],
            Self::SyncFolder(_) => vec![],
        }
    }
}

/// The requests of a script with this seed.
pub fn requests(seed: u64, count: usize) -> Vec<Request> {
    let mut random = Random::new(seed);
    let mut lens: BTreeMap<usize, u64> = BTreeMap::from([(0, 9000), (3, 100)]);
    let mut all = Vec::new();
    while all.len() < count {
        let name = random.below(NAMES.len());
        let Some(len) = lens.get(&name).copied() else {
            lens.insert(name, 0);
            all.push(Request::Create(name));
            continue;
        };
        match random.below(12) {
            0..4 => {
                let offset = if random.chance(2) { len } else { random.below(len as usize + 1) as u64 };
                let size = *random.of(&[1, 100, 4096, 5000, 9000, 20_000]);
                let bytes: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
                lens.insert(name, len.max(offset + size as u64));
                all.push(Request::Write(name, offset, bytes));
            }
            4 => {
                let to = random.below(len as usize + 6000) as u64;
                lens.insert(name, to);
                all.push(Request::Len(name, to));
            }
            5 => all.push(Request::Flush(name)),
            6 | 7 => all.push(Request::Sync(name)),
            8 => all.push(Request::SyncFolder(random.chance(2))),
            9 | 10 => {
                let to = random.below(NAMES.len());
                if to != name {
                    lens.remove(&name);
                    lens.insert(to, len);
                    all.push(Request::Rename(name, to));
                }
            }
            _ => {
                lens.remove(&name);
                all.push(Request::Remove(name));
            }
        }
    }
    all
}

const VOLUME: &str = "vol";

/// A volume in use.
struct Used {
    tree: Arc<Tree>,
    store: Arc<Store>,
    front: Front,
    open: HashMap<String, (u64, Arc<Backing>, Witness)>,
    _volume: Volume,
}

impl Used {
    fn open() -> Result<Self> {
        let opener = Opener::new(SecretKey::from_slice(&key(0)).expect("32 bytes"), KdfLimit::default());
        let volume = Volume::open(Path::new(VOLUME), &opener, false)?;
        let roster = Arc::new(Roster::new(&[Arc::new(CpuEngine::serial(Levels::detect()))]));
        let hour = Duration::from_secs(3600);
        let options = StoreOptions {
            small: roster.clone(),
            large: roster,
            commit_after: hour,
            trim_after: hour,
            on_damage: Box::new(|line| eprintln!("damage: {line}")),
            ..StoreOptions::default()
        };
        let store = Store::open(&volume.root, volume.config.clone(), options)?;
        let tree = Arc::new(store.tree(|line| eprintln!("damage: {line}"))?);
        let front = Front::new(tree.clone(), store.clone(), false, Kernel::default(), Ended::default());
        Ok(Self { tree, store, front, open: HashMap::new(), _volume: volume })
    }

    fn place<'a>(&self, path: &'a str) -> Result<(u64, &'a [u8])> {
        match path.strip_prefix("d/") {
            Some(name) => Ok((self.tree.lookup(ROOT, b"d")?.number, name.as_bytes())),
            None => Ok((ROOT, path.as_bytes())),
        }
    }

    /// A file that stays open once it was opened.
    fn file(&mut self, path: &str) -> Result<&(u64, Arc<Backing>, Witness)> {
        if !self.open.contains_key(path) {
            let (parent, name) = self.place(path)?;
            let number = self.tree.lookup(parent, name)?.number;
            let backing = self.store.open_file(self.tree.open_file(number, true)?)?;
            let witness = backing.witness();
            self.open.insert(path.into(), (number, backing, witness));
        }
        Ok(&self.open[path])
    }

    fn create(&mut self, path: &str) -> Result<()> {
        let (parent, name) = self.place(path)?;
        let (attr, _) = self.front.create(Owner { uid: 0, gid: 0 }, parent, name, 0o644)?;
        let backing = self.store.get(attr.number).expect("it is open");
        let witness = backing.witness();
        self.open.insert(path.into(), (attr.number, backing, witness));
        Ok(())
    }

    fn answer(&mut self, request: &Request) -> Result<()> {
        match request {
            Request::Create(name) => self.create(NAMES[*name]),
            Request::Write(name, offset, bytes) => self.file(NAMES[*name])?.1.write_at(*offset, bytes),
            Request::Len(name, len) => self.file(NAMES[*name])?.1.set_len(*len),
            Request::Flush(name) => {
                let (_, backing, witness) = self.file(NAMES[*name])?;
                backing.commit(witness)
            }
            Request::Sync(name) => {
                let (number, backing, witness) = self.file(NAMES[*name])?;
                backing.sync(witness, false)?;
                let number = *number;
                self.tree.sync_place(number)
            }
            Request::SyncFolder(is_root) => {
                let number = if *is_root { ROOT } else { self.tree.lookup(ROOT, b"d")?.number };
                self.store.sync_records()?;
                self.tree.sync_folder(number)
            }
            Request::Rename(from, to) => {
                let ((parent, name), (to_parent, to_name)) = (self.place(NAMES[*from])?, self.place(NAMES[*to])?);
                self.tree.rename(parent, name, to_parent, to_name, RenameMode::Replace)?;
                self.open.remove(NAMES[*to]);
                if let Some(open) = self.open.remove(NAMES[*from]) {
                    self.open.insert(NAMES[*to].into(), open);
                }
                let number = self.file(NAMES[*to])?.0;
                if let Some(backing) = self.store.get(number) {
                    backing.mark_named();
                }
                Ok(())
            }
            Request::Remove(name) => {
                let (parent, stored) = self.place(NAMES[*name])?;
                self.tree.unlink(parent, stored)?;
                self.open.remove(NAMES[*name]);
                Ok(())
            }
        }
    }

    fn dump(&mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let folder = self.tree.lookup(ROOT, b"d")?.number;
        for (number, before) in [(ROOT, ""), (folder, "d/")] {
            let listing = self.tree.list(number)?;
            for index in 0..listing.len() {
                let Some(entry) = self.tree.entry(&listing, index)? else { continue };
                if entry.kind != Kind::File {
                    continue;
                }
                let path = format!("{before}{}", String::from_utf8_lossy(&entry.name));
                let content = self.file(&path).and_then(|(_, backing, _)| backing.read_at(0, usize::MAX));
                let bytes = content.as_ref().map_or(&[][..], |bytes| bytes);
                let len = if content.is_ok() { bytes.len() as u32 } else { u32::MAX };
                out.extend((path.len() as u32).to_le_bytes());
                out.extend(path.as_bytes());
                out.extend(len.to_le_bytes());
                out.extend(bytes);
            }
        }
        Ok(out)
    }

    fn begin(&mut self) -> Result<()> {
        self.tree.mkdir(ROOT, b"d", 0o755, Owner { uid: 0, gid: 0 })?;
        for (name, len) in [(0, 9000), (3, 100)] {
            self.answer(&Request::Create(name))?;
            self.answer(&Request::Write(name, 0, crate::runner::painted(len, 100 + name as u64)))?;
            self.answer(&Request::Sync(name))?;
        }
        Ok(())
    }
}

impl Script {
    /// Runs it in this process. The result is an exit code.
    pub fn run(&self) -> u8 {
        match self.work() {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("error: {error}");
                4
            }
        }
    }

    fn work(&self) -> Result<()> {
        let mut used = Used::open()?;
        eprintln!("open");
        let done = match self {
            Self::Begin => used.begin(),
            Self::Requests(requests) => requests.iter().try_for_each(|request| {
                used.answer(request)?;
                eprintln!("ok");
                Ok(())
            }),
            Self::Dump => used.dump().and_then(|out| {
                let mut to = std::io::stdout();
                let failed = |error| VolumeError::Io { what: "cannot write what was found", error };
                to.write_all(&out).and_then(|()| to.flush()).map_err(failed)
            }),
        };
        if let Err(error) = &done {
            eprintln!("error: {error}");
        }
        used.open.clear();
        let closed = used.store.close();
        if closed.is_ok() {
            eprintln!("closed");
        }
        done.and(closed)
    }
}

/// What [`Script::Dump`] has written: `None` for a file that cannot be read.
pub fn parse(mut out: &[u8]) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    let number = |out: &mut &[u8]| {
        let (number, rest) = out.split_first_chunk::<4>().expect("a whole dump");
        *out = rest;
        u32::from_le_bytes(*number)
    };
    while !out.is_empty() {
        let len = number(&mut out) as usize;
        let (path, rest) = out.split_at(len);
        out = rest;
        let path = String::from_utf8_lossy(path).into_owned();
        let len = number(&mut out);
        let content = (len != u32::MAX).then(|| {
            let (content, rest) = out.split_at(len as usize);
            out = rest;
            content.to_vec()
        });
        all.insert(path, content);
    }
    all
}
