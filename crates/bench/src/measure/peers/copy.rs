//! A copy by several threads that do nothing else: the limit of the machine for a program that reads one file and
//! writes another.

use crate::measure::machine::file_system;
use crate::measure::{Error, Result};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The bytes that a thread copies at once. With 2 MiB the system takes memory in larger blocks, which a virtual machine
/// has often given back to its host.
pub const PIECE: usize = 1 << 20;

/// Copies a file into a new one. The threads take pieces in turn.
pub fn copy(from: &Path, to: &Path, threads: usize, piece: usize) -> Result<()> {
    let (reads, writes) = (Error::at(from), Error::at(to));
    let input = File::open(from).map_err(reads)?;
    let len = input.metadata().map_err(reads)?.len();
    let output = File::create(to).map_err(writes)?;
    // Like Phalanx, reserve space only on ext4. Elsewhere this costs more than it saves.
    if len > 0 && file_system(to) == "ext4" {
        fallocate(&output, FallocateFlags::KEEP_SIZE, 0, len).map_err(|e| writes(e.into()))?;
    }
    let next = AtomicU64::new(0);
    let work = || {
        let mut buffer = vec![0; piece];
        loop {
            let at = next.fetch_add(piece as u64, Ordering::Relaxed);
            if at >= len {
                return Ok(());
            }
            let part = &mut buffer[..(len - at).min(piece as u64) as usize];
            input.read_exact_at(part, at).map_err(reads)?;
            output.write_all_at(part, at).map_err(writes)?;
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn copies_of_all_lengths_are_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for len in [0, 1, 4095, 4096, 4097, 40_961] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            fs::write(&from, &bytes).unwrap();
            for threads in [1, 3] {
                copy(&from, &to, threads, 4096).unwrap();
                assert!(fs::read(&to).unwrap() == bytes, "{len} bytes, {threads} threads");
            }
        }
        let missing = copy(&folder.path().join("missing"), &to, 2, 4096).unwrap_err().to_string();
        assert!(missing.contains("missing: "), "{missing}");
    }
}
