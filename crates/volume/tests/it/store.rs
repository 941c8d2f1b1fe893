//! Stored files and their crash safety.

mod closing;
mod crash;
mod damage;
mod deep;
pub mod disk;
mod dropped;
mod many_holes;
mod model;
mod owner;
mod speed;

use phalanx_core::volume::{Config, Features};
use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};
use phalanx_volume::{Backing, Disk, Store, StoreOptions, System};
use rustix::fs::{Mode, OFlags, open, openat};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A volume in a temporary folder.
struct Volume {
    dir: tempfile::TempDir,
    config: Config,
    told: Arc<Mutex<Vec<String>>>,
    /// [`StoreOptions::threshold`].
    threshold: usize,
}

impl Volume {
    fn new(suite: Suite, chunk_len: u64) -> Self {
        Self::within(tempfile::tempdir().unwrap(), suite, chunk_len)
    }

    fn within(dir: tempfile::TempDir, suite: Suite, chunk_len: u64) -> Self {
        Self::with(dir, suite, chunk_len, Features::default())
    }

    /// A volume with a table of versions.
    fn protected(suite: Suite, chunk_len: u64) -> Self {
        Self::with(tempfile::tempdir().unwrap(), suite, chunk_len, Features { rollback_protection: true })
    }

    fn with(dir: tempfile::TempDir, suite: Suite, chunk_len: u64, features: Features) -> Self {
        let recipient = Recipient::key(&SecretKey::random().unwrap());
        let size = ChunkSize::new(chunk_len).unwrap();
        let (_, config) = Config::create_with(suite, size, features, &[recipient]).unwrap();
        let volume = Self { dir, config, told: Arc::default(), threshold: usize::MAX };
        phalanx_volume::versions::init(&volume.root(), &volume.config).unwrap();
        volume
    }

    fn root(&self) -> OwnedFd {
        open(self.dir.path(), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Nothing happens in the background, and all reports are kept.
    fn options(&self) -> StoreOptions {
        let told = self.told.clone();
        let hour = Duration::from_secs(3600);
        StoreOptions {
            commit_after: hour,
            trim_after: hour,
            threshold: self.threshold,
            on_damage: Box::new(move |text| told.lock().unwrap().push(text.into())),
            ..StoreOptions::default()
        }
    }

    fn store(&self) -> Arc<Store> {
        self.store_on(Arc::new(System))
    }

    fn store_on(&self, disk: Arc<dyn Disk>) -> Arc<Store> {
        Store::open(&self.root(), self.config.clone(), StoreOptions { disk, ..self.options() }).unwrap()
    }

    fn file(&self, name: &str, flags: OFlags) -> File {
        openat(self.root(), name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR).unwrap().into()
    }

    fn create(&self, store: &Store, name: &str) -> Arc<Backing> {
        store.create(self.file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)).unwrap()
    }

    fn open(&self, store: &Store, name: &str) -> Arc<Backing> {
        store.open_file(self.file(name, OFlags::RDWR)).unwrap()
    }
}

/// The whole content of a file.
fn content(backing: &Backing) -> Vec<u8> {
    backing.read_at(0, usize::MAX).unwrap()
}

/// Pseudorandom numbers, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let first = self.next() as u8;
        (0..len).map(|i| first.wrapping_add(i as u8) | 1).collect()
    }
}

/// One change of a file, in memory and in the store.
#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Punch(u64, u64),
}

impl Change {
    fn random(random: &mut Random, len: u64, longest: u64) -> Self {
        let offset = match random.below(4) {
            0 => len,
            _ => random.below((len + longest / 8).min(longest).max(1)),
        };
        match random.below(8) {
            0 => Self::SetLen(random.below(longest)),
            1 | 2 => Self::Punch(offset, offset + random.below(longest / 2)),
            3 => Self::Write(offset, random.bytes(300 << 10)),
            4 => Self::Write(offset, vec![0; random.below(9000) as usize]),
            _ => {
                let len = 1 + random.below(12_000) as usize;
                Self::Write(offset, random.bytes(len))
            }
        }
    }

    fn apply(&self, model: &mut Vec<u8>) {
        match self {
            Self::Write(_, data) if data.is_empty() => {}
            Self::Write(offset, data) => {
                let (start, end) = (*offset as usize, *offset as usize + data.len());
                if model.len() < end {
                    model.resize(end, 0);
                }
                model[start..end].copy_from_slice(data);
            }
            Self::SetLen(len) => model.resize(*len as usize, 0),
            Self::Punch(start, end) => {
                let end = (*end as usize).min(model.len());
                let start = (*start as usize).min(end);
                model[start..end].fill(0);
            }
        }
    }

    fn make(&self, backing: &Backing) -> phalanx_volume::Result<()> {
        match self {
            Self::Write(offset, data) => backing.write_at(*offset, data),
            Self::SetLen(len) => backing.set_len(*len),
            Self::Punch(start, end) => backing.punch(*start..*end),
        }
    }
}
