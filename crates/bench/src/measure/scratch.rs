//! The files for measuring. They are generated, are always the same, and are removed at the end.

use crate::measure::lock;
use crate::measure::machine::{file_system, memory};
use crate::measure::{Error, Result};
use phalanx_kernels::aes;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The folders of this process, for [`remove_unfinished`].
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder of its own, removed on drop.
pub struct Scratch {
    folder: PathBuf,
    /// The lock on a folder within one that other runs may use too.
    _lock: Option<File>,
}

/// How long a folder may resist its removal.
const PATIENCE: Duration = Duration::from_secs(30);

/// The name of a folder within one that belongs to others.
const WITHIN: &str = "phalanx-bench-volume";

impl Scratch {
    /// Makes the folder within `out`. Leftovers of a killed run are removed first.
    pub fn new(out: &Path) -> Result<Self> {
        Self::make(out.join("scratch"))
    }

    /// Makes a folder that only its owner can enter, within a folder that may belong to others. Leftovers of a killed
    /// run are removed first, after `clear`, which unmounts what is mounted there. Two runs cannot have it at the same
    /// time.
    pub fn within(folder: &Path, clear: impl FnOnce(&Path)) -> Result<Self> {
        let path = folder.join(WITHIN);
        let locked = |path: &Path| {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::open(path, flags, Mode::empty())?;
            rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive)?;
            Ok(File::from(opened))
        };
        let old = match locked(&path) {
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::Folder(path, "another run is measuring there".into()));
            }
            old => old.ok(),
        };
        clear(&path);
        let mut scratch = Self::make(path)?;
        drop(old);
        let failed = |e: Errno| Error::Path(scratch.folder.clone(), e.into());
        scratch._lock = Some(locked(&scratch.folder).map_err(failed)?);
        Ok(scratch)
    }

    fn make(folder: PathBuf) -> Result<Self> {
        match fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::Path(folder, e)),
            _ => {}
        }
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(Error::at(&folder))?;
        lock(&UNFINISHED).push(folder.clone());
        Ok(Self { folder, _lock: None })
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file of `len` random bytes, which depend on `seed` alone. Then it is on the disk and in the page cache.
    pub fn file(&self, name: &str, len: u64, seed: u64) -> Result<PathBuf> {
        let path = self.path(name);
        let file = write(&path, len, seed)?;
        // Its write-back must not disturb the measurements.
        file.sync_all().map_err(Error::at(&path))?;
        Ok(path)
    }

    /// A file that only its owner can read.
    pub fn secret(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.path(name);
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(bytes)).map_err(Error::at(&path))?;
        Ok(path)
    }

    /// An empty folder within this one.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::create_dir(&path).map_err(Error::at(&path))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut unfinished = lock(&UNFINISHED);
        if let Some(mine) = unfinished.iter().position(|folder| *folder == self.folder) {
            remove_folder(&unfinished.swap_remove(mine));
        }
    }
}

/// Removes the folders of this process. Until the returned guard is dropped, no run continues without its files. It is
/// called when a signal is about to end the process.
#[must_use]
pub fn remove_unfinished() -> impl Sized {
    let mut unfinished = lock(&UNFINISHED);
    unfinished.drain(..).for_each(|folder| remove_folder(&folder));
    unfinished
}

/// Removes a folder in which other threads and programs may still make files: it tries until the folder is gone.
pub fn remove_folder(folder: &Path) {
    let end = Instant::now() + PATIENCE;
    while fs::remove_dir_all(folder).is_err() && fs::symlink_metadata(folder).is_ok() && Instant::now() < end {
        sleep(Duration::from_millis(1));
    }
}

/// Writes a file of `len` random bytes, which depend on `seed` alone.
pub fn write(path: &Path, len: u64, seed: u64) -> Result<File> {
    let write = || {
        let mut file = File::create(path)?;
        let mut random = Random::new(seed);
        let mut buffer = vec![0; len.min(8 << 20) as usize];
        let mut left = len;
        while left > 0 {
            let part = &mut buffer[..left.min(8 << 20) as usize];
            random.fill(part);
            file.write_all(part)?;
            left -= part.len() as u64;
        }
        Ok(file)
    };
    write().map_err(Error::at(path))
}

/// Removes a file or a folder, if it is there.
pub fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::Path(path.to_owned(), e)),
        _ => Ok(()),
    }
}

/// Fails unless two files are the same.
pub fn require_same(a: &Path, b: &Path) -> Result<()> {
    let open = |path: &Path| File::open(path).map_err(Error::at(path));
    let (mut of_a, mut of_b) = (open(a)?, open(b)?);
    let (mut piece_a, mut piece_b) = (Vec::new(), Vec::new());
    loop {
        for (file, piece, path) in [(&mut of_a, &mut piece_a, a), (&mut of_b, &mut piece_b, b)] {
            piece.clear();
            file.take(4 << 20).read_to_end(piece).map_err(Error::at(path))?;
        }
        if piece_a != piece_b {
            return Err(Error::Program(format!("{}: it is not the file that went in", b.display())));
        }
        if piece_a.is_empty() {
            return Ok(());
        }
    }
}

/// Random bytes of a seed.
pub fn random<const N: usize>(seed: u64) -> [u8; N] {
    let mut bytes = [0; N];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// This many random bytes of a seed.
pub fn random_vec(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Random bytes that are the same in every run: AES-256-CTR of zeros.
pub(crate) struct Random {
    key: aes::Key,
    counter: [u8; 16],
}

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self { key: aes::Key::new(&key), counter: [0; 16] }
    }

    /// Fills `out` with the next bytes of the stream. The rest of the last block is discarded.
    pub fn fill(&mut self, out: &mut [u8]) {
        out.fill(0);
        aes::ctr_xor(aes::Level::detect(), &self.key, &self.counter, out);
        self.counter = aes::counter_after(&self.counter, out.len().div_ceil(16) as u64);
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        // A bias of 2^-40 at the bounds in use does not matter here.
        u64::from_le_bytes(bytes) % bound
    }
}

