//! Writing to a new file from many workers, each at its own offset.
//!
//! The measurements for each step are in `crates/bench/results/tried.md`.

use phalanx_core::file::Filling;
use phalanx_core::{Sink, WriteAt};
use phalanx_system::fs::{self, FileSystem};
use phalanx_system::io::Errno;
use phalanx_system::os::fs::FileExt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reserving space pays from this length on, in bytes.
const LARGE: u64 = 4 << 20;
/// The most that one call writes to the page cache, in bytes. For more, the system takes such large blocks of memory
/// that virtual machines have to get them from their host.
const CALL: usize = 128 << 10;
/// The same for a file that takes many seconds, because its bytes come from afar. The system then pays for each page that
/// it gets from its host, and pays less in shorter calls.
const SLOW_CALL: usize = 32 << 10;
/// Files of at least this length, in bytes, are written back while they are written. Of smaller ones many are synced
/// together, and the system writes them back together more cheaply than one by one.
const EARLY: u64 = 1 << 20;
/// The length of a block that is left out as a hole if it is zero, in bytes.
const HOLE: usize = 64 << 10;

/// A new file, to be written from many threads.
#[derive(Debug)]
pub struct Disk<'a> {
    file: &'a File,
    /// The most that one call writes, in bytes.
    call: usize,
    /// Whether to reserve space for each part.
    reserve_each: AtomicBool,
    /// Whether to start write-back after each part, so that the disk works while the cores do.
    write_back: AtomicBool,
}

impl<'a> Disk<'a> {
    /// A file that stays in the page cache until the system writes it.
    #[must_use]
    pub fn new(file: &'a File) -> Self {
        Self { file, call: CALL, reserve_each: AtomicBool::new(false), write_back: AtomicBool::new(false) }
    }

    /// A file that will be synced: each part goes from the page cache to the disk as soon as it is written, unless the
    /// file is small.
    #[must_use]
    pub fn synced(file: &'a File) -> Self {
        Self { write_back: AtomicBool::new(true), ..Self::new(file) }
    }

    fn of(file: &'a File, sync: bool) -> Self {
        if sync { Self::synced(file) } else { Self::new(file) }
    }

    fn write_in_calls(&self, bytes: &[u8], mut offset: u64) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            // Calls end at multiples of their length, so that they fill whole blocks of the page cache.
            let room = self.call - (offset % self.call as u64) as usize;
            let (now, later) = left.split_at(room.min(left.len()));
            self.file.write_all_at(now, offset)?;
            offset += now.len() as u64;
            left = later;
        }
        Ok(())
    }
}

/// A new file as a sink that is written from many threads. With `sync`, write-back starts immediately.
#[must_use]
pub fn sink(file: &File, sync: bool) -> Sink<'_> {
    Sink::ranged(Disk::of(file, sync))
}

/// The same for a file whose bytes come from afar.
#[must_use]
pub fn slow_sink(file: &File, sync: bool) -> Sink<'_> {
    Sink::ranged(Disk { call: SLOW_CALL, ..Disk::of(file, sync) })
}

impl WriteAt for Disk<'_> {
    fn expect(&self, len: Option<u64>, filling: Filling) -> io::Result<()> {
        if len.is_some_and(|len| len < EARLY) {
            self.write_back.store(false, Ordering::Relaxed);
        }
        let Some(len) = len.filter(|len| *len >= LARGE && is_ext4(self.file)) else { return Ok(()) };
        match filling {
            // All of it will be written, so a lack of space is reported immediately.
            Filling::Full => {
                if let Err(e @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = fs::reserve(self.file, 0, len) {
                    return Err(e.into());
                }
            }
            Filling::Sparse => self.reserve_each.store(true, Ordering::Relaxed),
        }
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.reserve_each.load(Ordering::Relaxed) {
            // If there is no room, the write will fail.
            let _ = fs::reserve(self.file, offset, bytes.len() as u64);
        }
        self.write_in_calls(bytes, offset)?;
        if self.write_back.load(Ordering::Relaxed) {
            fs::start_write_back(self.file, offset, bytes.len() as u64);
        }
        Ok(())
    }

    fn write_sparse_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        each_solid(bytes, |solid, at| self.write_all_at(solid, offset + at as u64))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.file.metadata()?.len() == len { Ok(()) } else { self.file.set_len(len) }
    }
}

/// Calls `write` with each run of blocks that are not all zero, and where it begins.
fn each_solid(bytes: &[u8], mut write: impl FnMut(&[u8], usize) -> io::Result<()>) -> io::Result<()> {
    let is_zero = |block: &[u8]| block.chunks(64).all(|part| part == &[0; 64][..part.len()]);
    let block = |at: usize| &bytes[at..bytes.len().min(at + HOLE)];
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        while at < bytes.len() && !is_zero(block(at)) {
            at += block(at).len();
        }
        if at > start {
            write(&bytes[start..at], start)?;
        }
        if at < bytes.len() {
            at += block(at).len();
        }
    }
    Ok(())
}

/// Whether the file is on ext4, where reserving space was measured to pay. A file system in memory would fill it twice.
fn is_ext4(file: &File) -> bool {
    fs::file_system(file) == Ok(FileSystem::Ext)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_system::os::fs::MetadataExt;

    fn painted(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i % 251) as u8 + 1).collect()
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn parts_in_any_order_make_the_same_file() {
        for (len, part) in [(1, 1000), (4096, 4096), (20_000, 4144), (300_000, 70_001), (9 << 20, (1 << 20) + 48)] {
            let bytes = painted(len);
            let mut starts: Vec<usize> = (0..len).step_by(part).collect();
            starts.reverse();
            let third = starts.len() / 3;
            starts.rotate_left(third);
            use Filling::{Full, Sparse};
            for (filling, write_back) in [(Sparse, false), (Sparse, true), (Full, false), (Full, true)] {
                let file = tempfile::tempfile().unwrap();
                let disk = Disk { write_back: write_back.into(), ..Disk::new(&file) };
                disk.expect(Some(len as u64), filling).unwrap();
                for &start in &starts {
                    disk.write_all_at(&bytes[start..len.min(start + part)], start as u64).unwrap();
                }
                disk.set_len(len as u64).unwrap();
                assert!(content(&file) == bytes, "{len} bytes in parts of {part}");
            }
        }
    }

    #[test]
    fn zeros_become_holes() {
        let mut bytes = vec![0; 100 * HOLE + 10];
        bytes[3 * HOLE + 5] = 1;
        bytes[20 * HOLE] = 2;
        for write_back in [false, true] {
            let file = tempfile::tempfile().unwrap();
            let disk = Disk { write_back: write_back.into(), ..Disk::new(&file) };
            disk.expect(Some(bytes.len() as u64), Filling::Sparse).unwrap();
            disk.write_sparse_at(&bytes, 0).unwrap();
            disk.set_len(bytes.len() as u64).unwrap();
            assert!(content(&file) == bytes);
            file.sync_all().unwrap();
            assert!(file.metadata().unwrap().blocks() * 512 <= 4 * HOLE as u64, "its zeros are on the disk");
        }
    }
}
