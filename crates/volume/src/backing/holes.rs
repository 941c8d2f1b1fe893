//! Holes: making and finding them, and filling them when a header has no room for more.

use crate::backing::Backing;
use crate::backing::content::Content;
use crate::error::{Result, VolumeError};
use rustix::fs::fstatvfs;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The most bytes of zeros that one request writes for a hole, unless a single chunk is longer. Other requests wait for it.
const MOST_FILLED: u64 = 256 << 20;

impl Backing {
    /// Sets a range of bytes to zero; whole chunks of it become holes. The length of the file stays, and what lies
    /// after its end is ignored.
    ///
    /// # Errors
    /// [`VolumeError::Damaged`] if a chunk at the end of the range cannot be read. Those of [`Backing::write_at`].
    pub fn punch(&self, range: Range<u64>) -> Result<()> {
        self.check_writable()?;
        self.shared.make_room(3 * self.chunks.chunk_len());
        let mut guard = self.write_content();
        let content = &mut *guard;
        let end = range.end.min(content.layout.plaintext_len());
        if range.start >= end {
            return Ok(());
        }
        let chunk_len = self.chunks.chunk_len() as u64;
        let last = content.layout.chunks() - 1;
        // The last chunk is never in a hole.
        let (first, behind) = (range.start.div_ceil(chunk_len), (end / chunk_len).min(last));
        let whole = first..behind.max(first);
        let touches = |hole: &Range<u64>| hole.start <= whole.end && whole.start <= hole.end;
        if !whole.is_empty() && !content.holes.iter().any(touches) {
            self.free_a_hole(content)?;
        }
        let edges = [range.start..end.min(first * chunk_len), range.start.max(whole.end * chunk_len)..end];
        for edge in edges.into_iter().filter(|edge| !edge.is_empty()) {
            let mut at = edge.start;
            while at < edge.end {
                let index = at / chunk_len;
                let stop = edge.end.min((index + 1) * chunk_len);
                self.zero(content, index, (at - index * chunk_len) as usize..(stop - index * chunk_len) as usize)?;
                at = stop;
            }
        }
        if !whole.is_empty() {
            self.remove_changes(content, whole.clone());
            content.add_hole(whole);
        }
        self.changed(content);
        Ok(())
    }

    /// Sets a part of a chunk to zero.
    fn zero(&self, content: &mut Content, index: u64, part: Range<usize>) -> Result<()> {
        if content.hole_at(index).is_some() {
            return Ok(());
        }
        self.room_for_pages(content, 1)?;
        let is_whole = part == (0..content.layout.data_len(index));
        self.ensure_page(content, index, is_whole)?;
        let page = content.dirty.get_mut(&index).expect("it was made just now");
        let before = page.room();
        if is_whole {
            page.set_len(part.end, &self.shared.pages);
        }
        page.bytes_mut()[part].fill(0);
        self.account(before, page.room());
        Ok(())
    }

    /// Where the first data lies from `offset` on.
    ///
    /// # Errors
    /// [`VolumeError::Refused`] with `ENXIO` if there is none.
    pub fn seek_data(&self, offset: u64) -> Result<u64> {
        let content = self.read_content();
        if offset >= content.layout.plaintext_len() {
            return Err(VolumeError::Refused(Errno::NXIO));
        }
        let chunk_len = self.chunks.chunk_len() as u64;
        Ok(content.hole_at(offset / chunk_len).map_or(offset, |place| content.holes[place].end * chunk_len))
    }

    /// Where the first hole lies from `offset` on. There is one at the end of each file.
    ///
    /// # Errors
    /// [`VolumeError::Refused`] with `ENXIO` if `offset` is not within the file.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        let content = self.read_content();
        let len = content.layout.plaintext_len();
        if offset >= len {
            return Err(VolumeError::Refused(Errno::NXIO));
        }
        let chunk_len = self.chunks.chunk_len() as u64;
        let place = content.holes.partition_point(|hole| hole.end <= offset / chunk_len);
        Ok(content.holes.get(place).map_or(len, |hole| offset.max(hole.start * chunk_len)))
    }

    /// Makes sure that the list of holes may grow by one: if it is full, fills the smallest with chunks of zeros.
    /// Changes may be committed. If the smallest is too long for that, nothing is changed, and nothing dropped.
    pub(super) fn free_a_hole(&self, content: &mut Content) -> Result<()> {
        while content.holes.len() >= self.shared.config.max_holes() {
            let smallest = content.holes.iter().enumerate().min_by_key(|(_, hole)| hole.end - hole.start);
            let place = smallest.map(|(place, _)| place).expect("the list is full");
            self.check_filling(content.holes[place].end - content.holes[place].start)?;
            while !content.holes[place].is_empty() {
                self.room_for_pages(content, 1)?;
                let index = content.holes[place].start;
                let zeros = self.shared.pages.zeros(content.layout.data_len(index));
                // A hole loses its first chunk: the list does not become longer.
                content.holes[place].start += 1;
                self.insert_page(content, index, zeros);
                if content.holes[place].is_empty() {
                    break;
                }
            }
            content.holes.remove(place);
            self.changed(content);
        }
        Ok(())
    }

    /// Checks that a hole of so many chunks may be filled: quickly, and without filling the disk, on which what is in memory needs
    /// room too.
    fn check_filling(&self, chunks: u64) -> Result<()> {
        let (chunk_len, overhead) = (self.chunks.chunk_len() as u64, self.chunks.overhead() as u64);
        let bytes = chunks.saturating_mul(chunk_len);
        let stored = chunks
            .saturating_mul(chunk_len + overhead)
            .saturating_add(2 * self.shared.dirty_bytes.load(Ordering::Relaxed) as u64);
        if bytes > MOST_FILLED.max(chunk_len) {
            return Err(VolumeError::Refused(Errno::FBIG));
        }
        match fstatvfs(&self.shared.root) {
            // Some file systems say of themselves that they have no blocks at all.
            Ok(disk) if disk.f_blocks > 0 && disk.f_bavail.saturating_mul(disk.f_frsize) <= stored => {
                Err(VolumeError::Refused(Errno::NOSPC))
            }
            _ => Ok(()),
        }
    }

    /// Records that something has changed in memory.
    pub(super) fn changed(&self, content: &mut Content) {
        self.len.store(content.layout.plaintext_len(), Ordering::Release);
        self.touch_unless_told();
        if !content.is_listed
            && let Some(me) = self.me.upgrade()
        {
            content.is_listed = true;
            self.shared.add_dirty(self.key, me);
        }
    }
}
