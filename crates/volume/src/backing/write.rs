//! Writing and changing the length, in memory.

use crate::backing::Backing;
use crate::backing::content::Content;
use crate::backing::page::Page;
use crate::error::{Result, VolumeError};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// How much of one file waits in memory at most, in bytes, unless two of its chunks are longer. A transaction has to
/// hold it.
const FILE_LIMIT: usize = 24 << 20;

impl Backing {
    /// Writes to memory. What lies between the old end of the file and `offset` becomes zeros.
    ///
    /// # Errors
    /// [`VolumeError::Full`] if earlier changes had to be stored and there was no space: they and these are dropped.
    /// [`VolumeError::Damaged`] if a chunk is to be changed in part and cannot be read. [`VolumeError::Refused`] with
    /// `EFBIG` if the file would be too long, or would get one more hole than the format allows and no hole is short enough
    /// to be filled with zeros (`ENOSPC` if the disk has no room for them). A part may be written.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check_writable()?;
        if data.is_empty() {
            return Ok(());
        }
        let chunk_len = self.chunks.chunk_len();
        self.shared.make_room(data.len().next_multiple_of(chunk_len).min(FILE_LIMIT));
        let end = offset.checked_add(data.len() as u64).ok_or(VolumeError::Refused(Errno::FBIG))?;
        let run = self.seal_early(offset, data)?;
        let mut guard = self.write_content();
        let content = &mut *guard;
        let layout = self.layout(content, end.max(content.layout.plaintext_len()))?;
        // Each of the three parts may need one more hole.
        let has_holes = content.holes.len() + 3 <= self.shared.config.max_holes();
        let run = match run {
            // The file has become shorter meanwhile, or holes may have to be filled.
            Some(run) if layout.is_last(run.chunks.end - 1) || !has_holes => {
                self.discard_run(run);
                None
            }
            run => run,
        };
        let Some(run) = run else { return self.write_pieces(content, offset, data) };
        let start = (run.chunks.start * chunk_len as u64 - offset) as usize;
        let len = (run.chunks.end - run.chunks.start) as usize * chunk_len;
        // Everything that may commit comes before the first change.
        self.room_for(content, run.room() + 6 * chunk_len)?;
        self.write_pieces(content, offset, &data[..start])?;
        // What follows the run is written first, so that the file is long enough.
        self.write_pieces(content, offset + (start + len) as u64, &data[start + len..])?;
        self.insert_run(content, run);
        self.changed(content);
        Ok(())
    }

    /// Writes to memory, chunk by chunk.
    fn write_pieces(&self, content: &mut Content, offset: u64, data: &[u8]) -> Result<()> {
        let chunk_len = self.chunks.chunk_len();
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (index, within) = (at / chunk_len as u64, (at % chunk_len as u64) as usize);
            let piece = &data[done..data.len().min(done + chunk_len - within)];
            self.write_piece(content, index, within, piece)?;
            self.changed(content);
            done += piece.len();
        }
        Ok(())
    }

    /// Writes to one chunk.
    fn write_piece(&self, content: &mut Content, index: u64, within: usize, piece: &[u8]) -> Result<()> {
        let (at, len) = (index * self.chunks.chunk_len() as u64 + within as u64, content.layout.plaintext_len());
        let end = at + piece.len() as u64;
        if end > len {
            self.grow(content, end, Some((within, piece)))
        } else {
            if !content.dirty.contains_key(&index) {
                // At an end of a hole, that becomes shorter.
                let splits = |hole: &Range<u64>| hole.start < index && index + 1 < hole.end;
                if content.hole_at(index).is_some_and(|place| splits(&content.holes[place])) {
                    self.free_a_hole(content)?;
                }
                self.room_for_pages(content, 1)?;
                let is_whole = within == 0 && piece.len() == content.layout.data_len(index);
                self.ensure_page(content, index, is_whole)?;
            }
            let page = content.dirty.get_mut(&index).expect("it was made just now");
            let before = page.room();
            page.write(within, piece, &self.shared.pages);
            self.account(before, page.room());
            Ok(())
        }
    }

    /// Sets the length of the file, in bytes. New bytes are zeros, and new whole chunks are a hole.
    ///
    /// # Errors
    /// Those of [`Backing::write_at`].
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.check_writable()?;
        self.shared.make_room(2 * self.chunks.chunk_len());
        let mut guard = self.write_content();
        let content = &mut *guard;
        self.layout(content, len)?;
        match len.cmp(&content.layout.plaintext_len()) {
            std::cmp::Ordering::Less => self.shrink(content, len)?,
            std::cmp::Ordering::Greater => self.grow(content, len, None)?,
            // The modification time is set even so, as in other file systems.
            std::cmp::Ordering::Equal => {}
        }
        self.changed(content);
        Ok(())
    }

    /// Makes the file longer. The new last chunk gets a piece of data that ends with it, or zeros.
    fn grow(&self, content: &mut Content, len: u64, piece: Option<(usize, &[u8])>) -> Result<()> {
        let layout = self.layout(content, len)?;
        let (old, new) = (content.layout.chunks() - 1, layout.chunks() - 1);
        // Everything that may commit comes first, since a commit empties memory.
        if new > old + 1 && !self.joins_hole(content, old)? {
            self.free_a_hole(content)?;
        }
        self.room_for_pages(content, 2)?;
        self.ensure_page(content, old, false)?;
        let pool = &self.shared.pages;
        let room = |content: &Content, index| content.dirty.get(&index).map_or(0, Page::room);
        let rooms_before = room(content, old);
        let (within, data) = piece.unwrap_or((layout.data_len(new), &[]));
        let before = if new > old { self.chunks.chunk_len() } else { within };
        let follows_hole = old > 0 && content.hole_at(old - 1).is_some();
        let page = content.dirty.get_mut(&old).expect("it was made just now");
        if page.bytes().len() < before {
            page.set_len(before, pool);
        }
        if new > old {
            // A chunk of zeros after a hole joins it. Otherwise each growth of a sparse file would leave one chunk.
            let joins = follows_hole && page.is_zeros();
            let hole = if joins { old } else { old + 1 }..new;
            if joins && let Some(page) = content.dirty.remove(&old) {
                pool.give(page);
            }
            if !hole.is_empty() {
                content.add_hole(hole);
            }
            let room = if data.is_empty() { within } else { self.chunks.chunk_len() };
            let mut page = pool.take(room);
            page.set_len(within, pool);
            content.dirty.insert(new, page);
        }
        let page = content.dirty.get_mut(&new).expect("it was made just now");
        page.write(within, data, pool);
        content.layout = layout;
        self.account(rooms_before, room(content, old) + if new > old { room(content, new) } else { 0 });
        Ok(())
    }

    /// Whether a file that grows needs no further hole, because its last chunk is zeros and follows one.
    fn joins_hole(&self, content: &mut Content, last: u64) -> Result<bool> {
        if last == 0 || content.hole_at(last - 1).is_none() {
            return Ok(false);
        }
        self.room_for_pages(content, 1)?;
        self.ensure_page(content, last, false)?;
        Ok(content.dirty.get(&last).is_some_and(Page::is_zeros))
    }

    /// Makes the file shorter.
    fn shrink(&self, content: &mut Content, len: u64) -> Result<()> {
        let layout = self.layout(content, len)?;
        let last = layout.chunks() - 1;
        self.room_for_pages(content, 1)?;
        // Its tag has to change, since it depends on which chunk is the last. An empty chunk need not be read.
        match content.hole_at(last) {
            Some(place) => {
                content.holes[place].end = last;
                content.holes.truncate(place + usize::from(!content.holes[place].is_empty()));
                content.dirty.insert(last, self.shared.pages.zeros(layout.data_len(last)));
            }
            None if layout.data_len(last) == 0 => {
                self.remove_sealed(content, last..last + 1);
                content.dirty.entry(last).or_default();
            }
            None => self.ensure_page(content, last, false)?,
        }
        self.remove_changes(content, last + 1..u64::MAX);
        content.dirty.get_mut(&last).expect("it was made just now").set_len(layout.data_len(last), &self.shared.pages);
        content.holes.truncate(content.holes.partition_point(|hole| hole.start <= last));
        content.layout = layout;
        self.count_pages(content);
        Ok(())
    }

    /// Makes sure that a chunk below the end is in memory. With `is_whole` it is empty, and the caller has to write all
    /// of it. The list of holes may become longer by one.
    pub(super) fn ensure_page(&self, content: &mut Content, index: u64, is_whole: bool) -> Result<()> {
        if content.dirty.contains_key(&index) {
            return Ok(());
        }
        let page = if content.layout.data_len(index) == 0 {
            Page::default()
        } else if is_whole {
            self.shared.pages.take(content.layout.data_len(index))
        } else if content.hole_at(index).is_some() {
            self.shared.pages.zeros(content.layout.data_len(index))
        } else if let Some(sealed) = content.sealed.get(index) {
            self.open_sealed(sealed, index)?
        } else {
            self.load(content, index)?
        };
        self.remove_sealed(content, index..index + 1);
        content.take_out(index..index + 1);
        self.insert_page(content, index, page);
        Ok(())
    }

    /// Makes room for `count` pages: commits the file if it has too many, after which none is in memory.
    pub(super) fn room_for_pages(&self, content: &mut Content, count: usize) -> Result<()> {
        self.room_for(content, count * self.chunks.chunk_len())
    }

    /// Makes room for `more` bytes: commits the file if it has too much in memory.
    fn room_for(&self, content: &mut Content, more: usize) -> Result<()> {
        if content.has_chunks() && self.dirty_bytes() + more > FILE_LIMIT {
            self.commit_content(content, false)?;
        }
        Ok(())
    }

    pub(super) fn insert_page(&self, content: &mut Content, index: u64, page: Page) {
        let room = page.room();
        let before = content.dirty.insert(index, page);
        self.account(before.map_or(0, |page| page.room()), room);
    }

    pub(super) fn remove_page(&self, content: &mut Content, index: u64) {
        if let Some(page) = content.dirty.remove(&index) {
            self.account(page.room(), 0);
            self.shared.pages.give(page);
        }
    }

    /// Records that the memory of pages has changed.
    pub(super) fn account(&self, before: usize, after: usize) {
        if before != after {
            for bytes in [&self.dirty_bytes, &self.shared.dirty_bytes] {
                bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
            }
        }
    }

    /// Counts the memory of all changes again.
    pub(super) fn count_pages(&self, content: &Content) {
        self.account(self.dirty_bytes(), content.sealed.room() + content.dirty.values().map(Page::room).sum::<usize>());
    }

    pub(super) fn layout(&self, content: &Content, len: u64) -> Result<phalanx_core::format::Layout> {
        content.header.layout_for_plaintext(len).map_err(|_| VolumeError::Refused(Errno::FBIG))
    }
}