#[derive(Clone)]
pub(crate) struct Backing {
    /// The kind of its file system, with a number if there are several of this kind.
    pub name: String,
    pub folder: PathBuf,
}

/// The folders that were named. If there are none, a folder in memory and the run's own folder, on a disk.
pub(crate) fn backings(folders: &[PathBuf], out: &Path) -> Result<Vec<Backing>> {
    let mut all: Vec<Backing> = Vec::new();
    let named = !folders.is_empty();
    let folders = if named { folders.to_vec() } else { vec!["/dev/shm".into(), out.to_owned()] };
    for folder in folders {
        let kind = file_system(&folder);
        let same = all.iter().filter(|backing| backing.name.split(' ').next() == Some(kind.as_str())).count();
        if !named && (same > 0 || !folder.is_dir()) {
            continue;
        }
        let folder = std::path::absolute(&folder).and_then(|path| path.canonicalize()).map_err(Error::at(&folder))?;
        let name = if same == 0 { kind } else { format!("{kind} {}", same + 1) };
        all.push(Backing { name, folder });
    }
    Ok(all)
}

/// Fetches free memory from the host of a virtual machine. The host takes back memory that is free for a while, so the
/// first program that allocates it again would be slower. This never takes so much that the page cache would lose
/// files.
pub fn fetch_memory(bytes: u64) {
    const SPARE: u64 = 256 << 20;
    let bytes = bytes.min(memory("MemFree").unwrap_or(0).saturating_sub(SPARE));
    let mut pages: Vec<u8> = Vec::new();
    if pages.try_reserve_exact(bytes as usize).is_ok() {
        // The system would not allocate pages of zeros.
        pages.resize(bytes as usize, 1);
        black_box(&pages);
    }
}

/// Fails if less than `bytes` are free on the disk that holds `folder`.
pub fn require_disk(folder: &Path, bytes: u64) -> Result<()> {
    let stat = rustix::fs::statvfs(folder).map_err(|e| Error::Path(folder.to_owned(), e.into()))?;
    require(stat.f_bavail * stat.f_frsize, bytes, "bytes of disk space are free for the files that are measured on")
}

/// Fails if less than `bytes` of memory are available.
pub fn require_memory(bytes: u64) -> Result<()> {
    match memory("MemAvailable") {
        Some(free) => require(free, bytes, "bytes of memory can be had"),
        None => Ok(()),
    }
}

fn require(free: u64, needed: u64, what: &str) -> Result<()> {
    if free < needed {
        return Err(Error::Resources(format!("only {free} {what}, and {needed} are needed")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_or_memory_is_reported_clearly() {
        let folder = tempfile::tempdir().unwrap();
        require_disk(folder.path(), 1).unwrap();
        let line = require_disk(folder.path(), u64::MAX).unwrap_err().to_string();
        assert!(line.contains("disk space") && line.contains(&u64::MAX.to_string()), "{line}");
        require_memory(1).unwrap();
        if memory("MemAvailable").is_some() {
            assert!(require_memory(u64::MAX).unwrap_err().to_string().contains("memory"));
        }
    }

    #[test]
    fn memory_is_fetched() {
        let peak = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
        };
        let bytes = 64 << 20;
        if memory("MemFree").unwrap_or(0) < 8 * bytes {
            println!("skipped: too little free memory");
            return;
        }
        fetch_memory(bytes);
        assert!(peak() >= bytes);
    }

    #[test]
    fn a_folder_within_another_serves_one_run_and_is_emptied_first() {
        let out = tempfile::tempdir().unwrap();
        fs::create_dir_all(out.path().join(WITHIN).join("left/over")).unwrap();
        let scratch = Scratch::within(out.path(), |_| {}).unwrap();
        assert_eq!(fs::read_dir(&scratch.folder).unwrap().count(), 0);
        let refused = Scratch::within(out.path(), |_| panic!("it is in use")).err().unwrap().to_string();
        assert!(refused.contains("another run"), "{refused}");
        drop(scratch);
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_is_removed_while_others_make_files_in_it() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("folder");
        fs::create_dir(&folder).unwrap();
        // They come to an end: otherwise they could be faster than the removal for as long as it is patient.
        let make =
            |n: u32| (n..2000).step_by(2).take_while(|i| fs::write(folder.join(i.to_string()), b"").is_ok()).count();
        std::thread::scope(|scope| {
            let makers = [0, 1].map(|n| scope.spawn(move || make(n)));
            while !["100", "101"].iter().all(|name| folder.join(name).exists()) {
                sleep(Duration::from_millis(1));
            }
            remove_folder(&folder);
            assert!(makers.into_iter().all(|maker| maker.join().unwrap() > 0));
        });
        assert!(!folder.exists());
    }

    #[test]
    fn files_are_always_the_same_and_are_removed_at_the_end() {
        let out = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(out.path()).unwrap();
        let len = (8 << 20) + 17;
        let (a, b) = (scratch.file("a", len, 7).unwrap(), scratch.file("b", len, 7).unwrap());
        let other = fs::read(scratch.file("c", len, 8).unwrap()).unwrap();
        let a = fs::read(a).unwrap();
        assert!(a.len() as u64 == len && a == fs::read(b).unwrap() && a != other);
        drop(scratch);
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
    }
}
