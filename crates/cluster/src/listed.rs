//! Files of trees with manifests: what a process must find in them, and what it tells rank 0 of those that are done.

use crate::message::{Heads, Listed, Written};
use phalanx_core::tree::{Contents, Time};
use phalanx_core::{ChunkHead, Progress, ReadAt};
use phalanx_host::file::{Carry, Output};
use phalanx_host::lock::lock;
use phalanx_host::mirror::check::admit;
use phalanx_host::mirror::entry::{mode, modified, number_of_open};
use phalanx_host::transfer::listed::restore_as;
use phalanx_host::{Error, Result};
use rustix::fs::{self, Stat};
use std::fs::File;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The most chunks of a part whose nonces and tags go to rank 0. They take 3 MiB.
pub const MOST: u64 = 1 << 16;

impl Listed {
    /// Refuses a file that does not hold what the manifest lists.
    pub fn admit(&self, found: &Contents) -> Result<()> {
        self.holds.map_or(Ok(()), |holds| admit(&holds.into(), found))
    }

    /// Gives an unprotected file the permissions and the time that the manifest lists, but no permission that the stored
    /// file lacks.
    pub fn restore(&self, output: &Output, stored: &File, carry: Carry) -> Result<()> {
        let known = self.metadata.map(|(mode, (seconds, nanoseconds))| (mode, Time { seconds, nanoseconds }));
        restore_as(known, carry, stored, output.file())
    }

    /// What rank 0 has to know of a file that is done. `stored` is its output, which is protected, and
    /// `source` its input, if it is open.
    pub fn written(&self, source: Option<&File>, stat: &Stat, stored: &File, contents: &Contents) -> Result<Written> {
        let time = modified(stat);
        Ok(Written {
            number: self.number,
            len: stat.st_size as u64,
            stored_len: stored.size().map_err(Error::write)?,
            device: stat.st_dev,
            inode: source.map_or(0, number_of_open),
            mode: mode(stat),
            mtime: (time.seconds, time.nanoseconds),
            holds: (*contents).into(),
        })
    }

    /// What rank 0 has to know of a file that was opened. It stays listed as it was.
    pub fn opened(&self, len: u64, contents: &Contents) -> Written {
        let number = self.number;
        Written { number, len, stored_len: 0, device: 0, inode: 0, mode: 0, mtime: (0, 0), holds: (*contents).into() }
    }
}

/// What the system says about a file.
pub fn stat_of(file: &File) -> Result<Stat> {
    fs::fstat(file).map_err(Error::read)
}

/// Keeps nonces and tags of a run of chunks, and passes progress on.
pub struct HeadRecorder<'a> {
    progress: &'a dyn Progress,
    run: Range<u64>,
    heads: Mutex<(Heads, u64)>,
}

impl<'a> HeadRecorder<'a> {
    /// `None` if there are too many chunks.
    pub fn new(progress: &'a dyn Progress, run: Range<u64>) -> Option<Self> {
        (run.end - run.start <= MOST).then(|| Self { progress, run, heads: Mutex::default() })
    }

    /// The nonces and tags; `None` if not all of them were noted.
    pub fn heads(self) -> Option<Heads> {
        let (heads, noted) = self.heads.into_inner().unwrap_or_else(PoisonError::into_inner);
        (noted == self.run.end - self.run.start).then_some(heads)
    }
}

impl Progress for HeadRecorder<'_> {
    fn advance(&self, bytes: u64) {
        self.progress.advance(bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.progress.is_cancelled()
    }

    fn written(&self, chunks: Range<u64>) {
        self.progress.written(chunks);
    }

    fn record(&self, head: &ChunkHead<'_>) {
        if !self.run.contains(&head.index) {
            return;
        }
        let (heads, noted) = &mut *lock(&self.heads);
        let (nonce_len, len) = (head.nonce.len(), head.nonce.len() + head.tag.len());
        if heads.bytes.is_empty() {
            (heads.nonce_len, heads.len) = (nonce_len as u8, len as u8);
            heads.bytes.resize((self.run.end - self.run.start) as usize * len, 0);
        }
        let place = &mut heads.bytes[(head.index - self.run.start) as usize * len..][..len];
        place[..nonce_len].copy_from_slice(head.nonce);
        place[nonce_len..].copy_from_slice(head.tag);
        *noted += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_kept_in_the_order_of_their_chunks() {
        let recorder = HeadRecorder::new(&(), 5..8).unwrap();
        for index in [7, 5, 6] {
            let (nonce, tag) = ([index as u8; 16], [index as u8 + 10; 32]);
            recorder.record(&ChunkHead { index, is_last: index == 7, nonce: &nonce, tag: &tag });
        }
        let heads = recorder.heads().unwrap();
        let firsts: Vec<_> = heads.split(3).unwrap().map(|(nonce, tag)| (nonce[0], tag[0])).collect();
        assert_eq!(firsts, [(5, 15), (6, 16), (7, 17)]);
        assert!(HeadRecorder::new(&(), 0..2).unwrap().heads().is_none());
        assert!(HeadRecorder::new(&(), 0..MOST + 1).is_none());
    }
}
