//! Reading changes in memory, holes, and runs of stored chunks.

use crate::backing::Backing;
use crate::backing::ahead::Opened;
use crate::backing::cache::ChunkId;
use crate::backing::content::Content;
use crate::backing::page::Page;
use crate::error::{Result, VolumeError};
use crate::fuse::roam;
use phalanx_core::volume::{Place, Records};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Longer runs are opened by two threads, in bytes.
const SPLIT: usize = 512 << 10;
/// The longest run that is opened in one step, in bytes, unless one chunk is longer.
const RUN: usize = 1 << 20;

impl Backing {
    /// Reads up to `len` bytes: fewer only at the end of the file. The caller wipes them.
    ///
    /// # Errors
    /// [`VolumeError::Damaged`] if a chunk is not authentic. Otherwise if the stored file cannot be read.
    pub fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let left = self.len().saturating_sub(offset);
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(len)];
        let read = self.read_into(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads into the caller's memory, and returns how many bytes: fewer than it has only at the end of the file. After
    /// an error the memory holds nothing of use.
    ///
    /// # Errors
    /// Those of [`Backing::read_at`].
    pub fn read_into(&self, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let guard = self.read_content();
        let content = &*guard;
        let left = content.layout.plaintext_len().saturating_sub(offset);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let chunk_len = self.chunks.chunk_len();
        self.note_read(offset, wanted);
        let mut rest = &mut bytes[..wanted];
        let mut at = offset;
        while !rest.is_empty() {
            let (index, within) = (at / chunk_len as u64, (at % chunk_len as u64) as usize);
            let in_chunk = rest.len().min(content.layout.data_len(index) - within);
            let taken = if let Some(page) = content.dirty.get(&index) {
                rest[..in_chunk].copy_from_slice(&page.bytes()[within..within + in_chunk]);
                in_chunk
            } else if let Some(sealed) = content.sealed.get(index) {
                let page = self.open_sealed(sealed, index)?;
                rest[..in_chunk].copy_from_slice(&page.bytes()[within..within + in_chunk]);
                self.shared.pages.give(page);
                in_chunk
            } else if let Some(place) = content.hole_at(index) {
                let hole_end = content.holes[place].end * chunk_len as u64;
                let zeros = usize::try_from(hole_end - at).unwrap_or(usize::MAX).min(rest.len());
                rest[..zeros].fill(0);
                zeros
            } else if let Some(run) = self.read_ahead(content, index) {
                // The run ends at chunks that have been changed since then or are holes now.
                let end = self.run_end(content, index, within + rest.len(), usize::MAX).min(run.chunks.end);
                self.copy_opened(content, &run, index..end, within, rest)
            } else if in_chunk < content.layout.data_len(index) || content.layout.is_last(index) {
                // The last chunk was opened together with the file.
                let page = self.cached(content, index)?;
                rest[..in_chunk].copy_from_slice(&page.bytes()[within..within + in_chunk]);
                in_chunk
            } else {
                let run = index..self.run_end(content, index, rest.len(), RUN);
                let run_len = ((run.end - run.start - 1) as usize) * chunk_len + content.layout.data_len(run.end - 1);
                self.read_run(content, run, &mut rest[..run_len])?;
                run_len
            };
            rest = &mut rest[taken..];
            at += taken as u64;
        }
        Ok(wanted)
    }

    /// Copies some chunks of an opened run, beginning at byte `within` of the first. Returns how many bytes were
    /// copied.
    fn copy_opened(
        &self,
        content: &Content,
        run: &Opened,
        chunks: Range<u64>,
        within: usize,
        bytes: &mut [u8],
    ) -> usize {
        let (mut done, mut within) = (0, within);
        for index in chunks {
            let data = &run.chunk(index, content.stored.data_len(index))[within..];
            let len = data.len().min(bytes.len() - done);
            bytes[done..done + len].copy_from_slice(&data[..len]);
            (done, within) = (done + len, 0);
        }
        done
    }

    /// The end of a run of stored chunks that are wanted whole. The first is known to be one. The run has at most
    /// `most` bytes, or one chunk.
    pub(super) fn run_end(&self, content: &Content, first: u64, wanted: usize, most: usize) -> u64 {
        let chunk_len = self.chunks.chunk_len();
        let changed = content.next_changed(first).unwrap_or(u64::MAX);
        let place = content.holes.partition_point(|hole| hole.end <= first);
        let hole = content.holes.get(place).map_or(u64::MAX, |hole| hole.start);
        // The last chunk of the file may be shorter than others, and is then wanted whole if all of it is.
        let is_to_end = first * chunk_len as u64 + wanted as u64 == content.layout.plaintext_len();
        let whole = if is_to_end { wanted.div_ceil(chunk_len) } else { wanted / chunk_len };
        let most = (most / chunk_len).max(1) as u64;
        (first + (whole as u64).clamp(1, most)).min(changed).min(hole).min(content.layout.chunks())
    }

    /// Reads a run of whole stored chunks.
    fn read_run(&self, content: &Content, run: Range<u64>, bytes: &mut [u8]) -> Result<()> {
        if bytes.len() > SPLIT && run.end - run.start > 1 && self.shared.threads > 1 && !self.is_large(bytes.len()) {
            let middle = run.start + (run.end - run.start) / 2;
            let (left, right) = bytes.split_at_mut((middle - run.start) as usize * self.chunks.chunk_len());
            let right = Mutex::new(Some(right));
            let open_right = || {
                let right = right.lock().unwrap_or_else(PoisonError::into_inner).take();
                right.map_or(Ok(()), |right| self.open_run_into(content, middle..run.end, right))
            };
            roam();
            return thread::scope(|scope| {
                let other = thread::Builder::new().spawn_scoped(scope, open_right);
                let mine = self.open_run_into(content, run.start..middle, left);
                // If the system gives no thread, this one does everything.
                let theirs = match other {
                    Ok(other) => other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                    Err(_) => open_right(),
                };
                mine.and(theirs)
            });
        }
        self.open_run_into(content, run, bytes)
    }

    fn is_large(&self, len: usize) -> bool {
        len >= self.shared.options.threshold
    }

    fn open_run_into(&self, content: &Content, run: Range<u64>, bytes: &mut [u8]) -> Result<()> {
        let records = self.open_run(content, run.clone())?;
        for (place, part) in bytes.chunks_mut(self.chunks.chunk_len()).enumerate() {
            part.copy_from_slice(records.chunk(place, part.len()));
        }
        self.shared.give_records(records, self.stored_len(content, &run));
        Ok(())
    }

    /// How many bytes a run takes in the stored file.
    fn stored_len(&self, content: &Content, run: &Range<u64>) -> usize {
        let last = run.end - 1;
        let end = content.stored.file_offset(last) + (self.chunks.overhead() + content.stored.data_len(last)) as u64;
        (end - content.stored.file_offset(run.start)) as usize
    }

    /// Opens a run of stored chunks, all of which are authentic.
    pub(super) fn open_run(&self, content: &Content, run: Range<u64>) -> Result<Records> {
        let mut records = self.shared.records(&self.chunks, (run.end - run.start) as usize)?;
        let len = self.stored_len(content, &run);
        let (stored, mut done) = (&mut records.bytes_mut()[..len], 0);
        let offset = content.stored.file_offset(run.start);
        while done < len {
            match self.file.read_at(&mut stored[done..], offset + done as u64) {
                // The file is shorter than it should be. The missing bytes become zeros, which are not authentic.
                Ok(0) => {
                    stored[done..].fill(0);
                    done = len;
                }
                Ok(read) => done += read,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(VolumeError::io("cannot read a stored file", e)),
            }
        }
        let place = |index| Place { index, last: content.stored.is_last(index), len: content.stored.data_len(index) };
        let places: Vec<_> = run.clone().map(place).collect();
        let tags = self.stored_tags(content, &run, &records);
        let verdicts = self.chunks.open(self.shared.roster(len), &mut records, &places)?;
        if verdicts.all_passed() {
            return match self.check_tags(content, &run, &tags) {
                Ok(()) => Ok(records),
                Err(e) => {
                    self.shared.give_records(records, len);
                    Err(e)
                }
            };
        }
        let errors = verdicts.failed().iter().map(|place| self.damaged(run.start + *place as u64));
        let errors: Vec<_> = errors.collect();
        self.shared.give_records(records, len);
        Err(errors.into_iter().next().expect("a chunk failed"))
    }

    /// A stored chunk, for reading parts of it.
    pub(super) fn cached(&self, content: &Content, index: u64) -> Result<Arc<Page>> {
        let id = ChunkId { backing: self.number, generation: content.generation, index };
        if let Some(page) = self.shared.cache.get(id) {
            return Ok(page);
        }
        let page = Arc::new(self.open_chunk(content, index)?);
        self.shared.cache.put(id, page.clone());
        Ok(page)
    }

    /// A copy of a stored chunk, to be changed.
    pub(super) fn load(&self, content: &Content, index: u64) -> Result<Page> {
        let id = ChunkId { backing: self.number, generation: content.generation, index };
        let Some(cached) = self.shared.cache.get(id) else { return self.open_chunk(content, index) };
        let mut page = self.shared.pages.take(cached.room());
        page.write(0, cached.bytes(), &self.shared.pages);
        Ok(page)
    }

    fn open_chunk(&self, content: &Content, index: u64) -> Result<Page> {
        let records = self.open_run(content, index..index + 1)?;
        let len = content.stored.data_len(index);
        let mut page = self.shared.pages.take(len);
        page.write(0, records.chunk(0, len), &self.shared.pages);
        self.shared.give_records(records, self.chunks.overhead() + len);
        Ok(page)
    }
}
